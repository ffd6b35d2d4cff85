"""Averages behind a norm: the direction of z is uniform where rotations keep the law of z.

Let s² be (1/n) Σ z_i², or (1/n) Σ (z_i − m)² with the mean m of the z_i. Then

    E[Π z_i^{m_i} s^{-k}] = A E[q^{(M−k)/2}] ,    q = |z|²/n,  M = Σ m_i,

with one A for every law of the length |z|. Independent standard normal z_i give A: their z_i − m
are independent of m, with the covariance δ_ij − 1/n, and their length is independent of the
direction. Derived here.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, prod
from typing import Any, NamedTuple

import sympy

from ..arithmetic.parameters import R_IN
from ..arithmetic.polynomials import UNIT, Expansion, constant, power
from ..errors import InputError
from ..groups.pairings import double_factorial_pairings
from ..weights import Orthogonal
from ..work.caches import cache
from .matrices import Matrix


class Moment(NamedTuple):
    """Π z_i^{m_i} s^{-k} at different indices: the m_i in order, k, and whether s has the mean m
    taken off."""

    powers: tuple[int, ...]
    norms: int
    centred: bool


class Directions(Matrix):
    """The A of a space of n neurons, in place of the C(p,q) of a matrix."""

    def __init__(self, number: int, n: sympy.Expr, size: Expansion) -> None:
        super().__init__(number, Orthogonal(), n, n, size, constant(1))

    def _coefficient(self, coset: Any) -> sympy.Expr:
        """A in sympy; InputError at a width where a part of it has a pole."""
        value = angular(coset).subs(_N, self.n_in)
        if value.has(sympy.zoo, sympy.nan):
            wanted = f"more than {coset.norms + 1} neurons behind a norm that takes the mean off"
            raise InputError("width", self.n_in, wanted)
        return sympy.cancel(value)

    def _expansion(self, coset: Any, order: int, square: bool) -> Expansion:
        """A as a series in 1/n."""
        parts = (sympy.Poly(part, _N) for part in sympy.fraction(angular(coset)))
        above, below = ([Fraction(int(c)) for c in part.all_coeffs()] for part in parts)
        found: list[Fraction] = []
        first = len(below) - len(above)
        for t in range(order + 1 - first):
            known = sum(below[i] * found[t - i] for i in range(1, min(t, len(below) - 1) + 1))
            found.append(((above[t] if t < len(above) else 0) - known) / below[0])
        return {
            (UNIT if square else power(R_IN, -first - t), first + t): value
            for t, value in enumerate(found)
            if value
        }


_N = sympy.Symbol("n", positive=True)


@cache
def angular(moment: Moment) -> sympy.Expr:
    """A as a rational function of n, with integers above and below; M − k is even.

    >>> angular(Moment((4,), 4, centred=False))
    3*n/(n + 2)
    """
    powers, k, centred = moment
    whole = sum(powers)
    total = sympy.Integer(0)
    for off in product(*(range(m + 1 if centred else 1) for m in powers)):
        if sum(off) % 2:
            continue
        left = [m - c for m, c in zip(powers, off, strict=True)]
        ways = prod(comb(m, c) for m, c in zip(powers, off, strict=True))
        mean = double_factorial_pairings(sum(off)) / _N ** (sum(off) // 2)
        shape = _normal(left, centred) / _squares(_N - int(centred), sum(left) // 2)
        total += ways * mean * shape * _squares(_N - int(centred), (sum(left) - k) // 2)
    return sympy.factor(total * _N ** (whole // 2) / _squares(_N, (whole - k) // 2))


def _normal(powers: list[int], centred: bool) -> sympy.Expr:
    """E[Π w_i^{b_i}] of normal w_i with the covariance δ_ij, or δ_ij − 1/n."""
    total = sympy.Integer(0)
    for off in product(*(range(b + 1 if centred else 1) for b in powers)):
        left = [b - c for b, c in zip(powers, off, strict=True)]
        if sum(off) % 2 or any(b % 2 for b in left):
            continue
        ways = prod(comb(b, c) for b, c in zip(powers, off, strict=True))
        ways *= prod(map(double_factorial_pairings, (*left, sum(off))))
        total += ways * (-1 / _N) ** (sum(off) // 2)
    return total


def _squares(count: sympy.Expr, power_of: int) -> sympy.Expr:
    """E[(Σ g²)^p] of so many independent standard normal g, p below 0 too."""
    if power_of < 0:
        return 1 / sympy.prod([count - 2 * j for j in range(1, 1 - power_of)])
    return sympy.prod([count + 2 * j for j in range(power_of)])
