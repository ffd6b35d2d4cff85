"""Series in 1/ℓ and log ℓ, Σ c_{a,b} ℓ^{−a} (log ℓ)^b + O(ℓ^{−order}), and recursions in ℓ.

What one step of depth does to a term,

    (ℓ+1)^{−a} log^b(ℓ+1) = ℓ^{−a} (1 + 1/ℓ)^{−a} (log ℓ + log(1 + 1/ℓ))^b ,

turns T(ℓ+1) = a(ℓ) T(ℓ) + s(ℓ) into equations order by order: with a = 1 − p/ℓ + …,

    ℓ^{−α} log^β  ↦  ℓ^{−α−1} [(p − α) log^β + β log^{β−1}] + smaller terms ,

so each order of s fixes one of T, a resonance α = p raises the power of the logarithm, and ℓ^{−p}
comes with a free constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import comb, factorial, inf
from typing import Any, TypeAlias

import sympy
from sympy.functions.combinatorial.numbers import stirling

from ..errors import InputError
from ..symbols import ell
from ..work.caches import cache
from .polynomials import gathered
from .rings import Element, Ring

Key: TypeAlias = tuple[Any, int]
"""(a, b) of ℓ^{−a} log^b ℓ; a is an exact sympy number."""

ZERO, ONE, EXACT = sympy.Integer(0), sympy.Integer(1), sympy.oo
_SAME = sympy.Rational(1, 10**30)  # decimals as exponents have 45 digits and more


@cache
def size(exponent: sympy.Expr) -> float:
    """An exponent as a float, to compare it with others; ∞ for the order of an exact series."""
    return inf if exponent is EXACT else float(exponent)


@cache
def plus(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """The sum of two exponents, in the form by which they are told apart."""
    total = a + b
    return total if total.is_Rational or total is EXACT else sympy.expand(total)


def least(*exponents: sympy.Expr) -> sympy.Expr:
    """The smallest of several exponents."""
    return min(exponents, key=size)


@dataclass(frozen=True)
class LogSeries:
    """Σ terms[a, b] ℓ^{−a} (log ℓ)^b, up to what is smaller than ℓ^{−order+ε}."""

    ring: Ring
    terms: Mapping[Key, Element]
    order: sympy.Expr = EXACT

    @classmethod
    def monomial(
        cls, ring: Ring, value: Element, exponent: sympy.Expr = ZERO, log: int = 0
    ) -> LogSeries:
        """value · ℓ^{−exponent} log^log ℓ, exactly."""
        return cls(ring, {} if ring.is_zero(value) else {(exponent, log): value})

    def __add__(self, other: LogSeries) -> LogSeries:
        terms = gathered([*self.terms.items(), *other.terms.items()])
        return _made(self.ring, terms, least(self.order, other.order))

    def __neg__(self) -> LogSeries:
        return LogSeries(self.ring, {key: -value for key, value in self.terms.items()}, self.order)

    def __sub__(self, other: LogSeries) -> LogSeries:
        return self + (-other)

    def __mul__(self, other: LogSeries) -> LogSeries:
        order = least(plus(self.order, other.lowest), plus(other.order, self.lowest))
        if self.is_zero or other.is_zero:
            return LogSeries(self.ring, {})
        end = size(order)
        products = (
            ((plus(a, b), i + j), x * y)
            for (a, i), x in self.terms.items()
            for (b, j), y in other.terms.items()
            if size(a) + size(b) < end
        )
        return _made(self.ring, gathered(products), order)

    def scaled(self, value: Element) -> LogSeries:
        """value · self."""
        return _made(self.ring, {key: value * c for key, c in self.terms.items()}, self.order)

    def truncated(self, order: sympy.Expr) -> LogSeries:
        """The same without what is as small as ℓ^{−order}."""
        if size(order) >= size(self.order):
            return self
        return _made(self.ring, self.terms, order)

    @property
    def lowest(self) -> sympy.Expr:
        """The exponent of the largest term; the order itself where no term is known."""
        return least(self.order, *(a for a, _ in self.terms))

    @property
    def is_zero(self) -> bool:
        """True if it vanishes identically."""
        return not self.terms and self.order is EXACT

    def ordered(self) -> list[tuple[Key, Element]]:
        """The terms, the largest at large ℓ first."""
        return sorted(self.terms.items(), key=lambda item: (size(item[0][0]), -item[0][1]))

    def coefficient(self, exponent: sympy.Expr, log: int = 0) -> Element:
        """c_{exponent, log}."""
        return self.terms.get((exponent, log), self.ring.domain.zero)

    def power(self, exponent: sympy.Rational, extent: sympy.Expr) -> LogSeries:
        """self^exponent through relative order ℓ^{−extent}, by the binomial series.

        Raises InputError where the largest term carries a logarithm: its inverse is no such series.
        """
        if exponent.is_Integer and exponent >= 0:
            result = LogSeries.monomial(self.ring, self.ring.domain.one)
            for _ in range(int(exponent)):
                result = result * self
            return result
        (lead, log), value = self.ordered()[0] if self.terms else ((ZERO, 1), None)
        if log:
            raise InputError("series", str(self), "one whose largest term is a power of ℓ alone")
        ring = self.ring
        front = LogSeries.monomial(ring, ring.power(value, exponent), lead * exponent)
        if len(self.terms) == 1 and self.order is EXACT:
            return front
        inverse = ring.power(value, -ONE)
        rest = LogSeries(
            ring,
            {
                (plus(a, -lead), b): inverse * c
                for (a, b), c in self.terms.items()
                if (a, b) != (lead, log)
            },
            plus(self.order, -lead),
        ).truncated(extent)
        total = term = LogSeries.monomial(ring, ring.domain.one)
        for j in count(1):
            if not rest.terms or size(rest.lowest) * j >= size(extent):
                break
            term = (term * rest).scaled(ring((exponent - j + 1) / j)).truncated(extent)
            total = total + term
        if rest.terms or rest.order is not EXACT:
            total = total.truncated(least(extent, rest.order))
        return total * front

    def shifted(self, order: sympy.Expr, by: int = 1) -> LogSeries:
        """The same at ℓ + by, through ℓ^{−order}; exact where it is a polynomial in ℓ."""
        terms: dict[Key, Element] = {}
        exact = self.order is EXACT
        for (a, b), value in self.terms.items():
            finite = b == 0 and a.is_Integer and a <= 0
            exact &= finite
            steps = int(-a) + 1 if finite else _steps(a, order)
            for n, log, factor in _step(self.ring, a, b, steps):
                key = (plus(a, sympy.Integer(n)), log)
                term = value * factor * by**n
                terms[key] = terms[key] + term if key in terms else term
        return _made(self.ring, terms, EXACT if exact else least(order, self.order))

    def __str__(self) -> str:
        parts = [
            str(self.ring.expr(c) * ell**-a * sympy.log(ell) ** b) for (a, b), c in self.ordered()
        ]
        return " + ".join(parts or ["0"]) + ("" if self.order is EXACT else f" + O({self.order})")


def _made(ring: Ring, terms: Mapping[Key, Element], order: sympy.Expr) -> LogSeries:
    end = size(order)
    kept = {
        key: value for key, value in terms.items() if size(key[0]) < end and not ring.is_zero(value)
    }
    return LogSeries(ring, kept, order)


def _steps(exponent: sympy.Expr, order: sympy.Expr) -> int:
    """How many of exponent, exponent + 1, … lie below the order."""
    room = size(order) - size(exponent)
    return max(0, int(room) + (room > int(room)))


@cache
def _logarithm(power: int, steps: int) -> tuple[sympy.Rational, ...]:
    """The coefficients of log(1 + x)^power through x^{steps−1}: Stirling's numbers."""
    return tuple(
        sympy.Rational(factorial(power) * stirling(n, power, kind=1, signed=True), factorial(n))
        for n in range(steps)
    )


