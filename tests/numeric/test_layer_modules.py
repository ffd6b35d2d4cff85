"""Written modules of layers: stage after stage in one step, equal to what `flow` runs."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys

import numba
import numpy as np
import pytest
from flows import own

from derivations.cli import OK, main
from derive import Gaussian, InputError, Network, Orthogonal, layers, recursion
from numeric import flow, write_c, write_module
from numeric.emit import modules

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
NUMBERS = {"C_W": 1.2, "C_b": 0.1, "lambda_W": 1.0, "lambda_b": 0.7}
ONE, TWO, DEPTH = [1.0, 0.5], [[1.0, 0.5], [0.2, -0.7]], 4
OWN = own()
BOUND = layers.Layer(
    "y[i] = W0[i,a] z[a]",
    "h[i] = W1[i,a] relu(y[a])",
    "z[i] = z[i]/2 + b[i] + W2[i,a] s(h[a])",
    weights={"W0": "gaussian", "W2": Gaussian(2)},
)


def made(names, layer, *, single=True):
    found = [recursion(name, Orthogonal(), layer=layer) for name in names]
    return [each.single_input() for each in found] if single else found


def run(path, inputs, *, compiled=False):
    """The module's tensors at every layer, by their names; in the interpreter, as each module would
    compile for seconds."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", not compiled)
        spec.loader.exec_module(module)
    columns = [np.full(DEPTH, NUMBERS.get(name, 1.0)) for name in module.PARAMETERS]
    X = np.atleast_2d(inputs)
    K0 = X @ X.T / X.shape[1]
    out = module.flow(K0 if np.ndim(inputs) > 1 else K0[0, 0], *columns)
    return dict(zip(module.TENSORS, out if np.ndim(inputs) > 1 else out.T, strict=True))


def flowed(layer, sigma, inputs, names):
    net = Network(sigma, Orthogonal(1.2), C_b=0.1, lambda_b=0.7, layer=layer)
    return flow(net, inputs, DEPTH, names)


def written(names, layer, sigma, path):
    """A C source and its header, and what the compiled flow gives, by the tensors' names."""
    source, header = write_c(made(names, layer), sigma, path)
    library, stem = source.with_suffix(".so"), source.stem
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC", "-shared"]
    subprocess.run([COMPILER, *strict, "-o", library, source, "-lm"], check=True)
    text = header.read_text()
    tensors = text.partition("of a network")[0].removeprefix("/* ").strip().split(", ")
    signature = text.partition(f"{stem}_first_layer(double K0, ")[2].partition(", double *out")[0]
    parameters = [each.removeprefix("double ") for each in signature.split(", ")]
    pointer, run = (
        ctypes.POINTER(ctypes.c_double),
        getattr(ctypes.CDLL(str(library)), f"{stem}_flow"),
    )

    def flow_of(depth):
        out = np.zeros((depth, len(tensors)))
        columns = [np.full(depth, NUMBERS.get(name, 1.0)) for name in parameters]
        given = [each.ctypes.data_as(pointer) for each in (*columns, out)]
        run(ctypes.c_double(np.square(ONE).mean()), ctypes.c_long(depth), *given)
        return dict(zip(tensors, out.T, strict=True))

    return flow_of


def test_a_compiled_module_runs_the_stages(tmp_path):
    path = write_module(made(["V", "G1"], OWN), "tanh", tmp_path / "compiled.py")
    found = run(path, ONE, compiled=True)
    expected = flowed(OWN, "tanh", ONE, ["V", "G1"])
    for name in ("V", "G1"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("layer", "sigma", "names"),
    [
        (BOUND, "tanh", ["V", "G1"]),
        ("normalized(rms, eps=1/10)", "gelu", ["V", "G1"]),
        ("residual(skip=1/2, norm=layer, ratio=2)", "tanh", ["V", "G1", "D", "F"]),
        ("gated(norm=rms)", "relu", ["V", "G1"]),
        ("sequence(residual(norm=rms, activations=gelu), gated(skip=1/2))", "tanh", ["V", "D"]),
    ],
)
def test_a_module_runs_the_stages(layer, sigma, names, tmp_path):
    found = run(write_module(made(names, layer), sigma, tmp_path / "layer_one.py"), ONE)
    expected = flowed(layer, sigma, ONE, names)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "sigma", "names"),
    [
        ("residual(norm=rms)", "tanh", ["K", "Theta"]),
        (BOUND, "tanh", ["V", "Theta"]),
        ("sequence(residual(norm=rms, activations=erf), dense)", "tanh", ["K", "G1"]),
    ],
)
def test_a_module_of_several_inputs_runs_the_stages(layer, sigma, names, tmp_path):
    path = write_module(made(names, layer, single=False), sigma, tmp_path / "layer_two.py")
    found, expected = run(path, TWO), flowed(layer, sigma, TWO, names)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler on the path")
