"""Series in 1/ℓ and log ℓ: their arithmetic, one step of depth, and recursions, by substitution."""

from __future__ import annotations

import mpmath
import pytest
import sympy

from derive import activations as a
from derive.arithmetic import EXACT, BallRing, LogSeries, ring, solve_linear
from derive.errors import InputError
from derive.gaussian import Bracket, Shape, around_zero, oracle, small_kernel_average
from derive.symbols import K, z

R = sympy.Rational
ONE = sympy.Integer(1)


def series(over, terms, order=EXACT):
    return LogSeries(over, {(R(e), b): over(c) for (e, b), c in terms.items()}, order)


def value(made, layer):
    """The known terms at a layer, to mpmath's digits."""
    at = mpmath.mpf(layer)
    return sum(
        mpmath.mpf(made.ring.expr(c).evalf(60)) * at ** -mpmath.mpf(e) * mpmath.log(at) ** b
        for (e, b), c in made.terms.items()
    )


RATIONAL = ring([])
SOURCE = {(ONE, 0): R(2, 3), (R(3, 2), 2): R(-5), (2, 1): R(1, 7), (3, 3): R(4)}


def test_product_power_and_step_are_those_of_functions():
    """What is left out falls like ℓ^{−order}, times logarithms."""
    one = series(RATIONAL, SOURCE)
    other = series(RATIONAL, {(0, 0): 3, (1, 1): R(1, 2), (2, 0): -1})
    pairs = [
        (one * other, lambda at: value(one, at) * value(other, at)),
        (other.power(-ONE, sympy.Integer(4)), lambda at: 1 / value(other, at)),
        (one.shifted(sympy.Integer(6)), lambda at: value(one, at + 1)),
        (one.shifted(sympy.Integer(6), by=-1), lambda at: value(one, at - 1)),
    ]
    with mpmath.workdps(60):
        for made, wanted in pairs:
            for at in (10**4, 10**8):
                bound = mpmath.mpf(10) ** -50
                if made.order is not EXACT:
                    bound = 100 * mpmath.log(at) ** 8 * mpmath.mpf(at) ** -mpmath.mpf(made.order)
                assert abs(value(made, at) - wanted(at)) <= bound


def test_a_square_root_needs_its_leading_root():
    over = ring([sympy.sqrt(3)])
    made = series(over, {(ONE, 0): 3, (2, 1): 1}).power(R(1, 2), sympy.Integer(2))
    assert over.expr(made.coefficient(R(1, 2))) == sympy.sqrt(3)
    with pytest.raises(InputError, match="power of ℓ alone"):
        series(RATIONAL, {(ONE, 1): 1}).power(-ONE, sympy.Integer(2))


@pytest.mark.parametrize("exponent", [R(0), R(1), R(2), R(1, 2), R(5, 3), R(-1)])
def test_linear_recursions_by_substitution(exponent):
    """T(ℓ+1) − a T − s vanishes to the solution's order, with every p, resonant (p = 1, 2) or not,
    and the free constant multiplies ℓ^{−p}."""
    c = sympy.Symbol("c")
    over = ring([c])
    factor = series(over, {(0, 0): 1, (1, 0): -exponent, (2, 1): R(1, 3), (3, 0): -2})
    source = series(over, {(2, 0): 1, (3, 1): R(-3, 2), (3, 0): 5})
    solution = solve_linear(factor, source, over(c), sympy.Integer(4))
    assert over.expr(solution.coefficient(exponent)).coeff(c) == 1
    residual = solution.shifted(solution.order + 1) - factor * solution - source
    assert residual.terms == {}
    assert residual.order >= min(exponent, 1) + 3


def test_sums_are_faulhabers_polynomials():
    """T(ℓ+1) = T(ℓ) + ℓ² gives (ℓ−1)ℓ(2ℓ−1)/6 exactly, but for its constant."""
    one = series(RATIONAL, {(0, 0): 1})
    solution = solve_linear(one, series(RATIONAL, {(-2, 0): 1}), RATIONAL(0), sympy.Integer(1))
    assert solution.order is EXACT
    assert solution.terms == {
        (sympy.Integer(-3), 0): RATIONAL(R(1, 3)),
        (sympy.Integer(-2), 0): RATIONAL(R(-1, 2)),
        (sympy.Integer(-1), 0): RATIONAL(R(1, 6)),
    }


@pytest.mark.parametrize("terms", [{(0, 0): 2}, {(0, 0): 1, (R(1, 2), 0): 1}, {}])
def test_factors_that_are_no_powers_are_refused(terms):
    with pytest.raises(ArithmeticError, match="1 − p/ℓ"):
        solve_linear(series(RATIONAL, terms), series(RATIONAL, {}), RATIONAL(1), ONE)


def test_coefficients_are_exact():
    g, x = sympy.symbols("gamma x")
    over = ring([sympy.sqrt(2) * x, 1 / g**2, sympy.pi, sympy.sqrt(6)])
    made = over(sympy.sqrt(2) * x + sympy.pi / g) ** 2
    wanted = 2 * x**2 + 2 * sympy.sqrt(2) * sympy.pi * x / g + sympy.pi**2 / g**2
    assert sympy.expand(over.expr(made) - wanted) == 0
    assert over.is_zero(over(sympy.sqrt(2)) * over(sympy.sqrt(3)) - over(sympy.sqrt(6)))


