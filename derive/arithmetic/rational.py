"""Rational functions of the dimension n whose poles are integers: what every Haar average is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from math import prod
from typing import NamedTuple

import sympy
from flint import fmpq, fmpz_poly

from ..errors import InputError
from ..work.caches import cache


def linear_product(exponents: Mapping[int, int]) -> fmpz_poly:
    """Π_c (n + c)^{exponents[c]}."""
    return prod((fmpz_poly([c, 1]) ** e for c, e in exponents.items()), start=fmpz_poly([1]))


class Term(NamedTuple):
    """weight · n^power · (one of the functions)."""

    weight: int
    function: RationalFunction
    power: int = 0


@dataclass(frozen=True)
class RationalFunction:
    """numerator(n) / Π_c (n + c)^{poles[c]}, with integer coefficients."""

    numerator: fmpz_poly
    poles: Mapping[int, int]

    @classmethod
    def total(cls, terms: Iterable[Term]) -> RationalFunction:
        """Σ weight n^power function over a common denominator, not reduced."""
        terms = tuple(terms)
        poles: Counter[int] = Counter()
        for term in terms:
            poles |= Counter(term.function.poles)
        numerator = fmpz_poly([0])
        for weight, function, power in terms:
            missing = linear_product(poles - Counter(function.poles))
            numerator += (weight * missing * function.numerator).left_shift(power)
        return cls(numerator, dict(poles))

    def reduced(self) -> RationalFunction:
        """In lowest terms."""
        numerator = self.numerator
        left = {}
        for c, exponent in self.poles.items():
            remaining = exponent if numerator else 0
            while remaining and numerator(-c) == 0:
                numerator //= fmpz_poly([c, 1])
                remaining -= 1
            if remaining:
                left[c] = remaining
        return RationalFunction(numerator, left)

    def reflected(self) -> RationalFunction:
        """The function of −n."""
        sign = (-1) ** sum(self.poles.values())
        return RationalFunction(
            sign * self.numerator(fmpz_poly([0, -1])), {-c: e for c, e in self.poles.items()}
        )

    def at(self, n: int) -> fmpq:
        """The value at an integer, as a limit where numerator and denominator both vanish."""
        lowest = self.reduced()
        bottom = linear_product(lowest.poles)(n)
        if bottom == 0:
            raise InputError(
                "n", n, f"a dimension where {lowest.expr(sympy.Symbol('n'))} is finite"
            )
        return fmpq(lowest.numerator(n), bottom)

    def series(self, order: int) -> dict[int, int]:
        """The coefficients of n^{−j}, other than 0, through `order`: the polynomial part of n^order
        times the function has them."""
        most = max(order, 0)
        whole = self.numerator.left_shift(most) // linear_product(self.poles)
        found = {most - i: int(value) for i, value in enumerate(whole.coeffs()) if value}
        return {j: found[j] for j in sorted(found) if j <= order}

    def expr(self, n: sympy.Expr) -> sympy.Expr:
        """Reduced and factored over the integers, as a sympy expression in n."""
        lowest = self.reduced()
        if not lowest.numerator:
            return sympy.Integer(0)
        content, factors = lowest.numerator.factor()
        parts = [_power(n, tuple(map(int, each.coeffs())), e) for each, e in factors]
        parts += [_power(n, (c, 1), -e) for c, e in lowest.poles.items()]
        if not n.is_Symbol or len(parts) < 2:
            return sympy.Mul(int(content), *parts)
        return written(sympy.Mul, *([sympy.Integer(int(content))] if content != 1 else []), *parts)


@cache(entries=10_000)
def _power(n: sympy.Expr, coefficients: tuple[int, ...], exponent: int) -> sympy.Expr:
    """(Σ_i c_i n^i)^exponent, where no sum but n itself is a single term."""
    if not n.is_Symbol:
        return sympy.Add(*(c * n**i for i, c in enumerate(coefficients))) ** exponent
    terms = [
        n**i if c == 1 and i else written(sympy.Mul, sympy.Integer(c), *([n**i] if i else []))
        for i, c in enumerate(coefficients)
        if c
    ]
    return written(sympy.Add, *terms) ** exponent


def written(kind: type[sympy.Add | sympy.Mul], *parts: sympy.Expr) -> sympy.Expr:
    """The sum or product that sympy makes of parts which nothing simplifies, in its order, without
    its search for what does: most of the time of a table."""
    return kind._from_args(sorted(parts, key=cmp_to_key(_order)))


@cache(entries=10_000)
def _order(one: sympy.Basic, other: sympy.Basic) -> int:
    return int(one.compare(other))


def as_sympy(value: fmpq) -> sympy.Rational:
    """A flint rational as a sympy one."""
    return sympy.Rational(int(value.p), int(value.q))
