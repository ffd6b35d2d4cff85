"""Fixed points of the dense layer's kernel, and expansions around those with K* > 0, in numbers.

No such K* is rational in general, nor are Gaussian averages there. By Price's theorem,
d⟨F⟩_K/dK = ½⟨F''⟩_K, a bracket is a power series in δ = K − K* with averages at K* for
coefficients. Two kinds of fixed point let depth act in a way that can be solved:

* Half-stable, χ_∥ = 1 (and χ_⊥ = 1) with δ' = δ + aδ² + bδ³ + …, a ≠ 0. Then 1/δ' = 1/δ − a +
  (a² − b)δ + …, so that δ = −1/(aℓ) + O(log ℓ/ℓ²) from the side where aδ < 0, as at K* = 0 with
  exponent 1. As a factor χ_∥ = 1 + 2aδ + … is 1 − 2/ℓ, every tensor follows a power of ℓ, with
  χ_⊥ = 1 − p/ℓ + …, p = (C_W/a) d⟨σ'σ'⟩/dK, not rational.
* Stable, |χ_∥| < 1. Then δ ~ χ_∥^ℓ, below every power of ℓ: up to what falls exponentially the
  brackets stay as they are at K*, and T(ℓ+1) = a T(ℓ) + s has T = s/(1 − a) for its limit,
  approached as a^ℓ, where |a| < 1; a line in ℓ where a = 1; and grows as a^ℓ where |a| > 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import mpmath
import sympy

from ..activations.functions import Activation
from ..citations import rests_on
from ..errors import InputError
from ..expressions import as_expression
from ..gaussian.brackets import Bracket
from ..gaussian.oracle import Enclosure
from ..gaussian.small_kernel import around_point
from ..layers import dense
from ..symbols import C_W as WEIGHT
from ..symbols import K, z
from ..work.caches import cache
from .layer_functions import floating, functions, number
from .zeros import Function, Profile, between, even_part, extended, follows, profile, zeros

_ROUNDING = 10 ** mpmath.mpf(-13)  # of K' − K, beside K
_LINE_DIGITS = 150  # of σ(0)² and g'(0)
_LINE = mpmath.mpf(10) ** -120  # where σ(0)² is 0
_SAME = 10 ** mpmath.mpf(-18)  # of C_W, where every K is fixed
ValueAndSlope: TypeAlias = Callable[[mpmath.mpf], tuple[Enclosure, Enclosure]]

DIGITS = 50
"""Of K* and of the averages there."""
_FIRST = 15
_SIGMA, _BALANCE = (Bracket(((1, 0), (1, b))) for b in (0, 2))


@rests_on("roberts2022")
def fixed_points(
    activation: Activation,
    C_b: sympy.Expr | float,
    C_W: sympy.Expr | float,
    digits: int = 20,
) -> list[tuple[sympy.Expr, sympy.Expr, sympy.Expr]]:
    """The K* > 0 of K = C_b + C_W ⟨σσ⟩_K, ascending, each with χ_∥ and χ_⊥ there.

    K* attracts where χ_∥ < 1. Where every K is fixed, so that σ² is even up to C_W^{−1} z², there
    is one entry: the symbol `K`, 1, and χ_⊥ as a function of it.

    Arguments:
        activation: σ.
        C_b, C_W: variances, 0 or more.
        digits: of K*, proven by the signs of K' − K at K*(1 ± 10^{−digits}).

    Found where K' − K changes sign on a scan in log K that ends where K' − K follows its laws at
    small and at large K. Raises InputError for what is no variance.

    >>> from derive import activations
    >>> fixed_points(activations.relu, 1, 1, digits=5)
    [(2.0000, 0.50000, 0.50000)]
    >>> fixed_points(activations.relu, 0, 2)
    [(K, 1, 1)]
    """
    if not (number(C_W) >= 0 and number(C_b) >= 0):
        raise InputError("C_b, C_W", (C_b, C_W), "variances, 0 or more")
    step, parallel, perp = functions(activation, dense())
    if every_rests(activation, C_b, C_W):
        weight = as_expression("C_W", C_W, "a variance")
        along = perp.bare if perp.closed is None else perp.closed
        along = sympy.simplify(along.subs(WEIGHT, weight))
        return [(K, sympy.Integer(1), along)]

    def excess(at: mpmath.mpf, wanted: int) -> mpmath.mpf:
        return step(at, C_W, C_b, wanted) - at

    return [
        (
            floating(root, digits),
            floating(parallel(root, C_W, digits=digits), digits),
            floating(perp(root, C_W, digits=digits), digits),
        )
        for root in at_rest(activation, C_b, C_W, excess, digits)
    ]


def every_rests(activation: Activation, C_b: sympy.Expr | float, C_W: sympy.Expr | float) -> bool:
    """True if K' = K for every K, to 18 digits of C_W."""
    if number(C_b) != 0 or not is_line(activation):
        return False
    with mpmath.workdps(40):
        return bool(abs(number(C_W) * number(slope_at_zero(activation)) - 1) < _SAME)


