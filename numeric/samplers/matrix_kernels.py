"""Products and roots of matrices of `LANES` networks side by side.

A matrix is (entries, LANES), row after row. A tile of a product stays in registers.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Array
from ..emit.jit import driver, wide_vectors
from ..emit.vectors import all_lanes, load_row, store_row
from .forward_kernels import LANES


@driver
def put_product(
    out: Array,
    X: Array,
    Y: Array,
    shape: tuple[int, int, int],
    apart: tuple[int, int, int, int],
    reach: tuple[int, int, int],
    added: bool,
) -> None:
    """out ← X Y, or out + X Y; the shape is rows, inner, columns.

    Arguments:
        apart: how far rows and columns of X and of Y are apart.
        reach: X[a, k] is 0 for k > a + reach[0], and Y[k, b] for k < b − reach[1]; out[a, b] is
            wanted for b ≤ a + reach[2].

    Two rows and four columns at a time; the last one again where there are fewer.
    """
    wide_vectors()
    (rows, inner, columns), (down, across, below, beside) = shape, apart
    for half in range(2):  # rows are two vectors
        for a in range(0, rows, 2):
            lower = min(a + 1, rows - 1)
            stop = min(inner, lower + reach[0] + 1)
            for b in range(0, min(columns, lower + reach[2] + 1), 4):
                c, d, e = min(b + 1, columns - 1), min(b + 2, columns - 1), min(b + 3, columns - 1)
                to, under = 2 * a * columns + half, 2 * lower * columns + half
                r = s = t = u = v = w = x = y = all_lanes(0.0)
                if added:
                    r, s = load_row(out, to + 2 * b), load_row(out, to + 2 * c)
                    t, u = load_row(out, to + 2 * d), load_row(out, to + 2 * e)
                    v, w = load_row(out, under + 2 * b), load_row(out, under + 2 * c)
                    x, y = load_row(out, under + 2 * d), load_row(out, under + 2 * e)
                for k in range(max(0, b - reach[1]), stop):
                    at, first = 2 * k * across + half, 2 * k * below + half
                    p, q = load_row(X, 2 * a * down + at), load_row(X, 2 * lower * down + at)
                    g = load_row(Y, first + 2 * b * beside)
                    h = load_row(Y, first + 2 * c * beside)
                    i = load_row(Y, first + 2 * d * beside)
                    j = load_row(Y, first + 2 * e * beside)
                    r, s, t, u = r + p * g, s + p * h, t + p * i, u + p * j
                    v, w, x, y = v + q * g, w + q * h, x + q * i, y + q * j
                store_row(out, to + 2 * b, r)
                store_row(out, to + 2 * c, s)
                store_row(out, to + 2 * d, t)
                store_row(out, to + 2 * e, u)
                store_row(out, under + 2 * b, v)
                store_row(out, under + 2 * c, w)
                store_row(out, under + 2 * d, x)
                store_row(out, under + 2 * e, y)


@driver
def put_square(S: Array, X: Array, shape: tuple[int, int], lower: bool, added: bool) -> None:
    """The lower triangle of X Xᵀ, or of S + X Xᵀ, for X of this shape, which may be one itself."""
    rows, inner = shape
    reach = 0 if lower else inner, rows, 0
    put_product(S, X, X, (rows, inner, rows), (inner, 1, 1, inner), reach, added)


@driver
def put_lower(
    out: Array, L: Array, F: Array, shape: tuple[int, int], lower: bool, added: bool
) -> None:
    """out ← L F, or out + L F, for a lower triangle L (m, m) and F (m, rank), which may be one."""
    m, rank = shape
    reach = 0, 0 if lower else rank, rank
    put_product(out, L, F, (m, m, rank), (m, 1, rank, 1), reach, added)


@driver
def put_norms(S: Array, pivots: Array, least: float, norms: Array) -> None:
    """1/√ of pivots, or 0 of those up to this part of diagonals S."""
    wide_vectors()
    for s in range(LANES):
        lost = pivots[s] <= least * S[s]  # false of nan, which stays nan
        norms[s] = 0.0 if lost else 1.0 / math.sqrt(pivots[s])


@driver
def put_root(S: Array, L: Array, m: int, least: float) -> None:
    """L, lower triangular, with L Lᵀ = S, of semidefinite matrices: columns whose pivot is up to
    this part of the diagonal are 0."""
    wide_vectors()
    norms = np.empty(LANES)
    for k in range(m):
        for half in range(2):  # rows are two vectors
            for a in range(k):
                store_row(L, 2 * (a * m + k) + half, all_lanes(0.0))
            for a in range(k, m, 4):
                b, c, d = min(a + 1, m - 1), min(a + 2, m - 1), min(a + 3, m - 1)
                w, x = load_row(S, 2 * (a * m + k) + half), load_row(S, 2 * (b * m + k) + half)
                y, z = load_row(S, 2 * (c * m + k) + half), load_row(S, 2 * (d * m + k) + half)
                for j in range(half, 2 * k, 2):
                    own = load_row(L, 2 * k * m + j)
                    w = w - own * load_row(L, 2 * a * m + j)
                    x = x - own * load_row(L, 2 * b * m + j)
                    y = y - own * load_row(L, 2 * c * m + j)
                    z = z - own * load_row(L, 2 * d * m + j)
                store_row(L, 2 * (a * m + k) + half, w)
                store_row(L, 2 * (b * m + k) + half, x)
                store_row(L, 2 * (c * m + k) + half, y)
                store_row(L, 2 * (d * m + k) + half, z)
        put_norms(S[k * m + k], L[k * m + k], least, norms)
        for half in range(2):
            norm = load_row(norms, half)
            for a in range(k, m):
                at = 2 * (a * m + k) + half
                store_row(L, at, norm * load_row(L, at))


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
