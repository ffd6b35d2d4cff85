"""Written modules of networks whose signals change their positions, against `flow`."""

from __future__ import annotations

import numpy as np
import pytest
from sample_kernels import interpreted

from derive import Gaussian, Network, Orthogonal, layers, recursion
from numeric import flow, write_module

SIGNAL = np.random.default_rng(23).normal(size=(4, 5))
PIXELS = SIGNAL.reshape(2, 2, 5)
TRIPLE = np.random.default_rng(24).normal(size=(3, 5))
SHRINK = layers.mix([[1, 2, 0], [0.5, 0, -1]])
GROW = layers.mix([[1, 0], [0.5, 1], [0, -2]])
STRIDED = "convolution(2, 4, stride=2)"
PROJECTED = f"around({STRIDED}, norm=rms, projected=True)"
SHALLOW = f"around({STRIDED}, skip=1/2)"
INSIDE = "sequence(convolution(2, 4), pooling(4, 2), convolution(2, 2))"
IMAGE = layers.sequence(layers.convolution(2, (2, 2)), layers.pooling((2, 2), (2, 1)))
TENSORS = ["K", "V", "Theta"]


def module(layer, names, activation, weights, path):
    """The module of several inputs, in the interpreter."""
    made = [recursion(name, weights(), layer=layer) for name in names]
    source = write_module(made, activation, path, Gaussian()).read_text(encoding="utf-8")
    return interpreted(source, path.stem)


def run(kernel, x, depth):
    """Its tensors by their names."""
    numbers = {"C_W": 1.5, "C_b": 0.1, "lambda_b": 0.7, "lambda_W": 1.3}
    columns = [np.full(depth, numbers.get(name, 1.0)) for name in kernel.PARAMETERS]
    rows = np.reshape(x, (-1, 5))
    return dict(zip(kernel.TENSORS, kernel.flow(rows @ rows.T / 5, *columns), strict=True))


def flowed(layer, activation, weights, x, depth, names):
    rates = {"lambda_b": 0.7, "lambda_W": 1.3}
    first = Gaussian(1.5)
    net = Network(activation, weights(1.5), first, C_b=0.1, layer=layer, **rates)
    return flow(net, x, depth, names)


@pytest.mark.parametrize(
    ("layer", "activation", "weights", "x", "depth", "names"),
    [
        pytest.param(STRIDED, "relu", Orthogonal, SIGNAL, 2, TENSORS, id="stride"),
        pytest.param(STRIDED, "tanh", Gaussian, [SIGNAL, SIGNAL[::-1]], 2, ["K"], id="two"),
        pytest.param(INSIDE, "relu", Orthogonal, SIGNAL, 2, TENSORS, id="inside"),
        pytest.param(
            f"dense; {STRIDED}; convolution(2, 2)*; pooling(2)",
            *("relu", Orthogonal, SIGNAL, 6, TENSORS),
            id="depths",
        ),
        pytest.param(SHRINK, "tanh", Orthogonal, TRIPLE, 2, TENSORS, id="mix"),
        pytest.param(GROW, "tanh", Orthogonal, TRIPLE[:2], 2, TENSORS, id="more"),
        pytest.param(PROJECTED, "tanh", Orthogonal, SIGNAL, 2, ["K", "Theta"], id="projected"),
        pytest.param(PROJECTED, "relu", Orthogonal, SIGNAL, 2, TENSORS, id="projected-V"),
        pytest.param(SHALLOW, "relu", Gaussian, [SIGNAL, -SIGNAL], 2, ["K", "Theta"], id="skip"),
        pytest.param(IMAGE, "relu", Orthogonal, PIXELS, 2, TENSORS, id="image"),
    ],
)
def test_a_module_changes_positions_as_flow_does(
    layer, activation, weights, x, depth, names, tmp_path
) -> None:
    found = run(module(layer, names, activation, weights, tmp_path / "kernel.py"), x, depth)
    expected = flowed(layer, activation, weights, x, depth, names)
    for name in names:
        wanted = expected[name].values[-1]
        atol = 1e-12 * np.abs(wanted).max()
        np.testing.assert_allclose(found[name].reshape(wanted.shape), wanted, rtol=0, atol=atol)


def test_layers_that_end_with_their_positions_repeat(tmp_path) -> None:
    layer = layers.sequence(SHRINK, GROW)
    found = run(module(layer, TENSORS, "relu", Orthogonal, tmp_path / "kernel.py"), TRIPLE, 4)
    expected = flowed(layer, "relu", Orthogonal, TRIPLE, 4, TENSORS)
    for name in TENSORS:
        atol = 1e-12 * np.abs(expected[name].values).max()
        np.testing.assert_allclose(found[name], expected[name].values, rtol=0, atol=atol)


def test_a_module_refuses_positions_that_do_not_fit(tmp_path) -> None:
    """Two signals of four positions have four samples behind a stride, which are no signal."""
    kernel = module(STRIDED, ["K"], "relu", Gaussian, tmp_path / "kernel.py")
    with pytest.raises(ValueError, match=r"layer 3 reads signals of 4 positions, not 2 positions"):
        run(kernel, [SIGNAL, SIGNAL], 3)
    with pytest.raises(ValueError, match=r"layer 2 reads signals of 4 positions, not 3 samples"):
        run(kernel, TRIPLE, 2)


def test_the_demonstration_of_a_module_runs(tmp_path, capsys) -> None:
    """Its depth is one that the positions allow."""
    path = write_module(recursion("K", layer=STRIDED), "relu", tmp_path / "kernel.py")
    source = path.read_text(encoding="utf-8")
    interpreted(source.replace('__name__ == "__main__"', "True"), "demonstration")
    assert capsys.readouterr().out.startswith("K\n    2 ")
