"""Layers of signals by other roads: fractions, larger signals, relabelled graphs, subsampling."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from derive import Gaussian, InputError, Network, Orthogonal, activations, layers
from numeric import compare, flow, simulate, training

RNG = np.random.default_rng(19)
SIGNAL = RNG.normal(size=(4, 3))
IMAGE = RNG.normal(size=(2, 2, 3))
FIRST = ["K", "G1", "V"]
PROJECTED = "around(convolution(2, 4, stride=2), norm=rms, projected=True)"
STRIDED = "convolution(2, 4, stride=2)"
POOLED = "convolution(2, 4); pooling(4, 2)"
LAST = "convolution(2, 4, readout=mean)"
RATES = {"lambda_b": 0.7, "lambda_W": 1.3}


def network(layer, activation="tanh", weights=None, **others):
    """With Gaussian weights in layer 1."""
    given = {"C_b": 0.1, "first_weights": Gaussian(1.2), **RATES, **others}
    return Network(activation, weights or Gaussian(1.5), layer=layer, **given)


def last(layer, x, depth, names, **others):
    """The tensors of the last layer."""
    table = flow(network(layer, **others), x, depth, names)
    return [table[name].values[-1] for name in names]


def assert_same(found, wanted, **tolerances) -> None:
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, **{"rtol": 1e-9, "atol": 1e-13} | tolerances)


def shifts(size: int, P: int) -> list[np.ndarray]:
    """The matrices of a circular convolution."""
    return [np.roll(np.eye(P), k, axis=1) for k in range(-((size - 1) // 2), size // 2 + 1)]


@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)], ids=str)
def test_a_mix_of_shifts_is_a_convolution(weights) -> None:
    names = [*FIRST, "Theta"]
    found = last(layers.mix(*shifts(2, 3)), SIGNAL[:3], 3, names, weights=weights)
    wanted = last("convolution(2, 3)", SIGNAL[:3], 3, names, weights=weights)
    assert_same(found, wanted)


@cache
def wick(K: tuple[tuple[Fraction, ...], ...], places: tuple[int, ...]) -> Fraction:
    """E Π z of Gaussian z, by pairings."""
    if not places:
        return Fraction(1)
    first, *rest = places
    return sum(
        (K[first][b] * wick(K, (*rest[:k], *rest[k + 1 :])) for k, b in enumerate(rest)),
        Fraction(0),
    )


def test_squares_in_fractions() -> None:
    """K and V behind Σ_k W^k A^k z² of z with a Gaussian law, and a skip that reads other places
    than the taps: its V is C_W² mean_{kk'} AAAA Cov(z²z², z²z²), for C_b = 0."""
    x = np.array([[1.0, 0.5], [-0.5, 1.0], [0.25, 2.0]])
    A = [np.array([[1, 0.5, 0], [0, 0, -2]]), np.array([[0, 0.25, 1], [1, 0, 0]])]
    square = activations.polynomial([0, 0, 1])
    net = Network(square, Gaussian(1.5), Gaussian(1), C_b=0, layer=[layers.mix(*A)])
    table = flow(net, x, 2, ["K", "V"])
    assert table.layer.values.tolist() == [2]
    K = tuple(tuple(Fraction(v) for v in row) for row in (x @ x.T / 2).tolist())
    rows = [[[Fraction(v) for v in row] for row in each.tolist()] for each in A]
    C, s = Fraction(3, 2), len(A)

    def read(at, of):
        """Σ_{k…} ΠA of what is between positions, one k for each pair of results."""
        total = Fraction(0)
        for ks in product(range(s), repeat=len(at) // 2):
            for places in product(range(3), repeat=len(at)):
                weight = Fraction(1)
                for place, (t, p) in enumerate(zip(at, places, strict=True)):
                    weight *= rows[ks[place // 2]][t][p]
                total += weight * of(places) if weight else 0
        return total * (C / s) ** (len(at) // 2)

    def covariance(places):
        p, q, r, t = ((each, each) for each in places)
        return wick(K, (*p, *q, *r, *t)) - wick(K, (*p, *q)) * wick(K, (*r, *t))

    for at in product(range(2), repeat=2):
        exact = read(at, lambda places: wick(K, (*places, *places)))
        assert float(table.K.values[0][at]) == pytest.approx(float(exact), rel=1e-12)
    for at in [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 1)]:
        assert float(table.V.values[0][at]) == pytest.approx(float(read(at, covariance)), rel=1e-11)


@pytest.mark.parametrize("norm", ["None", "rms"])
def test_padding_is_a_larger_signal_with_zeros(norm: str) -> None:
    """Of σ(0) = 0: one layer at the middle of a signal of zeros elsewhere, without biases."""
    x = SIGNAL[:3]
    wide = np.zeros((5, 3))
    wide[1:4] = x
    given = {"C_b": 0, "activation": "tanh"}
    eps = "" if norm == "None" else ", norm=rms, eps=1/10"
    zero = last(f"convolution(3, 3, boundary=zero{eps})", x, 2, ["K", "V", "Theta"], **given)
    circular = last(f"convolution(3, 5{eps})", wide, 2, ["K", "V", "Theta"], **given)
    middle = slice(1, 4)
    assert_same(zero[:2], [each[(middle,) * each.ndim] for each in circular[:2]])
    valid = last(f"convolution(3, 5, padding=0{eps})", wide, 2, ["K", "V", "Theta"], **given)
    assert_same(valid, [each[(middle,) * each.ndim] for each in circular])


@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)], ids=str)
def test_a_stride_takes_every_other_position(weights) -> None:
    names = [*FIRST, "Theta", "D", "F", "A", "B"]
    tail = "convolution(2, 4, boundary=zero{})"
    wanted = last([tail.format("")] * 2, SIGNAL, 3, names, weights=weights)
    found = last([tail.format(""), tail.format(", stride=2")], SIGNAL, 3, names, weights=weights)
    assert_same(found, [each[(slice(None, None, 2),) * each.ndim] for each in wanted])
    spread = last([tail.format(", dilation=2")], SIGNAL, 2, ["K"])[0]
    A = [np.eye(4), np.eye(4, k=2)]
    assert_same([spread], last([layers.mix(*A)], SIGNAL, 2, ["K"]))


BLOCK = "sequence(convolution(2, 4, activations=linear{}), convolution(2, {}))"


@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)], ids=str)
@pytest.mark.parametrize("norm", ["", ", norm=rms"])
def test_a_skip_follows_the_stride(weights, norm: str) -> None:
    """Where the second filter of a block has one position, the stride may be taken before it."""
    names = [*FIRST, "Theta"]
    block = f"around({BLOCK}, skip=1/2{norm})"
    found, wanted = (
        last([block.format(*each)], SIGNAL, 2, names, weights=weights)
        for each in ((", stride=2", "2, weights=delta"), ("", "4, weights=delta"))
    )
    assert_same(found, [each[(slice(None, None, 2),) * each.ndim] for each in wanted])


