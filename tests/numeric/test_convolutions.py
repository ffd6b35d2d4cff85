"""Convolutions run and sampled: against the dense layer, and sums and small networks by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from derive import Gaussian, InputError, Network, Orthogonal, layers
from numeric import compare, flow, simulate
from numeric.layers import Reader

RNG = np.random.default_rng(7)
SIGNAL = RNG.normal(size=(3, 4))
TWO = RNG.normal(size=(2, 2, 3))
FIRST = ["K", "G1", "V"]


def network(layer, activation="tanh", weights=None, **others):
    """With Gaussian weights in layer 1."""
    given = {"C_b": 0.1, "first_weights": Gaussian(1.2), **others}
    return Network(activation, weights or Orthogonal(1.5), layer=layer, **given)


@pytest.mark.parametrize("layer", ["convolution(1, 3)", "convolution(3, 3, weights=delta)"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_one_tap_has_the_bits_of_the_dense_layer(layer: str, activation: str) -> None:
    tensors = [*FIRST, "Theta", "D", "F", "A", "B"]
    found = flow(network(layer, activation), SIGNAL, 4, tensors)
    dense = flow(network("dense", activation), SIGNAL, 4, tensors)
    for name in tensors:
        assert (found[name].values == dense[name].values).all()
    sampled = simulate(network(layer, activation), SIGNAL, 8, 3, 20, tensors=FIRST)
    as_dense = simulate(network("dense", activation), SIGNAL, 8, 3, 20, tensors=FIRST)
    for name in FIRST:
        assert (sampled[name].values == as_dense[name].values).all()


NORMED = "convolution(2, 3, norm=rms)"


@pytest.mark.parametrize(
    ("layer", "dense"),
    [
        ("convolution(2, 3)", "dense"),
        ("convolution(3, 3)", "dense"),
        (NORMED, "normalized(rms)"),
    ],
)
@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_constant_signal_stays_constant(layer: str, dense: str, weights, activation: str) -> None:
    """Its tensors are those of the sum of `size` matrices: dense ones for Gaussian weights, and
    all that Haar matrices add to V divided by size, where G1 is linear in it."""
    size = int(layer[12])
    x = np.array([1.0, -0.3, 0.5, 0.2])
    found = flow(network(layer, activation, weights), [x] * 3, 2, ["K", "V"])
    one = [
        flow(network(dense, activation, each), x, 2, ["K", "V"])
        for each in (Gaussian(1.5), weights)
    ]
    K, V = found.K.values.reshape(2, -1), found.V.values.reshape(2, -1)
    np.testing.assert_allclose(K, np.broadcast_to(one[0].K.values[:, None], K.shape), rtol=1e-10)
    expected = one[0].V.values[1] + (one[1].V.values[1] - one[0].V.values[1]) / size
    np.testing.assert_allclose(V[1], expected, rtol=1e-9)


def reads(position: int, positions: int, size: int, boundary: str) -> list[int | None]:
    """The positions that the taps read, None outside, by hand."""
    left = (size - 1) // 2
    places = range(position - left, position - left + size)
    if boundary == "circular":
        return [place % positions for place in places]
    return [place if 0 <= place < positions else None for place in places]


@pytest.mark.parametrize("boundary", ["circular", "zero"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_taps_read_what_they_say(boundary: str, size: int) -> None:
    values = RNG.normal(size=(2, 8))  # an axis of two signals of four positions
    reader = Reader(layers.convolution(size, 4, boundary=boundary).tapped[0][1], 2)
    for tap in range(size):
        found = reader.read(tap, values, 1)
        for alpha, p in product(range(2), range(4)):
            place = reads(p, 4, size, boundary)[tap]
            expected = 0.0 if place is None else values[:, 4 * alpha + place] / size**0.5
            np.testing.assert_allclose(found[:, 4 * alpha + p], expected, rtol=1e-15)
    pooled = Reader(layers.pooling(4).tapped[0][1], 2).read(0, values, 1)
    np.testing.assert_allclose(pooled, values.reshape(2, 2, 4).mean(-1), rtol=1e-15)
    flat = Reader(layers.flattening(4).tapped[0][1], 2)
    np.testing.assert_allclose(flat.read(1, values, 1), values[:, 1::4] / 2, rtol=1e-15)


def test_a_readout_is_no_layer_to_repeat() -> None:
    """Alone it makes one position of several, and another layer of it finds none."""
    with pytest.raises(InputError, match="keeps a signal's positions"):
        flow(network("pooling(4)"), SIGNAL[[0, 1, 2, 0]], 3, ["K"])
    with pytest.raises(InputError, match="keeps a signal's positions"):
        simulate(network("flattening(3)"), SIGNAL, 8, 3, 20, tensors=["K"])


def linear_vertex(K, taps, C, n, haar):
    """n κ of z² in a linear network with z¹ ~ N(0, K) and no biases: exact at every n.

    E over the weights by E[O_{1a} O_{1b} O_{2c} O_{2d}] over O(n), K by Wick; K is a function.
    """
    total = Fraction(0)
    for k, other in product(taps, repeat=2):
        (a, b, c, d) = (k[0], k[1], other[2], other[3])
        if None in (a, b, c, d):
            continue
        moved = [K[a][b] * K[c][d], K[a][c] * K[b][d], K[a][d] * K[b][c]]

        def g(i, moved=moved):  # E[(y·y)(y·y)] of channels' inner products
            return n * n * moved[i] + n * (sum(moved) - moved[i])

        if haar and k is other:
            together = ((n + 1) * g(0) - g(1) - g(2)) / Fraction((n - 1) * n * (n + 2))
        else:
            together = g(0) / Fraction(n * n)
        total += C * C * (together - moved[0]) / len(taps) ** 2
    return n * total


@pytest.mark.parametrize("boundary", ["circular", "zero"])
@pytest.mark.parametrize("weights", [Gaussian, Orthogonal])
@pytest.mark.parametrize("size", [2, 3])
def test_linear_networks_are_met_at_every_width(boundary: str, weights, size: int) -> None:
    C = Fraction(3, 2)
    layer = layers.convolution(size, 3, boundary=boundary)
    net = network(layer, "linear", weights(C_W=1.5), C_b=0, first_weights=Gaussian(1))
    K0 = SIGNAL @ SIGNAL.T / 4
    K = [[Fraction(value) for value in row] for row in K0.tolist()]
    V = flow(net, SIGNAL, 2, ["V"]).V.values[1]
    n = 4
    table = simulate(net, SIGNAL, n, 2, 6000, tensors=["V"], seed=3)
    z = (table.V.values[1], table.V_se.values[1])
    worst = 0.0
    for place in product(range(3), repeat=4):
        taps = list(zip(*(reads(p, 3, size, boundary) for p in place), strict=True))
        haar = weights is Orthogonal
        limit = linear_vertex(K, taps, C, 10**9, haar)
        np.testing.assert_allclose(V[place], float(limit), rtol=2e-8, atol=1e-9)
        exact = float(linear_vertex(K, taps, C, n, haar))
        if z[1][place] > 0:
            worst = max(worst, abs(z[0][place] - exact) / z[1][place])
    assert worst < 5


def by_hand(rng, x, size, boundary, width, depth, draws, C_b, C_W):
    """Networks of convolutions with tanh, position by position: z at the last layer."""
    P, n_0 = x.shape
    z = np.einsum("dij,pj->dpi", rng.normal(size=(draws, width, n_0)) * (1.2 / n_0) ** 0.5, x)
    z = z + C_b**0.5 * rng.normal(size=(draws, 1, width))
    for _ in range(depth - 1):
        W = rng.normal(size=(size, draws, width, width)) * (C_W / (size * width)) ** 0.5
        after = np.zeros_like(z)
        for p in range(P):
            for k, place in enumerate(reads(p, P, size, boundary)):
                if place is not None:
                    after[:, p] += np.einsum("dij,dj->di", W[k], np.tanh(z[:, place]))
        z = after + C_b**0.5 * rng.normal(size=(draws, 1, width))
    return z


@pytest.mark.parametrize("boundary", ["circular", "zero"])
def test_the_metric_of_small_networks_by_hand(boundary: str) -> None:
    draws, width = 4000, 5
    net = network(layers.convolution(2, 3, boundary=boundary), "tanh", Gaussian(1.5))
    table = simulate(net, SIGNAL, width, 3, draws, tensors=["K"], seed=5)
    rng = np.random.default_rng(11)
    z = by_hand(rng, SIGNAL, 2, boundary, width, 3, draws, 0.1, 1.5)
    metric = np.einsum("dpi,dqi->dpq", z, z) / width
    se = np.hypot(metric.std(axis=0) / draws**0.5, table.K_se.values[2])
    assert np.abs((metric.mean(axis=0) - table.K.values[2]) / se).max() < 5


@pytest.mark.slow
def test_the_tangent_kernel_of_two_layers_by_hand() -> None:
    """H = λ_b + λ_W/(sn) Σ_k σσ + Σ_{k,k'} Σ_a W^k_ia W^k'_ia σ' σ' (λ_b + λ_W x·x/n_0)/s."""
    size, width, draws, C, C_b = 2, 4, 4000, 1.5, 0.1
    rates = {"lambda_b": 0.7, "lambda_W": 1.3}
    net = network(layers.convolution(size, 3), "tanh", Gaussian(C), **rates)
    table = simulate(net, SIGNAL, width, 2, draws, tensors=["Theta"], seed=8)
    rng = np.random.default_rng(12)
    z = by_hand(rng, SIGNAL, size, "circular", width, 1, draws, C_b, C)
    W = rng.normal(size=(draws, size, width)) * (C / width) ** 0.5
    H0 = 0.7 + 1.3 * SIGNAL @ SIGNAL.T / 4
    s, ds = np.tanh(z), 1 - np.tanh(z) ** 2
    H = np.full((draws, 3, 3), 0.7)
    for p, q in product(range(3), repeat=2):
        at, to = reads(p, 3, size, "circular"), reads(q, 3, size, "circular")
        for k, m in product(range(size), repeat=2):
            pair = W[:, k] * W[:, m] * ds[:, at[k]] * ds[:, to[m]]
            H[:, p, q] += pair.sum(-1) * H0[at[k], to[m]] / size
            if k == m:
                H[:, p, q] += 1.3 * (s[:, at[k]] * s[:, to[k]]).mean(-1) / size
    se = np.hypot(H.std(axis=0) / draws**0.5, table.Theta_se.values[1])
    assert np.abs((H.mean(axis=0) - table.Theta.values[1]) / se).max() < 5


ENSEMBLES = [
    ("tanh", Orthogonal(1.5), "convolution(2, 2)"),
    ("relu", Gaussian(1.5), "convolution(3, 3, boundary=zero)"),
    ("tanh", Gaussian(1.5), "convolution(2, 2, readout=mean)"),
    ("relu", Orthogonal(1.5), "convolution(2, 3, readout=flatten)"),
]


def ensembles(activation, weights, layer, tensors, widths, draws):
    net = network(layer, activation, weights)
    signals = np.random.default_rng(3).normal(size=(*net.layer.input_axes, 4))
    flowed = flow(net, signals, 4, tensors)
    sampled = [simulate(net, signals, n, 4, draws, tensors=tensors, seed=n) for n in widths]
    return compare(flowed, sampled)


@pytest.mark.parametrize(("activation", "weights", "layer"), ENSEMBLES)
def test_ensembles_meet_the_recursions(activation, weights, layer) -> None:
    found = ensembles(activation, weights, layer, FIRST, (16, 32), 6000)
    assert found.agrees, found.worst
    V = [row for row in found.rows if row.tensor == "V" and row.layer == 3]
    assert max(row.share for row in V) < 0.7


@pytest.mark.slow
def test_ensembles_meet_kinks_behind_a_mean_that_is_subtracted() -> None:
    given = "relu", Gaussian(1.5), "convolution(2, 2, norm=layer)"
    found = ensembles(*given, [*FIRST, "Theta"], (16, 32, 64), 6000)
    assert found.agrees, found.worst
    V = [row for row in found.rows if row.tensor == "V" and row.layer == 3]
    assert max(row.share for row in V) < 0.7


@pytest.mark.slow
def test_ensembles_resolve_V() -> None:
    found = ensembles(*ENSEMBLES[1], FIRST, (16, 32, 64), 80_000)
    assert found.agrees, found.worst
    V = [row for row in found.rows if row.tensor == "V" and row.layer > 1]
    largest = max(abs(row.theory) for row in V)
    assert max(row.se for row in V) < 0.022 * largest


@pytest.mark.slow
@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
def test_the_tower_of_signals_is_met(weights) -> None:
    tensors = ["Theta", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U"]
    found = ensembles("tanh", weights, "convolution(2, 2)", tensors, (12, 24, 48), 5_000)
    assert found.agrees, found.worst


@pytest.mark.parametrize("layer", ["convolution(2, 2)", "convolution(3, 3, readout=mean)"])
def test_explicit_matrices_agree_with_lazy_ones(layer: str) -> None:
    net = network(layer)
    signals = SIGNAL[: net.layer.input_axes[0]]
    pair = [
        simulate(net, signals, 6, 3, 500, tensors=["V", "Theta"], seed=4, sampler=name)
        for name in ("lazy", "explicit")
    ]
    for name in ("V", "Theta"):
        values, errors = ([each[f"{name}{end}"].values for each in pair] for end in ("", "_se"))
        se = np.hypot(*errors)
        z = np.divide(values[0] - values[1], se, out=np.zeros_like(se), where=se > 0)
        assert np.abs(z).max() < 5


def test_several_signals_and_one() -> None:
    both = flow(network("convolution(2, 2)"), TWO, 3, ["K", "V"])
    assert both.K.shape == (3, 4, 4)
    assert both.inputs.dims == ("signal", "position", "input")
    first = flow(network("convolution(2, 2)"), TWO[0], 3, ["K", "V"])
    np.testing.assert_allclose(both.K.values[:, :2, :2], first.K.values, rtol=1e-12)
    np.testing.assert_allclose(both.V.values[:, :2, :2, :2, :2], first.V.values, rtol=1e-9)


@pytest.mark.parametrize("readout", ["mean", "flatten"])
@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
def test_a_readout_of_one_position_is_a_dense_layer(readout: str, weights) -> None:
    x = np.array([[1.0, -0.3, 0.5, 0.2]])
    net = network(f"convolution(1, 1, readout={readout})", "tanh", weights)
    found, dense = flow(net, x, 4, FIRST), flow(network("dense", "tanh", weights), x[0], 4, FIRST)
    for name in FIRST:
        np.testing.assert_allclose(found[name].values, dense[name].values, rtol=1e-12)
    assert found.V.dims == ("layer",)


def test_a_readout_is_the_layer_behind_the_convolutions() -> None:
    """K of layer 3 is C_b + C_W mean ⟨σσ⟩ at the convolutions' layer 2; ReLU has the mean of all
    pairs of positions for pooling, of equal ones for flattening, and layer 1 reads the inputs."""
    tables = {
        readout: flow(network(f"convolution(2, 3, readout={readout})", "linear"), SIGNAL, 3, ["K"])
        for readout in ("mean", "flatten")
    }
    inside = flow(network("convolution(2, 3)", "linear"), SIGNAL, 2, ["K"]).K.values[1]
    assert tables["mean"].K.values[2] == pytest.approx(0.1 + 1.5 * inside.mean(), rel=1e-12)
    trace = inside.diagonal().mean()
    assert tables["flatten"].K.values[2] == pytest.approx(0.1 + 1.5 * trace, rel=1e-12)
    pooled = SIGNAL.mean(axis=0)
    at_inputs = 0.1 + 1.2 * (pooled @ pooled) / 4
    assert tables["mean"].K.values[0] == pytest.approx(at_inputs, rel=1e-12)
    flat = 0.1 + 1.2 * (SIGNAL**2).sum() / 12
    assert tables["flatten"].K.values[0] == pytest.approx(flat, rel=1e-12)


@pytest.mark.parametrize(
    "inputs",
    [
        np.ones(3),
        np.ones((4, 2)),
        np.ones((2, 4, 2)),
        np.ones((2, 3, 0)),
        np.ones((1, 2, 3, 4)),
        [[np.nan] * 2] * 3,
    ],
    ids=str,
)
def test_signals_of_other_shapes_are_refused(inputs) -> None:
    net = network("convolution(2, 3)")
    for call in (lambda: flow(net, inputs, 2), lambda: simulate(net, inputs, 4, 2, 10)):
        with pytest.raises(InputError, match=r"^inputs: "):
            call()


def test_signals_are_for_convolutions() -> None:
    with pytest.raises(InputError, match=r"^inputs: "):
        flow(network("dense"), TWO, 2)


def test_what_is_the_dense_layers_is_refused() -> None:
    net = network("convolution(2, 3)")
    with pytest.raises(InputError, match="sampler"):
        simulate(net, SIGNAL, 4, 2, 10, sampler="paths")


def test_widths_may_differ() -> None:
    """An ensemble of them agrees, and tells them from equal ones."""
    ratio = [1, 2, 1]
    net = network("convolution(2, 3)", width_ratio=ratio)
    made = [simulate(net, SIGNAL, n, 3, 4000, tensors=["K", "V"], seed=2) for n in (8, 16, 32)]
    wanted = ["K", "V"]
    theory = flow(net, SIGNAL, 3, wanted, width=32)
    assert compare(theory, made).agrees
    equal = flow(network("convolution(2, 3)"), SIGNAL, 3, wanted)
    assert not compare(equal.assign_attrs(theory.attrs), made).agrees


@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
def test_a_mean_that_is_taken_off_leaves_leading_tensors(weights) -> None:
    """Over the channels it is of order n^{-1/2}: K and Θ are those of norm=rms."""
    x = RNG.normal(size=(3, 4))
    first, second = (
        flow(network(f"convolution(2, 3, norm={norm})", "gelu", weights), x, 3, ["K", "Theta"])
        for norm in ("rms", "layer")
    )
    for name in ("K", "Theta"):
        np.testing.assert_allclose(second[name].values, first[name].values, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("weights", [Gaussian(1.2), Orthogonal(1.2)])
def test_ensembles_of_normed_signals(norm: str, weights) -> None:
    """z-scores of 78 comparisons; without the corrections of taps that coincide V was off by 6."""
    net = network(f"convolution(2, 3, norm={norm})", "gelu", weights)
    x, wanted = RNG.normal(size=(3, 3)), ["K", "V", "Theta"]
    sampled = [simulate(net, x, n, 3, 4000, tensors=wanted, seed=1) for n in (24, 48, 96)]
    assert compare(flow(net, x, 3, wanted), sampled).agrees


def test_what_a_norm_beside_taps_is_not_there_for() -> None:
    with pytest.raises(InputError, match="eps"):
        layers.convolution(2, 3, norm="rms", eps=-1)
    text = "convolution(2, 3, norm=rms, eps=1/10)"
    assert str(layers.read(text)) == text
