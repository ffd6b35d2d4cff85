"""Convolutions inside blocks: skips, norms, dropout and readouts, by identities and ensembles."""

from __future__ import annotations

import numpy as np
import pytest

from derive import Gaussian, InputError, Network, Orthogonal, layers
from numeric import compare, flow, simulate, training

SIGNAL = np.random.default_rng(7).normal(size=(3, 4))
FIRST = ["K", "G1", "V"]
BLOCK = "sequence(convolution({}, activations=linear), convolution({}))"
RESIDUAL = f"around({BLOCK.format('3, 3', '2, 3')}, skip=1/2, norm=rms)"


def network(layer, activation="tanh", weights=None, **others):
    """With Gaussian weights in layer 1."""
    given = {"C_b": 0.1, "first_weights": Gaussian(1.2), **others}
    return Network(activation, weights or Gaussian(1.5), layer=layer, **given)


def tables(layers_, x, depth, names, **others):
    """The values of a flow under each of these layers."""
    found = [flow(network(layer, **others), x, depth, names) for layer in layers_]
    return [{name: table[name].values for name in names} for table in found]


def test_one_tap_in_a_block_is_the_dense_layer() -> None:
    names = ["V", "Theta"]
    dense = "around(sequence(dense(activations=linear), dense), skip=1/2, norm=rms)"
    tap = f"around({BLOCK.format('1, 3', '3, 3, weights=delta')}, skip=1/2, norm=rms)"
    found, expected = tables([tap, dense], SIGNAL, 3, names, weights=Orthogonal(1.5))
    for name in names:
        assert (found[name] == expected[name]).all()


@pytest.mark.parametrize("norm", ["None", "rms", "layer"])
def test_a_constant_signal_meets_the_sum_of_gaussian_matrices(norm: str) -> None:
    """At every position its tensors are those of one vector in the block of dense layers."""
    x = np.array([1.0, -0.3, 0.5, 0.2])
    dense = f"around(sequence(dense(activations=linear), dense), skip=1/2, norm={norm})"
    taps = f"around({BLOCK.format('2, 2', '2, 2')}, skip=1/2, norm={norm})"
    found = flow(network(taps), [x, x], 3, ["K", "V", "Theta"])
    one = flow(network(dense), x, 3, ["K", "V", "Theta"])
    for name in ("K", "V", "Theta"):
        values = found[name].values.reshape(3, -1)
        expected = np.broadcast_to(one[name].values[:, None], values.shape)
        np.testing.assert_allclose(values, expected, rtol=1e-9)


def test_a_shift_of_the_signal_shifts_all_tensors() -> None:
    shifted, plain = (
        flow(network(RESIDUAL), x, 3, FIRST) for x in (np.roll(SIGNAL, 1, axis=0), SIGNAL)
    )
    for name in FIRST:
        rank = plain[name].ndim
        expected = np.roll(plain[name].values, (1,) * (rank - 1), tuple(range(1, rank)))
        np.testing.assert_allclose(shifted[name].values, expected, rtol=1e-9, atol=1e-12)
    assert np.abs(shifted.K.values - plain.K.values)[2].max() > 1e-3


@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)], ids=str)
def test_two_convolutions_in_a_row_are_a_network_of_twice_the_depth(weights) -> None:
    pair = "sequence(convolution(2, 3), convolution(3, 3, boundary=zero))"
    apart = "(convolution(2, 3); convolution(3, 3, boundary=zero))*"
    found = flow(network(pair, weights=weights), SIGNAL, 2, FIRST)
    expected = flow(network(apart, weights=weights), SIGNAL, 3, FIRST)
    for name in FIRST:
        np.testing.assert_allclose(found[name].values[1], expected[name].values[2], rtol=1e-9)


