"""The kernels that take networks from layer to layer, a block of threads for each network.

They mirror `random.lazy`, `samplers.jet_kernels` and `samplers.path_kernels`, which say what each
one is: the same streams of random numbers, the same formulas. Network draws[s] is row s of arrays.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from ..arrays import Array
from ..random.lazy import BIAS, HAAR
from ..samplers.jet_kernels import COLUMNS, PROBE
from .device import THREADS, Indices, Key, Words, kernel
from .linear import cholesky, dot, factorise, fill_normals, fill_words, orthogonal
from .linear import gram as gram_of_one


@kernel
def place_inputs(X: Array, inputs: Array) -> None:
    """X (networks, vectors, n): the inputs (m, n), then zeros."""
    s = cuda.blockIdx.x
    if s < X.shape[0]:
        for i in range(cuda.threadIdx.x, X.shape[2], THREADS):
            for a in range(X.shape[1]):
                X[s, a, i] = inputs[a, i] if a < inputs.shape[0] else 0.0


@kernel
def gram(X: Array, S: Array) -> None:
    """`weights.gram` of each network's vectors."""
    scratch = cuda.shared.array(THREADS, np.float64)
    s = cuda.blockIdx.x
    if s < X.shape[0]:
        gram_of_one(X[s], S[s], scratch)


@kernel
def multiply_rows(X: Array, Z: Array, values: Array, scale: float) -> None:
    """`weights.DIAGONAL`: the first neurons times the values, over and over; zero for the rest."""
    s = cuda.blockIdx.x
    if s < X.shape[0]:
        for i in range(cuda.threadIdx.x, Z.shape[2], THREADS):
            for a in range(Z.shape[1]):
                value = scale * values[i % values.size]
                Z[s, a, i] = value * X[s, a, i] if i < X.shape[2] else 0.0


@kernel
def apply(
    S: Array,
    X: Array,
    Z: Array,
    G: Array,
    squares_of_rows: Array,
    spare: Array,
    squares: Array,
    key: Key,
    draws: Indices,
    factor: tuple[int, int, int, int],
    scale: float,
) -> None:
    """`weights.apply`: Z ← W Xᵀ, transposed, for a factor W of each network.

    Arguments:
        G: (networks, vectors, padded), room for normals.
        squares_of_rows: (networks, 3, vectors, vectors), room for R, U and a Gram matrix.
        spare, squares: (networks, 2, vectors, n_in) and (networks, 2, vectors): room.
        factor: (kind, normals of a column, layer, stream of the first column).
    """
    scratch = cuda.shared.array(THREADS, np.float64)
    shared = cuda.shared.array(1, np.int64)
    s, me = cuda.blockIdx.x, cuda.threadIdx.x
    if s >= X.shape[0]:
        return
    kind, drawn, layer, use = factor[0], factor[1], factor[2], factor[3]
    m, n = Z.shape[1], Z.shape[2]
    R = squares_of_rows[s, 0]
    rank = factorise(S[s], X[s], R, spare[s], squares[s], scratch, shared)
    for k in range(rank):
        fill_normals(G[s, k], key, draws[s], layer, use + k)
    cuda.syncthreads()
    for k in range(rank):
        for i in range(drawn + me, G.shape[2], THREADS):
            G[s, k, i] = 0.0
    cuda.syncthreads()
    if kind == HAAR:
        rows, U = squares_of_rows[s, 1, :rank], squares_of_rows[s, 2, :rank]
        orthogonal(G[s, :rank], drawn, R, rows, U, scratch, shared)
    for i in range(me, n, THREADS):
        for a in range(m):
            total = 0.0
            for k in range(rank):
                total += scale * R[k, a] * G[s, k, i]
            Z[s, a, i] = total


@kernel
def add_bias(
    Z: Array, G: Array, samples: int, deviation: float, key: Key, draws: Indices, layer: int
) -> None:
    """`weights.add_bias`: b_i with this standard deviation, to the first rows of each network."""
    s = cuda.blockIdx.x
    if s < Z.shape[0]:
        fill_normals(G[s], key, draws[s], layer, BIAS)
        cuda.syncthreads()
        for i in range(cuda.threadIdx.x, Z.shape[2], THREADS):
            for a in range(samples):
                Z[s, a, i] += deviation * G[s, i]