def test_a_matrix_on_the_skip_is_another_tap() -> None:
    """Of a linear σ: γ W_s z + W z is a convolution of two taps, one of them read at the skip."""
    made = layers.around("convolution(1, 3)", skip=1, projected=True)
    assert layers.read(str(made)) == made
    names = ["K", "V", "Theta"]
    given = {"activation": "linear", "C_b": 0, "lambda_b": 0}
    found = last(made, SIGNAL[:3], 2, names, **given)
    both = layers.mix(np.eye(3) * 2**0.5, np.eye(3) * 2**0.5)
    assert_same(found, last(both, SIGNAL[:3], 2, names, **given))


def test_images_of_one_row_are_signals() -> None:
    names = [*FIRST, "Theta"]
    long = "convolution({}, {}, boundary=zero, stride={}, padding={}, dilation={})"
    found = last([long.format("(1, 2)", "(1, 4)", "(1, 2)", "(0, 1)", 1)], SIGNAL[None], 2, names)
    assert_same(found, last([long.format(2, 4, 2, 1, 1)], SIGNAL, 2, names))


def test_images_are_read_along_both_axes() -> None:
    """σ linear: K' = mean_k A K Aᵀ by sums over an image padded by hand."""
    x = RNG.normal(size=(3, 3, 2))
    table = flow(network(["convolution(2, (3, 3), boundary=zero)"], "linear"), x, 2, ["K"])
    assert table.inputs.dims == ("position_1", "position_2", "input")
    wide = np.zeros((4, 4, 2))
    wide[:3, :3] = x
    K = np.zeros((9, 9))
    for at in product(range(2), repeat=2):
        window = tuple(slice(start, start + 3) for start in at)
        rows = wide[window].reshape(9, 2)
        inside = np.zeros((4, 4))
        inside[:3, :3] = 1.0
        there = inside[window].reshape(9)
        K += 1.5 / 4 * (1.2 * rows @ rows.T / 2 + 0.1 * np.outer(there, there))
    np.testing.assert_allclose(table.K.values[1], K + 0.1, rtol=1e-12)


