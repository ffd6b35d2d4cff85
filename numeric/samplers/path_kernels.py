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
from ..emit.vectors import LANES, Vector, all_lanes, beside, put, take
from ..random.lazy import add_multiple, dot, put_multiple
from ..random.philox import fill_normals

BLOCK = 128
"""Neurons whose products are held at a time: a multiple of four."""


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


@driver
def _put_beside(
    columns: Array, network: int, step: int, start: int, stop: int, room: Array
) -> None:
    """Neurons start … stop − 1 of `LANES` networks, this one and others each `step` behind: room
    (columns · BLOCK, LANES), four neurons or a multiple of each column, zeros where there is none.
    """
    _, count, n = columns.shape
    size = stop - start
    for k in range(count):
        first, at = k * BLOCK, (network * count + k) * n + start
        for j in range(size):
            put(room, first + j, beside(columns, at + j, step * count * n))
        for j in range(size, size + -size % 4):
            put(room, first + j, all_lanes(0.0))


@driver
def _multiplied(x: Array, y: Array, size: int, out: Array) -> Vector:
    """out ← x y, and Σ x y: rows of lanes, a multiple of four."""
    t0 = t1 = t2 = t3 = all_lanes(0.0)
    for j in range(0, size, 4):
        v0, v1 = take(x, j) * take(y, j), take(x, j + 1) * take(y, j + 1)
        v2, v3 = take(x, j + 2) * take(y, j + 2), take(x, j + 3) * take(y, j + 3)
        put(out, j, v0)
        put(out, j + 1, v1)
        put(out, j + 2, v2)
        put(out, j + 3, v3)
        t0, t1, t2, t3 = t0 + v0, t1 + v1, t2 + v2, t3 + v3
    return (t0 + t1) + (t2 + t3)


@driver
def _summed(x: Array, y: Array, size: int) -> Vector:
    """Σ x y: rows of lanes, a multiple of four."""
    t0 = t1 = t2 = t3 = all_lanes(0.0)
    for j in range(0, size, 4):
        t0 = t0 + take(x, j) * take(y, j)
        t1 = t1 + take(x, j + 1) * take(y, j + 1)
        t2 = t2 + take(x, j + 2) * take(y, j + 2)
        t3 = t3 + take(x, j + 3) * take(y, j + 3)
    return (t0 + t1) + (t2 + t3)


@driver
def sum_over_neurons(
    columns: Array,
    tree: tuple[NDArray[np.int64], NDArray[np.int64]],
    factors: Array,
    first: int,
) -> None:
    """Σ_j of products of columns, for each draw, into factors[:, first:]; `LANES` draws at a time.

    Arguments:
        tree: product k is product parent[k], or 1 for −1, times column[k]; what has the same parent
            comes after it and what comes of that, so that only the products above one are held.
    """
    parent, column = tree
    n, count = columns.shape[2], parent.size
    level, deepest = np.zeros(count + 1, np.int64), 0
    for k in range(count):
        if parent[k] >= 0:
            level[k] = level[parent[k]] + 1
            deepest = max(deepest, level[k])
    room = np.empty((columns.shape[1] * BLOCK, LANES))
    products, totals = np.empty(((1 + deepest) * BLOCK, LANES)), np.empty((count, LANES))
    draws = columns.shape[0]
    networks, step = (LANES, 1) if draws >= LANES else (1, 0)  # few: each in all lanes
    for group in range(0, draws, networks):
        network = group if group + networks <= draws else draws - networks  # some of them again
        for k in range(count):
            put(totals, k, all_lanes(0.0))
        for start in range(0, n, BLOCK):
            stop = start + BLOCK if start + BLOCK < n else n
            size = stop - start + (start - stop) % 4
            _put_beside(columns, network, step, start, stop, room)
            for k in range(count):
                at, row = level[k], room[column[k] * BLOCK :]
                left = products[(at - 1) * BLOCK :] if at > 0 else room
                if level[k + 1] > at:
                    found = _multiplied(left, row, size, products[at * BLOCK :])
                else:
                    found = _summed(left, row, size)
                put(totals, k, take(totals, k) + found)
        for s in range(networks):
            for k in range(count):
                factors[network + s, first + k] = totals[k, s]
