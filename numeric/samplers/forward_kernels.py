"""The kernels of `forward`: `LANES` networks side by side, (groups, neurons, LANES).

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
    """Room for them, (4, blocks, LANES): the words of a block apart, for all networks."""
    return aligned(4, TILE, LANES).view(np.uint64)


@driver
def draw_words(
    words: NDArray[np.uint64],
    key: NDArray[np.uint64],
    networks: NDArray[np.uint64],
    layer: int,
    use: int,
    span: tuple[int, int],
) -> None:
    """The words of these blocks of stream (network, layer, use), (4, blocks, LANES)."""
    wide_vectors()
    first, stop = span
    k = (key[0], key[1])
    c2, c3 = np.uint64(layer), np.uint64(use)
    for block in range(stop - first):
        for s in range(LANES):
            w0, w1, w2, w3 = philox((np.uint64(first + block), networks[s], c2, c3), k)
            words[0, block, s] = w0
            words[1, block, s] = w1
            words[2, block, s] = w2
            words[3, block, s] = w3


@driver
def put_pairs(
    radii: NDArray[np.uint64], angles: NDArray[np.uint64], first: Array, second: Array
) -> None:
    """Box and Muller's pairs of normals of these words."""
    wide_vectors()
    for i in range(first.size):
        radius = math.sqrt(twice_minus_log(radii[i]))
        x, y = circle(angles[i])
        first[i] = radius * x
        second[i] = radius * y


@driver
def fill_normals(
    out: Array,
    words: NDArray[np.uint64],
    key: NDArray[np.uint64],
    networks: NDArray[np.uint64],
    layer: int,
    use: int,
) -> None:
    """`random.fill_normals` of stream (network, layer, use) down the column of each network.

    Words is a `room_of_words`. All words of a tile come before its normals: long loops in which
    nothing overlaps, whose constants LLVM loads once.
    """
    blocks = out.shape[0] // 4
    flat, quarter = out.reshape(-1), LANES * blocks
    for block in range(0, blocks, TILE):
        stop = min(block + TILE, blocks)
        draw_words(words, key, networks, layer, use, (block, stop))
        first, size = LANES * block, LANES * (stop - block)
        for half in range(2):
            radii = words[2 * half].reshape(-1)[:size]
            angles = words[2 * half + 1].reshape(-1)[:size]
            put_pairs(radii, angles, flat[first : first + size], flat[first + quarter :][:size])
            first += 2 * quarter


@driver
def put_lengths(length: Array, square: Array, over: Array, factor: float) -> None:
    """length ← factor·√(square/over)."""
    wide_vectors()
    for half in range(2):
        ratio = load_row(square, half) / load_row(over, half)
        store_row(length, half, all_lanes(factor) * root(ratio))


@driver
def scale(X: Array, factor: Array) -> None:
    """Multiply each column of X (n, LANES) by a number of its own."""
    wide_vectors()
    low, high = load_row(factor, 0), load_row(factor, 1)
    for i in range(0, 2 * X.shape[0], 2):  # rows are two vectors
        store_row(X, i, low * load_row(X, i))
        store_row(X, i + 1, high * load_row(X, i + 1))


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