def test_related_numbers_are_told_by_value():
    """sin² 1 + cos² 1 = 1 is no identity of polynomials."""
    sine, cosine, x = sympy.sin(1), sympy.cos(1), sympy.Symbol("x")
    over = ring([sine, cosine, x])
    difference = over(sine) ** 2 + over(cosine) ** 2 - over(1)
    assert over.is_zero(difference * over(x))
    assert not over.is_zero(over(sine) * over(x))


@pytest.mark.parametrize(
    "activation", [a.tanh, a.arctan, a.erf_unit_slope, a.from_expr("sin(z)*exp(-z**2)")]
)
def test_taylor_series_are_the_derivatives(activation):
    derivatives = [activation.derivative(k).subs(z, 0) / sympy.factorial(k) for k in range(8)]
    assert activation.taylor(7) == tuple(map(sympy.simplify, derivatives))


KINKED = a.from_expr("z-z*abs(z)/(1+z**2)")


@pytest.mark.parametrize("activation", [a.tanh, KINKED, a.from_expr("tanh(z)+z**2/10")], ids=str)
@pytest.mark.parametrize("orders", [(0, 0), (0, 0, 0, 0), (0, 0, 1, 1), (1, 1)])
def test_brackets_around_zero(activation, orders):
    """⟨∂^{2m} f⟩ = 2^m (d/dK)^m ⟨f⟩, ⟨f⟩ without derivatives outside."""
    for m in (0, 1, 2):
        bracket = Bracket(tuple((1, order) for order in orders), (1,) * (2 * m))
        found = around_zero(activation, bracket, sympy.Integer(2))
        made = sum((c * K**e for e, c in found.items()), sympy.Integer(0))
        wanted = small_kernel_average(activation, orders, 2 + m)
        assert sympy.expand(made - 2**m * sympy.diff(wanted, K, m)) == 0


@pytest.mark.parametrize(("orders", "outer"), [((0, 0), 4), ((0, 1), 3), ((1, 1), 2), ((0, 2), 0)])
def test_kinked_brackets_have_powers_of_the_square_root(orders, outer):
    """At K = 10^−6 against quadrature, with the negative power that a δ at 0 brings in."""
    found = around_zero(KINKED, Bracket(tuple((1, o) for o in orders), (1,) * outer), ONE * 3)
    made = sum(c.evalf(30) * R(1, 10**6) ** e for e, c in found.items())
    shape = Shape(orders, (outer,) + (0,) * (len(orders) - 1))
    wanted = oracle.bracket(KINKED, shape, R(1, 10**6), 20).value
    assert float(made) == pytest.approx(float(wanted), rel=1e-12)


def test_odd_outer_derivatives():
    """⟨(σσ')'⟩ = ½⟨(σ²)''⟩."""
    single = around_zero(a.tanh, Bracket(((1, 0), (1, 1)), (1,)), sympy.Integer(3))
    double = around_zero(a.tanh, Bracket(((1, 0), (1, 0)), (1, 1)), sympy.Integer(3))
    assert single == {e: c / 2 for e, c in double.items()}


def test_derivatives_of_a_kink_are_refused():
    with pytest.raises(InputError, match="kink"):
        around_zero(a.relu, Bracket(((1, 2), (1, 2))), ONE)


def ball(over, number, digits):
    """The number to so many digits, as an element."""
    with mpmath.workdps(digits + 20):
        value = mpmath.mpf(number.evalf(digits + 20))
        return over.ball(value, abs(value) * mpmath.mpf(10) ** -digits)


def test_exponents_that_differ_by_rounding_are_a_resonance():
    """Of T(ℓ+1) = (1 − 2p/ℓ) T(ℓ) + ℓ^{−2p−1}, p known to 50 digits: T = ℓ^{−2p} (log ℓ + c)."""
    over, number = BallRing((K,)), sympy.sqrt(2)
    p = over.exponent(ball(over, number, 50))
    factor = LogSeries(over, {(R(0), 0): over.one, (R(1), 0): -ball(over, 2 * number, 49)})
    source = LogSeries(over, {(2 * p + 1, 0): over.one}, 2 * p + 3)
    solved = solve_linear(factor, source, over(K), R(2))
    (first, log), (second, none) = (key for key, _ in solved.ordered()[:2])
    assert (first, log, second, none) == (2 * p, 1, 2 * p, 0)
    assert abs(over.expr(solved.coefficient(2 * p, 1)) - 1) < 1e-25
    assert abs(over.expr(solved.coefficient(2 * p)).coeff(K) - 1) < 1e-25


def test_a_difference_without_digits_is_no_zero():
    """(10⁴⁰ ± 10²⁰) − (10⁴⁰ + 10¹⁹ ± 10²⁰) says nothing of 1 beside it."""
    over = BallRing(())
    with mpmath.workdps(90):
        large, radius = mpmath.mpf(10) ** 40, mpmath.mpf(10) ** 20
        first, second = over.ball(large, radius), over.ball(large + radius / 10, radius)
    with pytest.raises(ArithmeticError, match="lost its digits"):
        first - second
