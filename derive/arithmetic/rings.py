"""Exact coefficients: polynomials in symbols and in numbers such as π, over Q or a number field.

The ring is built to hold given expressions, so that arithmetic with them, and every test for zero,
is exact and needs no simplification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, TypeAlias

import sympy
from sympy.polys.domains import QQ

from ..work.caches import cache

Element: TypeAlias = Any
"""A member of a ring: sympy's domain elements, with +, −, * and ==."""

_DIGITS = 40


@dataclass(frozen=True)
class Ring:
    """Polynomials, or fractions of them, in `generators` over a number field.

    Attributes:
        units: for each base its generator, base^unit: γ^{−1} where only powers of 1/γ occur.
        domain: sympy's domain, in placeholders for the generators.
    """

    units: Mapping[sympy.Expr, sympy.Rational]
    placeholders: Mapping[sympy.Expr, sympy.Symbol]
    domain: Any

    def __call__(self, expression: sympy.Expr | int | Fraction) -> Element:
        """The element equal to this expression."""
        if isinstance(expression, (int, Fraction, sympy.Rational)):
            number = QQ(expression.numerator, expression.denominator)
            return self.domain.convert_from(number, QQ)
        total = self.domain.zero
        for term in sympy.Add.make_args(_tidy(expression)):
            product = self.domain.one
            for factor in sympy.Mul.make_args(term):
                base, exponent = _power(factor)
                if _is_sum_below(base, exponent):
                    product /= self(base) ** int(-exponent)
                    continue
                if base in self.units:
                    inner = self.placeholders[base] ** (exponent / self.units[base])
                else:
                    inner = factor
                product *= self.domain.from_sympy(inner)
            total += product
        return total

    def expr(self, element: Element) -> sympy.Expr:
        """The element as a sympy expression."""
        back = {self.placeholders[base]: base**unit for base, unit in self.units.items()}
        return sympy.expand(self.domain.to_sympy(element).xreplace(back))

    def radius(self, element: Element) -> sympy.Expr:
        """How far an element can be off: it is exact."""
        return sympy.Integer(0)

    def exponent(self, element: Element) -> sympy.Expr:
        """The element as an exponent of ℓ."""
        return self.expr(element)

    def power(self, element: Element, exponent: sympy.Rational) -> Element:
        """element^exponent, where it exists in the ring."""
        if exponent.is_Integer and exponent >= 0:
            return element ** int(exponent)
        if exponent.is_Integer and self.domain.is_Field:
            return (self.domain.one / element) ** int(-exponent)
        return self(self.expr(element) ** exponent)

    def is_zero(self, element: Element) -> bool:
        """True if it vanishes; by value where two numbers such as sin 1, cos 1 may be related."""
        if not element:
            return True
        if len(self._numbers) < 2:
            return False
        return all(
            abs(value.evalf(_DIGITS)) < 10 ** (-_DIGITS // 2)
            for value in self.expr(element).as_coefficients_dict(*self._symbols).values()
        )

    @cached_property
    def fractions(self) -> Ring:
        """The field of fractions of this ring."""
        return Ring(self.units, self.placeholders, self.domain.get_field())

    @cached_property
    def _numbers(self) -> tuple[sympy.Expr, ...]:
        return tuple(base for base in self.units if base.is_number)

    @cached_property
    def _symbols(self) -> tuple[sympy.Expr, ...]:
        return tuple(base for base in self.units if not base.is_number)


def ring(expressions: Iterable[sympy.Expr]) -> Ring:
    """The smallest ring of this kind that holds these expressions."""
    exponents: dict[sympy.Expr, set[sympy.Rational]] = {}
    algebraic: set[sympy.Expr] = set()
    for expression in expressions:
        for base, exponent in _factors(expression):
            if base.is_number and base.is_algebraic:
                algebraic.add(base**exponent)
            else:
                exponents.setdefault(base, set()).add(exponent)
    units: dict[sympy.Expr, sympy.Rational] = {}
    mixed = False
    for base in sorted(exponents, key=sympy.default_sort_key):
        found = exponents[base]
        sign = -1 if all(exponent < 0 for exponent in found) else 1
        mixed |= sign > 0 and any(exponent < 0 for exponent in found)
        units[base] = sympy.Rational(sign, lcm(*(int(exponent.q) for exponent in found)))
    ground = QQ.algebraic_field(*sorted(algebraic, key=str)) if algebraic else QQ
    placeholders = {base: sympy.Dummy(f"g{k}") for k, base in enumerate(units)}
    if not units:
        return Ring(units, placeholders, ground)
    over = ground.frac_field if mixed else ground.poly_ring
    return Ring(units, placeholders, over(*placeholders.values()))


def _factors(expression: sympy.Expr) -> Iterator[tuple[sympy.Expr, sympy.Rational]]:
    """The powers of everything but rational numbers that the expanded expression consists of."""
    for term in sympy.Add.make_args(_tidy(expression)):
        for factor in sympy.Mul.make_args(term):
            base, exponent = _power(factor)
            if _is_sum_below(base, exponent):
                for each, power in _factors(base):
                    yield each, power
                    yield each, -power  # so that the ring is a field
            elif not factor.is_Rational:
                yield base, exponent


def _is_sum_below(base: sympy.Expr, exponent: sympy.Rational) -> bool:
    """True if a factor is one over a sum of numbers, such as 1/(1 + π)."""
    return bool(base.is_Add and base.is_number and exponent.is_Integer and exponent < 0)


def _power(factor: sympy.Expr) -> tuple[sympy.Expr, sympy.Rational]:
    """base and rational exponent of a factor."""
    base, exponent = factor.as_base_exp()
    return (base, exponent) if exponent.is_Rational else (factor, sympy.Integer(1))


@cache
def _tidy(expression: sympy.Expr) -> sympy.Expr:
    return sympy.expand(sympy.radsimp(sympy.sympify(expression)))
