"""The kernels of `forward`: `LANES` networks side by side, (groups, neurons, LANES).

Networks are the innermost axis, so that random numbers, lengths and products of all of them come
out of one vector loop, whatever the width is, and no sum goes across a vector's lanes. The trip
count is a constant: no network is in a remainder, and its bits do not depend on those beside it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, wide_vectors
from ..emit.vectors import load_row, store_row
from ..random.philox import circle, philox, twice_minus_log

LANES = 16
"""Two vectors of eight numbers: with one, LLVM unrolls the loop where it should vectorise it."""

WORDS = 4
"""Rows of words of a block of Philox, for each network."""


@driver
def fill_normals(
    out: Array,
    total: Array,
    words: NDArray[np.uint64],
    key: NDArray[np.uint64],
    networks: NDArray[np.uint64],
    layer: int,
    use: int,
) -> None:
    """`random.fill_normals` of stream (network, layer, use) down the column of each network.

    The squared length of the column, a sum of Box and Muller's radii, is added to `total`. Words
    is room for (WORDS, LANES): a loop that draws them and another that uses them have registers
    enough, and what all networks of a block have in common is few.
    """
    wide_vectors()
    blocks = out.shape[0] // 4
    k = (key[0], key[1])
    c2, c3 = np.uint64(layer), np.uint64(use)
    for block in range(blocks):
        for s in range(LANES):
            w0, w1, w2, w3 = philox((np.uint64(block), networks[s], c2, c3), k)
            words[0, s] = w0
            words[1, s] = w1
            words[2, s] = w2
            words[3, s] = w3
        for s in range(LANES):
            first, second = twice_minus_log(words[0, s]), twice_minus_log(words[2, s])
            radius = math.sqrt(first)
            x, y = circle(words[1, s])
            out[block, s] = radius * x
            out[block + blocks, s] = radius * y
            radius = math.sqrt(second)
            x, y = circle(words[3, s])
            out[block + 2 * blocks, s] = radius * x
            out[block + 3 * blocks, s] = radius * y
            total[s] += first + second


@driver
def add_squares(X: Array, total: Array) -> None:
    """Add the squared length of each column of X (n, LANES) to `total`."""
    wide_vectors()
    whole = X.shape[0] - X.shape[0] % 4
    for half in range(2):  # rows are two vectors
        square = load_row(total, half)
        for i in range(half, 2 * whole, 8):  # a sum waits for the one before: fewer of them
            first, second = load_row(X, i), load_row(X, i + 2)
            third, fourth = load_row(X, i + 4), load_row(X, i + 6)
            low, high = first * first + second * second, third * third + fourth * fourth
            square = square + (low + high)
        for i in range(2 * whole + half, 2 * X.shape[0], 2):
            last = load_row(X, i)
            square = square + last * last
        store_row(total, half, square)
