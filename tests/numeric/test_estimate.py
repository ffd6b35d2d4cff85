"""Estimators: unbiased exactly, by running through every outcome; errors against repetition."""

from __future__ import annotations

import tracemalloc
from itertools import product
from math import factorial, prod

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from pairing_estimator import moments_of_samples

from derive.errors import InputError
from derive.groups import coset_type, loops, pair_partitions, set_partitions
from derive.recursions import wanted
from derive.weights import Gaussian, Orthogonal
from numeric.estimators import Plan, Probes, components, moments, sums, unbiased
from numeric.samplers.base import evaluated_once

NAMES = {1: "K", 2: "V", 3: "U6"}


def averaged(ensemble, n_in, n_out, C_b):
    """The reading of one layer."""
    return sums.Reading(((ensemble, n_in, n_out),), ((C_b, 0.0, 0.0),))


READING = averaged(Orthogonal(sympy.Rational(3, 2)), 3, 4, 0.25)
POPULATION = np.array(
    [[[1.0, 0.2], [0.2, 2.0]], [[0.5, -0.3], [-0.3, 1.0]], [[3.0, 1.0], [1.0, 0.7]]]
)


def measured(matrices, how, pairs):
    """The statistics of one layer whose Gram matrices are given, one per draw."""
    draws, m, _ = matrices.shape
    plan = Plan(wanted(NAMES[pairs]), m)
    structure, coefficients = sums.compiled_layers(plan, how, Probes())
    factors = np.ascontiguousarray(matrices.reshape(draws, -1))
    return plan, evaluated_once((structure, coefficients[0]), factors)


def recorded(matrices, how, pairs, reference=None):
    """The record of one layer whose Gram matrices are given."""
    plan, X = measured(matrices, how, pairs)
    reference = X[0] if reference is None else reference
    totals = np.zeros((moments.BLOCKS, 1, len(plan.products)))
    products = reference[None], *plan.chain
    moments.accumulate(X[None], np.arange(len(X)) % moments.BLOCKS, products, totals)
    return moments.Record(plan, reference[None], totals, len(X))


def cumulants(matrices, how, pairs, reference=None):
    """The estimate of one layer's K, V or U6."""
    record = recorded(matrices, how, pairs, reference)
    return unbiased.cumulant(record, record.plan.targets[0])


@pytest.mark.parametrize(("layers", "count"), [(300, 60), (1, 9000)])
def test_products_of_many_layers_or_draws_are_added_some_at_a_time(layers, count):
    """By definition, for draws of every third block; all products at once would be 3 MB or more."""
    plan, rng = Plan(wanted(["K", "V", "U6"]), 2), np.random.default_rng(0)
    blocks = np.arange(1, 3 * count, 3) % moments.BLOCKS
    X = rng.standard_normal((layers, count, len(plan.statistics)))
    expected = np.zeros((moments.BLOCKS, layers, len(plan.products)))
    for places, k in plan.products.items():
        deviations = np.prod(X[..., list(places)] - X[:, :1, list(places)], axis=-1)
        np.add.at(expected[:, :, k], blocks, deviations.T)
    found = np.zeros_like(expected)
    tracemalloc.start()
    try:
        moments.accumulate(X, blocks, (X[:, 0], *plan.chain), found)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def weights_moment(labels, S, how):
    """M_p for one Gram matrix, by the definition: pairs of p are biases or weights."""
    total = 0.0
    width, C_b = how.widths.item(), how.C_b.item()
    for biased in product([False, True], repeat=len(labels)):
        flat = [
            a for pair, is_bias in zip(labels, biased, strict=True) if not is_bias for a in pair
        ]
        p = tuple((2 * k, 2 * k + 1) for k in range(len(flat) // 2))
        for q in pair_partitions(len(flat)):
            C = how.coefficient(coset_type(p, q)).item()
            total += C_b ** sum(biased) * C * prod(width * S[flat[a], flat[b]] for a, b in q)
    return total


def exact_cumulant(matrices, labels, how):
    """The joint cumulant's coefficient over a population of equally likely Gram matrices."""
    total = 0.0
    for partition in set_partitions(range(len(labels))):
        means = [
            np.mean([weights_moment([labels[k] for k in block], S, how) for S in matrices])
            for block in partition
        ]
        total += (-1) ** (len(means) - 1) * factorial(len(means) - 1) * prod(means)
    return total


@pytest.mark.parametrize(("m", "pairs", "draws"), [(2, 1, 2), (2, 2, 3), (1, 2, 4), (1, 3, 4)])
def test_the_average_over_all_outcomes_is_exact(m, pairs, draws):
    """E[estimate] = cumulant, over every sequence of draws from three Gram matrices."""
    population = POPULATION[:, :m, :m]
    estimates = [
        cumulants(population[list(outcome)], READING, pairs).value
        for outcome in product(range(3), repeat=draws)
    ]
    mean = np.mean(estimates, axis=0)[0]
    for place in np.ndindex(mean.shape):
        labels = list(zip(place[::2], place[1::2], strict=True))
        expected = exact_cumulant(population, labels, READING)
        assert mean[place] == pytest.approx(expected, rel=1e-11, abs=1e-11)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2))
