"""The kernels of `conditional`: forward paths, and sums over neurons along them.

A layer of the paths of m inputs is held as columns (draws, columns, n): 1; σ, σ', … of each input
in turn; the m columns f; the m columns ŝ.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver
from ..emit.vectors import LANES, all_lanes, load_eight, store_eight, sum_of_lanes
from ..random.lazy import add_multiple, dot, put_multiple
from ..random.philox import fill_normals

STEP = 2 * LANES
"""Neurons that a loop takes at a time."""

BLOCK = 512
"""Neurons whose products are held at a time: whole steps."""


@driver
def draw(
    G: Array,
    key: NDArray[np.uint64],
    draws: NDArray[np.int64],
    streams: NDArray[np.int64],
    layer: int,
) -> None:
    """Fill G (draws, rows, …) with the normals of a layer's streams, one for each row."""
    for s in range(draws.size):
        for a in range(streams.size):
            fill_normals(G[s, a], key, draws[s], layer, streams[a])


@driver
def orthonormalise(rows: Array, size: int) -> None:
    """Make the vectors rows[s, a, :size] of each draw orthonormal, in order, keeping their side.

    Standard normals become a uniform frame: QR with R_kk > 0. A vector in the span of those before
    it makes room for any other, of a neuron say.
    """
    for s in range(rows.shape[0]):
        for a in range(rows.shape[1]):
            row, neuron = rows[s, a, :size], 0
            least = (16.0 * size * 2.0**-52) ** 2 * dot(row, row)
            while True:
                for _ in range(2):  # twice is enough: Giraud, Langou and Rozložník (2005)
                    for b in range(a):
                        add_multiple(row, -dot(rows[s, b, :size], row), rows[s, b, :size])
                square = dot(row, row)
                if square > least:
                    break
                for i in range(size):
                    row[i] = 0.0
                row[neuron] = 1.0
                neuron, least = neuron + 1, 0.5 * (1.0 - a / size)
            put_multiple(row, 1.0 / math.sqrt(square), row)


@driver
def advance(columns: Array, orders: int, F: Array, Z: Array) -> None:
    """z ← z + Σ_a (ŝ_a·σ) f_a of the next layer: F, Z (draws, m, n_out).

    Arguments:
        columns: of this layer.
        orders: of derivatives of σ among them, σ itself included.
    """
    m = Z.shape[1]
    for s in range(Z.shape[0]):
        for alpha in range(m):
            for a in range(m):
                along = dot(columns[s, 1 + m * (orders + 1) + a], columns[s, 1 + alpha * orders])
                add_multiple(Z[s, alpha], along, F[s, a])


@driver
def add_to_each(Z: Array, factor: float, b: Array) -> None:
    """z_α ← z_α + factor·b for all inputs of a draw: Z (draws, m, n), b (draws, 1, n or more)."""
    for s in range(Z.shape[0]):
        for alpha in range(Z.shape[1]):
            add_multiple(Z[s, alpha], factor, b[s, 0, : Z.shape[2]])


def levels(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many products are above each of a tree."""
    level = np.zeros(parent.size, np.int64)
    for k in np.flatnonzero(parent >= 0):
        level[k] = level[parent[k]] + 1
    return level


@driver
def _put_block(columns: Array, start: int, size: int, room: Array) -> None:
    """Neurons start … start + size − 1 of columns (columns, n), and zeros behind them up to a whole
    step: room (columns, BLOCK)."""
    for k in range(columns.shape[0]):
        for j in range(size):
            room[k, j] = columns[k, start + j]
        for j in range(size, size + -size % STEP):
            room[k, j] = 0.0


@driver
def _multiply_and_sum(x: Array, y: Array, size: int, out: Array) -> float:
    """out ← x y, and Σ x y, of whole steps."""
    even = odd = all_lanes(0.0)
    for j in range(0, size, STEP):
        first, second = load_eight(x, j), load_eight(x, j + LANES)
        first, second = first * load_eight(y, j), second * load_eight(y, j + LANES)
        store_eight(out, j, first)
        store_eight(out, j + LANES, second)
        even, odd = even + first, odd + second
    return sum_of_lanes(even + odd)


@driver
def sum_over_neurons(
    columns: Array,
    tree: tuple[NDArray[np.int64], NDArray[np.int64]],
    level: NDArray[np.int64],
    rooms: tuple[Array, Array],
    factors: Array,
    first: int,
) -> None:
    """Σ_j of products of columns, for each draw, into factors[:, first:].

    Arguments:
        tree: product k is product parent[k], or 1 for −1, times column[k]; what has the same parent
            comes after it and what comes of that, so that only the products above one are held.
        level: `levels` of the tree.
        rooms: for a block of each column, and of a product at each level: (…, BLOCK). Each begins
            a cache line: vectors across two lines take twice as long to read.
    """
    parent, column = tree
    room, products = rooms
    n, count = columns.shape[2], parent.size
    for s in range(columns.shape[0]):
        for k in range(count):
            factors[s, first + k] = 0.0
        for start in range(0, n, BLOCK):
            size = min(BLOCK, n - start)
            _put_block(columns[s], start, size, room)
            for k in range(count):
                at = level[k]
                left = products[at - 1] if at > 0 else room[0]
                product = _multiply_and_sum(left, room[column[k]], size, products[at])
                factors[s, first + k] += product
