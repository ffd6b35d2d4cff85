"""V of chosen outputs of signals, by weights that go down the layers: `flow` with draws."""

from __future__ import annotations

import numpy as np
import pytest

from derive import Network
from derive.errors import InputError
from derive.layers import Layer, convolution
from numeric import compare, flow, simulate

SIGNAL = np.random.default_rng(0).normal(size=(4, 3))
IMAGE = np.random.default_rng(1).normal(size=(2, 2, 3))
CONVOLUTIONS = "convolution(3, 4{}), convolution(3, 4)"
BLOCK = f"sequence({CONVOLUTIONS.format(', activations=linear')})"
STANDARD = f"sequence({CONVOLUTIONS.format('')})"
STRIDE = "convolution(3, 4, stride=2, activations=linear), convolution(2, 2)"
NORMED = "around(convolution(3, 4), norm={})*; pooling(4)"


def assert_same(found, wanted) -> None:
    """Up to rounding, in units of the largest entry."""
    scale = 5e-12 * float(abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=scale)


@pytest.mark.parametrize(
    ("layer", "inputs", "depth"),
    [
        ("convolution(3, 4)*; pooling(4)", SIGNAL, 3),
        ("convolution(3, 4, boundary=zero, stride=2); flattening(2)", SIGNAL, 3),
        (f"around(sequence({STRIDE})); pooling(2)", SIGNAL, 3),
        (f"around(sequence({STRIDE}), projected=True); pooling(2)", SIGNAL, 3),
        ("convolution(2, (2, 2), boundary=zero)*; pooling((2, 2))", IMAGE, 3),
        ("convolution(2, 4, readout=mean)", SIGNAL, 3),
    ],
)
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal", "uniform"])
def test_linear_networks_have_nothing_to_sample(layer, inputs, depth, weights):
    net = Network("linear", weights, layer=layer, C_b=0.1, C_W=1.3)
    whole = flow(net, inputs, depth, ["V"])
    sampled = flow(net, inputs, depth, ["K", "V"], draws=2)
    assert_same(sampled["V"], whole["V"])


@pytest.mark.parametrize("norm", ["", ", norm=rms"])
def test_a_block_with_activations_before_both_matrices_has_the_v_of_a_linear_one(norm):
    one, other = (f"around({block}{norm})*; pooling(4)" for block in (STANDARD, BLOCK))
    whole = flow(Network("linear", layer=other), SIGNAL, 4, "V")
    assert_same(flow(Network("linear", layer=one), SIGNAL, 4, "V", draws=2)["V"], whole["V"])


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal", "low-rank-gaussian(gamma=1/2)"])
@pytest.mark.parametrize("layer", ["dense", "residual(skip=0, norm=rms, ratio=2)"])
def test_neurons_are_counted_at_every_width(layer, weights):
    net = Network("linear", weights, layer=layer, first_weights="gaussian", widths=[3, 6, 3, 9, 6])
    whole = flow(net, SIGNAL[:2], tensors="V")
    assert_same(flow(net, SIGNAL[:2], tensors="V", draws=2)["V"], whole["V"])


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_linear_skips_past_one_matrix_have_nothing_to_sample(norm):
    net = Network("linear", "orthogonal", layer=NORMED.format(norm), C_b=0.1, C_W=1.3)
    assert_same(flow(net, SIGNAL, 4, "V", draws=2)["V"], flow(net, SIGNAL, 4, "V")["V"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "activation", "weights"),
    [
        (f"around({BLOCK}, norm=rms)*; pooling(4)", "relu", "orthogonal"),
        (f"around({BLOCK}, norm=layer)*; pooling(4)", "relu", "uniform"),
        ("convolution(3, 4, stride=2, boundary=zero); pooling(2)", "gelu", "gaussian"),
        (
            f"around(sequence({STRIDE}), norm=rms, projected=True); flattening(2)",
            "relu",
            "gaussian",
        ),
        ("sequence(dropout(0.7), convolution(2, 4)); pooling(4)", "tanh", "gaussian"),
        ("around(convolution(3, 4))*; pooling(4)", "relu", "orthogonal"),
        (NORMED.format("layer"), "relu", "uniform"),
        (NORMED.format("layer"), "gelu", "gaussian"),
        ("sequence(gated(norm=layer), convolution(2, 4)); pooling(4)", "gelu", "orthogonal"),
        ("convolution(2, 4, norm=rms, readout=mean)", "relu", "gaussian"),
    ],
)
def test_it_is_the_v_of_all_positions(layer, activation, weights):
    net = Network(activation, weights, layer=layer, C_b=0.1, C_W=1.3)
    whole = flow(net, SIGNAL, 3, ["V"])
    sampled = flow(net, SIGNAL, 3, ["V"], draws=50_000)
    standard = float(sampled["V_error"][-1]) / 3.0
    # one comparison for each of the ten cases: 4.5 errors, a false alarm in 1e4 runs
    assert abs(float(sampled["V"][-1] - whole["V"][-1])) < 4.5 * standard
    assert standard < 0.06 * float(whole["V"][-1])


