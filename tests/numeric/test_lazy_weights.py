"""Weights sampled on vectors: the factorization, the frame, and the law of W X at finite width."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from derive.errors import InputError
from derive.groups import coset_type, pair_partitions
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
)
from numeric.random import cholesky, combine, gram, lazy, matrices, steps, stream_key
from numeric.samplers import probing


def factor(X):
    """Q and R of X = Rᵀ Q, cut to the rank."""
    m, n = X.shape
    Q, R = np.empty((m, n)), np.empty((m, m))
    rank = lazy.triangle(X.copy(), Q, R, np.empty((2, m)))
    return Q[:rank], R[:rank]


@st.composite
def vectors(draw):
    """Vectors in a space that they may span or not: repeated, collinear, zero, of any length."""
    n, rank, m = draw(st.integers(1, 12)), draw(st.integers(0, 4)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    basis = rng.standard_normal((rank, n))
    kinds = draw(st.lists(st.sampled_from(["mixed", "basis", "zero"]), min_size=m, max_size=m))
    coefficients = np.zeros((m, rank))
    for row, kind in enumerate(kinds):
        if kind == "mixed":
            coefficients[row] = rng.standard_normal(rank)
        elif kind == "basis" and rank:
            coefficients[row, rng.integers(rank)] = rng.choice([-2.0, 1.0])
    lengths = 10.0 ** rng.integers(-30, 30, m)
    return lengths[:, None] * (coefficients @ basis), coefficients @ basis


@settings(deadline=None)  # the first call compiles
@given(vectors())
def test_the_factorization_holds_for_any_vectors(case):
    X, unscaled = case
    Q, R = factor(X)
    np.testing.assert_allclose(Q @ Q.T, np.eye(len(Q)), atol=1e-13)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    assert np.all(np.abs(R.T @ Q - X) <= 1e-12 * lengths)
    if len(unscaled):
        assert len(Q) >= np.linalg.matrix_rank(unscaled, tol=1e-6)
        assert len(Q) <= min(X.shape)


def test_rank_of_repeated_collinear_and_zero_vectors():
    x, y = np.random.default_rng(0).standard_normal((2, 40))
    for rows, rank in (
        ([x, x], 1),
        ([x, -3 * x, y], 2),
        ([0 * x, 0 * y], 0),
        ([0 * x, y], 1),
        ([x, y, x + y, x - y], 2),
        ([x, x + 1e-9 * y], 2),
    ):
        assert len(factor(np.array(rows))[0]) == rank


def test_a_short_vector_keeps_its_direction_beside_a_long_one():
    x, y = np.random.default_rng(1).standard_normal((2, 20))
    X = np.array([x, 1e-25 * y])
    Q, R = factor(X)
    np.testing.assert_allclose(1e25 * (R.T @ Q)[1], y, rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_orthonormalise_is_the_sign_fixed_qr(rank, more, seed):
    size = rank + more
    G = np.random.default_rng(seed).standard_normal((rank, size))
    Q, R = np.linalg.qr(G.T)
    expected = (Q * np.sign(np.diag(R))).T
    lazy.orthonormalise(G, size)
    np.testing.assert_allclose(G @ G.T, np.eye(rank), atol=1e-13)
    np.testing.assert_allclose(G, expected, atol=1e-13 * np.linalg.cond(R))


def sample(ensemble, X, n_out, draws, *, C_b=0.0):
    """Z = W X + b for many draws, (draws, m, n_out)."""
    m, n_in = np.shape(X)
    stacked = np.repeat(np.asarray(X, float)[None], draws, axis=0)
    grams = stacked @ stacked.transpose(0, 2, 1) / n_in
    source = (stream_key(3), 1)
    Z = probing.weighted(grams, stacked, np.arange(draws), steps(ensemble, n_in, n_out), source)
    probing.kernels().add_bias(C_b, Z, m, np.arange(draws), source)
    return Z


SHAPES = [(4, 4), (3, 5), (5, 3), (1, 3)]
HALF = sympy.Rational(1, 2)
CASES = [
    *((ensemble, *shape) for ensemble in (Gaussian(2), Orthogonal(2)) for shape in SHAPES),
    *((Truncated(2, ratio=2), *shape) for shape in SHAPES[:3]),
    (LowRankGaussian(2, gamma=HALF), 4, 4),
    (LowRankGaussian(2, gamma=HALF), 2, 6),
    (LowRankOrthogonal(2, gamma=HALF), 4, 4),
    (LowRankOrthogonal(2, gamma=HALF), 3, 4),
    (BiInvariant(2, moments=(2, 5)), 4, 4),  # singular values² 1 and 3
    (BiInvariant(2, moments=(2, 5)), 4, 6),
]


@pytest.mark.parametrize(("ensemble", "n_in", "n_out"), CASES)
def test_second_and_fourth_moments_are_exact(ensemble, n_in, n_out):
    """Every index pattern of two and of four factors, against Σ δ_p C(p,q) δ_q, at z < 6.

    Some 7000 comparisons in all cases: false alarms below 2e-5.
    """
    draws = 40_000
    X = np.random.default_rng(n_in + 10 * n_out).standard_normal((2, n_in))
    Z = sample(ensemble, X, n_out, draws)
    gram = X @ X.T
    flat = Z.reshape(draws, -1)
    index = list(product(range(2), range(n_out)))
    for points in (2, 4):
        pairings = pair_partitions(points)
        C = {
            (p, q): float(
                2 ** (points // 2)
                * ensemble.coefficient(coset_type(p, q), sympy.Integer(n_in), sympy.Integer(n_out))
            )
            for p in pairings
            for q in pairings
        }
        rng = np.random.default_rng(0)
        for choice in rng.integers(len(index), size=(400, points)):
            samples, neurons = zip(*[index[k] for k in choice], strict=True)
            expected = sum(
                C[p, q] * np.prod([gram[samples[a], samples[b]] for a, b in q])
                for p in pairings
                if all(neurons[a] == neurons[b] for a, b in p)
                for q in pairings
            )
            products = np.prod(flat[:, choice], axis=1)
            error = products.std() / np.sqrt(draws)
            assert abs(products.mean() - expected) < 6 * error + 1e-12


@pytest.mark.parametrize(("n_in", "n_out"), [(4, 4), (3, 5)])
def test_haar_weights_keep_inner_products(n_in, n_out):
    X = np.random.default_rng(0).standard_normal((3, n_in))
    Z = sample(Orthogonal(0.7), X, n_out, 50)
    expected = 0.7 * max(n_in, n_out) / n_in * X @ X.T
    np.testing.assert_allclose(Z @ Z.transpose(0, 2, 1), np.array([expected] * 50), atol=1e-13)


def test_a_frame_has_no_preferred_side():
    """Without the sign fix the mean of Q_11 would be −0.4 at n = 4; here |z| < 5."""
    draws = 20_000
    Z = sample(Orthogonal(1), np.eye(4), 4, draws)
    means = Z.mean(axis=0)
    assert np.abs(means).max() < 5 * 0.5 / np.sqrt(draws)


@pytest.mark.parametrize(("ensemble", "n_in", "n_out"), CASES)
def test_the_law_is_that_of_explicit_matrices(ensemble, n_in, n_out):
    """Two-sample KS on a coordinate, an inner product and a fourth power: p > 1e-6, 51 tests."""
    draws = 1500
    X = np.random.default_rng(5).standard_normal((2, n_in))
    sampled = sample(ensemble, X, n_out, draws)
    rng = np.random.default_rng(6)
    built = np.array(
        [X @ matrices.weight_matrix(ensemble, (n_out, n_in), rng).T for _ in range(draws)]
    )
    for statistic in (
        lambda Z: Z[:, 0, 0] + Z[:, 1, 0],
        lambda Z: np.sum(Z[:, 0] * Z[:, 1], axis=1).round(12),
        lambda Z: np.sum(Z[:, 0] ** 4, axis=1).round(12),
    ):
        assert stats.ks_2samp(statistic(sampled), statistic(built)).pvalue > 1e-6


def test_weights_see_linear_relations():
    x, y = np.random.default_rng(2).standard_normal((2, 6))
    for ensemble in (Gaussian(1), Orthogonal(1), LowRankGaussian(1, gamma=HALF)):
        Z = sample(ensemble, [x, y, x - 2 * y, 0 * x, x], 6, 20)
        np.testing.assert_allclose(Z[:, 2], Z[:, 0] - 2 * Z[:, 1], atol=1e-12)
        np.testing.assert_allclose(Z[:, 4], Z[:, 0], atol=1e-13)
        assert not Z[:, 3].any()


def test_biases_are_shared_by_samples_and_independent_of_weights():
    """Moments of b at z < 5."""
    draws, X = 20_000, np.array([[1.0, 2.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0]])
    without = sample(Gaussian(1), X, 3, draws)
    biased = sample(Gaussian(1), X, 3, draws, C_b=0.3)
    b = biased[:, 1]
    np.testing.assert_allclose(biased[:, 0] - b, without[:, 0], atol=1e-13)
    assert np.all(np.abs(b.mean(axis=0)) < 5 * np.sqrt(0.3 / draws))
    covariance = b.T @ b / draws
    assert np.abs(covariance - 0.3 * np.eye(3)).max() < 5 * 0.3 * np.sqrt(2 / draws)
    assert np.abs(b.T @ without[:, 0] / draws).max() < 5 * np.sqrt(0.3 * 5.25 / 4 / draws)


def test_more_samples_leave_the_first_ones_numbers_alone():
    """Column k of the weights on the basis has a stream of its own."""
    x, y = np.array([10.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
    np.testing.assert_array_equal(
        sample(Gaussian(1), [x], 4, 5)[:, 0], sample(Gaussian(1), [x, y], 4, 5)[:, 0]
    )


def test_singular_values_have_the_moments():
    """In units of the first: 1, 2, 6 are roots of the power sums 9, 41, 225."""
    ensemble = BiInvariant(1, moments=(3, sympy.Rational(41, 3), 75))
    values = np.array(lazy.singular_values(ensemble, 6, 6))
    for power, moment in enumerate(ensemble.moments, 1):
        assert np.mean(values**power) == pytest.approx(float(moment / 3**power), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 17 / 8, 1e308])
def test_a_scale_of_the_moments_is_none_of_the_weights(scale):
    """1e308 n overflows, which once made every weight zero."""
    assert steps(BiInvariant(1, moments=(scale,)), 20, 20) == steps(
        BiInvariant(1, moments=(1,)), 20, 20
    )


@pytest.mark.parametrize(
    ("argument", "ensemble", "n_in", "n_out"),
    [
        ("moments", BiInvariant(1, moments=(1, 2)), 5, 5),
        ("moments", BiInvariant(1, moments=(1, 3)), 4, 4),
        ("gamma", LowRankGaussian(1, gamma=HALF), 5, 5),
        ("gamma", LowRankOrthogonal(1, gamma=1), 2, 4),
        ("ratio", Truncated(1, ratio=3 * HALF), 3, 3),
        ("gamma", LowRankGaussian(1, gamma=sympy.Symbol("gamma", positive=True)), 4, 4),
    ],
)
def test_what_cannot_be_sampled(argument, ensemble, n_in, n_out):
    with pytest.raises(InputError) as caught:
        steps(ensemble, n_in, n_out)
    assert caught.value.argument == argument


@settings(deadline=None)
@given(st.integers(1, 13), st.integers(0, 2**32 - 1))
def test_small_linear_algebra(m, seed):
    """Gram matrix, Cholesky factor, triangular division and combination against NumPy."""
    rng = np.random.default_rng(seed)
    X, S, R = rng.standard_normal((m, 3 * m + 5)), np.empty((m, m)), np.empty((m, m))
    gram(X, S)
    np.testing.assert_allclose(S, X @ X.T / X.shape[1], rtol=1e-12, atol=1e-13)
    assert cholesky(S, R) in (m, -1)
    if cholesky(S, R) == m:
        np.testing.assert_allclose(R, np.linalg.cholesky(S).T, rtol=1e-9, atol=1e-9)
        B = rng.standard_normal((m, m))
        expected = np.linalg.solve(R, B)
        lazy.divide(R, B, m)
        np.testing.assert_allclose(B, expected, rtol=1e-7, atol=1e-7)
    Z = np.empty((m, 7))
    combine(R, m, X, Z)
    np.testing.assert_allclose(Z, R.T @ X[:, :7], rtol=1e-12, atol=1e-12)


def test_cholesky_passes_over_zero_vectors_and_refuses_lost_digits():
    X = np.random.default_rng(3).standard_normal((3, 9))
    X[1] = 0.0
    R = np.empty((3, 3))
    assert cholesky(X @ X.T, R) == 2
    np.testing.assert_allclose(R[:2].T @ R[:2], X @ X.T, atol=1e-12)
    X[1] = X[0] + 1e-3 * X[2]
    assert cholesky(X @ X.T, R) == -1