def _step(
    ring: Ring, exponent: sympy.Expr, log: int, steps: int
) -> Iterator[tuple[int, int, Element]]:
    """(n, β, c): ℓ^{−a} log^b at ℓ+1 is ℓ^{−a} Σ c ℓ^{−n} log^β, n < steps."""
    binomial = [ring.domain.one]
    for n in range(1, steps):
        binomial.append(binomial[-1] * ring((-exponent - n + 1) / n))
    for k in range(log + 1):
        powers = _logarithm(k, steps)
        for n in range(k, steps):
            value = sum(
                (binomial[n - m] * ring(powers[m]) for m in range(k, n + 1)), ring.domain.zero
            )
            if value:
                yield n, log - k, value * ring(comb(log, k))


def solve_linear(
    factor: LogSeries, source: LogSeries, constant: Element, extent: sympy.Expr
) -> LogSeries:
    """T(ℓ+1) = factor(ℓ) T(ℓ) + source(ℓ), with T's free constant: the coefficient of ℓ^{−p}.

    `factor` is 1 − p/ℓ + …, and T is found through relative order ℓ^{−extent}; exactly where it is
    a polynomial.

    Raises ArithmeticError for a factor of another form: T would not be of powers and logarithms.
    """
    exponent = _met(indicial(factor), source)
    ring = factor.ring
    start = exponent if source.is_zero else least(exponent, plus(source.lowest, -ONE))
    cut = plus(start, extent)
    if source.order is EXACT and factor.order is EXACT and size(cut) <= size(exponent):
        cut = plus(exponent, ONE)
    solution = LogSeries(ring, {})
    residual = source.truncated(plus(cut, ONE)) if source.order is not EXACT else source

    def include(terms: Mapping[Key, Element]) -> None:
        nonlocal solution, residual
        new = LogSeries(ring, terms)
        solution = solution + new
        residual = residual - new.shifted(plus(cut, ONE)) + factor * new

    if size(exponent) < size(cut):
        include({(exponent, 0): constant})
    while residual.terms:
        at = residual.lowest
        include(_undone(ring, exponent, at, residual))
    ends = [cut] if not size(exponent) < size(cut) else []
    return solution.truncated(least(plus(residual.order, -ONE), *ends))


