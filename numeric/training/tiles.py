"""Products of a layer with its inputs, `LANES` of them side by side: its forward pass, its
backward pass and its gradient.

Of each block of `LANES` inputs a layer has a row for each of its numbers, (blocks n, LANES). The
last block is filled up with its last input, behind which the gradient is 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver
from ..emit.tiles import FEW, MANY, add_pairs, add_pairs_of_two, few_rows, many_rows, one_row, turn
from ..emit.vectors import (
    LANES,
    all_lanes,
    load_eight,
    load_row,
    store_eight,
    store_row,
    sum_of_lanes,
)

_TOGETHER, _A_PAGE_APART, _PAGE = 32, 8, 512
"""Rows of a matrix that are changed together, and of one whose rows are pages apart: those share
the same few places of a cache. No bit depends on it."""


@driver
def tiled(
    W: Array, across: int, along: int, start: Array, x: Array, count: int, out: Array, n: int
) -> None:
    """out[k] = start[k] + Σ_i W[k across + i along] x[i], over i < count, for k < n, of each block.

    The last tile is one that ends with the last row: some are found twice.
    """
    blocks, k = x.shape[0] // count, 0
    while k < n:
        if n >= MANY and n - k > FEW and across % _PAGE:
            j = min(k, n - MANY)
            for block in range(blocks):
                many_rows(
                    W, j * across, across, along, count, start, j, x, block * count, out,
                    block * n + j,
                )  # fmt: skip
            k = j + MANY
        elif n >= FEW:
            j = min(k, n - FEW)
            for block in range(blocks):
                few_rows(
                    W, j * across, across, along, count, start, j, x, block * count, out,
                    block * n + j,
                )  # fmt: skip
            k = j + FEW
        else:
            for block in range(blocks):
                one_row(
                    W, k * across, across, along, count, start, k, x, block * count, out,
                    block * n + k,
                )  # fmt: skip
            k += 1


@driver
def tile_rows(scratch: Array, blocks: int, widths: NDArray[np.int64], layer: int) -> Array:
    """A layer's part, (blocks n, LANES), of what has room for all layers."""
    start = 0
    for below in range(layer):
        start += blocks * widths[below]
    return scratch[start : start + blocks * widths[layer]]


@driver
def put_inputs(inputs: Array, chosen: NDArray[np.int64], x: Array) -> None:
    """The inputs of a step side by side, the last one in what is left."""
    n = inputs.shape[1]
    for block in range(x.shape[0] // n):
        for lane in range(LANES):
            a = chosen[min(block * LANES + lane, chosen.size - 1)]
            for i in range(n):
                x[block * n + i, lane] = inputs[a, i]


@driver
def from_lanes(x: Array, out: Array) -> None:
    """Of each input its own row, (inputs, n)."""
    n = out.shape[1]
    for a in range(out.shape[0]):
        for k in range(n):
            out[a, k] = x[a // LANES * n + k, a % LANES]


@driver
def to_lanes(x: Array, out: Array) -> None:
    """Back again, 0 in what is left."""
    n = x.shape[1]
    for row in range(out.shape[0]):
        for lane in range(LANES):
            a = row // n * LANES + lane
            out[row, lane] = x[a, row % n] if a < x.shape[0] else 0.0


@driver
def multiply_rows(x: Array, y: Array) -> None:
    """x ← x y."""
    for k in range(x.shape[0]):
        store_row(x, k, load_row(x, k) * load_row(y, k))


@driver
def add_gradient(
    W: Array, b: Array, factor: float, own_factor: float, x: Array, back: Array, turned: Array
) -> None:
    """Add the gradient of these inputs to a matrix and its biases, each with its own factor.

    `turned` has room for `back` with a row for each input, of `LANES` numbers at a time. Of the
    last ones those that were added before are 0.
    """
    n, n_in = b.size, W.size // b.size
    blocks = back.shape[0] // n
    if n < LANES:
        for k in range(n):
            total = all_lanes(0.0)
            for block in range(blocks):
                total = total + load_row(back, block * n + k)
            b[k] += own_factor * sum_of_lanes(total)
        for i in range(n_in):
            for k in range(n):
                total = all_lanes(0.0)
                for block in range(blocks):
                    total = total + load_row(x, block * n_in + i) * load_row(back, block * n + k)
                W[i * n + k] += factor * sum_of_lanes(total)
        return
    width = (n + LANES - 1) // LANES * LANES
    for block in range(blocks):
        first = block * LANES * width
        for column in range(0, width, LANES):
            k = min(column, n - LANES)
            turn(back, block * n + k, column - k, turned, first + column, width)
            total = load_eight(turned, first + column)
            for a in range(1, LANES):
                total = total + load_eight(turned, first + a * width + column)
            store_eight(b, k, load_eight(b, k) + all_lanes(own_factor) * total)
    together = _TOGETHER if n % _PAGE else _A_PAGE_APART
    for i in range(0, n_in, together):
        count, column = min(together, n_in - i), 0
        while column < width:
            k, two = min(column, n - LANES), column + 2 * LANES <= n
            for block in range(blocks):
                first, at = block * n_in + i, block * LANES * width + column
                if two:
                    add_pairs_of_two(W, i * n + k, n, count, x, first, factor, turned, at, width)
                else:
                    add_pairs(W, i * n + k, n, count, x, first, factor, turned, at, width)
            column += 2 * LANES if two else LANES
