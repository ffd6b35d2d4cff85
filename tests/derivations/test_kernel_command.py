"""Kernels for code downstream: what their docstrings show runs, and `kernel --list` shows them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from importlib.metadata import version

import numpy as np
import pytest

from derivations.cli import BAD_INPUT, OK, main
from derive import Network, Orthogonal, activations, recursion
from derive.engine import NAMES
from numeric import flow, write_module


def examples(path):
    """{the line above: the code} of the docstring's examples."""
    found: dict[str, list[str]] = {}
    head = None
    for line in ast.get_docstring(ast.parse(path.read_text())).splitlines():
        if line.startswith(("From ", "Not tried")):
            head = line
            found[head] = []
        elif not line.startswith("    "):
            head = None
        elif head:
            found[head].append(line[4:])
    return {head: "\n".join(lines) for head, lines in found.items()}


@pytest.fixture
def kernel(tmp_path):
    made = recursion("V", Orthogonal()).single_input()
    return write_module(made, activations.tanh, tmp_path / "kernel.py")


def run(code, where, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(where), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


NETWORK = Network(activations.tanh, Orthogonal())


@pytest.fixture(scope="module")
def expected():
    return flow(NETWORK, [1.0], 50, ["V"], width=1)["V"].to_numpy()


def test_the_docstring_runs_from_python(kernel, expected):
    code = next(text for head, text in examples(kernel).items() if "Python" in head)
    shown = run(f"{code}\nprint(*table[:, 1])", kernel.parent)
    np.testing.assert_allclose(np.fromstring(shown, sep=" "), expected, rtol=1e-14)


def test_the_docstring_runs_in_compiled_code(kernel, expected):
    code = next(text for head, text in examples(kernel).items() if "numba compiles" in head)
    shown = run(f"{code}\nprint(*last(1.0, -2.0, 49))", kernel.parent)
    assert float(shown.split()[1]) == pytest.approx(expected[-1], rel=1e-14)


@pytest.mark.slow
def test_the_docstring_runs_on_a_gpu(kernel, expected):
    """In numba's simulator of one; for a real one it compiles the same functions."""
    code = next(text for head, text in examples(kernel).items() if "CUDA" in head)
    launch = (
        "import numpy as np\nK, V = np.ones(70), np.full(70, -2.0)\nstep[2, 64](K, V)\nprint(*V)"
    )
    shown = run(f"{code}\n{launch}", kernel.parent, NUMBA_ENABLE_CUDASIM="1")
    np.testing.assert_allclose(np.fromstring(shown, sep=" "), np.full(70, expected[1]), rtol=1e-14)


def test_a_kink_is_not_offered_to_a_gpu(tmp_path):
    made = recursion("K", Orthogonal()).single_input()
    shown = examples(write_module(made, activations.relu, tmp_path / "kernel.py"))
    assert not any("CUDA" in head for head in shown)
    assert any(head.startswith("Not tried on a GPU") for head in shown)


@pytest.mark.slow
def test_several_inputs_run_from_python(tmp_path):
    path = write_module(recursion("K", Orthogonal()), activations.tanh, tmp_path / "kernel.py")
    (code,) = examples(path).values()
    shown = run(f"{code}\nprint(K.shape, K[-1, 0, 0])", tmp_path)
    assert shown.startswith("(50, 2, 2) ")
    expected = flow(NETWORK, [1.0], 50, "K")["K"][-1].item()
    assert float(shown.split()[-1]) == pytest.approx(expected, rel=1e-11)


def test_list_shows_tensors(capsys):
    assert main(["kernel", "--list"]) == OK
    out = capsys.readouterr().out
    for name in NAMES.values():
        assert f"  {name.label:7} {name.cumulant}\n" in out
        assert f"the {name.meaning}" in " ".join(out.split())
    assert (
        "  A       kappa(H,H|01 23)\n"
        "          n times the covariance of two entries of the NTK; "
        "equal neurons: (H, H)(H', H')\n"
    ) in out
    assert max(map(len, out.splitlines())) < 100


def test_list_reads_a_module_without_running_it(capsys, kernel):
    kernel.write_text(kernel.read_text() + "\nraise SystemExit('run')\n")
    assert main(["kernel", "--list", str(kernel)]) == OK
    out = capsys.readouterr().out
    assert out.startswith(f"{kernel}: K, V of a network with tanh, layer by layer.\n")
    assert "  next_layer(K, V, C_W, C_b, r_big)\n" in out


@pytest.mark.parametrize("text", [None, "def f(:", '"""Something else."""', "\0"])
def test_list_refuses_what_is_no_kernel(capsys, tmp_path, text):
    path = tmp_path / "x.py"
    if text is not None:
        path.write_text(text)
    assert main(["kernel", "--list", str(path)]) == BAD_INPUT
    assert "that `wickgarten kernel` wrote" in capsys.readouterr().err


def test_kernel_wants_a_tensor(capsys):
    assert main(["kernel"]) == BAD_INPUT
    assert "a tensor such as V, or --list" in capsys.readouterr().err


def test_cite_and_version_print(capsys):
    assert main(["cite", "003"]) == OK
    assert "@inproceedings{daneshmand2021," in capsys.readouterr().out
    assert main(["cite"]) == OK
    assert capsys.readouterr().out.count("\n@") == 18
    assert main(["cite", "nobody"]) == BAD_INPUT
    assert main(["--version"]) == OK
    assert f"wickgarten {version('wickgarten')}" in capsys.readouterr().out
