"""Kernels of `tapped_forward`: a matrix on several vectors of `LANES` networks side by side.

Vectors are (vectors · neurons, LANES), and matrices as in `matrix_kernels`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, wide_vectors
from ..emit.vectors import all_lanes, load_row, store_row
from ..random.lazy import HAAR, KEPT
from .forward_kernels import LANES, draw_words, fill_normals, put_pairs
from .matrix_kernels import put_product, put_root, put_square


@driver
def put_everywhere(X: Array, V: Array) -> None:
    """The vectors X (m, n) in all networks."""
    m, n = X.shape
    for a in range(m):
        for i in range(n):
            for s in range(LANES):
                V[a * n + i, s] = X[a, i]


@driver
def put_gram(V: Array, m: int, n: int, S: Array) -> None:
    """The lower triangle of V Vᵀ/n."""
    wide_vectors()
    put_square(S, V, (m, n), False, False)
    part = all_lanes(1.0 / n)
    for i in range(2 * m * m):  # rows are two vectors
        store_row(S, i, part * load_row(S, i))


@driver
def store_gram(S: Array, m: int, factor: float, first: int, out: Array) -> None:
    """The lower triangle of these networks, (draws, m m + 1), times a factor; the last is 0."""
    for s in range(min(LANES, out.shape[0] - first)):
        own = out[first + s]
        own[m * m] = 0.0
        for a in range(m):
            for b in range(a + 1):
                own[a * m + b] = factor * S[a * m + b, s]


@driver
def add_lost(L: Array, m: int, lost: NDArray[np.bool_]) -> None:
    """Mark networks of which a column of a root is 0: its Gram matrix loses digits."""
    for k in range(m):
        for s in range(LANES):
            lost[s] |= L[k * m + k, s] == 0.0


@driver
def divide_by(L: Array, T: Array, m: int) -> None:
    """L ← L T⁻¹ of lower triangles."""
    wide_vectors()
    for half in range(2):  # rows are two vectors
        for c in range(m):
            for j in range(c, -1, -1):
                total = load_row(L, 2 * (c * m + j) + half)
                for i in range(j + 1, c + 1):
                    along = load_row(L, 2 * (c * m + i) + half)
                    total = total - along * load_row(T, 2 * (i * m + j) + half)
                pivot = load_row(T, 2 * (j * m + j) + half)
                store_row(L, 2 * (c * m + j) + half, total / pivot)


@driver
def add_applied(
    out: Array,
    S: Array,
    sizes: tuple[int, int],
    reads: NDArray[np.int64],
    factor: tuple[int, int, int, float],
    source: tuple[NDArray[np.uint64], NDArray[np.uint64], int, int],
    rooms: tuple[Array, Array, NDArray[np.uint64]],
    lost: NDArray[np.bool_],
    added: bool,
) -> None:
    """out ← W X, or out + W X, (m, n_out), for a factor W of each network and vectors X it reads.

    Arguments:
        S: the Gram matrix of all vectors, its lower triangle.
        sizes: m, and the neurons of a vector.
        reads: the vector that each of X is; −1 where that is 0.
        factor: (kind, size, big, scale) of a `Step`.
        source: (key, networks, layer, stream of the first column) of the random numbers.
        rooms: for three matrices, for the normals of all columns, and for words.
        lost: true afterwards of networks for which what comes out is wrong.
    """
    wide_vectors()
    (m, n), (kind, size, big, scale) = sizes, factor
    (key, networks, layer, use), (matrices, G, words) = source, rooms
    own, L, X = matrices[0], matrices[1], matrices[2]
    used, rows = np.empty(m, np.int64), np.full(m, -1, np.int64)
    count = 0
    for a in range(m):
        if reads[a] >= 0:
            used[count], rows[a] = reads[a], count
            count += 1
    for c in range(count):
        for e in range(c + 1):
            a, b = max(used[c], used[e]), min(used[c], used[e])
            for half in range(2):  # rows are two vectors
                entry = load_row(S, 2 * (a * m + b) + half)
                store_row(own, 2 * (c * count + e) + half, entry)
    put_root(own, L, count, KEPT)
    add_lost(L, count, lost)
    drawn = big if kind == HAAR else size
    apart = drawn + -drawn % 4
    for k in range(count):
        fill_normals(
            G[k * apart : (k + 1) * apart].reshape(-1), drawn, words, key, networks, layer, use + k
        )
    if kind == HAAR:  # G = T F with a frame F
        every, below = (apart, 1, 1, apart), (drawn, count, 0)
        put_product(own, G, G, (count, drawn, count), every, below, False)
        put_root(own, X, count, KEPT)
        add_lost(X, count, lost)
        divide_by(L, X, count)
    whole = all_lanes(scale * math.sqrt(n))
    for a in range(m):
        for k in range(count):
            for half in range(2):
                entry = all_lanes(0.0)
                if rows[a] >= 0:
                    entry = whole * load_row(L, 2 * (rows[a] * count + k) + half)
                store_row(X, 2 * (a * count + k) + half, entry)
    put_product(out, X, G, (m, count, size), (count, 1, apart, 1), (0, size, size), added)


@driver
def add_biases(
    out: Array,
    m: int,
    factor: tuple[int, float],
    source: tuple[NDArray[np.uint64], NDArray[np.uint64], int, int],
    rooms: tuple[Array, Array, NDArray[np.uint64]],
) -> None:
    """Add biases to m vectors: the same to all of them; the factor is their number and scale."""
    wide_vectors()
    (size, scale), (key, networks, layer, use), (_, G, words) = factor, source, rooms
    fill_normals(G.reshape(-1), size, words, key, networks, layer, use)
    own = all_lanes(scale)
    for a in range(m):
        for i in range(2 * size):  # rows are two vectors
            at = 2 * a * size + i
            store_row(out, at, load_row(out, at) + own * load_row(G, i))


PARTS = (
    *(draw_words, put_pairs, fill_normals, put_product, put_root, put_square),
    *(put_everywhere, put_gram, store_gram, add_applied, add_biases),
)
"""Functions that the kernels of forward passes call, compiled once for all activations."""
