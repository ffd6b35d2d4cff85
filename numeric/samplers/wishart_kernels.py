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
from .forward_kernels import LANES, TILE, fill_normals

FULL, LOWER, TURNED = 0, 1, 2
_ROUNDING = 2.0**-48
"""Pivots below this part of their diagonal are rounding."""


@scalar
def tried(
    block: int, network: np.uint64, key: NDArray[np.uint64], layer: int, use: int
) -> tuple[float, float]:
    """A normal, and −2 ln u of a uniform u."""
    counter = np.uint64(block), network, np.uint64(layer), np.uint64(use)
    w0, w1, w2, _ = philox(counter, (key[0], key[1]))
    return math.sqrt(twice_minus_log(w0)) * circle(w1)[0], twice_minus_log(w2)


@driver
def put_lengths(
    row: Array,
    degrees: int,
    blocks: tuple[int, int],
    networks: NDArray[np.uint64],
    key: NDArray[np.uint64],
    layer: int,
    use: int,
) -> None:
    """Lengths of vectors of so many normals.

    Source: Marsaglia and Tsang (ACM Trans. Math. Softw. 26, 2000).

    Arguments:
        blocks: the first block of the stream, and how far the next one is that is tried.
    """
    wide_vectors()
    block, apart = blocks
    bounds, d = np.empty(LANES), 0.5 * degrees - 1.0 / 3.0
    for s in range(LANES):
        row[s], bounds[s] = tried(block, networks[s], key, layer, use)
    for s in range(LANES):
        x, bound, at = row[s], bounds[s], block
        v = (1.0 + x / math.sqrt(9.0 * d)) ** 3
        while v <= 0.0 or bound <= 2.0 * d * (v - 1.0 - math.log(v)) - x * x:
            at += apart
            x, bound = tried(at, networks[s], key, layer, use)
            v = (1.0 + x / math.sqrt(9.0 * d)) ** 3
        row[s] = abs(row[s]) if degrees == 1 else math.sqrt(2.0 * d * v)


@driver
def put_normals(
    out: Array, networks: NDArray[np.uint64], key: NDArray[np.uint64], layer: int, use: int
) -> None:
    """Fill rows, a multiple of 4, with normals."""
    fill_normals(out, np.empty((4, TILE, LANES), np.uint64), key, networks, layer, use)


