"""Brackets of piecewise linear activations: against panels, against one input, in limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sample_kernels import brackets_source, interpreted
from scipy.special import ndtr

from derive import activations
from derive.activations import from_expr
from derive.gaussian import Shape, SingleShape
from numeric.brackets import table
from numeric.layers import kinked, positions

ZIGZAG = from_expr("Max(-z/2 - 1, Min(z, 1 - z/3))", name="zigzag")
ABSOLUTE = from_expr("Abs(z)", name="absolute")
LINEAR = [activations.relu, activations.hard_tanh, ABSOLUTE, ZIGZAG]
SLOWLY = [pytest.param(each, marks=pytest.mark.slow) for each in LINEAR[1:]]


def average(activation, K, orders, outer=None):
    """⟨∂^outer Π_p σ^{(orders_p)}(z_p)⟩ over z ~ N(0, K)."""
    shape = Shape(tuple(orders), tuple(outer or (0,) * len(orders)))
    return positions.averages(activation, [shape], np.array([K], float))[0, 0]


def covariance(seed, d):
    X = np.random.default_rng(seed).normal(size=(d, d + 1))
    return X @ X.T / d


@pytest.mark.slow
@pytest.mark.parametrize("orders", [(0, 0, 1, 1), (0, 1, 1, 2), (1, 1, 2, 2), (0, 0, 0, 0)])
@pytest.mark.parametrize(
    ("activation", "line", "corners", "within"),
    [
        (ABSOLUTE, (0.0, -1.0), [(0.0, 2.0)], (1e-13, 2e-14)),
        (ZIGZAG, (-1.0, -0.5), [(-2 / 3, 1.5), (0.75, -4 / 3)], (1e-12, 1e-13)),
    ],
    ids=["absolute", "zigzag"],
)
def test_four_positions_meet_a_plane(orders, activation, line, corners, within):
    """z_p = λ_p w + μ_p v + d_p x_p, general enough for any K: given w and v the positions are
    independent, and the trapezoid rule over w and v is exact to rounding."""
    h = 0.1
    grid = np.arange(-9, 9 + h / 2, h)
    w, v = np.meshgrid(grid, grid)

    def normal(x):
        return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    def given(order, mean, d):
        """⟨σ⟩, ⟨σ'⟩ and ⟨σ''⟩ over z ~ N(mean, d²) of a line and corners h max(0, z − k)."""
        total = (line[0] + line[1] * mean, line[1], 0.0)[order]
        for kink, height in corners:
            x = mean - kink
            above, edge = ndtr(x / d), normal(x / d)
            total = total + height * (x * above + d * edge, above, edge / d)[order]
        return total

    for seed in range(4):
        rng = np.random.default_rng(seed)
        (a, b), d = rng.normal(size=(2, 4)), rng.uniform(0.4, 0.9, size=4)
        K = np.outer(a, a) + np.outer(b, b) + np.diag(d**2)
        parts = [given(m, a[p] * w + b[p] * v, d[p]) for p, m in enumerate(orders)]
        want = np.sum(normal(w) * normal(v) * np.prod(parts, axis=0)) * h * h
        assert average(activation, K, orders) == pytest.approx(want, rel=within[0], abs=within[1])


SHAPES = [
    *(Shape((0, 0), outer) for outer in ((0, 0), (2, 2), (3, 1))),
    *(Shape((1, 1), outer) for outer in ((0, 0), (1, 1), (2, 2))),
]


@pytest.mark.slow
def test_panels_agree():
    """To the accuracy of panels, with derivatives outside."""
    for seed, shape in enumerate(SHAPES):
        K = covariance(seed, len(shape.orders))
        (want,), _ = kinked.averages(ZIGZAG, [shape], K[None])
        assert average(ZIGZAG, K, *shape) == pytest.approx(want[0], rel=1e-9, abs=1e-9)


COINCIDENT = [(0, 0), (1, 1), (1, 2), (0, 0, 1, 1), (0, 1, 1, 2), (0, 0, 0, 3), (1,) * 4]


def singly(activation, shapes):
    """The brackets of one input, as a function of K."""
    return interpreted(brackets_source(activation, shapes), "kinks_test").brackets


