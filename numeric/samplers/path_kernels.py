"""The kernels of `conditional`: forward paths, and sums over neurons along them.

A layer of the paths of m inputs is held as columns (draws, columns, n): 1; σ, σ', … of each input
in turn; the m columns f; the m columns ŝ.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, reduction
from ..random.lazy import add_multiple, dot, put_multiple
from ..random.philox import fill_normals

BLOCK = 512
"""Neurons whose products are held at a time."""


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


@reduction
def _multiply_and_sum(x: Array, y: Array, out: Array) -> float:
    """out ← x y, and Σ x y."""
    total = 0.0
    for i in range(x.size):
        value = x[i] * y[i]
        out[i] = value
        total += value
    return total


@reduction
def _two_sums(x: Array, y: Array, z: Array) -> tuple[float, float]:
    """Σ x y, Σ x z."""
    first, second = 0.0, 0.0
    for i in range(x.size):
        value = x[i]
        first += value * y[i]
        second += value * z[i]
    return first, second


@driver
def sum_over_neurons(
    columns: Array,
    tree: tuple[NDArray[np.int64], NDArray[np.int64]],
    factors: Array,
    first: int,
) -> None:
    """Σ_j of products of columns, for each draw, into factors[:, first:].

    Arguments:
        tree: product k is product parent[k], or 1 for −1, times column[k]; what has the same parent
            comes after it and what comes of that, so that only the products above one are held.
    """
    parent, column = tree
    n, count = columns.shape[2], parent.size
    level, deepest = np.zeros(count + 2, np.int64), 0
    for k in range(count):
        if parent[k] >= 0:
            level[k] = level[parent[k]] + 1
            deepest = max(deepest, level[k])
    blocks = -(-n // BLOCK)
    width = -(-n // blocks)
    products = np.empty((1 + deepest, width))
    for s in range(columns.shape[0]):
        for k in range(count):
            factors[s, first + k] = 0.0
        for start in range(0, n, width):
            stop = min(start + width, n)
            k = 0
            while k < count:
                at, row = level[k], columns[s, column[k], start:stop]
                left = products[at - 1, : stop - start] if at > 0 else columns[s, 0, start:stop]
                if level[k + 1] > at:
                    out = products[at, : stop - start]
                    factors[s, first + k] += _multiply_and_sum(left, row, out)
                elif level[k + 1] == at and level[k + 2] <= at and k + 1 < count:
                    other = columns[s, column[k + 1], start:stop]
                    one, two = _two_sums(left, row, other)
                    factors[s, first + k] += one
                    factors[s, first + k + 1] += two
                    k += 1
                else:
                    factors[s, first + k] += dot(left, row)
                k += 1
