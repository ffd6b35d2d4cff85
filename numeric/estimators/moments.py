"""Records of an ensemble: sums over networks of products of statistics, layer by layer.

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
    blocks: NDArray[np.int64],
    products: tuple[Array, NDArray[np.int64], NDArray[np.int64]],
    room: Array,
    sums: Array,
) -> None:
    """Add the products of X − X⁰ of each draw, at each of some layers, to its block of sums.

    Arguments:
        X: (layers, draws, statistics).
        blocks: of the draws, in the order of X.
        products: X⁰, (layers, statistics), and `parent` and `factor` of `Plan.chain`.
        room: for one number more than there are products.
        sums: (BLOCKS, layers, products).
    """
    reference, parent, factor = products
    room[0] = 1.0  # before the products
    for layer in range(X.shape[0]):
        for s in range(blocks.size):
            block = blocks[s]
            for i in range(parent.size):
                deviation = X[layer, s, factor[i]] - reference[layer, factor[i]]
                room[1 + i] = deviation * room[1 + parent[i]]
                sums[block, layer, i] += room[1 + i]


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
