"""The kernels of `kernels`: `LANES` networks side by side, as in `forward_kernels`.

A matrix is (entries, LANES), row after row. Each has a stream of normals, and the next one has
the numbers of its diagonal: results depend neither on threads nor on the networks beside.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, scalar, wide_vectors
from ..emit.vectors import all_lanes, load_row, store_row
from ..random.philox import circle, padded, philox, twice_minus_log
from .forward_kernels import LANES, TILE, draw_words, fill_normals, put_pairs
from .matrix_kernels import load, put_lower, put_product, put_root, put_square, store

ROUNDING = 2.0**-48
"""Pivots below this part of their diagonal are rounding."""


@scalar
def length(
    degrees: int,
    blocks: tuple[int, int],
    network: np.uint64,
    stream: tuple[NDArray[np.uint64], int, int],
) -> float:
    """The length of a vector of so many normals.

    Source: Marsaglia and Tsang (ACM Trans. Math. Softw. 26, 2000).

    Arguments:
        blocks: the first block of the stream, and how far the next one is that is tried.
        stream: (key, layer, use).
    """
    (at, apart), (key, layer, use), d = blocks, stream, 0.5 * degrees - 1.0 / 3.0
    while True:
        counter = np.uint64(at), network, np.uint64(layer), np.uint64(use)
        w0, w1, w2, _ = philox(counter, (key[0], key[1]))
        x = math.sqrt(twice_minus_log(w0)) * circle(w1)[0]
        v = (1.0 + x / math.sqrt(9.0 * d)) ** 3
        if v > 0.0 and twice_minus_log(w2) > 2.0 * d * (v - 1.0 - math.log(v)) - x * x:
            return math.sqrt(2.0 * d * v)
        at += apart


@driver
def try_lengths(x: Array, words: NDArray[np.uint64], degrees: int, margin: Array) -> None:
    """Normals ← the lengths that `length` tries first: those with a positive margin are accepted.

    With y = x/√(9d), `length` accepts if −2 ln u > 2d ((1 + y)³ − 1 − 3 ln(1 + y)) − x². The right
    side is 2d ∫_0^y 3t³/(1 + t) dt ≤ 2d · ¾y⁴/min(1, 1 + y), and −2 ln u ≥ 2 (1 − u). No logarithm
    is needed but in some 0.03/d of all cases. Derived here.
    """
    wide_vectors()
    d = 0.5 * degrees - 1.0 / 3.0
    part = 1.0 / math.sqrt(9.0 * d)
    for s in range(LANES):
        y = part * x[s]
        u = (float(words[s]) + 0.5) * 2.0**-32
        least = 1.0 + (y if y < 0.0 else 0.0)
        margin[s] = (1.0 - u) * least - 0.75 * d * (y * y) * (y * y)
        x[s] = math.sqrt(2.0 * d * abs((1.0 + y) * (1.0 + y) * (1.0 + y)))


@driver
def put_lengths(
    out: Array,
    degrees: int,
    networks: NDArray[np.uint64],
    stream: tuple[NDArray[np.uint64], int, int],
    words: NDArray[np.uint64],
) -> None:
    """Lengths of vectors of degrees, degrees − 1, … normals, (rows, LANES); words as of
    `fill_normals`."""
    rows, (key, layer, use) = out.shape[0], stream
    pairs, margin = np.empty(2 * TILE * LANES), np.empty(LANES)
    for first in range(0, rows, TILE):
        stop = min(first + TILE, rows)
        draw_words(words, key, networks, layer, use, first, stop)
        put_pairs(words, 0, LANES * (stop - first), pairs, 0, TILE * LANES)
        for k in range(first, stop):
            at = LANES * (k - first)
            for s in range(LANES):
                out[k, s] = pairs[at + s]
            if degrees - k == 1:
                for s in range(LANES):
                    out[k, s] = abs(out[k, s])
                continue
            try_lengths(out[k], words[2, at : at + LANES], degrees - k, margin)
            for s in range(LANES):
                if not margin[s] > 0.0:
                    out[k, s] = length(degrees - k, (k, rows), networks[s], stream)


@driver
def put_wishart(
    F: Array,
    shape: tuple[int, int, int],
    networks: NDArray[np.uint64],
    stream: tuple[NDArray[np.uint64], int, int],
    rooms: tuple[Array, Array, NDArray[np.uint64]],
) -> None:
    """The lower triangle of F (m, rank), with F Fᵀ Wishart; the shape is m, rank and the degrees of
    freedom. Rooms are for as many normals, for rows of lanes, and for words."""
    wide_vectors()
    (m, rank, degrees), (key, layer, use), (normals, lengths, words) = shape, stream, rooms
    count, at = m * rank - rank * (rank + 1) // 2, 0
    fill_normals(normals.reshape(-1), count, words, key, networks, layer, use)
    put_lengths(lengths[:rank], degrees, networks, (key, layer, use + 1), words)
    for a in range(m):
        for k in range(min(a, rank)):
            for half in range(2):  # rows are two vectors
                store_row(F, 2 * (a * rank + k) + half, load_row(normals, 2 * at + half))
            at += 1
        for half in range(2 if a < rank else 0):
            store_row(F, 2 * (a * rank + a) + half, load_row(lengths, 2 * a + half))


@driver
def put_times(out: Array, X: Array, factor: float) -> None:
    """out ← factor X, row by row: a slice that is assigned to is compiled with its error's text."""
    wide_vectors()
    scale = all_lanes(factor)
    for i in range(out.size // 8):  # rows are two vectors
        store_row(out, i, scale * load_row(X, i))


@driver
def draw_head(
    roots: tuple[Array, Array, Array],
    parts: tuple[Array, Array, Array],
    sizes: tuple[int, int, int],
    laws: tuple[bool, bool],
    networks: NDArray[np.uint64],
    stream: tuple[NDArray[np.uint64], int, int],
    rooms: tuple[Array, Array, Array, NDArray[np.uint64]],
) -> None:
    """Queries, keys and values of one head, (m, rank) each but for the rank of infinite keys, m.

    Arguments:
        roots: of the kernels of queries, keys and values, (m m, LANES).
        sizes: m, the head's neurons, and its rank.
        laws: if keys are queries; if keys are infinitely large.
        stream: the key of random numbers, the layer's number, and the head's first use.
        rooms: for a triangle, whose upper part is 0, and as of `put_wishart`.
    """
    (of_query, of_key, of_value), (query, key, value), (m, size, rank) = roots, parts, sizes
    (tied, normal), (seed, layer, use) = laws, stream
    F, normals, lengths, words = rooms
    if normal:
        put_times(key, of_key, math.sqrt(size))
    else:
        put_wishart(F, (m, rank, size), networks, stream, (normals, lengths, words))
        put_lower(key, of_key, F, (m, rank), True, False)
    if tied:
        put_times(query, key, 1.0)
    else:
        own = m if normal else rank
        fill_normals(normals.reshape(-1), m * own, words, seed, networks, layer, use + 2)
        put_lower(query, of_query, normals, (m, own), False, False)
    of_values = seed, layer, use + 4
    put_wishart(F, (m, rank, size), networks, of_values, (normals, lengths, words))
    put_lower(value, of_value, F, (m, rank), True, False)


@driver
def put_scores(
    A: Array, query: Array, key: Array, table: Array, factor: float, first: int, rank: int
) -> None:
    """A[s, t] ← factor q_t·k_s + table[s, t] of a signal whose first sample is this one; keys are a
    lower triangle."""
    wide_vectors()
    T = table.shape[0]
    q, k = query[first * rank : (first + T) * rank], key[first * rank : (first + T) * rank]
    put_product(A, k, q, (T, rank, T), (rank, 1, 1, rank), (first, T, T), False)
    scale = all_lanes(factor)
    for s in range(T):
        for t in range(T):
            own = all_lanes(table[s, t])
            for half in range(2):  # rows are two vectors
                at = 2 * (s * T + t) + half
                store_row(A, at, scale * load_row(A, at) + own)


@driver
def put_larger(x: Array, y: Array) -> None:
    """x ← max(x, y), number by number."""
    wide_vectors()
    for i in range(x.size):
        x[i] = y[i] if y[i] > x[i] else x[i]


@driver
def subtract_largest(A: Array, T: int) -> None:
    """A[s, t] ← A[s, t] − max_s A[s, t]: no exponential overflows."""
    wide_vectors()
    rows = A.reshape(T, T * LANES)
    most = rows[0].copy()
    for s in range(1, T):
        put_larger(most, rows[s])
    for s in range(T):
        own = rows[s]
        for i in range(own.size):
            own[i] -= most[i]


@driver
def divide_by_sums(A: Array, T: int) -> None:
    """A[s, t] ← A[s, t]/Σ_s A[s, t]."""
    wide_vectors()
    rows = A.reshape(T, T * LANES)
    total = rows[0].copy()
    for s in range(1, T):
        own = rows[s]
        for i in range(own.size):
            total[i] += own[i]
    for i in range(total.size):
        total[i] = 1.0 / total[i]
    for s in range(T):
        own = rows[s]
        for i in range(own.size):
            own[i] *= total[i]


@driver
def close(A: Array, table: Array, more: Array) -> None:
    """A[s, t] ← A[s, t] + more[s, t], and 0 where the table masks s."""
    wide_vectors()
    T = table.shape[0]
    for s in range(T):
        for t in range(T):
            is_open = table[s, t] > -math.inf
            if is_open and more[s, t] == 0.0:
                continue
            own = all_lanes(more[s, t])
            for half in range(2):  # rows are two vectors
                at = 2 * (s * T + t) + half
                store_row(A, at, load_row(A, at) + own if is_open else own)


@driver
def put_read(found: Array, A: Array, value: Array, T: int, first: int, rank: int) -> None:
    """Σ_s A[s, t] v_s of a signal whose first sample is this one; values are a lower triangle."""
    v, out = value[first * rank : (first + T) * rank], found[first * rank : (first + T) * rank]
    put_product(out, A, v, (T, T, rank), (1, T, rank, 1), (T, first, rank), False)


@driver
def draw_stream(
    R: Array,
    past: Array,
    known: int,
    networks: NDArray[np.uint64],
    n: int,
    streams: tuple[NDArray[np.uint64], int],
    out: Array,
) -> None:
    """z of n neurons with rows N(past, R), as so many neurons as there are samples: (draws, m, m).

    Arguments:
        known: the neurons of the past; 0 for none.
        networks, streams: as of `draw_attended`.
    """
    m, (seed, layer) = R.shape[1], streams
    rank = min(m, n - known)
    S, L, z = np.empty((m * m, LANES)), np.empty((m * m, LANES)), np.empty((m * m, LANES))
    Z = np.empty((padded(m * m), LANES))
    F, rest = np.zeros((m * rank, LANES)), np.empty((m * rank, LANES))
    rooms = Z, np.empty((m, LANES)), np.empty((4, TILE * LANES), np.uint64)
    for group in range(len(networks)):
        first = group * LANES
        load(R, first, 1.0, S)
        put_root(S, L, m, ROUNDING)
        if known:
            load(past, first, math.sqrt(n / known), z)
            fill_normals(Z.reshape(-1), m * m, rooms[2], seed, networks[group], layer, 0)
            put_lower(z, L, Z, (m, m), False, True)
            put_square(S, z, (m, m), False, False)
        if rank:
            put_wishart(F, (m, rank, n - known), networks[group], (seed, layer, 2), rooms)
            put_lower(rest, L, F, (m, rank), True, False)
            put_square(S, rest, (m, rank), True, known > 0)
        put_root(S, L, m, ROUNDING)
        store(L, first, math.sqrt(m / n), out)


PARTS = (
    *(fill_normals, put_product, put_lower, put_square, put_root, put_wishart, draw_head),
    *(put_scores, subtract_largest, divide_by_sums, close, put_read, load, store),
)
"""Functions that the kernels of attention call, compiled once for all functions of scores."""
