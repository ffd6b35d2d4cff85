"""Whatever is typed is answered or refused in one line, and soon: no traceback, no nan."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_fuzz import FUZZING, crash
from sample_watch import HangError, watched

from derivations import claims, cli, report
from derivations.claims import registry

SMALL = ["--activation", "linear", "--input", "random:0:3", "--depth", "2", "--tensors", "K"]
BASE = {
    "check": ["--jobs", "1"],
    "figure": ["003:8"],
    "derive": ["K"],
    "doctor": [],
    "haar": ["O[1,1]^2"],
    "kernel": ["K", "--activation", "linear"],
    "flow": SMALL,
    "simulate": [*SMALL, "--width", "6", "--draws", "40"],
    "model": ["none.py:net"],
    "train": [
        "--activation",
        "linear",
        "--depth",
        "1",
        "--train",
        "1",
        "--test",
        "1",
        "--steps",
        "1",
    ],
    "verify": ["--examples", "1", "--only", "2", "--width", "6", "12", "--draws", "100"],
    "spectrum": ["--activation", "linear", "--depth", "2", "--moments", "2"],
    "propagation": ["--activation", "relu", "--C_b", "1"],
    "deep": ["--activation", "linear"],
    "batchnorm": ["--width", "6", "--batch", "3", "--depth", "2", "--draws", "4"],
    "cite": ["000"],
    "completion": ["bash"],
}
"""A call of each command that ends at once."""

ODD = ("--", "", " ", "nan", "-1", "x" * 5000, "é𝓏", "a\0b", "a\nb", "\ud800")
SIZES = ["0", "1", "2", "3", "5", "1e3", "2.5", "inf", "1000000000", "9" * 23, "9" * 5000]
SIZES += ["18446744073709551615", "18446744073709551616", "-9223372036854775809", "1_0", "١", " 3 "]
NUMBERS = ["1/3", "0.1", "1e400", "1e-320", "1e308", "-1/2", "sqrt(2)", "exp(exp(9))", "pi", "oo"]
NUMBERS += ["1/0", "C_W", "l", "1/l", "-l", "l**l", "2/(l-1)", "9z", "1,2,5", "1,2", "2,1", "1,nan"]
NAMES = ["linear", "relu", "tanh", "leaky_relu(nan)", "leaky_relu(-1)", "polynomial(1,1)"]
NAMES += ["polynomial()", "monomial(65)", "monomial(1000000000)", "expr:", "expr: 9z", "expr: 1/z"]
NAMES += ["expr: exp(z**2)", "expr: " + "(" * 9 + "z+1" + ")**2" * 9, "erf_scaled(0)", "1"]
TENSORS = ["K", "V", "K,V", "G1", "all", "z z", "z H", "kappa(z,z|01)", "kappa(|)", ",", "K,K", "Q"]
TENSORS += ["z z z z z z z z z z z z", "z " * 31, "2", "000", "004", "collins2017"]
MOMENTS = ["O[1,1]^2*O[1,2]^2", "|U[1,1]|^4", "O[nan,1]^2", "O[1,1]^999", "O[0,1]", "S[1,i]*S[1,j]"]
INPUTS = ["random:0:0", "random:0:3:2", "random:0:3:100000", "random:1:2:3:4", "random:-1:3"]
INPUTS += ["random:99999999999999999999999:3", "x.npy", "bad.npy", "text.csv", "empty.csv", "."]
PATHS = ["out.csv", "out.svg", "out.py", "out.c", "out.PNG", "missing/out.svg", "missing/out.py"]
PATHS += [".", "..", "/dev/null", "/dev/full", "y" * 300 + ".svg", "é.svg", "import.py", "numba.py"]
PATHS += ["pipe", "link.csv", "folder", "folder/out.csv"]
VALUES = st.one_of(
    *map(st.sampled_from, (ODD, SIZES, NUMBERS, NAMES, TENSORS, MOMENTS, INPUTS, PATHS)),
    st.text(max_size=6),
    st.integers(-3, 12).map(str),
    st.floats().map(repr),
)


def commands():
    """The parser of each command."""
    (action,) = (a for a in cli._parser()._actions if isinstance(a, argparse._SubParsersAction))
    return action.choices


def options(parser, *, valued):
    """Every option that has a value, or every one that has none, by its longest name."""
    return {
        max(action.option_strings, key=len): action
        for action in parser._actions
        if action.option_strings and (action.nargs != 0) == valued and action.dest != "help"
    }


COMMANDS = commands()
VALUED = {name: options(parser, valued=True) for name, parser in COMMANDS.items()}
FLAGS = {name: options(parser, valued=False) for name, parser in COMMANDS.items()}
KINDS = {"activation": NAMES, "input": INPUTS, "tensors": TENSORS}
KINDS |= dict.fromkeys(("csv", "json", "plot", "report", "run", "output"), PATHS)


def values(action):
    """Mostly of the option's kind, odd ones among them."""
    if action.choices is not None:
        fitting = st.sampled_from(sorted(action.choices))
    elif action.type is int:
        fitting = st.one_of(st.sampled_from(SIZES), st.integers(-1, 12).map(str))
    else:
        fitting = st.sampled_from(KINDS.get(action.dest, [*NUMBERS, *SIZES]))
    return st.integers(0, 4).flatmap(lambda place: fitting if place else VALUES)


