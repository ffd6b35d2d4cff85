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
def evaluate(
    factors: Array, structure: Structure, coefficients: Array, room: Array, values: Array
) -> None:
    """Polynomials of the factors of some draws, (layers, draws, factors), at each of some layers:
    values (layers, draws, polynomials).

    Arguments:
        coefficients: (layers, terms), in the order of the terms.
        room: (1 + monomials, 4).

    Four draws at a time, the last one again where there are fewer: a sum waits for the one before.
    """
    parent, factor, start, which = structure
    last = factors.shape[1] - 1
    for k in range(4):
        room[0, k] = 1.0  # the empty monomial
    for layer in range(factors.shape[0]):
        for a in range(0, last + 1, 4):
            b = a + 1 if a + 1 < last else last
            c = a + 2 if a + 2 < last else last
            d = a + 3 if a + 3 < last else last
            for i in range(parent.size):
                below, f = 1 + parent[i], factor[i]
                room[1 + i, 0] = factors[layer, a, f] * room[below, 0]
                room[1 + i, 1] = factors[layer, b, f] * room[below, 1]
                room[1 + i, 2] = factors[layer, c, f] * room[below, 2]
                room[1 + i, 3] = factors[layer, d, f] * room[below, 3]
            for x in range(start.size - 1):
                v, w, y, z = 0.0, 0.0, 0.0, 0.0
                for t in range(start[x], start[x + 1]):
                    scale, m = coefficients[layer, t], 1 + which[t]
                    v += scale * room[m, 0]
                    w += scale * room[m, 1]
                    y += scale * room[m, 2]
                    z += scale * room[m, 3]
                values[layer, a, x] = v
                values[layer, b, x] = w
                values[layer, c, x] = y
                values[layer, d, x] = z