@pytest.mark.parametrize("readout", ["mean", "flatten"])
def test_the_last_layer_reads_blocks_out(readout: str) -> None:
    """Of a linear σ the readout is C_b + C_W times a mean over K of the layer below."""
    blocks = f"{RESIDUAL}*; convolution(2, 3, readout={readout})"
    found = flow(network(blocks, "linear"), SIGNAL, 4, ["K", "V"])
    inside = flow(network(RESIDUAL, "linear"), SIGNAL, 3, ["K"]).K.values[2]
    mean = inside.mean() if readout == "mean" else inside.diagonal().mean()
    assert found.K.values[3] == pytest.approx(0.1 + 1.5 * mean, rel=1e-12)
    assert found.V.dims == ("layer",)
    assert str(layers.by_depth(block=RESIDUAL, head=blocks.split("; ")[1])) == blocks


def test_a_readout_behind_a_sequence_reads_its_last_layer() -> None:
    pair = "sequence(convolution(2, 3), convolution(3, 3, readout=mean))"
    apart = "convolution(2, 3)*; convolution(3, 3, readout=mean)"
    found = flow(network(pair), SIGNAL, 2, FIRST)
    expected = flow(network(apart), SIGNAL, 3, FIRST)
    for name in FIRST:
        np.testing.assert_allclose(found[name].values[1], expected[name].values[2], rtol=1e-9)


def test_a_readout_behind_a_stride_reads_the_positions_that_it_gives() -> None:
    pair = "sequence(convolution(3, 8, stride=2), convolution(3, 4, readout=mean))"
    signal = np.linspace(-1.0, 2.0, 16).reshape(8, 2)
    found = flow(network(pair), signal, 2, ["K", "V"])
    apart = network("convolution(3, 8, stride=2); pooling(4)")
    expected = flow(apart, signal, 3, ["K", "V"])
    for name in ("K", "V"):
        np.testing.assert_allclose(found[name][-1], expected[name][-1], rtol=1e-9)
    with pytest.raises(InputError, match="keeps a signal's positions"):
        flow(network(pair), signal, 3, ["K"])


def test_dropout_stands_beside_convolutions() -> None:
    """K of a position with itself has 1/p of the dropped layer's ⟨σσ⟩, between two it has none."""
    pair, plain = (
        flow(network(f"sequence(convolution(2, 3), {last})"), SIGNAL, 2, ["K"]).K.values[1] - 0.1
        for last in ("dropout(1/2)", "dense")
    )
    np.testing.assert_allclose(pair, plain * (1 + np.eye(3)), rtol=1e-12)


def test_laws_and_activations_of_a_blocks_own_are_those_of_the_network() -> None:
    own = "law=orthogonal, activations=gelu"
    bound = f"sequence(convolution(2, 3, {own}), convolution(3, 3, norm=rms, {own}))"
    plain = "sequence(convolution(2, 3), convolution(3, 3, norm=rms))"
    (found,) = tables([bound], SIGNAL, 2, ["K", "V"])
    (expected,) = tables([plain], SIGNAL, 2, ["K", "V"], activation="gelu", weights=Orthogonal(1.5))
    (other,) = tables([plain], SIGNAL, 2, ["K", "V"], activation="gelu")
    for name in ("K", "V"):
        np.testing.assert_allclose(found[name][1], expected[name][1], rtol=1e-9, atol=1e-12)
    assert np.abs(found["V"][1] - other["V"][1]).max() > 1e-2


ENSEMBLES = [
    (RESIDUAL, Orthogonal(1.5)),
    (f"sequence({RESIDUAL}, convolution(2, 3, norm=rms, readout=mean))", Gaussian(1.5)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "weights"), ENSEMBLES, ids=["residual", "readout"])
def test_ensembles_meet_the_flow(layer: str, weights) -> None:
    """Allowed are errors that occur in one run of 10⁴ with as many comparisons (`compare`)."""
    net, names = network(layer, weights=weights), ["K", "G1", "V", "Theta"]
    sampled = [simulate(net, SIGNAL, n, 2, 1500, tensors=names, seed=2) for n in (8, 16, 32)]
    assert compare(flow(net, SIGNAL, 2, names), sampled).agrees


