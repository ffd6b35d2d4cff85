"""`import wickgarten`: the public names of both rooms, each loaded when it is asked for."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import derivations.verify
import derive
import numeric
import wickgarten

ROOT = Path(__file__).parents[1]


def in_a_new_process(code):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_name_is_that_of_its_room():
    names = set(dir(wickgarten))
    assert names >= {"Network", "recursion", "flow", "simulate", "compare"}
    for room, others in ((numeric, ()), (derive, numeric.__all__)):
        for name in set(room.__all__).difference(others):
            assert getattr(wickgarten, name) is getattr(room, name)
    assert (wickgarten.derive, wickgarten.numeric) == (derive, numeric)
    assert "verify" in names
    assert wickgarten.verify is derivations.verify.verify
    assert wickgarten.gain is numeric.init.gain
    assert wickgarten.haar is derive.haar_moment
    assert wickgarten.__version__ == version("wickgarten")
    with pytest.raises(AttributeError, match="no attribute 'flows'"):
        _ = wickgarten.flows


def test_a_star_brings_what_dir_shows():
    names = in_a_new_process("from wickgarten import *; print(*globals())")
    assert set(names) >= set(dir(wickgarten))


def test_the_package_is_the_command():
    run = (
        "import runpy, sys; sys.argv[1:] = ['--version']; runpy.run_module('wickgarten', None, {})"
    )
    assert in_a_new_process(run.format("'__main__'")) == ["wickgarten", version("wickgarten")]


def test_symbols_come_without_the_compiler():
    code = "import sys, wickgarten\nprint({})\nwickgarten.recursion\nprint({})".format(
        *["'sympy' in sys.modules, 'numba' in sys.modules"] * 2
    )
    assert in_a_new_process(code) == ["False", "False", "True", "False"]


def test_the_command_line_helps_without_sympy():
    """So that `wickgarten --help` and completion take a tenth of a second."""
    code = """\
import contextlib, io, sys
from derivations import cli
with contextlib.redirect_stdout(io.StringIO()):
    cli.main(["flow", "--help"])
print({"sympy", "numpy", "xarray"} & set(sys.modules))"""
    assert in_a_new_process(code) == ["set()"]


def test_a_flow_of_few_inputs_comes_without_the_compiler():
    code = """\
import sys
from wickgarten import Network, flow
flow(Network("tanh"), [[1.0, 2.0], [0.5, 1.0]], depth=2, tensors=["V"])
print({"numba", "scipy.linalg", "scipy.optimize"} & set(sys.modules))"""
    assert in_a_new_process(code) == ["set()"]
