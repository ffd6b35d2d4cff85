"""Many polynomials in the same factors, evaluated draw by draw.

A polynomial is a dictionary {monomial: coefficient}, a monomial a tuple of factors. Coefficients
are arrays over layers: the same polynomials hold at every layer with other coefficients.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver

Factor = TypeVar("Factor", bound=Hashable)

Structure: TypeAlias = tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]
]
"""Monomials as (parent, factor), polynomials as (start, which).

Monomial i is monomial parent[i] times factor[i], the empty monomial 1 being −1; the terms of
polynomial x are start[x] … start[x + 1] − 1, and term t has monomial which[t].
"""


def flattened(
    polynomials: Sequence[Mapping[tuple[Factor, ...], Array]], number: Mapping[Factor, int]
) -> tuple[Structure, Array]:
    """Polynomials as the kernel takes them: their structure, and coefficients (layers, terms)."""
    numbered: list[dict[tuple[int, ...], Array]] = []
    for polynomial in polynomials:
        numbered.append({})
        for factors, value in polynomial.items():
            monomial = tuple(sorted(number[factor] for factor in factors))
            numbered[-1][monomial] = numbered[-1].get(monomial, 0.0) + value
    kept = {m[:k] for polynomial in numbered for m in polynomial for k in range(1, len(m) + 1)}
    ordered = sorted(kept, key=lambda m: (len(m), m))
    place = {m: k for k, m in enumerate(ordered)} | {(): -1}
    inside = [sorted(polynomial) for polynomial in numbered]
    values = [polynomial[m] for polynomial, ms in zip(numbered, inside, strict=True) for m in ms]
    structure = (
        np.array([place[m[:-1]] for m in ordered], np.int64),
        np.array([m[-1] for m in ordered], np.int64),
        np.cumsum([0, *(len(polynomial) for polynomial in numbered)]),
        np.array([place[m] for ms in inside for m in ms], np.int64),
    )
    return structure, np.array(values).T.copy()


@driver
def evaluate(factors: Array, structure: Structure, coefficients: Array, values: Array) -> None:
    """The polynomials at each draw's factors: (draws, factors) → (draws, polynomials).

    Arguments:
        coefficients: of one layer, in the order of the terms.
    """
    parent, factor, start, which = structure
    monomial = np.empty(parent.size)
    for s in range(factors.shape[0]):
        for i in range(parent.size):
            monomial[i] = factors[s, factor[i]]
            if parent[i] >= 0:
                monomial[i] *= monomial[parent[i]]
        for x in range(start.size - 1):
            total = 0.0
            for t in range(start[x], start[x + 1]):
                total += coefficients[t] * (monomial[which[t]] if which[t] >= 0 else 1.0)
            values[s, x] = total
