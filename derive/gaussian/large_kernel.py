"""Brackets of one input at large K, in powers of K, for smooth σ that tend to lines at ±∞.

With the lines' product p^± in place of f = Π σ^{(o)} the bracket is the sum of powers that
`small_kernel` has of a Taylor series. The rest r = f − p^± falls exponentially, so that

    ⟨r z^j⟩_K = Σ_i (−1)^i/(2^i i!) K^{−i−1/2} ∫ r z^{j+2i} dz/√(2π) .
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import factorial
from typing import Any

import mpmath
import sympy

from ..arithmetic.hermite import hermite
from ..errors import InputError
from ..symbols import z
from ..work.caches import cache
from .brackets import Bracket
from .oracle import Enclosure
from .pieces import Pieces
from .small_kernel import half_line_moment

_DIGITS = 80
"""Of the arithmetic: r z^k loses those of z^k."""
_ENDS = 0, 2, 8, 32, 120
"""Beyond the last r counts as 0: it falls as e^{−z} or faster."""
_KNOWN = 40


def around_infinity(
    activation: Pieces, bracket: Bracket, count: int
) -> tuple[dict[sympy.Rational, Enclosure], sympy.Rational]:
    """The bracket in powers of K, and the first power that is left out.

    Arguments:
        count: how many i are added up.

    Derived here. Raises InputError for a σ with kinks, and for one that tends to no line.
    """
    orders, outer = bracket.line
    values: dict[sympy.Rational, mpmath.mpf] = defaultdict(mpmath.mpf)
    sizes: dict[sympy.Rational, mpmath.mpf] = defaultdict(mpmath.mpf)

    def add(power: sympy.Rational, value: mpmath.mpf) -> None:
        values[power] += value
        sizes[power] += abs(value)

    with mpmath.workdps(_DIGITS):
        for side in (-1, 1):
            for k, value in enumerate(_far(activation, side, orders)):
                weight = side ** (k + outer) * mpmath.mpf(half_line_moment(k, outer).evalf(_DIGITS))
                add(sympy.Rational(k - outer, 2), weight * value)
        for (j,), weight in sympy.Poly(hermite(outer, z), z).terms():
            for i in range(count):
                scale = (-1) ** i * int(weight) / (mpmath.sqrt(2 * mpmath.pi) * 2**i * factorial(i))
                power = -sympy.Rational(outer + j + 1, 2) - i
                add(power, scale * _moment(activation, orders, int(j) + 2 * i))
        off = mpmath.mpf(10) ** -_KNOWN
        found = {power: Enclosure(value, sizes[power] * off) for power, value in values.items()}
    return found, -sympy.Rational(outer + outer % 2 + 1, 2) - count


def _far(activation: Pieces, side: int, orders: tuple[int, ...]) -> list[mpmath.mpf]:
    """The coefficients of p^±, the product of the derivatives of the line to which σ tends."""
    slope, start = _line(activation, side)
    product = [mpmath.mpf(1)]
    for order in orders:
        line = [[start, slope], [slope], [mpmath.mpf(0)]][min(order, 2)]
        below = [mpmath.mpf(0)] * (len(product) + len(line) - 1)
        for k, one in enumerate(product):
            for j, other in enumerate(line):
                below[k + j] += one * other
        product = below
    return product


@cache
def _line(activation: Pieces, side: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """(a, b) of the line a z + b to which σ tends."""
    with mpmath.workdps(_DIGITS):
        at = [mpmath.mpf(side * _ENDS[-1] * k) for k in (1, 2, 3)]
        one, two, three = map(_function(activation, (0,)), at)
        if not activation.is_smooth or abs(one - 2 * two + three) > mpmath.mpf(10) ** -_KNOWN:
            wanted = "a smooth one that tends to a line at ±∞, where K grows"
            raise InputError("activation", str(activation), wanted)
        slope = (two - one) / at[0]
        return slope, one - slope * at[0]


@cache
def _function(activation: Pieces, orders: tuple[int, ...]) -> Callable[[mpmath.mpf], Any]:
    """Π σ^{(orders)} of mpmath's numbers."""
    product = sympy.prod([activation.derivative(order) for order in orders])
    made: Callable[[mpmath.mpf], Any] = sympy.lambdify(z, product, "mpmath")
    return made


@cache
def _moment(activation: Pieces, orders: tuple[int, ...], power: int) -> mpmath.mpf:
    """∫ r z^power dz over both sides."""
    with mpmath.workdps(_DIGITS):
        total, function = mpmath.mpf(0), _function(activation, orders)
        for side in (-1, 1):
            line = _far(activation, side, orders)[::-1]

            def rest(x: mpmath.mpf) -> mpmath.mpf:
                at = side * x  # noqa: B023
                return (function(at) - mpmath.polyval(line, at)) * at**power  # noqa: B023

            total += mpmath.quad(rest, _ENDS)
        return total