def _met(exponent: sympy.Expr, source: LogSeries) -> sympy.Expr:
    """The exponent, or the decimal of the source's that it is but for rounding, up to a whole
    number: the source then meets T's own power, and brings forth a logarithm."""
    for at, _ in source.ordered():
        gap = plus(exponent, -at[0])
        if gap.is_Rational and 0 < abs(off := gap - round(gap)) < _SAME:
            return plus(exponent, -off)
    return exponent


def solve_driven(factor: LogSeries, source: LogSeries, extent: sympy.Expr) -> LogSeries:
    """T(ℓ+1) = factor(ℓ) T(ℓ) + source(ℓ) where factor → a with |a| < 1, up to what falls as a^ℓ.

    T follows its source: ℓ^{−α} log^β in it is ℓ^{−α} log^β/(1 − a) in T and smaller terms, through
    relative order ℓ^{−extent}; exactly where the source is a constant.
    """
    ring = factor.ring
    inverse = ring.power(ring.domain.one - factor.coefficient(ZERO), -ONE)
    cut = plus(source.lowest, extent)
    solution, residual = LogSeries(ring, {}), source
    while residual.terms:
        at = residual.lowest
        terms = {key: value * inverse for key, value in residual.terms.items() if key[0] == at}
        new = LogSeries(ring, terms)
        solution = solution + new
        residual = residual - new.shifted(cut) + factor * new
    return solution.truncated(residual.order)


def solve_kernel(
    step: Callable[[LogSeries], LogSeries],
    leading: LogSeries,
    exponent: sympy.Expr,
    constant: Element,
    extent: sympy.Expr,
) -> LogSeries:
    """K(ℓ+1) = step(K(ℓ)) for K = leading + …, with its free constant: the coefficient of ℓ^{−p}.

    p = `exponent` is that of the recursion linearised around `leading`. Each order of the residual
    fixes one order of K, as in `solve_linear`.
    """
    cut = plus(leading.lowest, extent)
    kernel = leading
    placed = False
    while True:
        known = LogSeries(kernel.ring, kernel.terms)
        residual = step(known) - known.shifted(plus(cut, ONE))
        below = residual.truncated(plus(cut, ONE))
        at = plus(below.lowest, -ONE)
        terms: dict[Key, Element] = {}
        if below.terms:
            terms = dict(_undone(kernel.ring, exponent, below.lowest, below))
        if not placed and size(exponent) < size(cut) and size(at) >= size(exponent):
            terms = terms if at == exponent else {}
            terms[exponent, 0] = constant
            placed = True
        if not terms:
            return known.truncated(least(plus(residual.order, -ONE), cut))
        kernel = kernel + LogSeries(kernel.ring, terms)


def indicial(factor: LogSeries) -> sympy.Expr:
    """p of factor = 1 − p/ℓ + o(1/ℓ): its homogeneous solution falls as ℓ^{−p}."""
    for (a, b), value in factor.ordered():
        if size(a) < 1 or (a == ONE and b):
            if (a, b) == (ZERO, 0) and factor.ring.is_zero(value - factor.ring.domain.one):
                continue
            raise ArithmeticError(f"a factor {factor} is no 1 − p/ℓ + …")
    if (ZERO, 0) not in factor.terms or size(factor.order) <= 1:
        raise ArithmeticError(f"a factor {factor} is no 1 − p/ℓ + …")
    return factor.ring.exponent(-factor.coefficient(ONE))


def _undone(
    ring: Ring, exponent: sympy.Expr, at: sympy.Expr, residual: LogSeries
) -> dict[Key, Element]:
    """The terms at α = `at` − 1 that bring forth the residual's terms at `at`."""
    alpha = plus(at, -ONE)
    rows = {b: value for (a, b), value in residual.terms.items() if a == at}
    gap = plus(exponent, -alpha)
    if gap.is_Rational and 0 < abs(gap) < _SAME:
        raise ArithmeticError(f"exponents {float(alpha)} that may be one or two")
    found: dict[Key, Element] = {}
    for log in range(max(rows), -1, -1):
        row = rows.get(log, ring.domain.zero)
        if gap == 0:
            found[alpha, log + 1] = row * ring(sympy.Rational(1, log + 1))
        else:
            above = found.get((alpha, log + 1), ring.domain.zero)
            found[alpha, log] = (row - above * ring(log + 1)) * ring(1 / gap)
    return {key: value for key, value in found.items() if not ring.is_zero(value)}
