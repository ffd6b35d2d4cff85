"""Weight matrices that are sampled only on the vectors they meet; exact in law at every width.

The rows of X are m vectors. With X = Rᵀ Q, Q an orthonormal basis of their span,

    W Xᵀ = √(C_W/n_in) G R         Gaussian W, G standard normal, n_out × rank
    W Xᵀ = √(C_W N/n_in) F R       a block of a Haar matrix on N = max(n_in, n_out),
                                   F the first n_out rows of a uniform frame, N × rank

at a cost of O(n m²). The basis comes from Gram–Schmidt with pivoting and never from XXᵀ, so that
vectors may repeat, be collinear or vanish. Source: derived here; the conditioning technique of
Bolthausen (*Commun. Math. Phys.* 325, 2014).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .jit import driver, reduction
from .random import fill_normals, padded

Array = NDArray[np.float64]

GAUSSIAN, HAAR = 0, 1
"""How a kernel is told the ensemble of a layer."""

BIAS = 0
"""The stream of a layer's biases; stream k + 1 is column k of its weights on the basis."""


@reduction
def dot(x: Array, y: Array) -> float:
    """x·y."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@driver
def add_multiple(x: Array, factor: float, y: Array) -> None:
    """x ← x + factor·y."""
    for i in range(x.size):
        x[i] += factor * y[i]


@driver
def put_multiple(x: Array, factor: float, y: Array) -> None:
    """x ← factor·y."""
    for i in range(x.size):
        x[i] = factor * y[i]


@driver
def triangle(X: Array, Q: Array, R: Array, squares: Array) -> int:
    """Factor X = Rᵀ Q with Q orthonormal rows, and return the rank: rows of Q and R in use.

    Arguments:
        X: (m, n), the vectors; destroyed.
        Q: (m, n), filled with the basis.
        R: (m, m), filled with the coefficients, R[k, a] of basis vector k in vector a.
        squares: (2, m), room for squared lengths.

    The pivot is the vector with the largest part, relative to its own length, outside the span of
    those before; the factorization ends where rounding alone is left. So a short vector keeps its
    direction beside a long one, and a zero vector has none.
    """
    m, n = X.shape
    tolerance = (16.0 * n * 2.0**-52) ** 2
    whole, rest = squares[0], squares[1]  # rest: outside the span so far, −1 once in the basis
    for a in range(m):
        whole[a] = rest[a] = dot(X[a], X[a])
        for k in range(m):
            R[k, a] = 0.0
    for rank in range(min(m, n)):
        pivot, largest = -1, tolerance
        for a in range(m):
            if rest[a] > largest * whole[a]:
                pivot, largest = a, rest[a] / whole[a]
        if pivot < 0:
            return rank
        for k in range(rank):  # what rounding left along the basis
            along = dot(Q[k], X[pivot])
            add_multiple(X[pivot], -along, Q[k])
            R[k, pivot] += along
        norm = math.sqrt(dot(X[pivot], X[pivot]))
        put_multiple(Q[rank], 1.0 / norm, X[pivot])
        R[rank, pivot] = norm
        rest[pivot] = -1.0
        for a in range(m):
            if rest[a] >= 0.0:
                R[rank, a] = dot(Q[rank], X[a])
                add_multiple(X[a], -R[rank, a], Q[rank])
                rest[a] = dot(X[a], X[a])
    return int(min(m, n))


@driver
def orthonormalise(G: Array, size: int) -> None:
    """Make the rows G[k, :size] orthonormal, in order and keeping their side: QR with R_kk > 0.

    A standard normal G becomes a uniform frame, because the sign of R's diagonal is fixed.
    """
    for k in range(G.shape[0]):
        row = G[k, :size]
        for _ in range(2):  # twice is enough: Giraud, Langou and Rozložník (2005)
            for j in range(k):
                add_multiple(row, -dot(G[j, :size], row), G[j, :size])
        put_multiple(row, 1.0 / math.sqrt(dot(row, row)), row)


@driver
def room(m: int, n_in: int, n_out: int) -> tuple[Array, Array, Array, Array]:
    """Work arrays for `apply_fresh` and `add_bias`, to be used draw after draw."""
    columns = np.empty((m, padded(max(n_in, n_out))))
    return np.empty((m, n_in)), np.empty((m, m)), np.empty((2, m)), columns


@driver
def apply_fresh(
    law: tuple[int, float, float],
    X: Array,
    Z: Array,
    stream: tuple[NDArray[np.uint64], int, int],
    work: tuple[Array, Array, Array, Array],
) -> None:
    """Z ← W Xᵀ, transposed, for a W of its own: (m, n_in) → (m, n_out); X is destroyed.

    Arguments:
        law: (GAUSSIAN or HAAR, n_in E[W_ij²] = C_W, C_b).
        stream: (key, network, layer) of the random numbers.
        work: from `room`.
    """
    kind, C_W, _ = law
    key, network, layer = stream
    Q, R, squares, columns = work
    m, n_in = X.shape
    n_out = Z.shape[1]
    rank = triangle(X, Q, R, squares)
    rows = max(n_in, n_out) if kind == HAAR else n_out
    for k in range(rank):
        fill_normals(columns[k, : padded(rows)], key, network, layer, BIAS + 1 + k)
    scale = math.sqrt(C_W / n_in)
    if kind == HAAR:
        orthonormalise(columns[:rank], rows)
        scale = math.sqrt(C_W * rows / n_in)
    for a in range(m):
        Z[a].fill(0.0)
        for k in range(rank):
            add_multiple(Z[a], scale * R[k, a], columns[k, :n_out])


@driver
def add_bias(
    C_b: float,
    Z: Array,
    stream: tuple[NDArray[np.uint64], int, int],
    work: tuple[Array, Array, Array, Array],
) -> None:
    """Z ← Z + b with b_i ~ N(0, C_b), one per neuron and the same for every sample."""
    key, network, layer = stream
    n_out = Z.shape[1]
    bias = work[3][0, : padded(n_out)]
    fill_normals(bias, key, network, layer, BIAS)
    for a in range(Z.shape[0]):
        add_multiple(Z[a], math.sqrt(C_b), bias[:n_out])


@driver
def advance(
    X: Array,
    Z: Array,
    draws: NDArray[np.int64],
    law: tuple[int, float, float],
    source: tuple[NDArray[np.uint64], int],
) -> None:
    """Z ← W X + b for each draw: (draws, m, n_in) → (draws, m, n_out); X is destroyed.

    Arguments:
        draws: the networks' numbers, in the order of X.
        law: (GAUSSIAN or HAAR, C_W, C_b).
        source: (key, layer) of the random numbers.
    """
    key, layer = source
    work = room(X.shape[1], X.shape[2], Z.shape[2])
    for s in range(draws.size):
        stream = (key, draws[s], layer)
        apply_fresh(law, X[s], Z[s], stream, work)
        if law[2] > 0.0:
            add_bias(law[2], Z[s], stream, work)
