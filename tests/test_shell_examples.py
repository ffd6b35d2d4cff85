"""What the README, the manual and `--help` print as shell commands is run in a shell, as printed.

Sources are the README's indented blocks, the manual's `console` blocks (what follows a command
there is its output), commands in the prose of both (`wickgarten …`, `make …`), and the examples
under every `--help`. The commands of a page run in order in one empty directory, where `wickgarten`
and `python` are those of this checkout. The README's start a process each; of the other pages those
that are `wickgarten` and nothing else run in this process, which has imported it.

Two tables say what is not run as printed: `LONG`, which only `make test-all` runs, and `CUT`, sizes
that are cut down. Of `make X` it is checked that there is such a target.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from derivations import cli
from derivations.claims.costs import TABLE

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

LONG = (
    "wickgarten simulate --weights orthogonal --width 50 100 200",
    "wickgarten check",
    "wickgarten figure",
    "wickgarten train",
    "wickgarten verify",
    "wickgarten spectrum",
    "wickgarten batchnorm",
    "wickgarten flow --tensors all",
    "wickgarten flow --tensors K,G1,V --activation gelu",
    'wickgarten derive "z z z z H"',
    "python -m derivations.section pdlt.limits",
)
"""How commands begin that take more than some seconds."""

CUT = {
    r"--draws \d+": "--draws 300",
    r"wickgarten check (002|layers)": "wickgarten check 004",
    r"wickgarten check(?! \d)": "wickgarten check 004",
    r"wickgarten figure 003:3": "wickgarten figure 001:6",
    r"--examples 25": "--examples 1",
    r"--width 32 64 128": "--width 8 16 32",
    r"(wickgarten train --layer .*)$": r"\1 --depth 2 --train 2 --test 1",
    r"(--tensors all .*)--depth 1000": r"\1--depth 100",
    r"(wickgarten train --data .*)--depth 4(.*)$": r"\1--depth 2\2 --draws 100",
    r"wickgarten check 004 --(fresh|json \w+\.json)": "wickgarten check 004 --fresh --json c.json",
}
"""Sizes that are cut: the ensembles, the book to its shortest chapter, a
figure of networks to one of maps, `verify` to one network.

A chapter's check is hundreds of claims, which `tests/test_book.py` runs."""


class Example(NamedTuple):
    """A command, and the output that is printed below it."""

    command: str
    output: str = ""

    @property
    def long(self):
        return self.command.startswith(LONG)


def indented(text):
    """The commands of Markdown's indented blocks, a continued line as one."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = outside.replace("\\\n", " ").splitlines()
    return [Example(" ".join(line.split())) for line in lines if re.match(r" {4}\S", line)]


def consoles(text):
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", " ").partition("\n")
            yield Example(command, output)


def in_prose(text):
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", outside):
        command = " ".join(span.split())
        if re.match(r"(wickgarten|make|python -m derivations)[ .]", command) and "…" not in command:
            yield Example(command)


def examples(page):
    text = page.read_text(encoding="utf-8")
    shown = [*(indented(text) if page.name == "README.md" else ()), *consoles(text)]
    return list(dict.fromkeys([*shown, *in_prose(text)]))


def commands():
    """`wickgarten` and its commands."""
    parser = cli._parser()
    (actions,) = [each for each in parser._actions if hasattr(each, "choices") and each.choices]
    return {"wickgarten": parser} | {f"wickgarten {k}": v for k, v in actions.choices.items()}


def helped(parser):
    lines = re.findall(r"^ {2,}(wickgarten .*)$", parser.epilog or "", re.MULTILINE)
    return [Example(line) for line in lines]


SOURCES = {page.relative_to(ROOT).as_posix(): examples(page) for page in PAGES} | {
    f"{name} --help": helped(parser) for name, parser in commands().items()
}


FIRST = {each.command: name for name, shown in reversed(SOURCES.items()) for each in shown}
"""Where a command is printed first: there it runs, and nowhere else unless it writes a file."""


def needs_more(example):
    """True if it installs something, or reads a model of the reader's own."""
    return re.search(r"venv|pip install|^wickgarten model mlp\.py", example.command) is not None


