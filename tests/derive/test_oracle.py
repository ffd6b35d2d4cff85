"""The quadrature oracle against values known otherwise, and against itself."""

from __future__ import annotations

import mpmath
import pytest
import sympy
from flint import acb, arb, ctx

from derive import activations as a
from derive.activations import z
from derive.arithmetic import balls
from derive.errors import InputError
from derive.gaussian import Shape, gaussian_average, oracle
from derive.gaussian.oracle import _trapezoid

HALF = sympy.Rational(1, 2)


@pytest.mark.parametrize("K", [sympy.Rational(1, 10**8), HALF, 4, 30])
@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (z**6, lambda K: 15 * K**3),
        (sympy.exp(z), lambda K: sympy.exp(K / 2)),
        (sympy.cos(3 * z), lambda K: sympy.exp(-9 * K / 2)),
        (sympy.Abs(z), lambda K: sympy.sqrt(2 * K / sympy.pi)),
        (sympy.Heaviside(z - 1), lambda K: sympy.erfc(1 / sympy.sqrt(2 * K)) / 2),
        (z**3 * sympy.erf(z) + z**2, lambda K: a.erf_scaled(1).average_outer((0,), 3, K) * K**3
         + 3 * K * K * a.erf_scaled(1).average((1,), K) + K),
    ],
)  # fmt: skip
def test_enclosures_hold_the_exact_value(function, exact, K):
    value, radius = gaussian_average(function, K, 25)
    with mpmath.workdps(60):
        truth = mpmath.mpf(sympy.sympify(exact(sympy.sympify(K))).evalf(60))
        assert abs(value - truth) <= radius + mpmath.mpf(10) ** -55
        assert radius <= mpmath.mpf(10) ** -25 * max(abs(truth), 1)


def test_arb_and_mpmath_agree():
    for K in (HALF, 4):
        rigorous = gaussian_average(sympy.tanh(z) ** 2, K, 30)
        estimated = gaussian_average(lambda x: mpmath.tanh(x) ** 2, K, 30)
        assert abs(rigorous.value - estimated.value) < mpmath.mpf(10) ** -28
    kinked = gaussian_average(lambda x: max(x, 0) ** 2, 2, 20, kinks=(0,))
    assert abs(kinked.value - 1) < 1e-18


def test_zero_variance():
    assert gaussian_average(sympy.cos(z) + 2, 0).value == 3
    assert oracle.bracket(a.tanh, Shape((0, 0), (2, 0)), 0).value == 2
    assert oracle.bracket(a.relu, Shape((0, 0), (0, 0)), 0).value == 0
    with pytest.raises(InputError, match="jumps at 0"):
        oracle.bracket(a.relu, Shape((1, 1), (0, 0)), 0)
    with pytest.raises(InputError):
        oracle.bracket(a.relu, Shape((0, 0), (2, 0)), 0)


@pytest.mark.parametrize(
    ("activation", "orders", "outer"),
    [
        (a.leaky_relu(0.1), (0, 1), (1, 1)),
        (a.relu, (1, 1), (0, 0)),
        (a.erf_unit_slope, (0, 0), (1, 1)),
        (a.sin, (0, 0), (0, 2)),
        (a.polynomial([1, 0, 2]), (0, 0), (1, 0)),
    ],
    ids=str,
)
def test_two_positions_meet_closed_forms(activation, orders, outer):
    """Each outer derivative raises its own position's order."""
    K = (HALF, sympy.Rational(-1, 4), 1)
    raised = [order + extra for order, extra in zip(orders, outer, strict=True)]
    exact = activation.average_two(*raised, *K).evalf(25)
    found = oracle.bracket(activation, Shape(orders, outer), [[K[0], K[1]], [K[1], K[2]]], 8)
    assert abs(found.value - mpmath.mpf(exact)) < 1e-7


@pytest.mark.parametrize("gap", [1e-2, 1e-12])
def test_kinks_of_nearly_equal_positions_keep_their_digits(gap):
    """The arc-cosine kernels, in a correlation 1 − gap."""
    rho = 1 - mpmath.mpf(gap)
    K = [[1, rho], [rho, 1]]
    with mpmath.workdps(40):
        sine = mpmath.sqrt(gap * (2 - mpmath.mpf(gap)))
        angle = mpmath.atan2(sine, rho)
        plain = (sine + (mpmath.pi - angle) * rho) / (2 * mpmath.pi)
        slopes = (mpmath.pi - angle) / (2 * mpmath.pi)
    assert abs(oracle.bracket(a.relu, Shape((0, 0), (0, 0)), K, 10).value - plain) < 1e-9
    assert abs(oracle.bracket(a.relu, Shape((0, 0), (1, 1)), K, 10).value - slopes) < 1e-9


