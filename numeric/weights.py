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
def triangle(X: Array, Q: Array, R: Array) -> int:
    """Factor X = Rᵀ Q with Q orthonormal rows, and return the rank: rows of Q and R in use.

    Arguments:
        X: (m, n), the vectors; destroyed.
        Q: (m, n), filled with the basis.
        R: (m, m), filled with the coefficients, R[k, a] of basis vector k in vector a.

    The pivot is the vector with the largest part, relative to its own length, outside the span of
    those before; the factorization ends where rounding alone is left. So a short vector keeps its
    direction beside a long one, and a zero vector has none.
    """
    m, n = X.shape
    tolerance = (16.0 * n * 2.0**-52) ** 2
    R[:] = 0.0
    length = np.empty(m)
    rest = np.empty(m)  # squared length outside the span; −1 once in the basis
    for a in range(m):
        length[a] = rest[a] = dot(X[a], X[a])
    for rank in range(min(m, n)):
        pivot, largest = -1, tolerance
        for a in range(m):
            if rest[a] > largest * length[a]:
                pivot, largest = a, rest[a] / length[a]
        if pivot < 0:
            return rank
        for k in range(rank):  # what rounding left along the basis
            along = dot(Q[k], X[pivot])
            add_multiple(X[pivot], -along, Q[k])
            R[k, pivot] += along
        norm = math.sqrt(dot(X[pivot], X[pivot]))
        Q[rank] = X[pivot] / norm
        R[rank, pivot] = norm
        rest[pivot] = -1.0
        for a in range(m):
            if rest[a] >= 0.0:
                R[rank, a] = dot(Q[rank], X[a])
                add_multiple(X[a], -R[rank, a], Q[rank])
                rest[a] = dot(X[a], X[a])
    return min(m, n)


@driver
def orthonormalise(G: Array) -> None:
    """Make the rows of G orthonormal, in order and keeping their side: QR with R_kk > 0.

    A standard normal G becomes a uniform frame, because the sign of R's diagonal is fixed.
    """
    for k in range(G.shape[0]):
        for _ in range(2):  # twice is enough: Giraud, Langou and Rozložník (2005)
            for j in range(k):
                add_multiple(G[k], -dot(G[j], G[k]), G[j])
        scale = 1.0 / math.sqrt(dot(G[k], G[k]))
        for i in range(G.shape[1]):
            G[k, i] *= scale


@driver
def apply_fresh(
    kind: int,
    C_W: float,
    X: Array,
    Z: Array,
    stream: tuple[NDArray[np.uint64], int, int],
) -> None:
    """Z ← W Xᵀ, transposed, for a W of its own: (m, n_in) → (m, n_out); X is destroyed.

    Arguments:
        kind: GAUSSIAN or HAAR.
        C_W: n_in E[W_ij²].
        stream: (key, network, layer) of the random numbers.
    """
    key, network, layer = stream
    m, n_in = X.shape
    n_out = Z.shape[1]
    rows = max(n_in, n_out) if kind == HAAR else n_out
    Q, R = np.empty((m, n_in)), np.empty((m, m))
    rank = triangle(X, Q, R)
    columns = np.empty((rank, rows + -rows % 4))
    for k in range(rank):
        fill_normals(columns[k], key, network, layer, BIAS + 1 + k)
    scale = math.sqrt(C_W / n_in)
    if kind == HAAR:
        orthonormalise(columns[:, :rows])
        scale = math.sqrt(C_W * rows / n_in)
    Z[:] = 0.0
    for a in range(m):
        for k in range(rank):
            add_multiple(Z[a], scale * R[k, a], columns[k, :n_out])


@driver
def add_bias(
    C_b: float, Z: Array, stream: tuple[NDArray[np.uint64], int, int]
) -> None:
    """Z ← Z + b with b_i ~ N(0, C_b), one per neuron and the same for every sample."""
    key, network, layer = stream
    n_out = Z.shape[1]
    bias = np.empty(n_out + -n_out % 4)
    fill_normals(bias, key, network, layer, BIAS)
    for a in range(Z.shape[0]):
        add_multiple(Z[a], math.sqrt(C_b), bias[:n_out])