ONE = "around(convolution({}), skip=1/2{})"
"""A skip past one convolution: only permutations keep its law."""
TOWER = [*FIRST, "Theta", "D", "F", "A", "B"]


def test_one_tap_beside_a_skip_is_the_layer_of_one_matrix() -> None:
    found, expected = tables([ONE.format("1, 2", ""), "skip(1/2)"], SIGNAL[:2], 3, TOWER)
    for name in TOWER:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["", ", norm=rms"])
def test_a_constant_signal_beside_a_skip(norm: str) -> None:
    """Σ_k W^{(k)}/√s is Gaussian: at all positions its tensors are those of one vector."""
    x, names = np.array([1.0, -0.3, 0.5, 0.2]), FIRST if norm else TOWER
    found = flow(network(ONE.format("2, 2", norm)), [x, x], 3, names)
    one = flow(network(f"skip(1/2{norm})"), x, 3, names)
    for name in names:
        values = found[name].values.reshape(3, -1)
        expected = np.broadcast_to(one[name].values[:, None], values.shape)
        np.testing.assert_allclose(values, expected, rtol=1e-7, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "norm"), [("2, 2", ", norm=rms"), ("3, 3, boundary=zero", "")], ids=["normed", "zero"]
)
def test_explicit_matrices_meet_a_skip_past_one_convolution(size: str, norm: str) -> None:
    """Without a norm they tell a filter from a matrix at each position by itself."""
    net, names = network(ONE.format(size, norm)), FIRST
    x = SIGNAL[: net.layer.input_axes[0]]
    sampled = [
        simulate(net, x, n, 3, 600, tensors=names, seed=1, sampler="explicit") for n in (8, 16, 32)
    ]
    theory = flow(net, x, 3, names)
    assert compare(theory, sampled).agrees
    alone = flow(network(ONE.format(f"{size}, weights=delta", norm)), x, 3, names)
    assert norm or not compare(alone.assign_attrs(theory.attrs), sampled).agrees


def test_what_a_skip_past_one_convolution_has_not() -> None:
    read = network(f"{ONE.format('2, 3', '')}*; convolution(2, 3, readout=mean)")
    assert flow(read, SIGNAL, 3, ["K", "Theta"]).K.dims == ("layer",)
    with pytest.raises(InputError, match="K and Theta alone, with a readout"):
        flow(read, SIGNAL, 3, ["V"])


@pytest.mark.slow
def test_a_pair_of_convolutions_is_trained_like_a_network_of_twice_the_depth() -> None:
    pair = "sequence(convolution(2, 2), convolution(2, 2, readout=mean))"
    apart = "convolution(2, 2)*; convolution(2, 2, readout=mean)"
    x, y = [SIGNAL[:2]], [[0.3]]
    given = {"eta": 0.05, "steps": [0, 3]}
    found = training.flow(network(pair), x, y, depth=2, **given)
    expected = training.flow(network(apart), x, y, depth=3, **given)
    for name in ("prediction", "prediction1", "covariance", "covariance1"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-7, atol=1e-9)


def test_gradients_of_a_block_are_differences_of_its_outputs() -> None:
    """A step of descent from two networks lowers the loss by η |∇L|², to first order."""
    net = network(f"{RESIDUAL}*; convolution(2, 3, readout=mean)")
    given = {"width": 6, "depth": 3, "draws": 4, "seed": 4, "optimizer": "ordinary"}
    losses = [
        training.simulate(net, [SIGNAL], [[0.3]], eta=eta, steps=[0, 1], **given).loss.values
        for eta in (1e-5, 2e-5)
    ]
    drops = [each[0] - each[1] for each in losses]
    assert drops[0] > 0
    assert drops[1] == pytest.approx(2 * drops[0], rel=1e-2)
