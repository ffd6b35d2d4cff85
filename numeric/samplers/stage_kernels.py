"""Kernels for the stages of a layer, `LANES` networks side by side, (neurons, LANES) in one row.

What the stages themselves fill in is written by `stage_source`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, wide_vectors
from ..emit.vectors import all_lanes, load_row, store_row
from ..random.lazy import HAAR
from .forward_kernels import (
    LANES,
    add_squares,
    draw_words,
    fill_normals,
    put_lengths,
    put_pairs,
    scale,
)


@driver
def draw(
    G: Array,
    length: Array,
    square: Array,
    squared: bool,
    factors: tuple[NDArray[np.int64], Array],
    start: int,
    stop: int,
    key: NDArray[np.uint64],
    networks: NDArray[np.uint64],
    words: NDArray[np.uint64],
) -> None:
    """W v of each network as `length` times the rows of G; `length` is |v|² when it comes.

    Arguments:
        G: room for the normals of the widest factor.
        square: room for a number of each network; where this is `squared`, |G|² afterwards.
        factors: rows (kind, big, size, stream, use), and their scales, of all matrices.
        start, stop: the rows of this one; a bias is a matrix on the vector 1.
        words: as of `fill_normals`.

    Between two factors of one matrix the length alone counts.
    """
    wide_vectors()
    rows, scales = factors
    for t in range(start, stop):
        kind, size = rows[t, 0], rows[t, 2]
        drawn = rows[t, 1] if kind == HAAR else size
        if t > start:
            for s in range(LANES):
                square[s] = 0.0
            add_squares(G, rows[t - 1, 2], square)
            for s in range(LANES):
                length[s] *= length[s] * square[s]
        fill_normals(G, drawn, words, key, networks, rows[t, 3], rows[t, 4])
        for s in range(LANES):
            square[s] = 0.0 if kind == HAAR else 1.0
        if kind == HAAR:
            add_squares(G, drawn, square)
        put_lengths(length, length, square, scales[t])
        if squared and t + 1 == stop and (drawn > size or kind != HAAR):
            for s in range(LANES):
                square[s] = 0.0
            add_squares(G, size, square)


@driver
def add_columns(X: Array, n: int, total: Array) -> None:
    """Add the sum of each column of X, (n, LANES), to `total`."""
    wide_vectors()
    low, high = load_row(total, 0), load_row(total, 1)
    other_low = other_high = all_lanes(0.0)
    whole = n - n % 2
    for i in range(0, 2 * whole, 4):  # rows are two vectors; a sum waits for the one before
        low, high = low + load_row(X, i), high + load_row(X, i + 1)
        other_low, other_high = other_low + load_row(X, i + 2), other_high + load_row(X, i + 3)
    for i in range(2 * whole, 2 * n, 2):
        low, high = low + load_row(X, i), high + load_row(X, i + 1)
    store_row(total, 0, low + other_low)
    store_row(total, 1, high + other_high)


PARTS = (
    *(draw_words, put_pairs, fill_normals),
    *(put_lengths, scale, add_squares, add_columns, draw),
)
"""Functions of the kernels of forward passes, compiled once for all layers and activations."""
