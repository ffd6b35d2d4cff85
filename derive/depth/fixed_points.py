"""Fixed points of the kernel at given C_b and C_W."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mpmath
import sympy

from ..activations.functions import Activation
from ..citations import rests_on
from ..errors import InputError
from ..expressions import as_expression
from ..layers import dense
from ..symbols import C_W as WEIGHT
from ..symbols import K, z
from ..work.caches import cache
from .layer_functions import floating, functions, number
from .zeros import Function, Profile, between, even_part, extended, profile, same_power, zeros

_ROUNDING = 10 ** mpmath.mpf(-13)  # of K' − K, beside K
_LINE_DIGITS = 150  # of σ(0)² and g'(0)
_LINE = mpmath.mpf(10) ** -120  # where σ(0)² is 0
_SAME = 10 ** mpmath.mpf(-18)  # of C_W, where every K is fixed


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
        low, _ = extended(
            low, mpmath.mpf("0.1"), lambda at: abs(excess(at, 15) / at**order / limit - 1) < 0.25
        )
    at_infinity = _squares(activation)
    high = max(high, between(at_infinity)[1], 100 * floor, 100 * _crossing(at_infinity, weight))

    def settled(at: mpmath.mpf) -> bool:
        law = at_infinity.at_infinity(at)
        if law is None:
            return same_power(excess)(at)
        predicted = weight * law - at
        if abs(predicted) < at * mpmath.mpf(10) ** -12:
            return same_power(excess)(at)
        return bool(abs(excess(at, 15) / predicted - 1) < 0.25)

    high, _ = extended(high, mpmath.mpf(10), settled)
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
