"""The kernels of `conditional`: forward paths, and sums over neurons along them.

A layer of a path is held as columns (draws, columns, n): 1, σ, σ', …, f, ŝ.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .jit import driver, reduction
from .random import fill_normals, padded
from .weights import BIAS, COLUMN, Array, add_multiple, apply_to_one, dot, put_multiple

BLOCK = 64
"""Neurons whose products are held at a time."""


@driver
def advance(
    columns: Array,
    Z: Array,
    F: Array,
    draws: NDArray[np.int64],
    factor: tuple[int, int, float],
    C_b: float,
    source: tuple[NDArray[np.uint64], int],
) -> None:
    """f = W ŝ and z = |σ| f + b of the next layer: F, Z (draws, 1, n_out).

    Arguments:
        columns: of this layer.
        draws: the networks' numbers.
        factor: the weights, (GAUSSIAN or HAAR, big, scale) of a `Step`.
        source: (key, layer) of the random numbers.
    """
    key, layer = source
    n_out = Z.shape[2]
    normals = np.empty(padded(max(n_out, factor[1])))
    for s in range(draws.size):
        apply_to_one(factor, F[s, 0], (key, draws[s], layer, COLUMN), normals)
        put_multiple(Z[s, 0], math.sqrt(dot(columns[s, 1], columns[s, 1])), F[s, 0])
        if C_b > 0.0:
            fill_normals(normals[: padded(n_out)], key, draws[s], layer, BIAS)
            add_multiple(Z[s, 0], math.sqrt(C_b), normals[:n_out])


@driver
def arrange(derivatives: Array, F: Array, columns: Array) -> None:
    """The columns from derivatives (draws, orders, 1, n) and F (draws, 1, n).

    A vanishing σ is given the direction of the first neuron: W is known on that vector instead.
    """
    orders = derivatives.shape[1]
    for s in range(columns.shape[0]):
        columns[s, 0].fill(1.0)
        for order in range(orders):
            put_multiple(columns[s, 1 + order], 1.0, derivatives[s, order, 0])
        put_multiple(columns[s, orders + 1], 1.0, F[s, 0])
        square = dot(columns[s, 1], columns[s, 1])
        if square > 0.0:
            put_multiple(columns[s, orders + 2], 1.0 / math.sqrt(square), columns[s, 1])
        else:
            columns[s, orders + 2].fill(0.0)
            columns[s, orders + 2, 0] = 1.0


@reduction
def _multiply_and_sum(x: Array, y: Array, out: Array) -> float:
    """out ← x y, and Σ x y."""
    total = 0.0
    for i in range(x.size):
        value = x[i] * y[i]
        out[i] = value
        total += value
    return total


@driver
def sum_over_neurons(
    columns: Array,
    tree: tuple[NDArray[np.int64], NDArray[np.int64]],
    factors: Array,
    first: int,
) -> None:
    """Σ_j of products of columns, for each draw, into factors[:, first:].

    Arguments:
        tree: product k is product parent[k], or 1 for −1, times column[k].
    """
    parent, column = tree
    n = columns.shape[2]
    products = np.empty((parent.size, BLOCK))
    for s in range(columns.shape[0]):
        for k in range(parent.size):
            factors[s, first + k] = 0.0
        for start in range(0, n, BLOCK):
            size = min(BLOCK, n - start)
            for k in range(parent.size):
                row = columns[s, column[k], start : start + size]
                left = products[parent[k], :size] if parent[k] >= 0 else columns[s, 0, :size]
                factors[s, first + k] += _multiply_and_sum(left, row, products[k, :size])
