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
from ..emit.jit import driver
from ..random.lazy import BIAS, HAAR
from ..random.philox import circle, padded, philox, twice_minus_log

LANES = 16
"""Two vectors of eight numbers: with one, LLVM unrolls the loop where it should vectorise it."""


@driver
def fill_normals(
    out: Array,
    total: Array,
    key: NDArray[np.uint64],
    networks: NDArray[np.uint64],
    layer: int,
    use: int,
) -> None:
    """`random.fill_normals` of stream (network, layer, use) down the column of each network.

    The squared length of the column, a sum of Box and Muller's radii, is added to `total`.
    """
    blocks = out.shape[0] // 4
    words = (key[0], key[1])
    c2, c3 = np.uint64(layer), np.uint64(use)
    for block in range(blocks):
        for s in range(LANES):
            w0, w1, w2, w3 = philox((np.uint64(block), networks[s], c2, c3), words)
            first, second = twice_minus_log(w0), twice_minus_log(w2)
            radius = math.sqrt(first)
            x, y = circle(w1)
            out[block, s] = radius * x
            out[block + blocks, s] = radius * y
            radius = math.sqrt(second)
            x, y = circle(w3)
            out[block + 2 * blocks, s] = radius * x
            out[block + 3 * blocks, s] = radius * y
            total[s] += first + second


@driver
def add_squares(X: Array, total: Array) -> None:
    """Add the squared length of each column of X (n, LANES) to `total`."""
    whole = X.shape[0] - X.shape[0] % 4
    for i in range(0, whole, 4):  # a sum waits for the one before: fewer of them
        for s in range(LANES):
            low = X[i, s] * X[i, s] + X[i + 1, s] * X[i + 1, s]
            high = X[i + 2, s] * X[i + 2, s] + X[i + 3, s] * X[i + 3, s]
            total[s] += low + high
    for i in range(whole, X.shape[0]):
        for s in range(LANES):
            total[s] += X[i, s] * X[i, s]


@driver
def apply(
    S: Array,
    Z: Array,
    G: Array,
    networks: NDArray[np.uint64],
    factor: tuple[int, int, float],
    source: tuple[NDArray[np.uint64], int, int],
) -> None:
    """z ← W x for a factor W of each network, |x|² = S: `weights.apply_to_one`.

    Arguments:
        Z: (n, LANES). S: (LANES).
        G: (drawn, LANES), room for normals.
        networks: their numbers, (LANES).
        factor: (GAUSSIAN or HAAR, big, scale) of a `Step`.
        source: (key, layer, stream of the column) of the random numbers.
    """
    kind, big, scale = factor
    key, layer, use = source
    drawn = big if kind == HAAR else Z.shape[0]
    length = np.zeros(LANES)
    fill_normals(G[: padded(drawn)], length, key, networks, layer, use)
    if kind != HAAR:
        length.fill(1.0)
    elif padded(drawn) > drawn:
        length.fill(0.0)
        add_squares(G[:drawn], length)
    for s in range(LANES):
        length[s] = scale * math.sqrt(S[s]) / math.sqrt(length[s])
    for i in range(Z.shape[0]):
        for s in range(LANES):
            Z[i, s] = length[s] * G[i, s]


@driver
def add_bias(
    C_b: float,
    Z: Array,
    G: Array,
    networks: NDArray[np.uint64],
    source: tuple[NDArray[np.uint64], int],
) -> None:
    """Add b with b_i ~ N(0, C_b) to each network, as `weights.add_bias` does."""
    key, layer = source
    n, deviation = Z.shape[0], math.sqrt(C_b)
    fill_normals(G[: padded(n)], np.zeros(LANES), key, networks, layer, BIAS)
    for i in range(n):
        for s in range(LANES):
            Z[i, s] += deviation * G[i, s]