def convolved(size: int, positions: int, *lines: str, **C: object) -> Layer:
    """A layer of convolutions in place of all matrices."""
    ((_, taps),) = convolution(size, positions).tapped
    return Layer(*lines, C=C, taps={f"W{k}": taps for k in (1, 2, 3) if f"W{k}" in str(lines)})


BESIDE = "z[i] = b[i] + W1[i,a] s(z[a]) + W2[i,a] z[a]"
GATE = "f[i] = W1[i,a] z[a]", "g[i] = b2[i] + W2[i,a] z[a]", "z[i] = z[i] + W3[i,a] s(f[a]) s(g[a])"
OUTER = "h[i] = W1[i,a] s(z[a])", "z[i] = b[i] + W2[i,a] s(h[a]) + W3[i,a] s(z[a])"


def scores(net, inputs, other, others, **given) -> float:
    """The largest difference of V in standard errors."""
    one = flow(net, inputs, 3, ["V"], draws=20_000, **given)
    two = flow(other, others, 3, ["V"], **({"draws": 20_000} if given else {}))
    errors = np.sqrt(sum(each["V_error"].to_numpy() ** 2 for each in (one, two))) / 3.0
    return float((abs(one["V"].to_numpy() - two["V"].to_numpy()) / (errors + 1e-12)).max())


@pytest.mark.parametrize(
    ("lines", "activation", "weights"),
    [((BESIDE,), "relu", "uniform"), (GATE, "tanh", "orthogonal")],
)
def test_several_convolutions_of_one_stage(lines, activation, weights):
    layer = convolved(2, 2, *lines, W1="1/3", W2="3/4")
    net = Network(activation, weights, layer=layer, C_b=0.1, C_W=1.3)
    assert scores(net, SIGNAL[:2], net, SIGNAL[:2]) < 5.0  # of 30 each: a false alarm in 2e4 runs


def test_convolutions_of_constant_signals_are_one_matrix():
    """Also where two matrices read other neurons, as no other road has their V."""
    C = {"W2": "1/3", "W3": "3/4"}
    layers = convolved(2, 3, *OUTER, **C), Layer(*OUTER, C=C)
    one, other = (Network("relu", layer=layer, C_b=0.1, C_W=1.3) for layer in layers)
    constant = np.repeat(SIGNAL[:2, None], 3, axis=1)
    assert scores(one, constant, other, SIGNAL[:2], positions=[0]) < 5.0


@pytest.mark.slow
def test_a_function_of_a_norm_may_stand_beside_a_matrix():
    """Its fluctuation is no part of the product of neurons that is sampled."""
    layer = Layer("q = z[a] z[a]/n", "z[i] = b[i] + W[i,a] s(z[a])/sqrt(q)")
    net = Network("relu", layer=layer, C_b=0.1)
    whole, sampled = (flow(net, SIGNAL, 3, ["V"], **given) for given in ({}, {"draws": 20_000}))
    z = abs(sampled["V"] - whole["V"]) / (sampled["V_error"] / 3.0 + 1e-12)
    assert float(z.max()) < 5.0  # of 110 numbers: a false alarm in 1e4 runs


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
    ("layer", "asked", "wanted"),
    [
        ("convolution(2, 4)*; pooling(4)", ["G1"], "K, V and Theta"),
        (
            Layer("m = z[a]/n", "y[i] = z[i] - m", "z[i] = W[i,a] y[a] s(y[a])"),
            ["V"],
            "no product, where a mean is taken off",
        ),
        (
            Layer("m = z[a]/n", "y[i] = z[i]/(2 + m^3 + m)", "z[i] = W[i,a] s(y[a])"),
            ["V"],
            "means that are taken off before a matrix",
        ),
    ],
)
def test_what_does_not_fit_is_refused(layer, asked, wanted):
    with pytest.raises(InputError, match=wanted):
        flow(Network("tanh", layer=layer), SIGNAL, 3, asked, draws=10)


