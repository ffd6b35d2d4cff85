"""Averages of truncated powers: against integrals over one common factor, and exact values."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from numeric.brackets import SLACK
from numeric.layers.orthants import FREE, Moments, partial

GONE = 99
"""For an exponent whose variable is left out."""


def average(e, h, R):
    """M(e). Where a power that is not truncated, h = −∞, is an exponent, as is a variable gone."""
    R, h = np.array(R, float)[:, :, None], np.array(h, float)[:, None]
    slack = np.full(R.shape, SLACK) - np.eye(len(R))[:, :, None]
    free = np.isneginf(h[:, 0])
    exponents = [
        FREE if each == GONE else FREE + each if whole else each
        for each, whole in zip(e, free, strict=True)
    ]
    with np.errstate(all="ignore"):
        moments = Moments(np.where(np.isneginf(h), 0.0, h), R, 1 - abs(R), slack)
        return moments(tuple(exponents))[0]


def one_factor(e, h, loadings):
    """x_p = λ_p w + √(1 − λ_p²) x'_p: given w, the positions are independent, and the trapezoid
    rule over w is exact to rounding, with steps of a ninth of the least deviation.

    ⟨a_e(m + s x)⟩ from ⟨a_0⟩ and ⟨a_{−1}⟩ by e ⟨a_e⟩ = m ⟨a_{e−1}⟩ + s² ⟨a_{e−2}⟩.
    """
    step = 0.005
    w = step * np.arange(-1800, 1801)
    product = step * np.exp(-w * w / 2) / math.sqrt(2 * math.pi)
    for order, t, a in zip(e, h, loadings, strict=True):
        s, mean = math.sqrt((1 - a) * (1 + a)), a * w - t
        lower = np.exp(-((mean / s) ** 2) / 2) / (s * math.sqrt(2 * math.pi))
        value = lower if order == -1 else ndtr(mean / s)
        for k in range(1, order + 1):
            lower, value = value, (mean * value + s * s * lower) / k
        product *= value
    return float(product.sum())


def correlations(loadings):
    R = np.outer(loadings, loadings)
    np.fill_diagonal(R, 1.0)
    return R


@pytest.mark.parametrize(
    ("e", "h"),
    [
        ((0, 0), (0.3, -0.7)),
        ((1, -1), (0.0, 0.4)),
        ((0, 0, 0), (0.5, -0.2, 1.1)),
        ((2, 0, -1), (0.1, 0.0, -0.6)),
        ((0, 0, 0, 0), (0.0, 0.0, 0.0, 0.0)),
        ((0, 0, 0, 0), (0.3, -0.4, 1.0, 2.5)),
        ((1, 1, 1, 1), (0.0, 0.0, 0.0, 0.0)),
        ((1, 0, 1, 2), (1.0, -1.0, 1.0, 0.0)),
        ((-1, -1, 0, 0), (0.2, 0.0, 0.0, 0.0)),
    ],
)
@pytest.mark.parametrize("loadings", [(0.8, -0.5, 0.3, 0.6), (0.999, 0.995, 0.99, -0.997)])
def test_moments_meet_the_integral_over_a_common_factor(e, h, loadings):
    loadings = loadings[: len(e)]
    want = one_factor(e, h, loadings)
    scale = max(1.0, abs(want))
    assert average(e, h, correlations(loadings)) == pytest.approx(want, abs=2e-13 * scale)


def test_orthants_of_equal_correlations():
    """1/(d + 1) at correlation 1/2, and 2^−d at 0."""
    for d in range(1, 5):
        half = 0.5 * (np.eye(d) + 1)
        assert average((0,) * d, (0,) * d, half) == pytest.approx(1 / (d + 1), rel=2e-15)
        assert average((0,) * d, (0,) * d, np.eye(d)) == pytest.approx(2.0**-d, rel=2e-15)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 4]), st.floats(-1, 1))
def test_signs_of_one_variable_add_up(seed, rank, at):
    """θ(x_1 − h) + θ(h − x_1) = 1, for K of any rank."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(4, rank))
    B /= np.linalg.norm(B, axis=1)[:, None]
    R = B @ B.T
    flip = np.diag([-1.0, 1, 1, 1])
    h = np.array([at, 0, 0, 0])
    both = average((0, 1, 0, 1), h, R) + average((0, 1, 0, 1), -h * [1, 0, 0, 0], flip @ R @ flip)
    rest = average((1, 0, 1), h[1:], R[1:, 1:])
    assert both == pytest.approx(rest, abs=1e-9 if rank < 4 else 1e-12)


def test_a_power_that_is_not_truncated():
    R = correlations((0.7, -0.4, 0.6))
    h = (-math.inf, 0.0, 0.0)
    flip = np.diag([-1.0, 1, 1])
    for e in (1, 2, 3):
        want = average((e, 1, 0), (0, 0, 0), R)
        want += (-1) ** e * average((e, 1, 0), (0, 0, 0), flip @ R @ flip)
        assert average((e, 1, 0), h, R) == pytest.approx(want, abs=1e-15)


def test_derivatives_of_delta_are_derivatives_in_h():
    R = correlations((0.7, -0.4, 0.6))
    for m, step in ((1, 1e-4), (2, 1e-3)):
        sides = [average((-m, 1, 0), (0.3 + s * step, 0.1, -0.2), R) for s in (1, -1)]
        slope = -(sides[0] - sides[1]) / (2 * step)
        assert average((-1 - m, 1, 0), (0.3, 0.1, -0.2), R) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_coincident_variables_are_one(sign):
    """x_2 = ±x_1: a_e(x − h) a_f(±x − h') by one-dimensional integration."""
    R = np.array([[1.0, sign, 0.5], [sign, 1.0, 0.5 * sign], [0.5, 0.5 * sign, 1.0]])
    for e, f, h, k in itertools.product((0, 1, 2), (0, 1), (0.0, -0.5), (0.0, -1.0)):

        def weight(x, e=e, f=f, h=h, k=k):
            inside = x > h and sign * x > k
            tail = mpmath.ncdf(0.5 * x / mpmath.sqrt(0.75))
            power = (x - h) ** e / math.factorial(e) * (sign * x - k) ** f
            return mpmath.npdf(x) * power * tail if inside else mpmath.mpf(0)

        cuts = sorted({-9, h, sign * k, 9})
        want = float(mpmath.quad(weight, cuts))
        assert average((e, f, 0), (h, k, 0.0), R) == pytest.approx(want, abs=1e-13)


def test_near_coincidences_join_coincidence():
    """The error is of the size of the angle between the variables."""
    together = average((1, 1, 1, 0), (0,) * 4, np.ones((4, 4)))
    for gap in (1e-13, 1e-9, 1e-5):
        R = np.ones((4, 4)) - gap * (1 - np.eye(4))
        assert average((1, 1, 1, 0), (0,) * 4, R) == pytest.approx(together, abs=3 * gap**0.5)


def test_partial_correlations_keep_their_digits():
    """Three variables 1e-6 apart, in corners of an equilateral triangle: correlation 1/2."""
    gap = 1e-12
    r, rest = partial(*np.array([1 - gap, gap] * 3))
    assert r == pytest.approx(0.5, abs=1e-11)
    assert rest == pytest.approx(0.5, abs=1e-11)


def test_two_deltas_at_one_point_are_infinite():
    assert math.isnan(average((-1, -1), (0.0, 0.0), [[1, 1], [1, 1]]))
    assert average((-1, -1), (0.0, 1.0), [[1, 1], [1, 1]]) == 0.0
    assert average((GONE, 0), (0.0, 0.0), np.eye(2)) == 0.5
