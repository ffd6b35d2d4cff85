"""Averages behind a norm: the direction of z is uniform where rotations keep the law of z.

Let s² be (1/n) Σ z_i², or (1/n) Σ (z_i − m)² with the mean m of the z_i. Then

    E[Π z_i^{m_i} s^{-k}] = A E[q^{(M−k)/2}] ,    q = |z|²/n,  M = Σ m_i,

with one A for every law of the length |z|. Independent standard normal z_i give A: their z_i − m
are independent of m, with the covariance δ_ij − 1/n, and their length is independent of their
direction. Derived here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import comb, prod
from typing import Any, NamedTuple

import sympy
from flint import fmpz_poly

from ..arithmetic.parameters import R_IN
from ..arithmetic.polynomials import UNIT, Expansion, constant, power
from ..arithmetic.rational import RationalFunction, Term, as_sympy
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
        """A in sympy; InputError at a width where it has a pole."""
        made, n = angular(coset), self.n_in
        if not n.is_Integer:
            return made.expr(n)
        try:
            return as_sympy(made.at(int(n)))
        except InputError as error:
            raise InputError("width", n, f"more neurons behind a norm: {error.wanted}") from None

    def _expansion(self, coset: Any, order: int, equal_widths: bool) -> Expansion:
        """A as a series in 1/n."""
        return {
            (UNIT if equal_widths else power(R_IN, -j), j): value
            for j, value in angular(coset).series(order).items()
        }


@cache
def angular(moment: Moment) -> RationalFunction:
    """A as a rational function of n; M − k is even.

    Of d dimensions E|w|^{b−k} / E|w|^b is Π_j 1/(d + 2j), j = (b−k)/2 … b/2 − 1.

    >>> angular(Moment((4,), 4, centred=False)).expr(sympy.Symbol("n"))
    3*n/(n + 2)
    """
    powers, k, centred = moment
    weights: Counter[tuple[int, int]] = Counter()
    for ways, off, left in _splits(powers, centred):  # z_i = m + w_i
        for more, also, inner in _splits(left, centred):  # the pairs of w_i with −1/n
            if all(b % 2 == 0 for b in inner):
                pairs = prod(map(double_factorial_pairings, (*inner, off, also)))
                less = sum(powers) // 2 - (off + also) // 2
                weights[sum(left), less] += ways * more * pairs * (-1) ** (also // 2)
    terms = (
        Term(weight, _inverse(range(b - k - centred, b - centred, 2)), less)
        for (b, less), weight in weights.items()
    )
    total = RationalFunction.total(terms)
    poles = Counter(total.poles) + Counter(range(0, sum(powers) - k, 2))
    return RationalFunction(total.numerator, poles).reduced()


def _inverse(constants: range) -> RationalFunction:
    """Π_c 1/(n + c)."""
    return RationalFunction(fmpz_poly([1]), dict.fromkeys(constants, 1))


def _splits(powers: Sequence[int], centred: bool) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The terms of Π (a + b_i)^{m_i} with an even power of a: how many, that power, and the others.

    Without a mean to be taken off, a = 0.
    """
    for off in product(*(range(m + 1 if centred else 1) for m in powers)):
        if sum(off) % 2 == 0:
            left = tuple(m - c for m, c in zip(powers, off, strict=True))
            yield prod(map(comb, powers, off)), sum(off), left
