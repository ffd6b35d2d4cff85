"""Sections of the book as notebooks and as scripts."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import jupytext
import pytest

from derivations.claims.registry import CHAPTERS, in_module
from derivations.section import main, show

SECTIONS = sorted({module for chapter in CHAPTERS.values() for module in chapter})


@pytest.mark.parametrize("module", SECTIONS)
def test_a_section_opens_as_a_notebook(module):
    """Prose first, then every claim in a cell of code."""
    path = Path(import_module(module).__file__)
    cells = jupytext.read(path, fmt="py:percent").cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert sum(source.count("@claim(") for source in code) == len(in_module(module))
    for source in code:
        compile(source, str(path), "exec")


@pytest.mark.slow
def test_a_section_runs_as_a_script():
    command = [sys.executable, "-m", "derivations.section", "pdlt.correlators"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    lines = [line for line in shown.splitlines() if line.startswith("004  3.")]
    assert len(lines) == len(in_module("derivations.pdlt.correlators"))
    assert "misprint" in shown
    assert "fails" not in shown


def test_claims_of_a_notebook_are_shown(capsys):
    made = {"__name__": "__main__"}
    exec(
        "from derivations.claims import claim, equal\n"
        "@claim('004', '0', 'one is one')\n"
        "def one():\n    return equal(1, 1)\n",
        made,
    )
    show()
    assert "one is one" in capsys.readouterr().out


def test_a_section_that_is_none_is_refused_in_a_line(capsys):
    assert main(["pdlt.limit"]) == 2
    assert "pdlt.limits" in capsys.readouterr().err
