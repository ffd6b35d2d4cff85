"""Kernels in C: they compile without a warning and give the numba module's numbers."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sample_kernels import interpreted

from derivations.cli import BAD_INPUT, OK, main
from derive import (
    Gaussian,
    InputError,
    Network,
    Orthogonal,
    Rademacher,
    RegularSparse,
    Uniform,
    activations,
    recursion,
)
from numeric import flow, write_c, write_module

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_a_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on the path")
STRICT = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC", "-shared")
DEPTH = 6
ROOT = Path(__file__).parents[2]


def made(*names, weights=None):
    return [recursion(name, weights or Orthogonal()).single_input() for name in names]


def in_c(path, parameters, tensors, *means):
    library = path.with_suffix(".so")
    command = [COMPILER, *STRICT, "-o", str(library), str(path), "-lm"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    pointer = ctypes.POINTER(ctypes.c_double)
    run = getattr(ctypes.CDLL(str(library)), f"{path.stem}_flow")
    run.restype = None
    out = np.zeros((DEPTH, tensors))
    columns = [column.ctypes.data_as(pointer) for column in parameters]
    inputs = map(ctypes.c_double, means)
    run(*inputs, ctypes.c_long(DEPTH), *columns, out.ctypes.data_as(pointer))
    return out


def in_numba(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_a_compiler
@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("tanh", ("V", "F")),
        ("gelu", ("V", "G1")),
        ("softplus", ("V",)),
        ("relu", ("V",)),
        ("hard_tanh", ("V", "G1")),
    ],
)
def test_c_and_numba_agree(tmp_path, name, tensors):
    sigma, steps = activations.by_name(name), made(*tensors)
    source, header = write_c(steps, sigma, tmp_path / "ckernel.c")
    assert header == tmp_path / "ckernel.h"
    module = in_numba(write_module(steps, sigma, tmp_path / f"numba_{tensors[-1]}.py"))
    columns = [np.full(DEPTH, 0.1 if p == "C_b" else 0.9) for p in module.PARAMETERS]
    for K0 in (0.0, 0.7):
        expected = module.flow(K0, *columns)
        found = in_c(source, columns, len(module.TENSORS), K0)
        near_zero = 1e-13 * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=near_zero)


@needs_a_compiler
def test_a_mixed_network_is_the_flow(tmp_path):
    source, header = write_c(
        made("V"), activations.tanh, tmp_path / "mixed.c", first_weights=Gaussian()
    )
    net = Network(activations.tanh, Orthogonal(), Gaussian())
    expected = flow(net, [1.0], DEPTH, ["K", "V"])[["K", "V"]].to_array().to_numpy().T
    ones = np.ones(DEPTH)
    np.testing.assert_allclose(in_c(source, [ones, 0 * ones], 2, 1.0), expected, rtol=1e-12)
    text = header.read_text()
    assert "weights: Orthogonal; first layer: Gaussian" in text
    assert "V(ℓ+1) = C_W**2*(V*⟨(σ²)''⟩**2/4" in text


@needs_a_compiler
@pytest.mark.parametrize(
    ("weights", "first", "layer", "sigma"),
    [
        (Uniform(), None, "dense", "tanh"),
        (RegularSparse("1/2"), None, "normalized(layer)", "relu"),
        (Orthogonal(), Rademacher(), "residual(norm=rms)*; dense", "gelu"),
    ],
)
def test_c_takes_fourth_means(tmp_path, weights, first, layer, sigma):
    """As in Python: G1 is the flow's, and NAN where no input has such means."""
    made = [recursion(name, weights, layer=layer).single_input() for name in ("G1", "Theta1")]
    source, header = write_c(made, sigma, tmp_path / "fourth.c", first)
    assert "M4 = sum_k x_k x_k x_k x_k/n_0" in header.read_text(encoding="utf-8")
    path = write_module(made, sigma, tmp_path / "fourth.py", first)
    module = interpreted(path.read_text(encoding="utf-8"), "fourth")
    x, ones = np.array([1.0, 0.5, -0.3, 2.0]), np.ones(DEPTH)
    columns = [0.1 * ones if name == "C_b" else ones for name in module.PARAMETERS]
    size, means = len(module.TENSORS), module.means(x)
    found = in_c(source, columns, size, *means)
    np.testing.assert_allclose(found, module.flow(*means, *columns), rtol=1e-12, atol=1e-13)
    net = Network(sigma, weights, first, C_b="1/10", layer=layer)
    expected = flow(net, x, DEPTH, ["G1", "Theta1"])
    for name in ("G1", "Theta1"):
        values = found[:, module.TENSORS.index(name)]
        np.testing.assert_allclose(values, expected[name], rtol=1e-11, atol=1e-12)
    assert np.isnan(in_c(source, columns, size, 1.0, 0.9)).all()


def test_the_command_writes_both_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["kernel", "K", "--target", "c"]) == OK
    assert capsys.readouterr().out.split() == ["kernel.c", "kernel.h"]
    assert '#include "kernel.h"' in (tmp_path / "kernel.c").read_text()


@pytest.mark.parametrize("name", ["kernel.py", "1.c", "a-b.c", "é.c"])
def test_names_that_c_cannot_use(tmp_path, name):
    with pytest.raises(InputError, match="a name for C functions"):
        write_c(made("K"), activations.tanh, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_several_inputs_are_not_for_c(tmp_path, capsys):
    with pytest.raises(InputError, match="recursions of one input"):
        write_c(recursion("K"), activations.tanh, tmp_path / "k.c")
    words = ["kernel", "K", "--multi", "--target", "c", "-o", str(tmp_path / "k.c")]
    assert main(words) == BAD_INPUT
    assert "one input" in capsys.readouterr().err


def _printed(folder, program):
    """What a main.c prints that is compiled with the kernel beside it."""
    (folder / "main.c").write_text(program, encoding="utf-8")
    command = [COMPILER, "-std=c99", "-Wall", "-Werror", "main.c", "ckernel.c", "-lm", "-o", "main"]
    compiled = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    run = subprocess.run([folder / "main"], capture_output=True, text=True, check=True)
    return [float(part.split(" = ")[1]) for part in run.stdout.split(", ")]


@needs_a_compiler
def test_the_samples_compile_as_printed_and_print_the_flow(tmp_path):
    """Those of the header and of the manual's page on kernels."""
    _, header = write_c(made("V"), activations.tanh, tmp_path / "ckernel.c")
    sample = header.read_text(encoding="utf-8").partition("#include")[2].partition("*/")[0]
    page = (ROOT / "docs/howto/kernels.md").read_text(encoding="utf-8")
    net = Network(activations.tanh, Orthogonal())
    expected = flow(net, [1.0], 4, ["K", "V"]).isel(layer=3)
    for program in (f"#include{sample}", page.partition("```c\n")[2].partition("```")[0]):
        found = _printed(tmp_path, program)
        np.testing.assert_allclose(found, [expected["K"], expected["V"]], atol=5e-7)