@pytest.mark.parametrize("activation", [LINEAR[0], *SLOWLY], ids=str)
def test_coincident_positions_are_one_input(activation):
    alone = singly(activation, [SingleShape(orders) for orders in COINCIDENT])
    for K in (0.01, 1.7):
        for orders, want in zip(COINCIDENT, alone(K), strict=True):
            d = len(orders)
            got = average(activation, np.full((d, d), K), orders)
            assert got == pytest.approx(want, rel=1e-13, abs=1e-15)
            if d == 2:
                pairs = np.kron(np.eye(2), np.full((d, d), K))
                got = average(activation, pairs, orders * 2)
                assert got == pytest.approx(want**2, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("activation", [LINEAR[0], *SLOWLY], ids=str)
def test_derivatives_contract_to_one_input(activation):
    """Σ v_a v_b … ⟨∂_a ∂_b … F(v_1 y, v_2 y)⟩ is the derivative by y, where K = k v vᵀ."""
    for v in (np.array([1.0, 1.0]), np.array([1.0, 2.0])):
        parts = [
            [activation.derivative(n).subs(activations.z, int(c) * activations.z) for c in v]
            for n in range(2)
        ]
        product = activations.Activation("product", parts[0][0] * parts[1][1])
        alone = singly(product, [SingleShape((0,), times) for times in (1, 3)])
        for times, want in zip((1, 3), alone(0.8), strict=True):
            got = 0.0
            for labels in itertools.product(range(2), repeat=times):
                outer = (labels.count(0), labels.count(1))
                K = 0.8 * np.outer(v, v)
                got += v[list(labels)].prod() * average(activation, K, (0, 1), outer)
            assert got == pytest.approx(want, rel=1e-12, abs=1e-13)


def test_opposite_inputs():
    """z_2 = −z_1: σ(z)σ(−z) and σ'(z)σ'(−z) of ReLU vanish; |z| does not feel the sign."""
    K = 1.3 * np.array([[1, -1], [-1, 1]])
    for orders in ((0, 0), (1, 1), (0, 2)):
        assert average(activations.relu, K, orders) == pytest.approx(0.0, abs=1e-16)
    assert average(ABSOLUTE, K, (0, 0)) == pytest.approx(1.3, rel=1e-15)
    (alone,) = singly(activations.hard_tanh, [SingleShape((0, 0))])(1.3)
    assert average(activations.hard_tanh, K, (0, 0)) == pytest.approx(-alone, rel=1e-14)


def test_products_without_a_limit_are_nan():
    ones = np.ones((2, 2))
    for orders in ((2, 2), (1, 3), (2, 3)):
        assert math.isnan(average(activations.relu, ones, orders))
        assert math.isfinite(average(activations.relu, ones + 0.1 * np.eye(2), orders))


def test_small_variances_lose_no_digits():
    """hard_tanh is z for |z| < 1: ⟨z_1 z_2 z_3 z_4⟩ by Wick."""
    K = covariance(5, 4)
    wick = K[0, 1] * K[2, 3] + K[0, 2] * K[1, 3] + K[0, 3] * K[1, 2]
    for scale in (1e-3, 1e-8, 1e-100):
        got = average(activations.hard_tanh, scale * K, (0, 0, 0, 0))
        assert got == pytest.approx(wick * scale**2, rel=1e-13)


def test_nearby_inputs_keep_their_digits():
    """K12 = 1 − gap: ⟨σ'σ'⟩ of ReLU from the angle, ⟨∂_1 ∂_2 σ'σ'⟩ = 1/(2π sin angle)."""
    for gap in (1e-3, 1e-7, 1e-11):
        rest = 1 - (1 - gap)
        sine = math.sqrt(rest * (2 - rest))
        K = [[1, 1 - gap], [1 - gap, 1]]
        want = 0.5 - math.asin(sine) / (2 * math.pi)
        assert average(activations.relu, K, (1, 1)) == pytest.approx(want, rel=1e-15)
        got = average(activations.relu, K, (1, 1), (1, 1))
        assert got == pytest.approx(1 / (2 * math.pi * sine), rel=1e-13)


def test_a_silent_input():
    """Its own products are the limit K → 0; a jump there beside other inputs has none."""
    K = np.diag([0.0, 1.0])
    relu = activations.relu
    assert average(relu, np.zeros((2, 2)), (1, 1)) == 0.5
    assert average(relu, K, (0, 1)) == 0.0
    assert math.isnan(average(relu, K, (1, 1)))
    assert average(activations.hard_tanh, K, (1, 1)) == pytest.approx(math.erf(1 / math.sqrt(2)))


def test_what_is_no_covariance_is_nan():
    for K in ([[1, 2], [2, 1]], [[1, 0], [0, -1]], [[1, math.nan], [math.nan, 1]]):
        assert math.isnan(average(activations.relu, K, (0, 0)))


def test_what_is_not_linear_between_its_kinks_is_left_to_panels():
    for text in ("Max(0, z)**2", "Max(0, tanh(z))", "sign(z)", "z"):
        assert table(from_expr(text)) is None
