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
from ..random.lazy import BIAS, COLUMN, HAAR, add_multiple, dot, orthonormalise, put_multiple
from ..random.philox import fill_normals, padded

BLOCK = 64
"""Neurons whose products are held at a time."""


@driver
def advance(
    columns: Array,
    orders: int,
    Z: Array,
    F: Array,
    draws: NDArray[np.int64],
    factor: tuple[int, int, float],
    C_b: float,
    source: tuple[NDArray[np.uint64], int],
) -> None:
    """f_a = W ŝ_a and z = Σ_a (ŝ_a·σ) f_a + b of the next layer: F, Z (draws, m, n_out).

    Arguments:
        columns: of this layer.
        orders: of derivatives of σ among them, σ itself included.
        draws: the networks' numbers.
        factor: the weights, (GAUSSIAN or HAAR, big, scale) of a `Step`.
        source: (key, layer) of the random numbers.
    """
    key, layer = source
    kind, big, scale = factor
    _, m, n_out = Z.shape
    drawn = big if kind == HAAR else n_out
    G = np.empty((m, padded(max(n_out, drawn))))
    for s in range(draws.size):
        for a in range(m):
            fill_normals(G[a, : padded(drawn)], key, draws[s], layer, COLUMN + a)
        if kind == HAAR:
            orthonormalise(G, drawn)
        for a in range(m):
            put_multiple(F[s, a], scale, G[a, :n_out])
        basis = columns[s, 1 + m * orders + m :]
        for alpha in range(m):
            Z[s, alpha].fill(0.0)
            for a in range(m):
                along = dot(basis[a], columns[s, 1 + alpha * orders])
                add_multiple(Z[s, alpha], along, F[s, a])
        if C_b > 0.0:
            fill_normals(G[0, : padded(n_out)], key, draws[s], layer, BIAS)
            for alpha in range(m):
                add_multiple(Z[s, alpha], math.sqrt(C_b), G[0, :n_out])


@driver
def arrange(derivatives: Array, F: Array, columns: Array) -> None:
    """The columns from derivatives (draws, orders, m, n) and F (draws, m, n)."""
    _, orders, m, n = derivatives.shape
    for s in range(columns.shape[0]):
        columns[s, 0].fill(1.0)
        for alpha in range(m):
            for order in range(orders):
                put_multiple(
                    columns[s, 1 + alpha * orders + order], 1.0, derivatives[s, order, alpha]
                )
            put_multiple(columns[s, 1 + m * orders + alpha], 1.0, F[s, alpha])
        basis = columns[s, 1 + m * orders + m :]
        for a in range(m):
            sigma = derivatives[s, 0, a]
            put_multiple(basis[a], 1.0, sigma)
            square = _perpendicular(basis, a)
            neuron = 0
            least = (16.0 * n * 2.0**-52) ** 2 * dot(sigma, sigma)
            while not square > least:  # no new direction: any other, of a neuron say
                basis[a].fill(0.0)
                basis[a, neuron] = 1.0
                square = _perpendicular(basis, a)
                neuron, least = neuron + 1, 0.5 * (1.0 - a / n)
            put_multiple(basis[a], 1.0 / math.sqrt(square), basis[a])


@driver
def _perpendicular(basis: Array, a: int) -> float:
    """Take the rows before it out of row a; the square of what is left."""
    for _ in range(2):
        for b in range(a):
            add_multiple(basis[a], -dot(basis[b], basis[a]), basis[b])
    return dot(basis[a], basis[a])


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
