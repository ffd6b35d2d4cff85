"""What an ensemble records: power sums of the monomials of one Gram matrix per draw and layer.

    S_ab = (1/n) Σ_j σ_j;a σ_j;b ,    P_ab,cd,… = Σ_draws (S − S⁰)_ab (S − S⁰)_cd …

Every average over a layer's weights is a polynomial in S, so these sums are all that any estimator
needs. S⁰ is the Gram matrix of draw 0: subtracting it keeps the digits of a small variance, and
makes the sums of a Gram matrix that does not fluctuate exactly zero.

Draw i belongs to block i mod `BLOCKS`, each block's sum runs over its draws in order, and the
spread over blocks gives standard errors. So sums do not depend on threads or chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from .jit import driver
from .weights import Array, dot

BLOCKS = 256

Monomial = tuple[int, ...]
"""The entries of S in a product, as sorted positions in `entries`."""


@dataclass(frozen=True)
class Monomials:
    """All products of 1 to `degree` entries of a symmetric matrix of `samples` rows.

    Product i is its `parent`'s times entry `factor`; the parent −1 is the empty product, 1.
    """

    samples: int
    degree: int
    position: Mapping[Monomial, int]
    parent: NDArray[np.int64]
    factor: NDArray[np.int64]

    def __len__(self) -> int:
        return self.parent.size


def entries(samples: int) -> tuple[tuple[int, int], ...]:
    """The entries (a, b), a ≤ b, of a symmetric matrix, in the order in which they are numbered."""
    return tuple(combinations_with_replacement(range(samples), 2))


@cache
def monomials(samples: int, degree: int) -> Monomials:
    """The monomials of a Gram matrix, by degree, then in lexicographic order."""
    count = samples * (samples + 1) // 2
    position = {
        product: place
        for place, product in enumerate(
            product
            for power in range(1, degree + 1)
            for product in combinations_with_replacement(range(count), power)
        )
    }
    return Monomials(
        samples,
        degree,
        MappingProxyType(position),
        np.array([position.get(product[:-1], -1) for product in position]),
        np.array([product[-1] for product in position]),
    )


@driver
def record(
    X: Array,
    draws: NDArray[np.int64],
    products: tuple[Array, NDArray[np.int64], NDArray[np.int64]],
    sums: Array,
) -> None:
    """Add the monomials of X Xᵀ/n − S⁰ of each draw to its block of `sums`.

    Arguments:
        X: (draws, m, n).
        draws: the networks' numbers, in the order of X.
        products: S⁰'s entries a ≤ b, and `parent` and `factor` of `Monomials`.
        sums: (blocks, monomials).
    """
    reference, parent, factor = products
    m, n = X.shape[1:]
    entry, value = np.empty(reference.size), np.empty(parent.size)
    for s in range(draws.size):
        place = 0
        for a in range(m):
            for b in range(a, m):
                entry[place] = dot(X[s, a], X[s, b]) / n - reference[place]
                place += 1
        block = draws[s] % sums.shape[0]
        for i in range(parent.size):
            value[i] = entry[factor[i]]
            if parent[i] >= 0:
                value[i] *= value[parent[i]]
            sums[block, i] += value[i]


@dataclass(frozen=True)
class PowerSums:
    """The record of draws: `sums` (BLOCKS, depth, monomials), `reference` (depth, entries).

    Draws 0 … `draws` − 1 are in it.
    """

    monomials: Monomials
    reference: Array
    sums: Array
    draws: int

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of draws in each block."""
        return (self.draws - np.arange(BLOCKS) + BLOCKS - 1) // BLOCKS