@driver
def put_wishart(
    F: Array,
    shape: tuple[int, int, int],
    networks: NDArray[np.uint64],
    key: NDArray[np.uint64],
    layer: int,
    use: int,
) -> None:
    """F (m, rank), lower triangular with F Fᵀ Wishart; the shape is m, rank and the degrees of
    freedom."""
    m, rank, degrees = shape
    normals = np.empty((padded(m * rank - rank * (rank + 1) // 2), LANES))
    put_normals(normals, networks, key, layer, use)
    at = 0
    for a in range(m):
        for k in range(rank):
            row = F[a * rank + k]
            if k < a:
                row[:] = normals[at]
                at += 1
            elif k > a:
                row[:] = 0.0
            else:
                put_lengths(row, degrees - k, (k, rank), networks, key, layer, use + 1)


@driver
def put_product(
    out: Array, X: Array, Y: Array, shape: tuple[int, int, int], kind: int, added: bool
) -> None:
    """out ← X Y, or out + X Y; the shape is rows, inner, columns. X is LOWER, or Y TURNED: X Yᵀ."""
    wide_vectors()
    rows, inner, columns = shape
    down, across = (1, inner) if kind == TURNED else (columns, 1)
    for a in range(rows):
        for b in range(columns):
            at = 2 * (a * columns + b)  # rows are two vectors
            low = high = all_lanes(0.0)
            if added:
                low, high = load_row(out, at), load_row(out, at + 1)
            for k in range(a + 1 if kind == LOWER else inner):
                x, y = 2 * (a * inner + k), 2 * (k * down + b * across)
                low = low + load_row(X, x) * load_row(Y, y)
                high = high + load_row(X, x + 1) * load_row(Y, y + 1)
            store_row(out, at, low)
            store_row(out, at + 1, high)


@driver
def put_root(S: Array, L: Array, m: int) -> None:
    """L, lower triangular, with L Lᵀ = S, of semidefinite matrices."""
    wide_vectors()
    norms = np.empty(LANES)
    for k in range(m):
        for a in range(m):
            row = L[a * m + k]
            for s in range(LANES):
                row[s] = S[a * m + k, s] if a >= k else 0.0
            for j in range(k if a >= k else 0):
                for s in range(LANES):
                    row[s] -= L[a * m + j, s] * L[k * m + j, s]
        for s in range(LANES):
            pivot = L[k * m + k, s]
            rounding = pivot <= _ROUNDING * S[k * m + k, s]  # false of nan, which stays nan
            norms[s] = 0.0 if rounding else 1.0 / math.sqrt(pivot)
        for a in range(k, m):
            for s in range(LANES):
                L[a * m + k, s] *= norms[s]


@driver
def load(S: Array, first: int, factor: float, out: Array) -> None:
    """Matrices (draws, m, k) of these networks side by side; the last one again where they end."""
    for s in range(LANES):
        own = S[min(first + s, S.shape[0] - 1)]
        for a in range(own.shape[0]):
            for b in range(own.shape[1]):
                out[a * own.shape[1] + b, s] = factor * own[a, b]


@driver
def store(L: Array, first: int, factor: float, out: Array) -> None:
    """The rows that `load` turned, turned back."""
    for s in range(min(LANES, out.shape[0] - first)):
        own = out[first + s]
        for a in range(own.shape[0]):
            for b in range(own.shape[1]):
                own[a, b] = factor * L[a * own.shape[1] + b, s]


@driver
def draw_scores(
    query: Array,
    key: Array,
    networks: NDArray[np.uint64],
    size: int,
    laws: tuple[bool, bool],
    streams: tuple[NDArray[np.uint64], int],
    out: Array,
) -> None:
    """q·k of heads of this size, signal by signal: (groups, heads, signals, T, T, LANES).

    Arguments:
        query, key: roots of their kernels, (draws, m, m).
        networks: (groups, LANES), as of `forward.grouped`.
        laws: if keys are queries; if keys are infinitely large.
        streams: the key of random numbers, and the layer's number.
    """
    m, (tied, normal), (seed, layer) = query.shape[1], laws, streams
    groups, heads, signals, T = out.shape[:4]
    rank = m if normal else min(m, size)
    L_q, L_k, own = np.empty((m * m, LANES)), np.empty((m * m, LANES)), np.empty((m * m, LANES))
    Z, F = np.empty((padded(m * rank), LANES)), np.empty((m * rank, LANES))
    q, k = np.empty((m * rank, LANES)), np.empty((m * rank, LANES))
    for group in range(groups):
        first = group * LANES
        load(query, first, 1.0, L_q)
        load(key, first, 1.0, L_k)
        for h in range(heads):
            if normal:
                load(key, first, math.sqrt(size), k)
            else:
                put_wishart(F, (m, rank, size), networks[group], seed, layer, 6 * h)
                put_product(k, L_k, F, (m, m, rank), LOWER, False)
            if tied:
                q[:] = k
            else:
                put_normals(Z, networks[group], seed, layer, 6 * h + 2)
                put_product(q, L_q, Z, (m, m, rank), LOWER, False)
            for signal in range(signals):
                rows = slice(signal * T * rank, (signal + 1) * T * rank)
                put_product(own[: T * T], q[rows], k[rows], (T, rank, T), TURNED, False)
                for t in range(T):
                    for u in range(T):
                        out[group, h, signal, t, u] = own[t * T + u]


@driver
def draw_attended(
    A: Array,
    value: Array,
    networks: NDArray[np.uint64],
    size: int,
    streams: tuple[NDArray[np.uint64], int],
    out: Array,
) -> None:
    """The root of the kernel of Σ_s A[t,s] v[s] over all heads, (draws, m, m).

    Arguments:
        A: (groups, heads, signals, T, T, LANES).
        value: the root of the kernel of values, (draws, m, m).
        networks, streams: as of `draw_scores`.
    """
    m, (seed, layer) = value.shape[1], streams
    groups, heads, signals, T = A.shape[:4]
    rank = min(m, size)
    L, S = np.empty((m * m, LANES)), np.empty((m * m, LANES))
    F, v = np.empty((m * rank, LANES)), np.empty((m * rank, LANES))
    found = np.empty((m * rank, LANES))
    for group in range(groups):
        first = group * LANES
        load(value, first, 1.0, L)
        S[:] = 0.0
        for h in range(heads):
            put_wishart(F, (m, rank, size), networks[group], seed, layer, 6 * h + 4)
            put_product(v, L, F, (m, m, rank), LOWER, False)
            for signal in range(signals):
                rows = slice(signal * T * rank, (signal + 1) * T * rank)
                own = A[group, h, signal].reshape(T * T, LANES)
                put_product(found[rows], own, v[rows], (T, T, rank), FULL, False)
            put_product(S, found, found, (m, rank, m), TURNED, True)
        put_root(S, L, m)
        store(L, first, math.sqrt(m / (heads * size)), out)


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
        networks, streams: as of `draw_scores`.
    """
    m, (seed, layer) = R.shape[1], streams
    rank = min(m, n - known)
    S, L, F = np.empty((m * m, LANES)), np.empty((m * m, LANES)), np.empty((m * rank, LANES))
    z, Z = np.empty((m * m, LANES)), np.empty((padded(m * m), LANES))
    rest = np.empty((m * rank, LANES))
    for group in range(len(networks)):
        first = group * LANES
        load(R, first, 1.0, S)
        put_root(S, L, m)
        S[:] = 0.0
        if known:
            load(past, first, math.sqrt(n / known), z)
            put_normals(Z, networks[group], seed, layer, 0)
            put_product(z, L, Z, (m, m, m), LOWER, True)
            put_product(S, z, z, (m, m, m), TURNED, False)
        if rank:
            put_wishart(F, (m, rank, n - known), networks[group], seed, layer, 2)
            put_product(rest, L, F, (m, m, rank), LOWER, False)
            put_product(S, rest, rest, (m, rank, m), TURNED, True)
        put_root(S, L, m)
        store(L, first, math.sqrt(m / n), out)


ENTRIES = draw_scores, draw_attended, draw_stream
"""The kernels that Python calls."""