@kernel
def vary(
    S: Array,
    X: Array,
    Z: Array,
    T: Array,
    matrices: Array,
    spare: Array,
    squares: Array,
    words: Words,
    key: Key,
    draws: Indices,
    layer: int,
    rates: tuple[float, float],
    raising: tuple[Indices, Indices, Indices],
    samples: int,
) -> None:
    """`jets.vary`: add to each jet what the layer's own parameters contribute.

    Arguments:
        T: (networks, vectors, vectors), room for the Gram matrix that a direction meets.
        matrices: (networks, 2, vectors + 1, vectors), room for its factor and that of S.
        spare, squares: as for `apply`.
        words: (networks, vectors + 1, 4·⌈n/128⌉), room for bits.
    """
    scratch = cuda.shared.array(THREADS, np.float64)
    shared = cuda.shared.array(1, np.int64)
    s, me = cuda.blockIdx.x, cuda.threadIdx.x
    if s >= X.shape[0]:
        return
    start, lower, upper = raising
    m = X.shape[1]
    whole = matrices[s, 1, :m]
    for probe in range(start.size - 1):
        begin = start[probe]
        met = (start[probe + 1] - begin) * samples
        R = matrices[s, 0]
        for at in range(me, met * met, THREADS):
            a, b = at // met, at % met
            left = lower[begin + a // samples] * samples + a % samples
            right = lower[begin + b // samples] * samples + b % samples
            T[s, a, b] = rates[0] * S[s, left, right]
            if a < samples and b < samples:
                T[s, a, b] += rates[1]
        cuda.syncthreads()
        if me == 0:
            shared[0] = cholesky(T[s, :met, :met], R)
        cuda.syncthreads()
        rank = shared[0]
        if rank < 0:
            rank = factorise(S[s], X[s], whole, spare[s], squares[s], scratch, shared)
            for a in range(me, met, THREADS):
                left = lower[begin + a // samples] * samples + a % samples
                for k in range(rank):
                    R[k, a] = math.sqrt(rates[0]) * whole[k, left]
                R[rank, a] = math.sqrt(rates[1]) if a < samples else 0.0
            rank += 1
        for k in range(rank):
            fill_words(words[s, k], key, draws[s], layer, PROBE + COLUMNS * probe + k)
        cuda.syncthreads()
        for i in range(me, Z.shape[2], THREADS):
            for a in range(met):
                total = 0.0
                for k in range(rank):
                    odd = (words[s, k, i // 32] >> np.uint64(i % 32)) & np.uint64(1)
                    total += -R[k, a] if odd else R[k, a]
                Z[s, upper[begin + a // samples] * samples + a % samples, i] += total
        cuda.syncthreads()


@kernel
def chain(Z: Array, derivatives: Array, rule: tuple[Indices, Indices, Indices]) -> None:
    """`jets.chain`: z_{;O} → ∂_O σ(z) in place."""
    s = cuda.blockIdx.x
    if s >= Z.shape[0]:
        return
    start, order, factors = rule
    m = derivatives.shape[2]
    for i in range(cuda.threadIdx.x, Z.shape[2], THREADS):
        for jet in range(start.size - 2, 0, -1):  # a jet needs those before it as they were
            for a in range(m):
                total = 0.0
                for t in range(start[jet], start[jet + 1]):
                    term = derivatives[s, order[t], a, i]
                    for f in range(order[t]):
                        term *= Z[s, factors[t, f] * m + a, i]
                    total += term
                Z[s, jet * m + a, i] = total
        for a in range(m):
            Z[s, a, i] = derivatives[s, 0, a, i]


@kernel
def advance_path(
    columns: Array,
    Z: Array,
    F: Array,
    G: Array,
    key: Key,
    draws: Indices,
    factor: tuple[int, int, int, int],
    scale: float,
) -> None:
    """`samplers.paths`: f = W ŝ and z = |σ| f of the next layer, (networks, 1, n)."""
    scratch = cuda.shared.array(THREADS, np.float64)
    s, me = cuda.blockIdx.x, cuda.threadIdx.x
    if s >= Z.shape[0]:
        return
    kind, drawn, layer, use = factor[0], factor[1], factor[2], factor[3]
    fill_normals(G[s], key, draws[s], layer, use)
    cuda.syncthreads()
    if kind == HAAR:
        scale /= math.sqrt(dot(G[s, :drawn], G[s, :drawn], scratch))
    length = math.sqrt(dot(columns[s, 1], columns[s, 1], scratch))
    for i in range(me, Z.shape[2], THREADS):
        F[s, 0, i] = scale * G[s, i]
        Z[s, 0, i] = length * scale * G[s, i]


@kernel
def arrange(derivatives: Array, F: Array, columns: Array) -> None:
    """`samplers.paths`: 1, σ and its derivatives, f and ŝ as columns."""
    scratch = cuda.shared.array(THREADS, np.float64)
    s, me = cuda.blockIdx.x, cuda.threadIdx.x
    if s >= F.shape[0]:
        return
    orders = derivatives.shape[1]
    square = dot(derivatives[s, 0, 0], derivatives[s, 0, 0], scratch)
    for i in range(me, F.shape[2], THREADS):
        columns[s, 0, i] = 1.0
        for k in range(orders):
            columns[s, 1 + k, i] = derivatives[s, k, 0, i]
        columns[s, orders + 1, i] = F[s, 0, i]
        if square > 0.0:
            columns[s, orders + 2, i] = derivatives[s, 0, 0, i] / math.sqrt(square)
        else:
            columns[s, orders + 2, i] = 1.0 if i == 0 else 0.0
