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

    Four draws at a time, the last one again where there are fewer: a sum waits for the one before.
    """
    parent, factor, start, which = structure
    monomial = np.empty((1 + parent.size, 4))  # row 0 is the empty one
    last = factors.shape[0] - 1
    for k in range(4):
        monomial[0, k] = 1.0
    for s in range(0, last + 1, 4):
        a, b, c, d = s, min(s + 1, last), min(s + 2, last), min(s + 3, last)
        for i in range(parent.size):
            below, f = monomial[1 + parent[i]], factor[i]
            monomial[1 + i, 0] = factors[a, f] * below[0]
            monomial[1 + i, 1] = factors[b, f] * below[1]
            monomial[1 + i, 2] = factors[c, f] * below[2]
            monomial[1 + i, 3] = factors[d, f] * below[3]
        for x in range(start.size - 1):
            v, w, y, z = 0.0, 0.0, 0.0, 0.0
            for t in range(start[x], start[x + 1]):
                scale, term = coefficients[t], monomial[1 + which[t]]
                v += scale * term[0]
                w += scale * term[1]
                y += scale * term[2]
                z += scale * term[3]
            values[a, x], values[b, x], values[c, x], values[d, x] = v, w, y, z