def test_the_reference_does_not_matter(seed, pairs):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((7, 2, 5))
    matrices = z @ z.transpose(0, 2, 1)
    first = cumulants(matrices, READING, pairs)
    plan, _ = measured(matrices, READING, pairs)
    second = cumulants(matrices, READING, pairs, rng.standard_normal(len(plan.statistics)))
    np.testing.assert_allclose(first.value, second.value, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(first.error, second.error, rtol=1e-6, atol=1e-6)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_tensors_have_their_symmetries(seed):
    z = np.random.default_rng(seed).standard_normal((5, 3, 4))
    V = cumulants(z @ z.transpose(0, 2, 1), READING, 2).value[0]
    for axes in ((1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)):
        np.testing.assert_array_equal(V, V.transpose(axes))


def test_what_does_not_fluctuate_has_no_error():
    found = cumulants(POPULATION[[0] * 9], READING, 2)
    assert not found.error.any()
    assert found.value[0, 0, 0, 1, 1] == pytest.approx(
        exact_cumulant(POPULATION[:1], [(0, 0), (1, 1)], READING), rel=1e-13
    )


@pytest.mark.parametrize("draws", [2, 9, 256])
def test_the_error_of_a_mean_is_the_textbooks(draws):
    """Blocks of one draw: the jackknife is s/√N exactly."""
    how = averaged(Gaussian(1), 3, 4, 0.0)
    S = np.random.default_rng(draws).standard_exponential((draws, 1, 1))
    found = cumulants(S, how, 1)
    assert found.value.item() == pytest.approx(S.mean(), rel=1e-13)
    assert found.error.item() == pytest.approx(S.std(ddof=1) / np.sqrt(draws), rel=1e-12)


@pytest.mark.parametrize("draws", [40, 300])
def test_errors_are_the_spread_of_repetitions(draws):
    """Of 400 ensembles; blocks of unequal size in the second case. Ratio of variances at z < 5."""
    how = averaged(Gaussian(1), 5, 5, 0.1)
    rng = np.random.default_rng(8)
    found = [cumulants(rng.gamma(10, 0.1, (draws, 1, 1)), how, 2) for _ in range(400)]
    values = np.array([one.value.item() for one in found])
    squares = np.array([one.error.item() for one in found]) ** 2
    ratio = squares.mean() / values.var(ddof=1)
    centred = (values - values.mean()) ** 2
    error = np.hypot(centred.std() / centred.mean(), squares.std() / squares.mean()) / np.sqrt(400)
    # The jackknife's variance is high by a part of order 1/draws.
    assert -5 * error < ratio - 1 < 5 * error + 5 / draws


def test_too_few_draws():
    for pairs in (1, 2, 3):
        record = recorded(POPULATION[[0] * pairs, :1, :1], READING, pairs)
        with pytest.raises(InputError, match="draws"):
            unbiased.cumulant(record, record.plan.targets[0])


@pytest.mark.parametrize(("k", "n"), [(1, 1), (2, 2), (2, 5), (3, 3), (3, 4)])
def test_the_pairing_estimator_contracts_and_inverts(k, n):
    """Against the definition: contract z…z with every pairing, solve with the matrix n^loops."""
    z = np.random.default_rng(k + n).standard_normal((4, 2, n))
    pairings = pair_partitions(2 * k)
    gram_matrix = np.array([[float(n) ** loops(p, q) for q in pairings] for p in pairings])
    found = moments_of_samples(z, k)
    for draw, labels in product(range(4), product(range(2), repeat=2 * k)):
        contracted = [prod(z[draw, labels[a]] @ z[draw, labels[b]] for a, b in q) for q in pairings]
        p_first = np.linalg.solve(gram_matrix, contracted)[0]
        assert found[(draw, *labels)] == pytest.approx(p_first, rel=1e-9, abs=1e-9)


def test_the_pairing_estimator_is_unbiased_for_normal_samples():
    """E z z z z = Σ_p δ_p K K for z ~ N(0, K): 3 + 6 + 10 classes at z < 5."""
    K = np.array([[1.0, 0.4], [0.4, 2.0]])
    rng = np.random.default_rng(4)
    z = np.einsum("ab,dbi->dai", np.linalg.cholesky(K), rng.standard_normal((20_000, 2, 3)))
    for k in (1, 2, 3):
        found = moments_of_samples(z, k)
        for labels in product(range(2), repeat=2 * k):
            expected = prod(K[a, b] for a, b in zip(labels[::2], labels[1::2], strict=True))
            samples = found[(slice(None), *labels)]
            error = samples.std() / np.sqrt(len(samples))
            assert abs(samples.mean() - expected) < 5 * error


def test_the_pairing_estimator_is_exact_on_a_sphere():
    """|z|² = n fixed: every draw gives M_p = n^k/(n (n + 2) … (n + 2k − 2))."""
    z = np.random.default_rng(0).standard_normal((3, 1, 6))
    z *= np.sqrt(6) / np.linalg.norm(z, axis=2, keepdims=True)
    for k in (1, 2, 3, 4):
        expected = prod(6 / (6 + 2 * j) for j in range(k))
        np.testing.assert_allclose(moments_of_samples(z, k), expected, rtol=1e-12)


def test_widths_that_cannot_tell_pairings_apart():
    with pytest.raises(InputError, match="width"):
        moments_of_samples(np.ones((5, 1, 1)), 2)
    with pytest.raises(InputError, match="width"):
        unbiased.check_width(2, 3)


@pytest.mark.parametrize("z", [np.ones((2, 3)), np.ones((0, 1, 2)), np.full((2, 1, 3), np.nan)])
def test_bad_samples(z):
    with pytest.raises(InputError, match="z"):
        moments_of_samples(z, 1)


@pytest.mark.parametrize("name", ["V", "U6", "D", "P", "T"])
@pytest.mark.parametrize("m", [1, 2])
def test_components_cover_each_index_once(name, m):
    (target,) = wanted(name)
    places = [place for members in components(target, m).values() for place in members]
    assert sorted(places) == sorted(product(range(m), repeat=2 * target.pairs))