def test_pooling_by_windows_and_as_the_last_layer() -> None:
    """Windows of all positions are global pooling, which is readout=mean at the last layer."""
    names = [*FIRST, "Theta"]
    wanted = last("convolution(2, 4, readout=mean)", SIGNAL, 3, names)
    found = flow(network("convolution(2, 4)*; pooling(4)"), SIGNAL, 3, names)
    assert found.V.dims == ("layer",)
    assert_same([found[name].values[-1] for name in names], wanted)
    halves = last("convolution(2, 4); pooling(4, 2)", SIGNAL, 3, names)
    assert halves[0].shape == (2, 2)
    A = np.kron(np.eye(2), np.full((1, 2), 0.5))
    assert_same(halves, last(["convolution(2, 4)", layers.mix(A)], SIGNAL, 3, names))


@pytest.mark.parametrize("last_layer", ["pooling(2)", "flattening(2)"])
def test_pooling_behind_a_skip_past_one_matrix_is_the_mean_of_a_dense_layer(last_layer) -> None:
    """Its z is the mean of the dense layer's, and so are its tensors; flattening has the taps of a
    filter at one position."""
    names = ["V", "Theta"]
    blocks = "around(convolution(2, 2), skip=1/2)*; "
    found = last(blocks + last_layer, SIGNAL[:2], 3, names, activation="gelu")
    if last_layer == "pooling(2)":
        wanted = last(blocks + "dense", SIGNAL[:2], 3, names, activation="gelu")
        assert_same(found, [each.mean() for each in wanted])
    else:
        wanted = last(blocks + "convolution(2, 2)", SIGNAL[:2], 3, names, activation="gelu")
        assert_same(found, [each.flat[0] for each in wanted])


def test_a_permuted_graph_permutes_the_tensors() -> None:
    graph = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    order = [2, 0, 1]
    x = SIGNAL[:3]

    def block(A):
        mixed = layers.mix(A, normalization="symmetric")
        return layers.around(mixed, norm="rms", projected=True)

    wanted = last(block(graph), x, 3, FIRST)
    found = last(block(graph[np.ix_(order, order)]), x[order], 3, FIRST)
    assert_same(found, [each[np.ix_(*(order,) * each.ndim)] for each in wanted])
    symmetric = graph + np.eye(3)
    d = symmetric.sum(axis=1) ** -0.5
    made = [layers.mix(graph, normalization="symmetric"), layers.mix(symmetric * np.outer(d, d))]
    assert_same(*(last(each, x, 2, ["K"]) for each in made))


NETWORKS = {
    "stride": "convolution(2, 4); convolution(2, 4, boundary=zero, stride=2); pooling(2); dense",
    "graph": [layers.mix(np.tri(4) - 0.3, np.eye(4)), layers.mix(np.ones((2, 4)) / 3)],
}


@pytest.mark.parametrize("name", NETWORKS)
def test_explicit_matrices_meet_the_flow(name: str) -> None:
    """Allowed are errors that occur in one run of 10⁴ with as many comparisons (`compare`)."""
    net = network(NETWORKS[name])
    depth, names = net.layer.depth, ["K", "V", "Theta"]
    sampled = [
        simulate(net, SIGNAL, n, depth, 500, tensors=names, seed=3, sampler="explicit")
        for n in (8, 16, 32)
    ]
    found = flow(net, SIGNAL, depth, names)
    assert found.layer.values.tolist() == sampled[0].layer.values.tolist()
    assert compare(found, sampled).agrees


def test_gradients_are_differences_of_the_loss() -> None:
    """A step of descent lowers it by η |∇L|², to first order, and training.flow starts there."""
    net = network(f"around({BLOCK.format(', stride=2', 2)}, norm=rms, projected=True); pooling(2)")
    given = {"width": 6, "depth": 3, "draws": 4, "seed": 4, "optimizer": "ordinary"}
    losses = [
        training.simulate(net, [SIGNAL], [[0.3]], eta=eta, steps=[0, 1], **given).loss.values
        for eta in (1e-5, 2e-5)
    ]
    drops = [each[0] - each[1] for each in losses]
    assert drops[0] > 0
    assert drops[1] == pytest.approx(2 * drops[0], rel=1e-2)


def test_a_precision_has_the_weights_of_a_graph() -> None:
    net = network([layers.mix(np.tri(3) / 3)] * 2)
    table, balls = (
        flow(net, SIGNAL[:3], 3, ["K", "V"], **given) for given in ({}, {"precision": 16})
    )
    for name in ("K", "V"):
        np.testing.assert_allclose(balls[name].values.astype(float), table[name].values, rtol=1e-9)