@pytest.mark.parametrize("positions", [[4], [0, 0], [], [0.5], [(0, 1)]])
def test_positions_that_are_none_are_refused(positions):
    with pytest.raises(InputError, match="positions"):
        flow(Network("tanh", layer="convolution(2, 4)*"), SIGNAL, 2, "K", positions=positions)


@pytest.mark.parametrize(
    "layer", ["convolution(2, 4)*", "convolution(2, 4, stride=2, boundary=zero)"]
)
@pytest.mark.parametrize("sampler", ["lazy", "explicit"])
def test_simulate_has_the_bits_of_the_whole_table(layer, sampler):
    net = Network("tanh", "orthogonal", layer=layer, C_b=0.1, C_W=1.3)
    depth, numbers = (3, [3, 0]) if layer.endswith("*") else (2, [1])
    given = {"tensors": ["K", "G1", "V"], "sampler": sampler, "seed": 3}
    whole = simulate(net, SIGNAL, 5, depth, 12, **given)
    chosen = simulate(net, SIGNAL, 5, depth, 12, **given, positions=numbers)
    assert chosen["sample_2"].to_numpy().tolist() == numbers
    for name, values in chosen.items():
        axes = {axis: numbers for axis in values.dims if axis != "layer"}
        found, expected = values.to_numpy(), whole[name].isel(axes).to_numpy()
        if name.endswith("_floor"):
            assert (found <= expected).all()
        else:
            np.testing.assert_array_equal(found, expected)


def test_tables_are_compared_at_the_positions_that_both_have():
    net = Network("linear", layer="convolution(2, 4)*", C_b=0.1)
    theory = flow(net, SIGNAL, 2, ["K"])
    sampled = simulate(net, SIGNAL, 50, 2, 400, tensors="K", positions=[3, 1])
    whole = compare(theory, sampled)
    assert {row.indices for row in whole.rows} == {(1, 1), (1, 3), (3, 3)}
    part = compare(flow(net, SIGNAL, 2, ["K"], positions=[2, 3]), sampled)
    assert whole.agrees
    assert {row.indices for row in part.rows} == {(3, 3)}
    with pytest.raises(InputError, match="a position in common"):
        compare(flow(net, SIGNAL, 2, ["K"], positions=[0]), sampled)
    wrong = theory.assign(K=theory["K"].roll(sample_1=1, sample_2=1))
    assert not compare(wrong, sampled, degree=0).agrees


def test_a_stored_run_knows_its_positions(tmp_path):
    net = Network("linear", layer="convolution(2, 4)*")
    given = {"tensors": "K", "run": tmp_path / "run"}
    first = simulate(net, SIGNAL, 4, 2, 8, **given, positions=[1])
    assert first.identical(simulate(net, SIGNAL, 4, 2, 8, **given, positions=[1]))
    for positions in ([2], None):
        with pytest.raises(InputError, match="run"):
            simulate(net, SIGNAL, 4, 2, 8, **given, positions=positions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "positions"),
    [
        ("convolution(3, (8, 8))*; pooling((8, 8))", None),
        ("convolution(3, (8, 8))*", [(0, 1), (5, 5)]),
    ],
)
def test_v_of_an_image_is_that_of_an_ensemble(layer, positions):
    image = np.random.default_rng(2).normal(size=(8, 8, 3))
    net = Network("relu", layer=layer, C_b=0.1, C_W=1.5)
    theory = flow(net, image, 3, ["K", "V"], positions=positions, draws=20_000)
    assert "draws" not in theory.attrs
    sampled = [
        simulate(net, image, n, 3, draws, tensors=["K", "V"], positions=positions)
        for n, draws in [(8, 4000), (16, 2000)]
    ]
    scores = compare(theory, sampled)
    assert scores.agrees
    assert scores.resolution < 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer",
    [
        f"around({STANDARD}, norm=rms)*; pooling(4)",
        [*[convolved(3, 4, *OUTER, W2="1/3", W3="3/4")] * 2, "pooling(4)"],
    ],
)
def test_blocks_with_activations_before_both_matrices_meet_an_ensemble(layer):
    """No other road has their V: z' = γ z + W₂ σ(W₁ σ(y)) is kept by permutations alone."""
    net = Network("relu", layer=layer, C_b=0.1, C_W=1.5)
    theory = flow(net, SIGNAL, 4, ["K", "V"], draws=100_000)
    sizes = [(16, 12_000), (32, 8000), (64, 4000)]
    sampled = [simulate(net, SIGNAL, n, 4, draws) for n, draws in sizes]
    scores = compare(theory, sampled)
    assert scores.agrees
    assert scores.resolution < 0.7
