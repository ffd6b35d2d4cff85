"""Control variates of the vertex: nothing but noise is taken out, at any width."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from scipy import stats

from derive import InputError, activations, exact
from derive.network import Network
from derive.recursions import wanted
from derive.weights import Gaussian, LowRankGaussian, Orthogonal, Truncated
from numeric import simulate
from numeric.estimators import plan_of
from numeric.runs import Sharing
from numeric.samplers import InnovationSampler, ProbeSampler, checked_ensemble, innovations
from numeric.simulations import make_sampler

X = np.array([[1.0, -0.5, 2.0, 0.25], [0.5, 1.0, 1.5, -1.0], [1.0, 1.0, 0.5, 0.5]])
RELU = activations.relu


def sampler_of(net, inputs, width, depth, tensors="V"):
    ensemble = checked_ensemble(net, inputs, width, depth, 7)
    plan = plan_of(wanted(tensors, net, depth), ensemble.data.measured)
    return make_sampler(ensemble, plan, "innovations")


@pytest.mark.parametrize(
    "net",
    [
        Network(RELU, Gaussian(2)),
        Network(RELU, Orthogonal(2), width_ratio=lambda ell: 1 + ell % 2),
        Network(activations.leaky_relu(sympy.Rational(1, 2)), Truncated(1, ratio=2)),
        Network(activations.erf_unit_slope, Orthogonal(2), first_weights=Gaussian(1), C_b=1),
    ],
    ids=["Gaussian", "blocks", "truncated", "biases"],
)
def test_narrow_networks_have_the_same_vertex(net):
    """At n = 6 what a linear theory leaves out is large, and must be there: K and V of ensembles
    that share no draw, 3 + 21 components in layers 1 to 4."""
    plain, controlled = (
        simulate(net, X, 6, 4, draws, tensors=["K", "V"], sampler=sampler, seed=seed)
        for sampler, draws, seed in (("lazy", 12_000, 3), ("innovations", 4000, 5))
    )
    for name in ("K", "V"):
        difference = (controlled[name] - plain[name]).to_numpy()
        error = np.hypot(controlled[f"{name}_se"], plain[f"{name}_se"]).to_numpy()
        moves = error > 1e-12
        assert abs(difference[~moves]).max(initial=0) < 1e-10
        assert abs(difference[moves] / error[moves]).max() < 4.8  # 96 numbers, 1.5e-4


@pytest.mark.parametrize("weights", [Gaussian(2), Orthogonal(2)], ids=str)
def test_one_input_meets_the_exact_vertex_with_less_noise(weights):
    """ReLU at n = 100, layers 2 to 5; of the same draws without controls the error is three times
    as large and more."""
    net, n, x = Network(RELU, weights), 100, X[0]
    plain, controlled = (
        simulate(net, x, n, 5, 2000, tensors=["K", "V"], sampler=sampler, seed=1)
        for sampler in ("lazy", "innovations")
    )
    np.testing.assert_allclose(controlled["K"], plain["K"], rtol=1e-12)  # the same networks
    K = 2 * float(x @ x) / x.size
    expected = [K**2 * float(exact.vertex(net, layer, n, x.size)) for layer in range(2, 6)]
    z = (controlled["V"][1:] - expected) / controlled["V_se"][1:]
    assert abs(z).max() < 4.5
    assert (controlled["V_se"][1:] < plain["V_se"][1:] / 2.5).all()


def test_the_error_is_that_of_repeated_ensembles():
    net = Network(RELU, Orthogonal(2))
    tables = [
        simulate(net, X[:2], 12, 4, 256, tensors="V", sampler="innovations", seed=seed)
        for seed in range(60)
    ]
    at = {"layer": -1, "sample_1": 0, "sample_2": 1, "sample_3": 0, "sample_4": 1}
    values, errors = (np.array([t[name].isel(at) for t in tables]) for name in ("V", "V_se"))
    assert 0.7 < values.std(ddof=1) / np.sqrt(np.mean(errors**2)) < 1.4  # ± 10 %


def test_inputs_may_repeat_and_vanish():
    inputs = np.array([X[0], 2 * X[0], np.zeros(4)])
    table = simulate(
        Network(RELU, Gaussian(2)), inputs, 20, 3, 200, tensors="V", sampler="innovations"
    )
    V = table["V"].to_numpy()
    assert np.isfinite(V).all()
    np.testing.assert_allclose(V[:, 1, 1, 1, 1], 16 * V[:, 0, 0, 0, 0], rtol=1e-6)
    assert abs(V[:, 2]).max() < 1e-90


def test_six_points_are_as_without():
    net, x = Network(RELU, Gaussian(2)), X[0]
    plain, controlled = (
        simulate(net, x, 12, 3, 500, tensors=["U6"], sampler=sampler)
        for sampler in ("lazy", "innovations")
    )
    z = (controlled["U6"] - plain["U6"]) / plain["U6_se"]
    assert abs(z[1:]).max() < 4


@pytest.mark.parametrize(
    ("net", "tensors"),
    [
        (Network(activations.tanh, Gaussian(1)), "V"),
        (Network(RELU, LowRankGaussian(2, gamma=sympy.Rational(1, 2))), "V"),
        (Network(RELU, Gaussian(2)), "Theta"),
        (Network(RELU, Gaussian(2), layer="residual(skip=1)"), "V"),
    ],
    ids=["no closed form", "low rank", "tower", "layer"],
)
def test_where_it_does_not_apply_it_is_refused(net, tensors):
    with pytest.raises(InputError, match="sampler"):
        simulate(net, X, 8, 3, 10, tensors=tensors, sampler="innovations")


def test_slopes_are_those_of_the_averages():
    averages = innovations._averages(RELU)
    K = np.cov(np.random.default_rng(0).standard_normal((3, 9)))
    pairs, step = innovations._pairs(3), 1e-6
    for q, (a, b) in enumerate(pairs):
        moved = np.zeros((3, 3))
        moved[a, b] = moved[b, a] = step
        found = (averages((K + moved)[None]) - averages((K - moved)[None]))[0] / (2 * step)
        np.testing.assert_allclose(found, averages.slopes(K)[:, q], atol=1e-8)


FOUR = np.vstack([X, [0.25, 2.0, -0.5, 0.75]])


@pytest.mark.parametrize("weights", [Gaussian(2), Orthogonal(2)], ids=str)
def test_the_bits_are_the_seeds(weights):
    """Whatever draws are taken down together: a thread's stripe of them, or one alone."""
    sampler = sampler_of(Network(RELU, weights, C_b=0.5), FOUR, 30, 3)
    reference = sampler.reference
    alone = sampler.sums(0, 101, reference)
    for threads in (3, 5, 16):
        assert (sampler.sums(0, 101, reference, Sharing(threads=threads)) == alone).all()
    together = sampler.statistics(np.arange(9))
    for draw in range(9):
        assert (sampler.statistics(np.arange(draw, draw + 1))[0] == together[draw]).all()


