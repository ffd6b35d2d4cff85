"""The kernels of `forward`: `LANES` networks side by side, (neurons, LANES) in one row.

Networks are the innermost axis, so that random numbers, lengths and products of all of them come
out of one vector loop, whatever the width is, and no sum goes across a vector's lanes. The trip
count is a constant: no network is in a remainder, and its bits do not depend on those beside it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, aligned
from ..emit.jit import driver, wide_vectors
from ..emit.vectors import all_lanes, load_row, root, store_row
from ..random.philox import circle, philox, twice_minus_log

LANES = 16
"""Two vectors of eight numbers: with one, LLVM unrolls the loop where it should vectorise it."""

TILE = 32
"""Blocks of Philox whose words a core's first cache holds until they are normals."""


def room_of_words() -> NDArray[np.uint64]:
    """Room for them, (4, blocks·LANES): the words of a block apart, for all networks."""
    return aligned(4, TILE * LANES).view(np.uint64)


@driver
def draw_words(
    words: NDArray[np.uint64],
    key: NDArray[np.uint64],
    networks: NDArray[np.uint64],
    layer: int,
    use: int,
    first: int,
    stop: int,
) -> None:
    """The words of these blocks of stream (network, layer, use)."""
    wide_vectors()
    k = (key[0], key[1])
    c2, c3 = np.uint64(layer), np.uint64(use)
    for block in range(first, stop):
        at = np.uint64(LANES * (block - first))  # unsigned: no place is counted from the end
        for s in range(np.uint64(LANES)):
            w0, w1, w2, w3 = philox((np.uint64(block), networks[s], c2, c3), k)
            words[0, at + s] = w0
            words[1, at + s] = w1
            words[2, at + s] = w2
            words[3, at + s] = w3


@driver
def put_pairs(
    words: NDArray[np.uint64], row: int, size: int, out: Array, first: int, second: int
) -> None:
    """Box and Muller's pairs of normals of so many words of two rows, at two places of `out`."""
    wide_vectors()
    one, other = np.uint64(first), np.uint64(second)
    for i in range(np.uint64(size)):
        radius = math.sqrt(twice_minus_log(words[row, i]))
        x, y = circle(words[row + 1, i])
        out[one + i] = radius * x
        out[other + i] = radius * y


@driver
def fill_normals(
    out: Array,
    count: int,
    words: NDArray[np.uint64],
    key: NDArray[np.uint64],
    networks: NDArray[np.uint64],
    layer: int,
    use: int,
) -> None:
    """`random.fill_normals` of stream (network, layer, use) down the column of each network.

    `count` normals, or up to three more. Words is a `room_of_words`. All words of a tile come
    before its normals: long loops in which nothing overlaps, whose constants LLVM loads once.
    """
    blocks = (count + 3) // 4
    quarter = LANES * blocks
    for block in range(0, blocks, TILE):
        stop = block + TILE if block + TILE < blocks else blocks
        draw_words(words, key, networks, layer, use, block, stop)
        first, size = LANES * block, LANES * (stop - block)
        put_pairs(words, 0, size, out, first, first + quarter)
        put_pairs(words, 2, size, out, first + 2 * quarter, first + 3 * quarter)


@driver
def put_lengths(length: Array, square: Array, over: Array, factor: float) -> None:
    """length ← factor·√(square/over)."""
    wide_vectors()
    for half in range(2):
        ratio = load_row(square, half) / load_row(over, half)
        store_row(length, half, all_lanes(factor) * root(ratio))


@driver
def scale(X: Array, n: int, factor: Array) -> None:
    """Multiply n rows of X, (n, LANES), by a number for each column."""
    wide_vectors()
    low, high = load_row(factor, 0), load_row(factor, 1)
    for i in range(0, 2 * n, 2):  # rows are two vectors
        store_row(X, i, low * load_row(X, i))
        store_row(X, i + 1, high * load_row(X, i + 1))


@driver
def add_squares(X: Array, n: int, total: Array) -> None:
    """Add the squared length of each column of X, (n, LANES), to `total`."""
    wide_vectors()
    whole = n - n % 4
    for half in range(2):  # rows are two vectors
        square = load_row(total, half)
        for i in range(half, 2 * whole, 8):  # a sum waits for the one before: fewer of them
            first, second = load_row(X, i), load_row(X, i + 2)
            third, fourth = load_row(X, i + 4), load_row(X, i + 6)
            low, high = first * first + second * second, third * third + fourth * fourth
            square = square + (low + high)
        for i in range(2 * whole + half, 2 * n, 2):
            last = load_row(X, i)
            square = square + last * last
        store_row(total, half, square)
