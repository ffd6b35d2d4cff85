"""Coefficients that are known as numbers: polynomials in symbols over balls, value ± radius.

The same face as the exact ring of `rings`, for `logseries`. A coefficient that cannot be told from
0 at this precision is taken for 0, and an exponent for the simple fraction that it cannot be told
from; where that would decide something with fewer than half of the digits, it raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from operator import add
from typing import Any, TypeAlias

import mpmath
import sympy
from flint import arb, ctx, fmpq

from .balls import exactly, to_mpf
from .polynomials import gathered

Powers: TypeAlias = tuple[sympy.Rational, ...]

BITS = 320
"""Of the arithmetic; what goes in has fewer."""
_UNSURE = -15
_DENOMINATOR = 60
_SHOWN = 30
_EXPONENT = 80  # digits, more than any ball here has, so that the exponent stays within its ball


@dataclass(frozen=True)
class Polynomial:
    """Σ terms[powers] · Π generator^power, each coefficient a ball that does not hold 0."""

    terms: Mapping[Powers, arb]

    def __add__(self, other: Polynomial) -> Polynomial:
        return _sum([*self.terms.items(), *other.terms.items()])

    def __neg__(self) -> Polynomial:
        with ctx.workprec(BITS):
            return Polynomial({powers: -value for powers, value in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + (-other)

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            return _sum((powers, value * other) for powers, value in self.terms.items())
        pairs = product(self.terms.items(), other.terms.items())
        return _sum((tuple(map(add, a, b)), x * y) for (a, x), (b, y) in pairs)

    __rmul__ = __mul__

    def __bool__(self) -> bool:
        return bool(self.terms)


def _sum(terms: Iterable[tuple[Powers, arb]]) -> Polynomial:
    """The sum of terms, which are made as they are added, at the precision of all."""
    with ctx.workprec(BITS):
        return _sure(gathered(terms))


def _sure(terms: Mapping[Powers, arb]) -> Polynomial:
    kept = {}
    for powers, value in terms.items():
        if not value.contains(0):
            kept[powers] = value
        elif value.rad() > arb(10) ** _UNSURE:
            raise ArithmeticError(f"a coefficient {value} has lost its digits")
    return Polynomial(kept)


@dataclass(frozen=True)
class BallRing:
    """Polynomials over balls in these symbols, with fractional and negative powers.

    It stands in for a `rings.Ring`, and for its own domain.
    """

    generators: tuple[sympy.Symbol, ...]

    @property
    def domain(self) -> BallRing:
        """Itself: elements come from it alone."""
        return self

    @property
    def fractions(self) -> BallRing:
        """Itself: a product of powers has its inverse here."""
        return self

    def convert_from(self, value: Any, source: object) -> Any:
        """The element as it is."""
        return value

    @property
    def zero(self) -> Polynomial:
        """0."""
        return Polynomial({})

    @property
    def one(self) -> Polynomial:
        """1."""
        return self(1)

    def __call__(self, expression: sympy.Expr | int | Fraction) -> Polynomial:
        """The element equal to this expression."""
        if isinstance(expression, (int, Fraction, sympy.Rational)):
            with ctx.workprec(BITS):
                number = arb(fmpq(int(expression.numerator), int(expression.denominator)))
                return _sure({(sympy.S.Zero,) * len(self.generators): number})
        total = self.zero
        for term in sympy.Add.make_args(sympy.expand(sympy.sympify(expression))):
            number, rest = term.as_independent(*self.generators, as_Add=False)
            powers = [sympy.S.Zero] * len(self.generators)
            for factor in sympy.Mul.make_args(rest):
                base, exponent = factor.as_base_exp()
                if factor != 1:
                    powers[self.generators.index(base)] += exponent
            with ctx.workprec(BITS):
                total = total + _sure({tuple(powers): _number(number)})
        return total

    def ball(self, value: mpmath.mpf, radius: mpmath.mpf) -> Polynomial:
        """The number `value`, known to this radius."""
        with ctx.workprec(BITS):
            around = arb(_rational(value), _rational(abs(radius) * (1 + mpmath.mpf(2) ** -40)))
            return _sure({(sympy.S.Zero,) * len(self.generators): around})

    def expr(self, element: Polynomial) -> sympy.Expr:
        """The element with decimal numbers of as many digits as are known, 30 at most."""
        parts = []
        for powers, value in element.terms.items():
            symbols = zip(self.generators, powers, strict=True)
            parts.append(_decimal(value) * sympy.prod(base**power for base, power in symbols))
        return sympy.Add(*parts)

    def radius(self, element: Polynomial) -> sympy.Expr:
        """How far the element's numbers can be off, with |each symbol| as it is."""
        parts = []
        with ctx.workprec(BITS):
            for powers, value in element.terms.items():
                off = sympy.Float(to_mpf(value.rad().upper()), 3)
                off += abs(_decimal(value)) * sympy.Float(10) ** (1 - _SHOWN)
                symbols = zip(self.generators, powers, strict=True)
                parts.append(off * sympy.prod(abs(base) ** power for base, power in symbols))
        return sympy.Add(*parts)

    def exponent(self, element: Polynomial) -> sympy.Expr:
        """A number as an exact exponent: the simple fraction it is, or its digits.

        Raises ArithmeticError where it depends on a symbol.
        """
        if not element.terms:
            return sympy.S.Zero
        powers, value = next(iter(element.terms.items()))
        if len(element.terms) > 1 or any(powers):
            raise ArithmeticError(f"an exponent {self.expr(element)} that is no number")
        middle = to_mpf(value.mid())
        with mpmath.workprec(BITS):
            near = Fraction(str(mpmath.nstr(middle, 50))).limit_denominator(_DENOMINATOR)
            simple = sympy.Rational(near.numerator, near.denominator)
            with ctx.workprec(BITS):
                if value.contains(arb(fmpq(near.numerator, near.denominator))):
                    return simple
            return sympy.Rational(str(mpmath.nstr(middle, _EXPONENT)))

    def power(self, element: Polynomial, exponent: sympy.Rational) -> Polynomial:
        """element^exponent; of a sum only whole powers, and real ones.

        Raises ArithmeticError for another.
        """
        if exponent.is_Integer and exponent >= 0:
            result = self.one
            for _ in range(int(exponent)):
                result = result * element
            return result
        if len(element.terms) != 1:
            raise ArithmeticError(f"the power {exponent} of the sum {self.expr(element)}")
        ((powers, value),) = element.terms.items()
        if not exponent.is_Integer and not value > 0:
            raise ArithmeticError(f"the power {exponent} of {self.expr(element)}, which is below 0")
        with ctx.workprec(BITS):
            raised = value ** arb(fmpq(int(exponent.p), int(exponent.q)))
            return _sure({tuple(power * exponent for power in powers): raised})

    def is_zero(self, element: Polynomial) -> bool:
        """True if no coefficient can be told from 0."""
        return not element.terms


def _number(value: sympy.Expr) -> arb:
    if value.is_Rational:
        return arb(fmpq(int(value.p), int(value.q)))
    digits = 90
    middle = mpmath.mpf(value.evalf(digits))
    with mpmath.workdps(digits):
        return arb(_rational(middle), _rational(abs(middle) * mpmath.mpf(10) ** (5 - digits)))


def _rational(value: mpmath.mpf) -> arb:
    with ctx.workprec(2 * BITS):
        exact = exactly(value)
        return arb(fmpq(int(exact.p), int(exact.q)))


def _decimal(value: arb) -> sympy.Expr:
    with ctx.workprec(BITS), mpmath.workprec(BITS):
        middle, radius = to_mpf(value.mid()), to_mpf(value.rad().upper())
        known = _SHOWN
        if radius:
            known = min(_SHOWN, int(mpmath.log10(abs(middle) / radius)))
        return sympy.Float(middle, max(1, known))
