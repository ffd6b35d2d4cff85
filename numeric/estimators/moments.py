"""What an ensemble records: sums over networks of products of statistics, layer by layer.

    P_{ab…} = Σ_draws (X − X⁰)_a (X − X⁰)_b …

X are the moments of `observables.Plan`, X⁰ those of draw 0: subtracting them keeps the digits of
a small variance, and makes the sums of what does not fluctuate exactly zero.

Draw i belongs to block i mod `BLOCKS`; the spread over blocks gives standard errors. Draws are
taken in *chunks* (`runs`) of a size that the ensemble alone decides. A chunk's sums are a function
of the ensemble and of the chunk, whoever computes them, in how many threads ever; the record is the
sum of the chunks' sums in their order, so that it has the same bits on one thread or on a cluster,
and more draws extend it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver
from .observables import Plan

BLOCKS = 256


@driver
def accumulate(
    X: Array,
    draws: NDArray[np.int64],
    products: tuple[Array, NDArray[np.int64], NDArray[np.int64]],
    sums: Array,
) -> None:
    """Add the products of X − X⁰ of each draw to its block of sums (BLOCKS, products).

    Arguments:
        X: (draws, statistics).
        draws: the networks' numbers, in the order of X.
        products: X⁰, and `parent` and `factor` of `Plan.chain`.
    """
    reference, parent, factor = products
    value = np.empty(parent.size)
    for s in range(draws.size):
        block = draws[s] % sums.shape[0]
        for i in range(parent.size):
            value[i] = X[s, factor[i]] - reference[factor[i]]
            if parent[i] >= 0:
                value[i] *= value[parent[i]]
            sums[block, i] += value[i]


@driver
def accumulate_layers(
    X: Array,
    draws: NDArray[np.int64],
    products: tuple[Array, NDArray[np.int64], NDArray[np.int64]],
    sums: Array,
) -> None:
    """`accumulate` at each of some layers: X (layers, draws, statistics), X⁰ (layers, statistics)
    and sums (BLOCKS, layers, products)."""
    reference, parent, factor = products
    blocks = draws % sums.shape[0]
    value = np.ones(1 + parent.size)  # 1 stands before the products
    for layer in range(X.shape[0]):
        for s in range(draws.size):
            total = sums[blocks[s], layer]
            for i in range(parent.size):
                deviation = X[layer, s, factor[i]] - reference[layer, factor[i]]
                value[1 + i] = deviation * value[1 + parent[i]]
                total[i] += value[1 + i]


@dataclass(frozen=True)
class Record:
    """The sums over draws 0 … `draws` − 1.

    Arguments:
        plan: what was measured.
        reference: X⁰, (depth, statistics).
        sums: (BLOCKS, depth, products).
        sizes: (depth, statistics), what is added up in an X where its terms cancel; None else.
        multiplied: whether X are independent factors, whose means are multiplied over the layers
            up to one to give the moments there.
    """

    plan: Plan
    reference: Array
    sums: Array
    draws: int
    sizes: Array | None = None
    multiplied: bool = False

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of draws in each block."""
        return (self.draws - np.arange(BLOCKS) + BLOCKS - 1) // BLOCKS
