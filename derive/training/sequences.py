"""The functions of the step in closed form: sums of C(t, p) r^{t−p}, r a product of rates.

What is added to s(t+1) = ρ s(t) + Σ c C(t, p) r^{t−p} stays such a sum. With D_p the part that
C(t, p) r^{t−p} makes, generating functions give D_p = C(t, p+1) r^{t−p−1} where r = ρ, and else

    (r − ρ) D_p = C(t, p) r^{t−p} − D_{p−1},    D_{−1} = ρ^t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from operator import add
from typing import Any

import sympy
from sympy.polys.fields import FracField

from ..arithmetic.polynomials import gathered
from ..symbols import Symbol
from ..work.caches import cache
from .histories import History

Powers = tuple[int, ...]
"""A product of rates, by the power of each."""
Sequence_ = dict[tuple[Powers, int], Any]
"""Coefficients, by r and p."""

step = Symbol("t", integer=True, nonnegative=True)
"""The number of steps."""


@dataclass(frozen=True)
class Exponentials:
    """Σ c t^p r^t, exact, r a product of rates."""

    terms: Mapping[tuple[Powers, int], Any]

    def __mul__(self, other: Exponentials) -> Exponentials:
        pairs = product(self.terms.items(), other.terms.items())
        found = (((tuple(map(add, r, s)), p + q), a * b) for ((r, p), a), ((s, q), b) in pairs)
        return Exponentials(gathered(found))

    def plus(self, other: Exponentials, weight: Fraction) -> Exponentials:
        """The sum with a multiple of another."""
        scale = sympy.QQ(weight.numerator, weight.denominator)
        scaled = ((key, each * scale) for key, each in other.terms.items())
        found = gathered([*self.terms.items(), *scaled])
        return Exponentials({key: each for key, each in found.items() if each})

    def expr(self, names: Sequence[sympy.Symbol]) -> sympy.Expr:
        """As an expression in `step` and the rates of these names."""
        total = sympy.S.Zero
        for (powers, p), coefficient in sorted(self.terms.items(), key=lambda item: item[0]):
            plain = coefficient.as_expr()
            generators = dict(zip(_generators(len(names)), names, strict=True))
            rate = sympy.prod([name ** (k * step) for name, k in zip(names, powers, strict=True)])
            total += sympy.factor(plain.subs(generators)) * step**p * rate
        return total


@cache
def closed(history: History, rates: tuple[int | None, ...], count: int) -> Exponentials:
    """The history's function of the step, with one rate for all labels that are alike.

    Arguments:
        rates: of each label, which of `count` it has, from 0, or None for 1, of what stays.
    """
    field = _field(count)
    found = Exponentials({})
    for (powers, p), coefficient in _solved(history, rates, count).items():
        unit = coefficient / _value(field, powers) ** p  # C(t, p) r^{t−p} by powers of t
        shape = sympy.Poly(sympy.ff(step, p) / sympy.factorial(p), step)
        terms = {
            (powers, q): unit * field.field_new(sympy.QQ(c.p, c.q)) for (q,), c in shape.terms()
        }
        found = found.plus(Exponentials(terms), Fraction(1))
    return found


def _generators(count: int) -> list[sympy.Symbol]:
    return [sympy.Symbol(f"m{k}") for k in range(count)]


def _value(field: FracField, powers: Powers) -> Any:
    found = field.one
    for generator, k in zip(field.gens, powers, strict=True):
        found *= generator**k
    return found


@cache
def _field(rates: int) -> FracField:
    return FracField(_generators(rates), sympy.QQ)


@cache
def _solved(history: History, rates: tuple[int | None, ...], count: int) -> Sequence_:
    field = _field(count)
    one = (0,) * count
    unit = tuple(tuple(int(i == k) for i in range(count)) for k in range(count))

    def powers(labels: Sequence[int]) -> Powers:
        chosen = [rates[label] for label in labels]
        return tuple(map(sum, zip(one, *(unit[k] for k in chosen if k is not None), strict=True)))

    system = history.steps
    rows: list[dict[int, dict[Powers, int]]] = [{} for _ in system.start]
    for (i, j), entry in system.entries.items():
        terms = rows[i].setdefault(j, {})
        for labels, coefficient in entry.items():
            at = powers(labels)
            terms[at] = terms.get(at, 0) + coefficient

    @cache(entries=2**16)
    def solution(i: int) -> Sequence_:
        ((rho, _),) = rows[i].get(i, {one: 1}).items()
        found: Sequence_ = {(rho, 0): field.one * system.start[i]}
        for j, terms in rows[i].items():
            if j == i:
                continue
            scale = sum((_value(field, at) * c for at, c in terms.items()), field.zero)
            for (r, p), coefficient in solution(j).items():
                for key, part in convolved(rho, r, p).items():
                    found[key] = found.get(key, field.zero) + scale * coefficient * part
        return {key: each for key, each in found.items() if each}

    @cache(entries=2**16)
    def convolved(rho: Powers, r: Powers, p: int) -> Sequence_:
        if r == rho:
            return {(r, p + 1): field.one}
        gap = _value(field, r) - _value(field, rho)
        before = convolved(rho, r, p - 1) if p else {(rho, 0): field.one}
        found = {key: -each / gap for key, each in before.items()}
        found[r, p] = found.get((r, p), field.zero) + 1 / gap
        return found

    return solution(0)