def test_training_flow_has_the_positions_of_the_last_layer() -> None:
    """In the infinite width its kernel is Theta of the last layer."""
    net = network("convolution(2, 4); pooling(4)")
    eta, y = 0.05, 0.3
    table = training.flow(net, [SIGNAL], [[y]], depth=3, eta=eta, steps=[0, 1])
    (theta,) = last("convolution(2, 4); pooling(4)", SIGNAL, 3, ["Theta"])
    step = table.prediction.values[1].ravel()[0] - table.prediction.values[0].ravel()[0]
    assert step == pytest.approx(eta * float(theta) * y, rel=1e-9)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: layers.convolution(3, (8, 8), stride=(1, 2, 3)), "stride"),
        (lambda: layers.convolution((3, 9), (8, 8)), "size"),
        (lambda: layers.convolution(3, 8, stride=0), "stride"),
        (lambda: layers.convolution(3, 8, padding=-1), "padding"),
        (lambda: layers.convolution(5, 8, padding=0, dilation=2), "size"),
        (lambda: layers.convolution(3, 8, stride=2, readout="mean"), "readout"),
        (lambda: layers.convolution(3, ()), "positions"),
        (lambda: layers.pooling(8, 9), "size"),
        (lambda: layers.pooling(8, stride=2), "stride"),
        (layers.mix, "A"),
        (lambda: layers.mix(np.eye(3), np.eye(2)), "A"),
        (lambda: layers.mix([[0, np.nan], [1, 0]]), "A"),
        (lambda: layers.mix(np.eye(2), normalization="max"), "normalization"),
        (lambda: layers.mix(np.ones((2, 3)), normalization="mean"), "A"),
        (lambda: layers.mix(-np.eye(2), normalization="mean"), "A"),
        (lambda: layers.around("dense", projected=1), "projected"),
        (lambda: layers.around(layers.mix(np.ones((2, 3)))), "layer"),
        (lambda: flow(network("pooling(4)"), SIGNAL, 3, ["K"]), "layer"),
        (lambda: flow(network(POOLED, "relu", C_b=0), 0 * SIGNAL, 3, ["Theta"]), "inputs"),
        (lambda: simulate(network(POOLED, C_b=0), 1e-160 * SIGNAL, 8, 3, 9, tensors="K"), "net"),
        (lambda: flow(network("pooling(4, 2)*; dense"), SIGNAL, 3, ["K"]), "layer"),
        (lambda: flow(network(f"around(convolution(2, 4)); {LAST}"), SIGNAL, 3, ["V"]), "tensors"),
        (
            lambda: training.flow(network("dense; pooling(4)"), [SIGNAL], [[1]], depth=2, eta=1),
            "depth",
        ),
    ],
)
def test_what_is_no_signal_is_refused(call, name: str) -> None:
    with pytest.raises(InputError, match=f"^{name}: "):
        call()


@pytest.mark.parametrize("boundary", ["circular", "zero"])
def test_delta_orthogonal_images_have_a_dense_layer_at_each_pixel(boundary: str) -> None:
    names = [*FIRST, "Theta"]
    layer = f"convolution(2, (2, 2), weights=delta, boundary={boundary})"
    found = last(layer, IMAGE, 3, names, weights=Orthogonal(1.5))
    assert_same(found, last("dense", IMAGE.reshape(4, 3), 3, names, weights=Orthogonal(1.5)))


def grouped(count: int, norm: str) -> layers.Layer:
    """A norm over groups of neurons, the groups as positions: each pair has its own matrix."""
    units = np.sqrt(count) * np.eye(count**2).reshape(-1, count, count)
    return layers.around(layers.mix(*units), 0, norm)


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_norm_over_groups_of_neurons(norm: str) -> None:
    """With n neurons of `count` groups, G1 is in units of count/n. V of any two neurons is one
    number, whether they share a group or not. One group is the norm over all neurons."""
    x, plain = SIGNAL[0], {"C_b": 0, "activation": "tanh"}
    one = last(layers.normalized(norm), x, 3, FIRST, **plain)
    for count in (1, 3):
        signal = np.sqrt(count) * np.kron(np.eye(count), x)
        K, G1, V = last(grouped(count, norm), signal, 3, FIRST, **plain)
        assert_same([K, G1], [each * np.eye(count) for each in one[:2]])
        index = np.arange(count)
        pairs = count * V[index[:, None], index[:, None], index, index]
        assert_same([pairs], [np.full((count, count), one[2])])


def test_a_norm_over_groups_by_its_definition() -> None:
    """Of ReLU each σ(y) has a mean square over its group that fluctuates as on a sphere."""
    C_W, fourth, second = 1.5, Fraction(3, 2), Fraction(1, 2)
    (V,) = last(grouped(2, "rms"), np.sqrt(2) * np.eye(2), 2, ["V"], C_b=0, activation="relu")
    wanted = C_W**2 * float(fourth - second**2 - Fraction(1, 2) * (3 * second - second) ** 2)
    assert_same([2 * V[0, 0, 1, 1], 2 * V[0, 0, 0, 0]], [wanted, wanted])