def at_rest(
    activation: Activation,
    C_b: sympy.Expr | float,
    C_W: sympy.Expr | float,
    excess: Function,
    digits: int,
) -> Iterator[mpmath.mpf]:
    """The K > 0 at which K' − K, given as a function, changes sign, each to 10^{−digits}."""
    low, high = _excess_range(activation, number(C_b), number(C_W), excess)
    return zeros(excess, low, high, digits, sign_from=lambda at: _ROUNDING * at)


def is_line(activation: Activation) -> bool:
    """True if ⟨σσ⟩ = g'(0) K for every K: the even part of σ² is g'(0) z², and nothing more.

    The heat equation takes no other function to one linear in K. Decided by 100 digits of 300 z.
    """
    if slope_at_zero(activation) == 0 or any(kink != 0 for kink in activation.kinks):
        return False
    with mpmath.workdps(_LINE_DIGITS):
        starts_at_zero = abs(even_part(activation, (0, 0))(mpmath.mpf(0))) < _LINE
    return starts_at_zero and _bend(activation).vanishes


@cache
def slope_at_zero(activation: Activation) -> sympy.Expr:
    """g'(0) = ½(σ'(0−)² + σ'(0+)²) where σ(0) = 0."""
    left, right = (activation.beside_zero(side).diff(z).subs(z, 0) for side in (-1, 1))
    return sympy.simplify((left**2 + right**2) / 2)


