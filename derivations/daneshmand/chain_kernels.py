"""Batch norm's chain through its n × n Gram matrix: kernels, exact in law at every width.

The rows of W H are independent N(0, HᵀH/d), so a layer is: factor the Gram matrix, C = RᵀR, draw
d rows R ᵀz of n numbers, normalise each over the batch, apply σ, and add up the next Gram matrix.
That is O(d n²) instead of O(d² n). Source 003, eqs. (1), (9) and appendix G; derived here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from numeric.arrays import Array
from numeric.emit.jit import driver
from numeric.random.lazy import add_multiple, dot, put_multiple
from numeric.random.philox import fill_normals, padded

ROWS = 256
"""Neurons that are drawn at a time; each batch of them has a stream of its own."""

TOLERANCE = 1e-14
"""Of a pivoted Cholesky factorization: what is left of the trace that is no more than rounding."""


@driver
def factor(C: Array, R: Array) -> int:
    """C = RᵀR by pivots, C destroyed: the rank, and so many rows of R.

    A direction whose square is below 1e-14 of the trace is left out: it is rounding.
    """
    n = C.shape[0]
    floor = 0.0
    for a in range(n):
        floor += TOLERANCE * C[a, a]
    for k in range(n):
        pivot = 0
        for a in range(1, n):
            if C[a, a] > C[pivot, pivot]:
                pivot = a
        if not C[pivot, pivot] > floor:
            return k
        put_multiple(R[k], 1.0 / math.sqrt(C[pivot, pivot]), C[pivot])
        for a in range(n):
            add_multiple(C[a], -R[k, a], R[k])
        C[pivot] = 0.0
        C[:, pivot] = 0.0
    return int(n)


@driver
def draw_rows(
    R: Array,
    rank: int,
    stream: tuple[NDArray[np.uint64], int, int, int],
    Z: Array,
    U: Array,
) -> None:
    """U[a, j] = Σ_k R[k, a] z_kj with z standard normal: columns are rows of W H, up to scale.

    Arguments:
        stream: (key, draw, layer, batch of neurons) of the random numbers.
        Z: room for padded(rank · U.shape[1]) numbers.
    """
    key, draw, layer, use = stream
    n, rows = U.shape
    fill_normals(Z[: padded(rank * rows)], key, draw, layer, use)
    for a in range(n):
        U[a].fill(0.0)
        for k in range(rank):
            if R[k, a] != 0.0:
                add_multiple(U[a], R[k, a], Z[k * rows : (k + 1) * rows])


@driver
def normalise(U: Array, norms: Array, centered: bool) -> None:
    """Give every column mean square 1, after taking away its mean if `centered`."""
    n = U.shape[0]
    if centered:
        norms.fill(0.0)
        for a in range(n):
            add_multiple(norms, 1.0 / n, U[a])
        for a in range(n):
            add_multiple(U[a], -1.0, norms)
    norms.fill(0.0)
    for a in range(n):
        for j in range(norms.size):
            norms[j] += U[a, j] * U[a, j]
    for j in range(norms.size):
        norms[j] = math.sqrt(n / norms[j])
    for a in range(n):
        for j in range(norms.size):
            U[a, j] *= norms[j]


@driver
def add_gram(U: Array, C: Array) -> None:
    """C ← C + U Uᵀ, the upper triangle."""
    for a in range(U.shape[0]):
        for b in range(a, U.shape[0]):
            C[a, b] += dot(U[a], U[b])


@driver
def copy(A: Array, B: Array) -> None:
    """B's first rows ← A: as a slice, numba would compile for seconds what words its error."""
    for a in range(A.shape[0]):
        for b in range(A.shape[1]):
            B[a, b] = A[a, b]


@driver
def mirror(C: Array) -> None:
    """Copy the upper triangle to the lower."""
    for a in range(C.shape[0]):
        for b in range(a):
            C[a, b] = C[b, a]


@driver
def gap_squared(C: Array) -> float:
    """V² = |C/tr C − 1/n|², without cancellation."""
    n = C.shape[0]
    trace = 0.0
    for a in range(n):
        trace += C[a, a]
    total = 0.0
    for a in range(n):
        for b in range(n):
            total += (C[a, b] / trace - (1.0 / n if a == b else 0.0)) ** 2
    return total


PARTS = fill_normals, draw_rows, normalise, add_gram, copy, mirror, gap_squared, factor
"""The functions that the chain calls."""
