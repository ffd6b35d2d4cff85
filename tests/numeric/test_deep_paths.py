"""Paths of the Gram matrix: an equation without noise, closed moments, and networks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from derive import Exchangeable, InputError, Network, layers, recursion
from numeric import deep, flow

RELU, TANH = "z + max(0,z)/sqrt(n) - min(0,z)/sqrt(n)", "sqrt(n)*tanh(z/sqrt(n))"
START = np.array([[1.0, 0.5], [0.5, 1.0]])


def correlation(K):
    return K[:, 0, 1] / np.sqrt(K[:, 0, 0] * K[:, 1, 1])


def test_without_noise_it_is_the_logistic_equation():
    """dK/dr = 2K(1 − K), of each length: K = 1/(1 + (1/K_0 − 1) e^{−2r})."""
    made = recursion(["z", "z"], "orthogonal").diffusion(TANH)
    found = deep.paths(made, [[2.0, 0.3], [0.3, 0.5]], 1, 2, steps=100)
    lengths = np.diagonal(found.mean().value)
    exact = 1 / (1 + (1 / np.array([2.0, 0.5]) - 1) * np.exp(-2))
    np.testing.assert_allclose(lengths, exact, rtol=1e-4)
    assert np.all(np.abs(lengths - exact) < np.diagonal(found.mean().step_error))


@pytest.mark.slow
def test_second_moments_of_linear_networks_are_closed():
    """d⟨K_12²⟩ = ⟨K_11 K_22 + K_12²⟩ dr and d⟨K_11 K_22⟩ = 2⟨K_12²⟩ dr. Two scores of 4.5."""
    made = recursion(["z", "z"]).diffusion("z*(1 + 1/n)")
    exact = expm(np.array([[1.0, 1.0], [2.0, 0.0]]) / 8) @ [START[0, 1] ** 2, 1.0]
    closed = deep.moments(made, START, "1/8")
    pairs = ((0, 1), (0, 1)), ((0, 0), (1, 1))
    np.testing.assert_allclose([closed[each] for each in pairs], exact, rtol=1e-12)
    assert closed[(0, 1),] == pytest.approx(START[0, 1])
    found = deep.paths(made, START, "1/8", 4000, steps=32)
    for (one, other), value in zip(pairs, exact, strict=True):
        mean = found.mean(lambda K, one=one, other=other: K[:, *one] * K[:, *other])
        assert abs(mean.value - value) < 4.5 * mean.error + mean.step_error
        assert mean.error < 0.05 * value


@pytest.mark.slow
def test_three_inputs_have_the_closed_moments():
    """27 moments of first and second order: 4.5 scores, a false alarm in 5000."""
    made = recursion(["z", "z"]).diffusion("z*(1 + 1/n)")
    kernel = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 2.0]])
    closed = deep.moments(made, kernel, "1/8")
    found = deep.paths(made, kernel, "1/8", 4000, steps=32, seed=1)
    assert len(closed) == 27
    for key, value in closed.items():
        mean = found.mean(lambda K, key=key: np.prod([K[:, a, b] for a, b in key], axis=0))
        assert abs(mean.value - value) < 4.5 * mean.error


def test_products_of_matrices_of_finite_width():
    """E[K_ab K_cd]' = E[K_ab K_cd + (K_ac K_bd + K_ad K_bc)/n], exactly at each width and layer.

    Widths 64, 128 and 256 at r = 1/2 are extrapolated in 1/n to the moments of the limit.
    """
    kernel = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 2.0]])
    closed = deep.moments(recursion(["z", "z"]).diffusion("z*(1 + 1/n)"), kernel, "1/2")

    def exact(n):
        found = np.multiply.outer(kernel, kernel)
        for _ in range(n // 2):
            crossed = found.transpose(0, 2, 1, 3) + found.transpose(0, 2, 3, 1)
            found = found + crossed / n
        return found

    one, two, four = map(exact, (64, 128, 256))
    limit = (one - 6 * two + 8 * four) / 3
    for key, value in closed.items():
        if len(key) == 2:
            (a, b), (c, d) = key
            assert limit[a, b, c, d] == pytest.approx(value, rel=1e-4)


def test_moments_of_one_entry_are_log_normal():
    """⟨K_11^m⟩ = e^{m(m−1)sr/2} at s = 2, of linear networks; with Haar matrices nothing moves."""
    made = recursion(["z", "z"]).diffusion("z*(1 + 1/n)")
    closed = deep.moments(made, START, "1/2", 4)
    for m in (1, 2, 3, 4):
        assert closed[((0, 0),) * m] == pytest.approx(np.exp(m * (m - 1) / 2))
    haar = recursion(["z", "z"], "orthogonal").diffusion("z*(1 + 1/n)")
    assert deep.moments(haar, START, 1)[(0, 1), (0, 1)] == pytest.approx(0.25)
    with pytest.raises(InputError, match="linear in K"):
        deep.moments(recursion(["z", "z"]).diffusion(TANH), START, 1)


def test_moments_of_other_linear_drifts():
    """b = 2√2 K, with an irrational rate, and b = 1 − K, with a constant."""
    grown = deep.moments(recursion(["z", "z"]).diffusion("z*(1 + sqrt(2)/n)", 1), START, "1/2")
    assert grown[(0, 1),] == pytest.approx(START[0][1] * np.exp(np.sqrt(2)))
    rests = deep.moments(recursion(["z", "z"]).diffusion("z + 1/sqrt(n)"), START, "1/2", 1)
    assert rests[(0, 1),] == pytest.approx(1 + (START[0][1] - 1) * np.exp(-0.5))
    assert set(rests) == {((0, 0),), ((0, 1),), ((1, 1),)}


def test_geometric_brownian_motion_is_exact():
    """K of one input of a linear network, log K = −r + √2 W: steps of h and 2h give the same."""
    made = recursion(["z", "z"]).diffusion("z*(1 + 1/n)")
    found = deep.paths(made, [[2.0]], 1, 4000, steps=2, seed=1)
    assert found.strong_error < 1e-14
    logs = np.log(found.values[:, 0, 0] / 2)
    assert abs(logs.mean() + 1) < 4.5 * np.sqrt(2 / 4000)
    assert logs.var() == pytest.approx(2, rel=4.5 * np.sqrt(2 / 4000))


def test_volumes_shrink_by_wishart_factors():
    """⟨log det K⟩ = −m(m + 1)r/2 in linear networks, for each number of steps: 4.5 scores."""
    made = recursion(["z", "z"]).diffusion("z*(1 + 1/n)")
    for m in (2, 3):
        found = deep.paths(made, np.eye(m), "1/2", 1000, steps=2, seed=m)
        for K in (found.values, found.coarse):
            logs = np.linalg.slogdet(K)[1]
            assert abs(logs.mean() + m * (m + 1) / 4) < 4.5 * logs.std() / np.sqrt(len(logs))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [RELU, TANH])
def test_orders_of_the_steps(shape):
    """Strong 1/2: a factor of 2 from h to h/4. Weak 1: a factor of 4, of ⟨log K_11⟩ of tanh."""
    made = recursion(["z", "z"]).diffusion(shape)
    one, two = (deep.paths(made, START, 1, 4000, steps=k, seed=3) for k in (8, 32))
    few, many = (each.mean(correlation).step_error for each in (one, two))
    root = [np.std(correlation(each.values) - correlation(each.coarse)) for each in (one, two)]
    assert 1.5 < root[0] / root[1] < 2.7
    assert max(few, many) < 0.02
    if shape == TANH:
        logs = [each.mean(lambda K: np.log(K[:, 0, 0])).step_error for each in (one, two)]
        assert 2.5 < logs[0] / logs[1] < 8


def shaped(tokens=2, **given):
    return layers.attention(1, tokens, score="shaped", skip="1/2", C=(1, 1, "3/4", 1), **given)


@pytest.mark.slow
def test_shaped_attention_of_two_tokens():
    """b = γ² K_ab x²/16 with x = K_11 − 2 K_12 + K_22, and ⟨dK_11 dK_11⟩ by hand; γ² = 3/4."""
    made = recursion(["z", "z"], layer=shaped(weights={"V": "orthogonal"})).diffusion()
    drift, noise = made.functions()
    K = np.array([[2.0, 0.3], [0.3, 1.0]])
    x = K[0, 0] - 2 * K[0, 1] + K[1, 1]
    np.testing.assert_allclose(drift(K), 0.75 * K * x**2 / 16, rtol=1e-14)
    moved = K[0, 0] * (K[0, 0] - K[0, 1]) ** 2 * x / 4
    assert noise(K)[0, 0, 0, 0] == pytest.approx(15 / 8 * K[0, 0] ** 2 + 9 / 16 * moved)
    twice = np.kron(np.ones((2, 2)), K)  # two equal sequences: as one
    np.testing.assert_allclose(drift(twice), np.kron(np.ones((2, 2)), drift(K)), rtol=1e-14)
    assert noise(twice)[0, 2, 1, 3] == pytest.approx(noise(K)[0, 0, 1, 1])


@pytest.mark.slow
def test_shaped_weights_are_one_without_scores():
    """K' = K, for masked tokens too, and V of exchangeable tokens is that of three tokens."""
    causal = Network("linear", layer=shaped(3, mask="causal"))
    K = flow(causal, np.eye(3), 3, ["K"])["K"]
    np.testing.assert_allclose(K.sel(layer=3), np.eye(3) / 3, atol=1e-15)
    net = Network("linear", layer=shaped(3))
    tokens = np.linalg.cholesky(0.7 * np.eye(3) + 0.3) * np.sqrt(3)
    whole = flow(net, tokens, 3, ["V"])["V"].sel(layer=3).to_numpy()
    orbits = flow(net, Exchangeable(3, 1, 0.3), 3, ["V"])["V"].sel(layer=3)
    for at, orbit in (((0, 0, 0, 0), "(11)(11)"), ((0, 0, 1, 1), "(11)(22)")):
        assert whole[at] == pytest.approx(float(orbits.sel(orbit=orbit)))


