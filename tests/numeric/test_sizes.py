"""V of chosen outputs of signals, by weights that go down the layers: `flow` with draws."""

from __future__ import annotations

import numpy as np
import pytest

from derive import Network
from derive.errors import InputError
from numeric import flow

SIGNAL = np.random.default_rng(0).normal(size=(4, 3))
IMAGE = np.random.default_rng(1).normal(size=(2, 2, 3))
BLOCK = "sequence(convolution(3, 4, activations=linear), convolution(3, 4))"
STRIDE = "convolution(3, 4, stride=2, activations=linear), convolution(2, 2)"


@pytest.mark.parametrize(
    ("layer", "inputs", "depth"),
    [
        ("convolution(3, 4)*; pooling(4)", SIGNAL, 3),
        ("convolution(3, 4, boundary=zero, stride=2); flattening(2)", SIGNAL, 3),
        (f"around(sequence({STRIDE})); pooling(2)", SIGNAL, 3),
        (f"around(sequence({STRIDE}), projected=True); pooling(2)", SIGNAL, 3),
        ("convolution(2, (2, 2), boundary=zero)*; pooling((2, 2))", IMAGE, 3),
    ],
)
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_linear_networks_have_nothing_to_sample(layer, inputs, depth, weights):
    net = Network("linear", weights, layer=layer, C_b=0.1, C_W=1.3)
    whole = flow(net, inputs, depth, ["V"])
    sampled = flow(net, inputs, depth, ["K", "V"], draws=2)
    np.testing.assert_allclose(sampled["V"], whole["V"], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "activation", "weights"),
    [
        (f"around({BLOCK}, norm=rms)*; pooling(4)", "relu", "orthogonal"),
        ("convolution(3, 4, stride=2, boundary=zero); pooling(2)", "gelu", "gaussian"),
        (
            f"around(sequence({STRIDE}), norm=rms, projected=True); flattening(2)",
            "relu",
            "gaussian",
        ),
        ("sequence(dropout(0.7), convolution(2, 4)); pooling(4)", "tanh", "gaussian"),
    ],
)
def test_it_is_the_v_of_all_positions(layer, activation, weights):
    net = Network(activation, weights, layer=layer, C_b=0.1, C_W=1.3)
    whole = flow(net, SIGNAL, 3, ["V"])
    sampled = flow(net, SIGNAL, 3, ["V"], draws=20_000)
    standard = float(sampled["V_error"][-1]) / 3.0
    # one comparison for each of the three cases: 4.5 errors, a false alarm in 4e4 runs
    assert abs(float(sampled["V"][-1] - whole["V"][-1])) < 4.5 * standard
    assert standard < 0.04 * float(whole["V"][-1])


def test_chosen_positions_are_those_of_the_whole_table():
    net = Network("linear", "orthogonal", layer="convolution(2, 2)*", C_b=0.1, C_W=1.3)
    signals = SIGNAL.reshape(2, 2, 3)
    whole = flow(net, signals, 3, ["K", "V", "Theta"])
    chosen = flow(net, signals, 3, ["K", "V", "Theta"], positions=[1])
    sampled = flow(net, signals, 3, ["K", "V", "Theta"], positions=[1], draws=2)
    numbers = [1, 3]
    assert chosen["sample_1"].to_numpy().tolist() == numbers
    for name in ("K", "V", "Theta"):
        axes = {str(axis): numbers for axis in whole[name].dims if axis != "layer"}
        expected = whole[name].isel(axes)
        np.testing.assert_allclose(chosen[name], expected, rtol=1e-15)
        np.testing.assert_allclose(sampled[name], expected, rtol=1e-12, atol=1e-14)


def test_too_many_positions_are_told_a_way_out():
    net = Network("relu", layer="convolution(3, (16, 16)); pooling((16, 16))")
    with pytest.raises(InputError, match="give draws"):
        flow(net, np.ones((16, 16, 1)), 3, "V")


def test_positions_of_images_are_pairs():
    net = Network("relu", layer="convolution(2, (2, 2))*")
    table = flow(net, IMAGE, 2, "K", positions=[(0, 1), (1, 1)])
    assert table["sample_2"].to_numpy().tolist() == [1, 3]


@pytest.mark.parametrize(
    ("layer", "weights", "asked", "wanted"),
    [
        ("convolution(2, 4)*; pooling(4)", "gaussian", ["G1"], "K, V and Theta"),
        ("convolution(2, 4, readout=mean)", "gaussian", ["V"], "a readout as a layer"),
        ("convolution(2, 4)*; pooling(4)", "uniform", ["V"], "rotations"),
        ("sequence(gated, convolution(2, 4)); pooling(4)", "gaussian", ["V"], "without gates"),
        ("around(convolution(2, 4)); pooling(4)", "gaussian", ["V"], "one matrix"),
    ],
)
def test_what_does_not_fit_is_refused(layer, weights, asked, wanted):
    with pytest.raises(InputError, match=wanted):
        flow(Network("tanh", weights, layer=layer), SIGNAL, 3, asked, draws=10)


@pytest.mark.parametrize("positions", [[4], [0, 0], [], [0.5], [(0, 1)]])
def test_positions_that_are_none_are_refused(positions):
    with pytest.raises(InputError, match="positions"):
        flow(Network("tanh", layer="convolution(2, 4)*"), SIGNAL, 2, "K", positions=positions)
