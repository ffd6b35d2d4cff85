"""Kernels of `tapped_forward`: a matrix on several vectors of `LANES` networks side by side.

Vectors are (vectors · neurons, LANES), and matrices as in `matrix_kernels`. A network whose Gram
matrix loses digits, as for vectors that repeat or vanish, is factored by itself, as in `lazy`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, wide_vectors
from ..emit.vectors import all_lanes, load_row, store_row
from ..random.lazy import HAAR, KEPT, factorise, orthonormalise
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
def root_of_one(
    S: Array, V: Array, at: tuple[NDArray[np.int64], int, int], s: int, L: Array
) -> int:
    """`put_root` of network s from its vectors where the Gram matrix loses digits; the rank.

    Arguments:
        at: the vectors, how many there are, and their neurons.
    """
    used, count, n = at
    own, R = np.empty((count, count)), np.empty((count, count))
    X = np.empty((count, n))
    for c in range(count):
        for e in range(c + 1):
            own[c, e] = own[e, c] = S[c * count + e, s]
        for i in range(n):
            X[c, i] = V[used[c] * n + i, s]
    spare = np.empty((count, n)), np.empty((count, n)), np.empty((2, count))
    rank = factorise(own, X, R, spare)
    for c in range(count):
        for k in range(count):
            L[c * count + k, s] = R[k, c] if k < rank else 0.0
    return rank


@driver
def is_lost(L: Array, count: int, rank: int, s: int) -> bool:
    """True if one of the first `rank` columns of network s is 0."""
    lost = False
    for c in range(rank):
        lost |= L[c * count + c, s] == 0.0
    return lost


@driver
def frame(
    G: Array,
    sizes: tuple[int, int, int],
    ranks: NDArray[np.int64],
    L: Array,
    count: int,
    rooms: tuple[Array, Array],
) -> None:
    """Change L, or G itself, so that L G becomes L F with F the frame of G = (QR, R_kk > 0).

    Arguments:
        G: (rank · padded, LANES), of whose rows the first `size` are normals.
        sizes: rank, size, padded.
        ranks: how many columns of L, (count, count), are not 0 in each network: no other row of G
            counts there, whatever is beside it.
        rooms: for two matrices.
    """
    wide_vectors()
    (rank, size, apart), (U, T) = sizes, rooms
    put_product(U, G, G, (rank, size, rank), (apart, 1, 1, apart), (size, rank, 0), False)
    put_root(U, T, rank, KEPT)
    for s in range(LANES):
        known = ranks[s]
        if is_lost(T, rank, known, s):
            own = np.empty((known, size))
            for k in range(known):
                for i in range(size):
                    own[k, i] = G[k * apart + i, s]
            orthonormalise(own, size)
            for k in range(known):
                for i in range(size):
                    G[k * apart + i, s] = own[k, i]
            known = 0
        for k in range(known, rank):
            for j in range(rank):
                T[k * rank + j, s] = 1.0 if j == k else 0.0
    for half in range(2):  # rows are two vectors
        for c in range(count):
            for j in range(rank - 1, -1, -1):
                total = load_row(L, 2 * (c * count + j) + half)
                for i in range(j + 1, rank):
                    along = load_row(L, 2 * (c * count + i) + half)
                    total = total - along * load_row(T, 2 * (i * rank + j) + half)
                pivot = load_row(T, 2 * (j * rank + j) + half)
                store_row(L, 2 * (c * count + j) + half, total / pivot)


@driver
def add_applied(
    out: Array,
    S: Array,
    V: Array,
    sizes: tuple[int, int],
    reads: NDArray[np.int64],
    factor: tuple[int, int, int, float],
    source: tuple[NDArray[np.uint64], NDArray[np.uint64], int, int],
    rooms: tuple[Array, Array, NDArray[np.uint64]],
    added: bool,
) -> None:
    """out ← W X, or out + W X, (m, n_out), for a factor W of each network and vectors X it reads.

    Arguments:
        S, V: the Gram matrix of all vectors, its lower triangle, and the vectors.
        sizes: m, and the neurons of a vector.
        reads: the vector that each of X is; −1 where that is 0.
        factor: (kind, size, big, scale) of a `Step`.
        source: (key, networks, layer, stream of the first column) of the random numbers.
        rooms: for four matrices, for the normals of all columns, and for words.
    """
    wide_vectors()
    (m, n), (kind, size, big, scale) = sizes, factor
    (key, networks, layer, use), (matrices, G, words) = source, rooms
    own, L, X, U = matrices[0], matrices[1], matrices[2], matrices[3]
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
    ranks, lower = np.full(LANES, count, np.int64), True
    for s in range(LANES):
        if is_lost(L, count, count, s):
            lower = False  # its basis has an order of its own
            ranks[s] = root_of_one(own, V, (used, count, n), s, L)
    rank = ranks.max()
    drawn = big if kind == HAAR else size
    apart = drawn + -drawn % 4
    for k in range(rank):
        fill_normals(G[k * apart : (k + 1) * apart], words, key, networks, layer, use + k)
    if kind == HAAR:
        frame(G, (rank, drawn, apart), ranks, L, count, (U, X))
    whole = all_lanes(scale * math.sqrt(n))
    for a in range(m):
        for k in range(rank):
            for half in range(2):
                entry = all_lanes(0.0)
                if rows[a] >= 0:
                    entry = whole * load_row(L, 2 * (rows[a] * count + k) + half)
                store_row(X, 2 * (a * rank + k) + half, entry)
    reach = 0 if lower else rank, size, size
    put_product(out, X, G, (m, rank, size), (rank, 1, apart, 1), reach, added)


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
    fill_normals(G[: size + -size % 4], words, key, networks, layer, use)
    own = all_lanes(scale)
    for a in range(m):
        for i in range(2 * size):  # rows are two vectors
            at = 2 * a * size + i
            store_row(out, at, load_row(out, at) + own * load_row(G, i))


PARTS = (
    *(draw_words, put_pairs, fill_normals, put_product, put_root, put_square),
    *(put_everywhere, put_gram, store_gram, frame, add_applied, add_biases),
)
"""Functions that the kernels of forward passes call, compiled once for all activations."""