@pytest.mark.slow
def test_a_shaped_transformer():
    """Shaped attention and a shaped MLP, two tokens: four means, 4.5 scores; stopped paths too."""
    mlp = layers.residual(skip="sqrt(7/8)", C=("1/8", 1))
    block = layers.sequence(
        layers.attention(1, 2, score="shaped", skip="sqrt(7/8)", C=(4, 2, "1/8", 1)), mlp
    )
    made = recursion(["z", "z"], layer=block).diffusion(RELU)
    inputs = np.sqrt(2) * np.array([[1.0, 0.0], [0.5, 0.8]])
    samples = deep.simulate(made.network(128), inputs, "1/4", 128, 400, seed=1)
    found = deep.paths(made, samples.start, "1/4", 2000, steps=32, seed=2)
    assert found.stopped < 0.01
    for f in (
        correlation,
        lambda K: correlation(K) ** 2,
        lambda K: np.log(K[:, 0, 0]),
        lambda K: np.log(np.linalg.det(K)),
    ):
        values, mean = f(samples.values), found.mean(f)
        error = np.hypot(values.std() / np.sqrt(len(values)), mean.error)
        assert abs(values.mean() - mean.value) < 4.5 * error + mean.step_error


@pytest.mark.slow
def test_attention_that_is_refused():
    causal = layers.attention(1, 2, score="shaped", skip="1/2", mask="causal")
    for layer, reason in (
        (layers.attention(1, 2), "keeps K = 1"),
        (layers.attention("n/4", 2, "1/sqrt(d)", "shaped"), "vanish as n grows"),
        (layers.attention(1, 2, score="shaped", tied=True), "tied keys"),
        (layers.sequence(shaped(), causal), "one attention"),
    ):
        with pytest.raises(InputError, match=reason):
            recursion(["z", "z"], layer=layer).diffusion()
    heads = layers.attention("H", 2, score="shaped", skip="1/2")
    with pytest.raises(InputError, match=r"numbers for \{H\}"):
        deep.paths(recursion(["z", "z"], layer=heads).diffusion(), START, 1)
    made = recursion(["z", "z"], layer=shaped()).diffusion()
    with pytest.raises(InputError, match="sequences of 2 tokens"):
        deep.paths(made, np.eye(3), 1)
    with pytest.raises(InputError, match="linear in K"):
        deep.moments(made, START, 1)