def test_singular_covariances():
    shape = Shape((0, 0), (1, 1))
    single = oracle.bracket(a.tanh, Shape((1, 1), (0, 0)), 2, 20).value
    assert abs(oracle.bracket(a.tanh, shape, [[2, 2], [2, 2]], 20).value - single) < 1e-18
    assert oracle.bracket(a.relu, shape, [[1, -2], [-2, 4]], 20).value == 0
    assert abs(oracle.bracket(a.relu, shape, [[1, 2], [2, 4]], 20).value - 0.5) < 1e-18
    zero_row = oracle.bracket(a.softplus, Shape((0, 0), (0, 0)), [[0, 0], [0, 3]], 15).value
    product = mpmath.log(2) * gaussian_average(a.softplus.expr, 3, 15).value
    assert abs(zero_row - product) < 1e-13


def test_hard_tanh_second_derivatives_by_price():
    """⟨∂_1∂_2 σσ⟩ is the slope of ⟨σσ⟩ in K12."""

    def average(shape, K12):
        return oracle.bracket(a.hard_tanh, shape, [[1, K12], [K12, 2]], 6).value

    step = mpmath.mpf(2) ** -6
    plain = Shape((0, 0), (0, 0))
    slope = (average(plain, HALF / 2 + step) - average(plain, HALF / 2 - step)) / (2 * step)
    assert abs(slope - average(Shape((0, 0), (1, 1)), HALF / 2)) < 1e-4


def test_bad_input():
    plain = Shape((0, 0), (0, 0))
    for call in (
        lambda: gaussian_average(z, -1),
        lambda: gaussian_average(z, float("nan")),
        lambda: gaussian_average(z, 1, digits=0),
        lambda: oracle.bracket(a.tanh, plain, [[1, 2], [2, 1]]),
        lambda: oracle.bracket(a.tanh, plain, [[1, 0], [1, 1]]),
        lambda: oracle.bracket(a.tanh, plain, [[1]]),
        lambda: oracle.bracket(a.tanh, Shape((0, 0), (0,)), 1),
        lambda: oracle.bracket(a.relu, Shape((2, 2), (0, 0)), 1),
    ):
        with pytest.raises(InputError):
            call()


def test_what_occurs_twice_is_remembered_for_one_ball_and_one_precision():
    """tanh² + tanh at one ball: as sharp at 200 bits after 53, and nan where a cut is met."""
    function, x = balls.compile_arb(sympy.tanh(z) ** 2 + sympy.tanh(z), z), acb(1)
    accuracies = []
    for bits in (53, 200):
        with ctx.workprec(bits):
            accuracies.append(function(x, False).real.rel_accuracy_bits())
    assert accuracies[0] < 60
    assert accuracies[1] > 180
    twice, wide = balls.compile_arb(sympy.asin(z) ** 2 + sympy.asin(z), z), acb(arb(1, 0.5))
    assert twice(wide, False).is_finite()
    assert not twice(wide, True).is_finite()


def test_what_vanishes():
    """By identities that sympy knows; a ball tells what does not."""
    assert balls.vanishes(sympy.sin(z) ** 2 + sympy.cos(z) ** 2 - 1, z, sympy.Rational(7, 8))
    assert not balls.vanishes(sympy.sin(z) ** 2 - z, z, sympy.Rational(7, 8))
    assert not balls.vanishes(z - 1, z, sympy.Integer(1))


@pytest.mark.parametrize("ends", [(0, 1), (-2, 3)])
def test_the_trapezoid_rule_stays_between_its_ends(ends):
    """Of sin² over whole periods, exact from few points on."""
    left, right = map(mpmath.mpf, ends)
    seen = []

    def wave(x):
        seen.append(x)
        return mpmath.sin(mpmath.pi * (x - left) / (right - left)) ** 2

    value, _ = _trapezoid(wave, left, right, mpmath.mpf(10) ** -12)
    assert abs(value - (right - left) / 2) < 1e-12
    assert left <= min(seen)
    assert max(seen) <= right


def test_hyperbolic_functions_of_wide_variables() -> None:
    """ln cosh z is |z| − ln 2, and more within 1 of 0: ∫ ln(1 + e^{−2|z|}) dz = π²/12."""
    K = sympy.Integer(10) ** 6
    found = gaussian_average(sympy.log(sympy.cosh(z)), K, 25).value
    near = sympy.pi**2 / 12 / sympy.sqrt(2 * sympy.pi * K)
    assert abs(found - (sympy.sqrt(2 * K / sympy.pi) - sympy.log(2) + near).evalf(25)) < 1e-9
    quotient = sympy.sinh(z) / sympy.cosh(z)
    slopes = (gaussian_average(each**2, K, 25).value for each in (sympy.tanh(z), quotient))
    assert abs(next(slopes) - next(slopes)) < 1e-24
