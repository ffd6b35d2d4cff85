"""Brackets of piecewise linear activations in NumPy: against sums that need no orthants, against
the oracle, in limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from derive import activations
from derive.activations import from_expr
from derive.errors import InputError
from derive.gaussian import Shape, oracle
from numeric.brackets import table
from numeric.layers import orthants
from numeric.layers.orthants import pair_orthant
from numeric.layers.piecewise_linear import averages

ZIGZAG = from_expr("Max(-z/2 - 1, Min(z, 1 - z/3))", name="zigzag")
ABSOLUTE = from_expr("Abs(z)", name="absolute")
LEAKY = activations.leaky_relu("1/10")
LINEAR = [activations.relu, LEAKY, ABSOLUTE, activations.hard_tanh, ZIGZAG]


def average(activation, K, orders, outer=None):
    """One bracket: at one covariance (d, d) a number, at many (t, d, d) an array."""
    K = np.array(K, float)
    shape = Shape(tuple(orders), tuple(outer or (0,) * len(orders)))
    values, sizes = averages(activation, [shape], K.reshape(-1, *K.shape[-2:]))
    assert not (sizes < (1.0 - 1e-14) * np.abs(values)).any()
    assert np.array_equal(np.isnan(sizes), np.isnan(values))
    return values[0].item() if K.ndim == 2 else values[0]


def covariance(seed, d, rank=None):
    X = np.random.default_rng(seed).normal(size=(d, rank or d + 1))
    return X @ X.T / d


def normal(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def smoothed(activation, n, mean, d):
    """⟨σ^{(n)}(z)⟩ over z ~ N(mean, d²), n ≤ 4."""
    pieces = table(activation)
    total = pieces[0, 1] + pieces[0, 2] * mean if n == 0 else np.full_like(mean, pieces[0, 2])
    total = total if n < 2 else np.zeros_like(mean)
    for kink, jump in zip(pieces[1:, 0], np.diff(pieces[:, 2]), strict=True):
        u = (mean - kink) / d
        ramp = (d * (u * ndtr(u) + normal(u)), ndtr(u), normal(u) / d)
        total = total + jump * (*ramp, -u * normal(u) / d**2, (u * u - 1) * normal(u) / d**3)[n]
    return total


SHAPES = [
    *(Shape((0, 0), outer) for outer in ((0, 0), (1, 1), (2, 0), (2, 2), (3, 1), (0, 4))),
    *(Shape((0, 1, 1), outer) for outer in ((0, 0, 0), (0, 1, 2), (2, 0, 0))),
    Shape((2, 3, 0), (0, 0, 1)),
    *(Shape((0, 0, 0, 0), outer) for outer in ((0, 0, 0, 0), (1, 1, 0, 0), (0, 2, 0, 2))),
    *(Shape(orders, (0, 0, 0, 0)) for orders in ((1, 1, 1, 1), (0, 0, 1, 2), (1, 0, 3, 0))),
]


@pytest.mark.parametrize("activation", LINEAR, ids=str)
def test_positions_that_have_one_factor_in_common(activation):
    """z_p = λ_p w + d_p x_p: given w they are independent, and the trapezoid rule over w is exact
    to rounding."""
    w = np.arange(-10, 10.01, 0.05)
    for number, (d, shapes) in enumerate(itertools.groupby(SHAPES, lambda s: len(s.orders))):
        rng = np.random.default_rng(number)
        loads, widths = rng.normal(size=(8, d)), rng.uniform(0.5, 1.2, size=(8, d))
        K = loads[:, :, None] * loads[:, None, :] + widths[:, :, None] ** 2 * np.eye(d)
        asked = list(shapes)
        for shape, got in zip(asked, averages(activation, asked, K)[0], strict=True):
            total = np.add(*shape)
            for value, load, width in zip(got, loads, widths, strict=True):
                parts = [
                    smoothed(activation, n, load[p] * w, width[p]) for p, n in enumerate(total)
                ]
                want = np.sum(normal(w) * np.prod(parts, axis=0)) * 0.05
                assert value == pytest.approx(want, rel=1e-13, abs=3e-14)


@pytest.mark.parametrize("activation", [activations.relu, activations.hard_tanh, ZIGZAG], ids=str)
def test_two_positions_meet_the_oracle(activation):
    K = np.array([[1.3, 0.4], [0.4, 0.7]])
    for shape in (Shape((0, 1), (2, 1)), Shape((0, 2), (0, 0)), Shape((0, 3), (1, 0))):
        want = oracle.bracket(activation, shape, K.tolist(), 14).value
        assert average(activation, K, *shape) == pytest.approx(float(want), rel=1e-13)


def test_the_arc_cosine_kernel_of_nearby_inputs():
    gaps = np.array([1.9, 1.0, 0.3, 1e-2, 1e-5, 1e-8, 1e-12, 0.0])
    K = np.ones((len(gaps), 2, 2))
    K[:, 0, 1] = K[:, 1, 0] = 1.0 - gaps
    gaps = 1.0 - K[:, 0, 1]
    sine = np.sqrt(gaps * (2.0 - gaps))
    angle = np.arctan2(sine, 1.0 - gaps)
    got = average(activations.relu, K, (0, 0))
    want = (sine + (math.pi - angle) * (1.0 - gaps)) / (2.0 * math.pi)
    assert got == pytest.approx(want, rel=3e-14)
    assert average(activations.relu, K, (1, 1)) == pytest.approx(0.5 - angle / (2 * math.pi))
    K, sine = K[:-1], sine[:-1]
    got = average(activations.relu, K, (1, 1), (1, 1))
    assert got == pytest.approx(1.0 / (2.0 * math.pi * sine), rel=1e-13)


@pytest.mark.parametrize("activation", LINEAR, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_positions_that_nearly_coincide_are_those_that_do(activation, sign):
    """σ σ and (σ σ)'' contracted with a direction in the range of K are continuous there."""
    v = np.array([1.0, 1.3 * sign, 0.6, -0.8])
    near, exact = np.outer(v, v) + 0.5 * np.outer(v**2, v**2), None
    for gap in (0.0, 1e-12):
        K = near.copy()
        K[0, 1] = K[1, 0] = sign * (1 - gap) * math.sqrt(K[0, 0] * K[1, 1])
        K[1, 2:] = K[2:, 1] = sign * math.sqrt(K[1, 1] / K[0, 0]) * K[0, 2:]
        found = [average(activation, K, (0, 0, 0, 0)), average(activation, K[:2, :2], (0, 0))]
        exact = exact or found
        assert found == pytest.approx(exact, rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("activation", LINEAR, ids=str)
def test_repeated_positions_are_one(activation):
    """σ^a(z_1) σ^b(z_2), and positions in another order."""
    K = covariance(3, 2)
    for which in ((0, 0, 0, 1), (0, 1, 1, 0), (1, 0, 0, 1)):
        ix = np.ix_(which, which)
        swapped = tuple(1 - p for p in which)
        back = K[::-1, ::-1][np.ix_(swapped, swapped)]
        value = average(activation, K[ix], (0, 0, 1, 1))
        assert average(activation, back, (0, 0, 1, 1)) == pytest.approx(value, rel=1e-13)
    w = np.arange(-12, 12, 1e-3) * math.sqrt(K[0, 0])
    sigma = np.interp(w, *_corners(activation))
    want = np.sum(sigma**4 * normal(w / math.sqrt(K[0, 0]))) * 1e-3
    assert average(activation, np.full((4, 4), K[0, 0]), (0,) * 4) == pytest.approx(want, rel=1e-6)


def _corners(activation):
    """x and σ(x) at the kinks and far away on both sides."""
    pieces = table(activation)
    x = np.array([-1e3, *pieces[1:, 0], 1e3])
    lines = np.concatenate([pieces[:1], pieces])
    return x, lines[:, 1] + lines[:, 2] * x


@pytest.mark.parametrize("activation", LINEAR, ids=str)
def test_two_independent_pairs(activation):
    """Their bracket is a product; singular K, more than four positions, and pairs side by side."""
    pair = np.array([covariance(seed, 2, rank) for seed, rank in ((1, 3), (2, 2), (3, 1), (4, 1))])
    half = average(activation, pair, (0, 1), (1, 0))
    K = np.zeros((4, 4, 4))
    K[:, :2, :2], K[:, 2:, 2:] = pair, pair[::-1]
    whole = average(activation, K, (0, 1, 0, 1), (1, 0, 1, 0))
    assert whole == pytest.approx(half * half[::-1], rel=1e-12, abs=1e-14)
    six = [0, 1, 2, 3, 0, 3]
    more = average(activation, K[2][np.ix_(six, six)], (0,) * 6)
    parts = [average(activation, K[2][np.ix_(ix, ix)], (0,) * 3) for ix in ([0, 0, 1], [2, 3, 3])]
    assert more == pytest.approx(math.prod(parts), rel=1e-12)


@pytest.mark.parametrize("activation", LINEAR, ids=str)
def test_singular_covariances_of_four(activation):
    """Those nearby tend to them, however many positions are independent."""
    for rank in (1, 2, 3):
        K = covariance(rank, 4, rank)
        near = average(activation, K + 1e-11 * np.eye(4), (0,) * 4)
        assert average(activation, K, (0,) * 4) == pytest.approx(near, rel=1e-8, abs=1e-9)


def test_many_covariances_are_each_alone():
    """Distinct, repeated, collinear, silent ones and what is none, in one call."""
    X = np.array([[1.0, 0.3], [1.0, 0.3], [-2.0, -0.6], [0.2, 0.9], [0.0, 0.0]])
    kernel = X @ X.T
    K = np.array([kernel[np.ix_(ix, ix)] for ix in itertools.product(range(5), repeat=3)])
    K = np.concatenate([K, [[[1, 2, 0], [2, 1, 0], [0, 0, 1]]]])
    shapes = [Shape((0, 0, 1), (0, 0, 0)), Shape((0, 1, 1), (2, 0, 1)), Shape((1, 1, 1), (0,) * 3)]
    for activation in (activations.relu, activations.hard_tanh):
        together, _ = averages(activation, shapes, K)
        alone = np.concatenate([averages(activation, shapes, each[None])[0] for each in K], axis=1)
        np.testing.assert_allclose(together, alone, rtol=1e-13, atol=1e-15)
        assert np.isnan(together[:, -1]).all()


def test_where_there_is_no_limit_nan_stands():
    ones, relu = np.ones((2, 2)), activations.relu
    for orders in ((2, 2), (1, 3), (2, 3)):
        assert math.isnan(average(relu, ones, orders))
        assert math.isfinite(average(relu, ones + 0.1 * np.eye(2), orders))
    silent = np.diag([0.0, 1.0])
    assert average(relu, np.zeros((2, 2)), (1, 1)) == 0.5
    assert average(relu, silent, (0, 1)) == 0.0
    assert average(relu, silent, (0, 0), (2, 0)) == 0.0
    assert math.isnan(average(relu, silent, (1, 1)))
    third = math.erf(1 / math.sqrt(2))
    assert average(activations.hard_tanh, silent, (1, 1)) == pytest.approx(third, rel=1e-15)
    for none in ([[1, 2], [2, 1]], [[1, 0], [0, -1]], [[1, math.nan], [math.nan, 1]]):
        assert math.isnan(average(relu, none, (0, 0)))


def test_three_on_a_plane_meet_their_deltas():
    """z_3 = z_1 + z_2: ⟨δ(z_1) δ(z_2) z_3₊⟩ = 0, and z_3₊ counts twice with one δ, by hand."""
    relu, K = activations.relu, np.array([[1.0, 0, 1], [0, 1, 1], [1, 1, 2]])
    assert average(relu, K, (2, 2, 0)) == 0.0
    assert math.isnan(average(relu, K, (2, 2, 2)))
    # δ(z_1) z_2₊ (z_1 + z_2)₊ = δ(z_1) z_2₊²
    half = 0.5 / math.sqrt(2 * math.pi)
    assert average(relu, K, (2, 0, 0)) == pytest.approx(half, rel=1e-14)


def test_small_variances_lose_no_digits():
    """hard_tanh is z for |z| < 1: ⟨z_1 z_2 z_3 z_4⟩ by Wick."""
    K = covariance(5, 4)
    wick = K[0, 1] * K[2, 3] + K[0, 2] * K[1, 3] + K[0, 3] * K[1, 2]
    scales = np.array([1e-3, 1e-8, 1e-100])
    got = average(activations.hard_tanh, scales[:, None, None] * K, (0, 0, 0, 0))
    assert got == pytest.approx(wick * scales**2, rel=1e-13)


@pytest.mark.parametrize("r", [0.8, 1 - 1e-4, 1 - 1e-9])
def test_where_one_threshold_decides_the_path_agrees(r, monkeypatch):
    h = np.linspace(-12, 12, 97)
    h_1, h_2 = (each.ravel() for each in np.meshgrid(h, h))
    gap = np.full(h_1.shape, 1 - r)
    both, apart = (pair_orthant(h_1, h_2, sign * (1 - gap), gap) for sign in (1, -1))
    assert np.max(np.abs(both + pair_orthant(h_1, -h_2, gap - 1, gap) - ndtr(-h_1))) < 2e-15
    monkeypatch.setattr(orthants, "_decided", lambda low, *_: (0.0 * low, low < 99.0))
    np.testing.assert_allclose(both, pair_orthant(h_1, h_2, 1 - gap, gap), rtol=1e-12)
    rounding = 1e-13 * ndtr(-np.maximum(h_1, h_2))
    assert np.all(np.abs(apart - pair_orthant(h_1, h_2, gap - 1, gap)) <= rounding)


@pytest.mark.parametrize(
    ("activation", "shapes", "K", "named"),
    [
        (activations.tanh, [Shape((0,), (0,))], np.ones((1, 1, 1)), "activation"),
        (activations.relu, [], np.ones((1, 1, 1)), "shapes"),
        (activations.relu, [Shape((0, 0), (0,))], np.ones((1, 2, 2)), "shapes"),
        (activations.relu, [Shape((0, -1), (0, 0))], np.ones((1, 2, 2)), "shapes"),
        (
            activations.relu,
            [Shape((0,), (0,)), Shape((0, 0), (0, 0))],
            np.ones((1, 1, 1)),
            "shapes",
        ),
        (activations.relu, [Shape((0, 0), (0, 0))], np.ones((2, 2)), "K"),
        (activations.relu, [Shape((0,) * 5, (0,) * 5)], np.eye(5)[None], "inputs"),
    ],
)
def test_bad_input_is_named(activation, shapes, K, named):
    with pytest.raises(InputError) as caught:
        averages(activation, shapes, K)
    assert caught.value.argument == named