def cut(command):
    for size, less in CUT.items():
        command = re.sub(size, less, command)
    return command


@pytest.fixture
def shell(tmp_path):
    """Runs a command in an empty directory; returns what it wrote."""
    tools, home = tmp_path / "bin", tmp_path / "here"
    tools.mkdir()
    home.mkdir()
    for name, words in (("python", ""), ("wickgarten", "-m derivations ")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
        tool.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}

    def run(command, timeout=280):
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    return run


@pytest.fixture(autouse=True)
def costs_as_shipped():
    """A page prints how the table of costs is written anew, which this checkout is not to keep."""
    before = TABLE.read_bytes()
    yield
    if TABLE.read_bytes() != before:
        TABLE.write_bytes(before)


@pytest.fixture
def session(shell, tmp_path, monkeypatch, capsys):
    """As `shell`; what is `wickgarten` and nothing else in this process."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(command):
        if not alone(command):
            return shell(command)
        _, *words = shlex.split(command, comments=True)
        with contextlib.chdir(tmp_path / "here"):
            status = cli.main(words)
        shown = capsys.readouterr()
        assert status == 0, f"{command}\n{shown.out[-1000:]}\n{shown.err[-3000:]}"
        return shown.out

    return run


def is_help_of_a_command(source):
    return source.endswith(" --help") and source != "wickgarten --help"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(name, marks=pytest.mark.slow if is_help_of_a_command(name) else ())
        for name, shown in SOURCES.items()
        if shown
    ],
)
def test_they_run_as_printed(source, shell, session):
    run = shell if source == "README.md" else session
    for example in SOURCES[source]:
        if example.long or needs_more(example):
            continue
        if FIRST[example.command] != source and " -o " not in example.command:
            continue
        if example.command.startswith("make "):  # it says what it would do: there is such a target
            target = example.command.partition("#")[0].split()[1]
            assert shell(f"make --dry-run --directory={shlex.quote(str(ROOT))} {target}")
            continue
        shown = run(cut(example.command))
        if example.output.strip():
            assert doctest.OutputChecker().check_output(example.output, shown, FLAGS), shown


SESSION = """
import shlex, sys
from derivations import cli
for line in sys.stdin:
    if status := cli.main(shlex.split(line, comments=True)[1:]):
        sys.exit(f"{line}{status}")
"""


def alone(command):
    """True if it is `wickgarten` and nothing else."""
    return command.startswith("wickgarten ") and not re.search(r"[|&;<>$`]", command)


@pytest.mark.slow
def test_the_long_ones_run(shell, tmp_path):
    """And ensembles at their size: in one other process, which returns the memory that they take;
    those that are more than one command in a process each."""
    shown = [each for own in SOURCES.values() for each in own]
    long = [cut(each.command) for each in shown if each.long]
    ensembles = [each.command for each in shown if re.search(r" --draws \d", each.command)]
    assert long
    assert ensembles
    lines = tmp_path / "lines"
    several = dict.fromkeys(long + ensembles)
    lines.write_text("".join(f"{each}\n" for each in several if alone(each)))
    shell(f"python -c {shlex.quote(SESSION)} < {lines}", timeout=560)
    for command in (each for each in several if not alone(each)):
        shell(command, timeout=560)


def test_nothing_printed_is_missed():
    """The sources do hold commands: the README's, the manual's, the first session."""
    counted = {name: len(shown) for name, shown in SOURCES.items()}
    assert counted["README.md"] > 6
    assert counted["wickgarten --help"] >= 4
    assert sum(number > 0 for number in counted.values()) > 6
    assert all(
        any(each.command.startswith(long) for shown in SOURCES.values() for each in shown)
        for long in LONG
    )