@st.composite
def calls(draw):
    """A call of a command with some of its options, and now and then a word, that are odd."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    words = [name, *BASE[name]]
    names = st.lists(st.sampled_from(sorted(VALUED[name])), max_size=4, unique=True)
    for option in draw(names) if VALUED[name] else ():
        value = draw(values(VALUED[name][option]))
        words += [f"{option}={value}"] if draw(st.booleans()) else [option, value]
    if FLAGS[name] and draw(st.booleans()):
        words.append(draw(st.sampled_from(sorted(FLAGS[name]))))
    if draw(st.integers(0, 5)) == 0:
        words.insert(draw(st.integers(0, len(words))), draw(VALUES))
    return words


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """A directory with odd files, for what is read and written; no claim is proven."""
    folder = tmp_path_factory.mktemp("fuzz")
    np.save(folder / "x.npy", np.ones(3))
    (folder / "bad.npy").write_bytes(b"\x93NUMPY" + bytes(20))
    (folder / "text.csv").write_text("a,b\n")
    (folder / "empty.csv").write_text("")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link.csv").symlink_to("nowhere")
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        empty = dict.fromkeys(claims.CHAPTERS, ())
        patch.setattr(claims, "CHAPTERS", empty)
        patch.setattr(registry, "CHAPTERS", empty)
        patch.setattr(report, "ledgers", lambda _: ({}, []))
        yield folder


def faults(words):
    """What is wrong with the answer to a call, in words; nothing if it is right.

    Work of less than a day is begun as asked: where 10⁹ of something were, it may take long, if it
    tells how far it is.
    """
    out, err = io.StringIO(), io.StringIO()
    try:
        with watched(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(words)
    except HangError as error:
        much = any(re.search(r"\d{9}|e9", word) for word in words)
        return [] if much and " so far" in err.getvalue() else [crash(error)]
    except Exception as error:
        return [crash(error)]
    shown, said = out.getvalue(), re.sub(r"(\r[^\r\n]*)+\n", "", err.getvalue())  # no bars
    found = [] if status in {0, 1, 2} else [f"status {status}"]
    if status == 2 and not (said.startswith("wickgarten: ") and said.count("\n") == 1):
        found.append(f"not one line: {said[:500]!r}")
    if "Traceback" in said or "Warning" in said:
        found.append(said[:500])
    paths = {part for word in words for part in (word, word.partition("=")[2])}
    answer = "\n".join(line for line in shown.splitlines() if line not in paths)
    for path in paths:  # as `report: /there/nan/index.html`
        answer = answer.replace(f"{os.getcwd()}{os.sep}{path}", "") if path else answer
    if status == 0 and re.search(r"(?<!\w)[-+]?(nan|inf)(?!\w)", answer, re.IGNORECASE):
        found.append(f"no numbers: {answer[:500]}")
    return found


def check(words):
    found = faults(words)
    assert not found, f"{[word[:80] for word in words]}: {found}"


@pytest.mark.parametrize("name", BASE)
def test_a_plain_call_is_answered(name):
    check([name, *BASE[name]])


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in VALUED for option in VALUED[name]]
)
def test_every_option_with_odd_values(name, option):
    for value in ODD:
        if (name, option) != ("verify", "--examples"):
            check([name, *BASE[name], f"{option}={value}"])
    assert cli.main([name, *BASE[name], f"{option}=--"]) == cli.BAD_INPUT


@settings(FUZZING, max_examples=40)
@given(words=calls())
def test_calls(words):
    check(words)


@pytest.mark.slow
@settings(FUZZING, max_examples=200)
@given(words=calls())
def test_two_hundred_calls(words):
    check(words)
