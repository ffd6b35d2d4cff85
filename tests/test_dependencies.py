"""Each room asks for what it imports, and says in one line which extra is missing."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest
import xarray

from derivations import cli
from derivations.commands.check import BOOK
from derive.errors import InputError, check_installed
from numeric import plot, spectra

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

BLOCKED = """
import sys
for name in {names!r}:
    sys.modules[name] = None
"""
DERIVE_ALONE = """
from derive import Orthogonal, haar_moment, recursion
assert str(recursion("V", Orthogonal()).single_input()).startswith("V(ℓ+1) = C_W**2*(V*")
assert str(haar_moment([1, 1], [1, 1], 3)) == "1/3"
"""
WITHOUT_THE_BOOK = """
import derive, numeric, wickgarten
from derivations import cli
from numeric import flow
table = flow(derive.Network(derive.activations.relu), [1.0, 2.0], 2, "K")
assert table["K"].shape == (2,)
assert cli.main(["derive", "K", "--single"]) == 0
assert cli.main(["check", "004"]) == 2
"""


def in_a_process_without(names, code):
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(names=names) + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_derive_works_without_what_numeric_compiles_with():
    compilers = ("numba", "numba.cuda", "llvmlite", "scipy", "xarray", "tqdm", "numeric")
    done = in_a_process_without((*compilers, *BOOK), DERIVE_ALONE)
    assert done.returncode == 0, done.stderr


def test_all_but_the_book_works_without_its_extra():
    done = in_a_process_without(BOOK, WITHOUT_THE_BOOK)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.endswith("pip install 'wickgarten[book]'")
    assert all(name in line for name in BOOK)


@pytest.mark.parametrize(
    "words",
    [
        ["spectrum", "--activation", "linear", "--plot", "never.svg"],
        ["batchnorm", "--width", "4", "--batch", "2", "--plot", "never.svg"],
    ],
)
def test_a_plot_names_its_extra_before_any_work(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(words) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    (line,) = errors.splitlines()
    assert "--plot" in line
    assert "wickgarten[plot]" in line


def test_so_do_the_plots_of_a_session(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    table = xarray.Dataset({"K": ("layer", np.ones(2))}, {"layer": [1, 2]})
    limit = spectra.limit("bernoulli", sigma0=0.5)
    for draw in (lambda: plot(table), limit.plot):
        with pytest.raises(InputError, match=r"plot: .*matplotlib.*wickgarten\[plot\]"):
            draw()


def test_what_is_there_is_not_asked_for():
    check_installed("check", "book", *BOOK)
    with pytest.raises(InputError, match="no_such_module installed") as caught:
        check_installed("check", "book", "sympy", "no_such_module")
    assert "sympy" not in str(caught.value)


def test_the_extra_is_what_the_book_names():
    plain = {each.partition(">")[0].lower() for each in (*EXTRAS["plot"], *EXTRAS["book"])}
    known = packages_distributions()
    assert plain - {"wickgarten[plot]"} == {known[name][0].lower() for name in BOOK}


LAZY = {"matplotlib", "hypothesis", "torch", "jax", "keras", "tensorflow"}
"""What numeric imports where it is used alone: to plot, to test, and what a user's model is of."""


def test_every_import_is_a_dependency_of_its_room():
    own = {"derive", "numeric", "derivations", "wickgarten"}
    core = {each.partition(">")[0].lower() for each in PROJECT["dependencies"]}
    for room, more in (("derive", set()), ("numeric", LAZY)):
        found = set()
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {each.name.partition(".")[0] for each in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    found.add(node.module.partition(".")[0])
        known = packages_distributions()
        asked = {
            known.get(name, [name])[0].lower()
            for name in found - own - set(sys.stdlib_module_names)
        }
        assert asked - more <= core, room


def test_the_tests_run_on_one_process_without_xdist():
    """As those of the frameworks, and of the oldest packages, are run."""
    run = "import os, pytest; os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'; "
    run += "raise SystemExit(pytest.main(['-o', 'addopts=', '--co', 'tests/test_changelog.py']))"
    done = in_a_process_without(["xdist"], run)
    assert done.returncode == 0, done.stdout + done.stderr
