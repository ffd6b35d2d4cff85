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
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .observables import Plan

BLOCKS = 256

_HELD = 1 << 17
"""Products that are held at a time, those of one draw at the least."""


def accumulate(
    X: Array,
    blocks: NDArray[np.int64],
    products: tuple[Array, NDArray[np.int64], NDArray[np.int64]],
    sums: Array,
) -> None:
    """Add the products of X − X⁰ of each draw, at each of some layers, to its block of sums.

    Arguments:
        X: (layers, draws, statistics).
        blocks: of the draws, in the order of X.
        products: X⁰, (layers, statistics), and `parent` and `factor` of `Plan.chain`.
        sums: (BLOCKS, layers, products).

    A block's draws are added one after another, so that sums do not depend on how draws are shared.
    """
    (layers, count, _), (reference, *chain) = X.shape, products
    step = max(1, _HELD // chain[0].size)
    many = max(1, step // max(1, count))
    with np.errstate(over="ignore", invalid="ignore"):  # `record` refuses what overflows
        for layer, first in product(range(0, layers, many), range(0, count, step)):
            these, draws = slice(layer, layer + many), slice(first, first + step)
            deviations = X[these, draws].transpose(2, 0, 1) - reference[these].T[:, :, None]
            _add_blocks(_multiplied(deviations, *chain), blocks[draws], sums[:, these].T)


def _multiplied(deviations: Array, parent: NDArray[np.int64], factor: NDArray[np.int64]) -> Array:
    """The products, (products, layers, draws), of deviations (statistics, layers, draws)."""
    found = np.empty((parent.size, *deviations.shape[1:]))
    first, stop = 0, int(np.searchsorted(parent, 0))
    while first < parent.size:  # products of one factor, of two, …
        found[first:stop] = deviations[factor[first:stop]]
        if first:
            found[first:stop] *= found[parent[first:stop]]
        first, stop = stop, int(np.searchsorted(parent, stop))
    return found


def _add_blocks(found: Array, blocks: NDArray[np.int64], sums: Array) -> None:
    """Add (products, layers, draws) to (products, layers, BLOCKS)."""
    steps = np.diff(blocks)
    step = max(1, int(steps.max(initial=1)))
    ends = [0, *(np.flatnonzero(steps != step) + 1), blocks.size]
    for first, stop in pairwise(ends):  # blocks at equal steps, and so none of them twice
        into = slice(blocks[first], blocks[stop - 1] + 1, step)
        sums[:, :, into] += found[:, :, first:stop]


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