REPEATED = np.array([X[0], 2 * X[0], X[1]])
ZERO = np.array([X[0], np.zeros(4), X[2]])
MEANS = [
    (Network(RELU, Gaussian(2)), REPEATED),
    (Network(RELU, Gaussian(2), C_b=1), ZERO),
    (Network(activations.erf_unit_slope, Orthogonal(2)), X),
    (Network(activations.sin, Gaussian(1), C_b=1), ZERO),
]
MORE_MEANS = [
    (Network(RELU, Orthogonal(2)), REPEATED),
    (Network(RELU, Orthogonal(2), C_b=1), ZERO),
    (Network(RELU, Gaussian(2), C_b=1), REPEATED),
    (Network(activations.erf_unit_slope, Gaussian(2), C_b=1), REPEATED),
    (Network(activations.gelu, Gaussian(2), C_b=1), ZERO),
    (Network(activations.gelu, Orthogonal(1), C_b=1), REPEATED),
    (Network(activations.sin, Gaussian(1)), X),
    (Network(activations.sin, Truncated(1, ratio=2), C_b=1), ZERO),
    (Network(activations.polynomial([0, 1, sympy.Rational(1, 8)]), Gaussian(1)), REPEATED),
    (Network(activations.polynomial([0, 1, sympy.Rational(1, 8)]), Orthogonal(1)), X),
]


def check_means(net, inputs, width, draws):
    """z-scores of what is taken out, of the same networks, against 0: of two sides 1e-4, divided
    by their number."""
    sampler = sampler_of(net, inputs, width, 4)
    plain = ProbeSampler(sampler.ensemble, sampler.plan, sampler.probes)
    numbers = np.arange(draws)
    taken = plain.statistics(numbers) - sampler.statistics(numbers)
    mean, error = taken.mean(axis=0), taken.std(axis=0, ddof=1) / np.sqrt(draws)
    size = abs(plain.statistics(numbers[:16])).max()
    moves = error > 1e-13 * size
    assert moves[1:].any(axis=1).all()
    assert abs(mean[~moves]).max(initial=0) < 1e-11 * size
    z = mean[moves] / error[moves]
    assert abs(z).max() < stats.norm.isf(0.5e-4 / z.size)


@pytest.mark.parametrize(("net", "inputs"), MEANS)
def test_what_is_taken_out_has_mean_zero(net, inputs):
    """Repeated inputs, zero ones with biases, and σ other than ReLU, at n = 6."""
    check_means(net, inputs, 6, 4000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "inputs", "width"),
    [(*each, 24) for each in MEANS] + [(*each, 6) for each in MORE_MEANS],
)
def test_what_is_taken_out_has_mean_zero_in_many_draws(net, inputs, width):
    """Those above at n = 24; others at n = 6."""
    check_means(net, inputs, width, 30_000)


def test_memory_counts_what_is_held():
    """W of a small block of a large matrix, and matrices on pairs: a batch holds no more numbers
    than are allowed."""
    wide = sampler_of(Network(RELU, Truncated(1, ratio=200)), X, 100, 2)
    assert wide.numbers >= 3 * 200 * 100
    assert wide.batch * wide.numbers <= innovations._ROOM
    many = sampler_of(
        Network(RELU, Gaussian(2)), np.random.default_rng(1).normal(size=(12, 4)), 6, 2, "K"
    )
    assert many.numbers >= 2 * (12 * 13 // 2) ** 2
    assert isinstance(many, InnovationSampler)


def test_controls_are_as_many_as_products():
    """Of m inputs some m⁴/8 components of V with a few products each: not pairs² of each."""
    sampler = sampler_of(
        Network(RELU, Gaussian(2)), np.random.default_rng(1).normal(size=(5, 4)), 6, 2
    )
    terms, coefficients = sampler._controlled
    assert coefficients.shape == (2, len(terms))
    assert len(terms) < 12 * len(sampler.plan.statistics)