@pytest.mark.parametrize(
    ("layer", "sigma"), [(OWN, "tanh"), (BOUND, "gelu"), ("residual(norm=layer)", "relu")]
)
def test_c_runs_the_stages(layer, sigma, tmp_path):
    found = written(["V", "G1"], layer, sigma, tmp_path / "clayer.c")(DEPTH)
    expected = flowed(layer, sigma, ONE, ["V", "G1"])
    for name in ("V", "G1"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-11, atol=1e-13)


ENDS = "dense; (residual(norm=rms); gated)*; dense"


def test_a_module_takes_each_layer_at_its_depth(tmp_path):
    """Three first or last layers and a period of two, each of another activation; C in one case."""
    sigma, names = "tanh; gelu*; relu", ["V", "G1"]
    path = write_module(made(names, ENDS), sigma, tmp_path / "ends.py")
    found, expected = run(path, ONE), flowed(ENDS, sigma, ONE, names)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-13, atol=1e-13)
    head = path.read_text(encoding="utf-8").split('"""')[1]
    assert "layers 2, 3, ...: next_layer_1; (next_layer_2; next_layer_3)*; next_layer_4" in head
    with pytest.raises(ValueError, match="a depth below 3"):
        sys.modules["ends"].flow(1.0, *[np.ones(2)] * 3)
    if COMPILER is None:
        return
    in_c = written(names, ENDS, sigma, tmp_path / "cends.c")
    for name, values in in_c(DEPTH).items():
        np.testing.assert_allclose(values, found[name], rtol=1e-13, atol=1e-13)
    assert np.isnan(in_c(2)["V"]).all()


def test_a_module_of_several_inputs_takes_each_layer_at_its_depth(tmp_path):
    for layer, sigma in (("dense", "tanh; gelu*"), ("residual(norm=rms)*; dense", "tanh")):
        path = write_module(made(["Theta"], layer, single=False), sigma, tmp_path / "two.py")
        found, expected = run(path, TWO), flowed(layer, sigma, TWO, ["K", "Theta"])
        for name in ("K", "Theta"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-13, atol=1e-13)


def test_layers_that_are_all_alike_are_one(tmp_path):
    one, other = (
        write_module(made(["V"], layer), "tanh", tmp_path / f"{name}.py").read_text("utf-8")
        for name, layer in (("one", "dense"), ("other", "dense; dense*; dense"))
    )
    assert one == other
    for layer, sigma in (("dense", ["tanh", "gelu"]), ("gated; (dense; gated)*", "tanh*; relu")):
        with pytest.raises(InputError, match="repeat"):
            write_module(made(["V"], layer), sigma, tmp_path / "x.py")


def test_a_modules_docstring_names_the_layer_and_its_stages(tmp_path):
    path = write_module(made(["V"], "residual(norm=rms)"), "tanh", tmp_path / "v.py")
    head = path.read_text(encoding="utf-8").split('"""')[1]
    assert "layer: residual(skip=1, norm=rms)" in head
    assert "K_h(ℓ+1) = C_W*K_y" in head
    path = write_module(made(["V"], BOUND), "tanh", tmp_path / "v.py")
    assert "V of a network with relu, tanh, layer by layer" in path.read_text(encoding="utf-8")


def test_what_no_module_runs(tmp_path):
    wrong = [
        (made(["V"], "residual(skip=gamma)"), "tanh", "numbers for gamma"),
        ([*made(["V"], "residual"), *made(["V"], "gated")], "tanh", "same weights, layer"),
        (made(["K"], "normalized(layer)", single=False), "relu", "mean is taken off"),
        (list(made(["V"], "residual")[0].stages[0]), "tanh", "hidden layers"),
    ]
    for given, sigma, says in wrong:
        with pytest.raises(InputError, match=says):
            write_module(given, sigma, tmp_path / "x.py")


def test_the_command_writes_layers(tmp_path, capsys):
    path = str(tmp_path / "k.py")
    assert main(["kernel", "V", "--layer", "residual(norm=rms)", "-o", path]) == OK
    assert "layer: residual(skip=1, norm=rms)" in (tmp_path / "k.py").read_text(encoding="utf-8")
    assert main(["derive", "K", "--single", "--layer", "residual(norm=rms)"]) == OK
    assert "⟨σ²⟩_h" in capsys.readouterr().out
    assert main(["kernel", "V", "--layer", "gated; dense", "-o", path]) == OK
    made = modules.load((tmp_path / "k.py").read_text(encoding="utf-8"), "two_layers")
    table = flow(Network("tanh", layer="gated; dense"), [1.0], 3, ["K", "V"])
    last = [float(table[name][-1]) for name in "KV"]
    assert made.flow(1.0, np.ones(2), np.zeros(2))[-1] == pytest.approx(last, rel=1e-12)