SHAPES = [
    ("sqrt(n)*sin(z/sqrt(n))", "dense"),
    ("sqrt(n)*erf(z/sqrt(n))*sqrt(pi)/2", "dense"),
    ("sqrt(n)*tanh(z/sqrt(n)) + z**2/(4*sqrt(n))", "dense"),
    ("sqrt(n)*atan(z/sqrt(n))", "dense"),
    ("z*(1 + 1/(2*sqrt(n))) + max(0,z)/sqrt(n)", "dense"),
    ("z - max(0,z)/sqrt(n)", "dense"),
    (TANH, "residual(skip=1/2)"),
    (RELU, "residual(skip=1/2)"),
    (TANH, "skip(1/2)"),
    (RELU, "skip(1/2)"),
]


def bounded(K):
    """Two means without heavy tails."""
    return np.stack([correlation(K), K[:, 0, 0] / (1 + K[:, 0, 0])], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "layer"), SHAPES)
def test_shapes_and_layers(shape, layer):
    """Networks of 24 and 72 neurons, extrapolated, at r = 1/2: 20 scores of 4.5 in all."""
    made = recursion(["z", "z"], layer=layer).diffusion(shape)
    inputs = np.sqrt(2) * np.array([[1.0, 0.0], [0.5, 0.8]])
    small, large = (
        deep.simulate(made.network(n), inputs, "1/2", n, 2000, seed=n) for n in (24, 72)
    )
    start = (3 * large.start - small.start) / 2  # C_W, of layer 1 too, depends on n
    found = deep.paths(made, start, "1/2", 4000, steps=16, seed=2).mean(bounded)
    one, two = bounded(small.values), bounded(large.values)
    error = np.sqrt((one.var(axis=0) + 9 * two.var(axis=0)) / 4 / len(one) + found.error**2)
    limit = (3 * two.mean(axis=0) - one.mean(axis=0)) / 2
    assert np.all(np.abs(limit - found.value) < 4.5 * error + found.step_error / 2)
    assert np.all(error < 0.025)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        ("normalized(rms)", "sets all lengths"),
        ("gated", "keeps K = 1"),
        ("batchnorm(eps=1)", "sets K anew"),
        ("dropout(3/4)", "masks"),
        ("convolution(2, 3)", "average K over positions"),
        ("residual(skip=1/2, activations=gelu)", "the network's activation alone"),
        ("residual(skip=1, norm=rms)", "keeps K = 1"),
    ],
)
def test_layers_without_such_an_equation(layer, reason):
    with pytest.raises(InputError, match=reason):
        recursion(["z", "z"], layer=layer).diffusion(TANH)


def test_what_is_refused():
    made = recursion(["z", "z"]).diffusion(TANH)
    for given, reason in (
        ({"diffusion": recursion(["z", "z"]).diffusion()}, "of an activation"),
        ({"diffusion": recursion("K").single_input().diffusion("relu")}, "two inputs"),
        ({"kernel": np.ones((2, 2))}, "positive definite"),
        ({"kernel": [1.0, 2.0]}, "positive definite"),
        ({"steps": 3}, "even"),
    ):
        with pytest.raises(InputError, match=reason):
            deep.paths(**{"diffusion": made, "kernel": START, "ratio": 1} | given)