def _excess_range(
    activation: Activation,
    bias: mpmath.mpf,
    weight: mpmath.mpf,
    excess: Callable[[mpmath.mpf, int], mpmath.mpf],
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The K beyond which K' − K follows its law at either end.

    K' − K → C_b + C_W σ(0)² for small K; where that is 0, (χ − 1)K with χ = C_W g'(0), and where
    that is 0 too, what the next power of K makes it. For large K it is C_W ⟨σσ⟩ − K, ⟨σσ⟩ a power.
    """
    floor = bias + weight * even_part(activation, (0, 0))(mpmath.mpf(0))
    slope = number(slope_at_zero(activation))
    low, high = between(_bend(activation))
    limit, order = (floor, 0) if floor else (weight * slope - 1, 1)
    if limit:
        low = min(low, abs(limit) * low, floor or mpmath.inf)
        law = follows(excess, lambda at: limit * at**order)
        low, _ = extended(low, mpmath.mpf("0.1"), law)
    at_infinity = _squares(activation)
    high = max(high, between(at_infinity)[1], 100 * floor, 100 * _crossing(at_infinity, weight))

    def far(at: mpmath.mpf) -> mpmath.mpf | None:
        squares = at_infinity.at_infinity(at)
        predicted = None if squares is None else weight * squares - at
        return predicted if predicted and abs(predicted) >= at * mpmath.mpf(10) ** -12 else None

    high, _ = extended(high, mpmath.mpf(10), follows(excess, far))
    return low, high


@cache
def _squares(activation: Activation) -> Profile:
    """Of σ²."""
    return profile(activation, even_part(activation, (0, 0)))


@cache
def _bend(activation: Activation) -> Profile:
    """Of σ² − σ(0)² − g'(0) z², as far as it is even."""
    squares = even_part(activation, (0, 0))
    with mpmath.workdps(_LINE_DIGITS):
        floor = squares(mpmath.mpf(0))
        slope = mpmath.mpf(slope_at_zero(activation).evalf(_LINE_DIGITS))
    return profile(activation, lambda at: squares(at) - floor - slope * at**2)


def _crossing(at_infinity: Profile, weight: mpmath.mpf) -> mpmath.mpf:
    """The K at which the law C_W ⟨σσ⟩ = C K^{p/2} of large K crosses K; 0 where it does not."""
    coefficient, power = at_infinity.at_infinity(mpmath.mpf(1)), at_infinity.power
    if not weight or not coefficient or power is None or abs(power - 2) < mpmath.mpf("1e-6"):
        return mpmath.mpf(0)
    return (weight * coefficient) ** (1 / (1 - power / 2))


@cache(entries=2**8)
def half_stable(activation: Activation, near: sympy.Expr) -> Enclosure:
    """The isolated critical K* near this one, to 50 digits."""
    with mpmath.workdps(DIGITS + 20):
        start = mpmath.mpf(sympy.N(near, DIGITS + 10))

        def balance(at: mpmath.mpf) -> tuple[Enclosure, Enclosure]:
            value, slope = around_point(activation, _BALANCE, at, 2, DIGITS + 5)
            return value, slope

        return _sharpened(balance, start)


@cache(entries=2**8)
def stable(activation: Activation, C_b: sympy.Expr, C_W: sympy.Expr) -> Enclosure:
    """The one K* > 0 that attracts at these variances, to 50 digits.

    Raises InputError where none does, or several.
    """
    found = fixed_points(activation, C_b, C_W, _FIRST)
    if any(at.free_symbols for at, _, _ in found):
        raise InputError("C_b, C_W", (C_b, C_W), "those of an isolated K*: here every K is fixed")
    close = [(at, parallel) for at, parallel, _ in found if abs(parallel) < 1]
    if len(close) != 1:
        listed = ", ".join(
            f"K* = {sympy.N(at, 6)} with χ_∥ = {sympy.N(x, 6)}" for at, x, _ in found
        )
        wanted = f"variances with one K* > 0 that attracts (found: {listed or 'no K* > 0'})"
        raise InputError("C_b, C_W", (C_b, C_W), wanted)
    with mpmath.workdps(DIGITS + 20):
        bias, weight = (mpmath.mpf(sympy.N(each, DIGITS + 20)) for each in (C_b, C_W))
        near = mpmath.mpf(close[0][0])

        def excess(at: mpmath.mpf) -> tuple[Enclosure, Enclosure]:
            value, slope = around_point(activation, _SIGMA, at, 2, DIGITS + 5)
            miss = Enclosure(bias + weight * value.value - at, weight * value.radius)
            return miss, Enclosure(weight * slope.value - 1, weight * slope.radius)

        return _sharpened(excess, near)


def _sharpened(function: ValueAndSlope, near: mpmath.mpf) -> Enclosure:
    """The zero by Newton's method, with twice its last step and the function's error for radius."""
    goal = near * mpmath.mpf(10) ** -DIGITS
    for _ in range(12):
        value, slope = function(near)
        step = value.value / slope.value
        near -= step
        radius = 2 * (step**2 / near + value.radius / abs(slope.value))
        if abs(step) < goal:
            return Enclosure(near, 2 * abs(step) + radius)
    raise InputError("activation", f"a fixed point near {mpmath.nstr(near, 8)}", "a simple one")
