"""Device functions that a block of threads runs together: dot products, factorizations, normals.

They mirror those of `random.lazy`, which say what each one is and why; sums over neurons are
taken in another order, so that the results agree to rounding. Every thread of the block calls
them with the same arguments, `scratch` and `shared` being the block's shared memory.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from ..arrays import Array
from ..random import lazy
from ..random import philox as random
from .device import FEWEST_LANES, THREADS, Key, Shared, Words, device, taken_over

cholesky = taken_over(lazy.cholesky)
divide = taken_over(lazy.divide)
philox = taken_over(random.philox)
_twice_minus_log = taken_over(random.twice_minus_log)
_circle = taken_over(random.circle)


@device
def _add_up(scratch: Array, lanes: int) -> None:
    """Leave the sum of each group of `lanes` entries in its first."""
    me = cuda.threadIdx.x
    cuda.syncthreads()
    step = lanes // 2
    while step > 0:
        if me % lanes < step:
            scratch[me] += scratch[me + step]
        cuda.syncthreads()
        step //= 2


@device
def _added_up(own: float, scratch: Array) -> float:
    """The sum of what each thread has, for every thread."""
    scratch[cuda.threadIdx.x] = own
    _add_up(scratch, THREADS)
    found: float = scratch[0]
    cuda.syncthreads()
    return found


@device
def dot(x: Array, y: Array, scratch: Array) -> float:
    """x·y, for every thread."""
    own = 0.0
    for i in range(cuda.threadIdx.x, x.size, THREADS):
        own += x[i] * y[i]
    return _added_up(own, scratch)


@device
def total(x: Array, scratch: Array) -> float:
    """Σ x, for every thread."""
    own = 0.0
    for i in range(cuda.threadIdx.x, x.size, THREADS):
        own += x[i]
    return _added_up(own, scratch)


@device
def add_multiple(x: Array, factor: float, y: Array) -> None:
    """x ← x + factor·y; a thread meets the entries that it meets in `dot`."""
    for i in range(cuda.threadIdx.x, x.size, THREADS):
        x[i] += factor * y[i]


@device
def put_multiple(x: Array, factor: float, y: Array) -> None:
    """x ← factor·y."""
    for i in range(cuda.threadIdx.x, x.size, THREADS):
        x[i] = factor * y[i]


@device
def gram(X: Array, S: Array, scratch: Array) -> None:
    """S ← X Xᵀ/n for X (m, n)."""
    me = cuda.threadIdx.x
    m, n = X.shape
    pairs = m * (m + 1) // 2
    lanes = THREADS
    while lanes > FEWEST_LANES and pairs * lanes > THREADS:
        lanes //= 2
    lane, group = me % lanes, me // lanes
    for first in range(0, pairs, THREADS // lanes):
        a, b = 0, first + group
        while b > a:
            a += 1
            b -= a
        total = 0.0
        if a < m:
            for i in range(lane, n, lanes):
                total += X[a, i] * X[b, i]
        scratch[me] = total
        _add_up(scratch, lanes)
        if lane == 0 and a < m:
            S[a, b] = scratch[me] / n
            S[b, a] = scratch[me] / n
        cuda.syncthreads()


@device
def _triangle(X: Array, Q: Array, R: Array, squares: Array, scratch: Array) -> int:
    """`weights.triangle`."""
    me = cuda.threadIdx.x
    m, n = X.shape
    tolerance = (16.0 * n * 2.0**-52) ** 2
    whole, rest = squares[0], squares[1]
    for a in range(m):
        square = dot(X[a], X[a], scratch)
        if me == 0:
            whole[a] = square
            rest[a] = square
    for at in range(me, m * m, THREADS):
        R[at // m, at % m] = 0.0
    for rank in range(min(m, n)):
        cuda.syncthreads()
        pivot, largest = -1, tolerance
        for a in range(m):
            if rest[a] > largest * whole[a]:
                pivot, largest = a, rest[a] / whole[a]
        if pivot < 0:
            return rank
        for k in range(rank):
            along = dot(Q[k], X[pivot], scratch)
            add_multiple(X[pivot], -along, Q[k])
            if me == 0:
                R[k, pivot] += along
        norm = math.sqrt(dot(X[pivot], X[pivot], scratch))
        put_multiple(Q[rank], 1.0 / norm, X[pivot])
        if me == 0:
            R[rank, pivot] = norm
            rest[pivot] = -1.0
        cuda.syncthreads()
        for a in range(m):
            if rest[a] >= 0.0:
                along = dot(Q[rank], X[a], scratch)
                add_multiple(X[a], -along, Q[rank])
                square = dot(X[a], X[a], scratch)
                if me == 0:
                    R[rank, a] = along
                    rest[a] = square
    cuda.syncthreads()
    return int(min(m, n))


@device
def factorise(
    S: Array, X: Array, R: Array, spare: Array, squares: Array, scratch: Array, shared: Shared
) -> int:
    """`weights.factorise`: R with S = X Xᵀ/n = RᵀR, and its rank."""
    me = cuda.threadIdx.x
    m, n = X.shape
    cuda.syncthreads()
    if me == 0:
        shared[0] = cholesky(S, R)
    cuda.syncthreads()
    rank: int = shared[0]
    if rank < 0:
        copy, basis = spare[0], spare[1]
        for at in range(me, m * n, THREADS):
            copy[at // n, at % n] = X[at // n, at % n]
        cuda.syncthreads()
        rank = _triangle(copy, basis, R, squares, scratch)
        for at in range(me, rank * m, THREADS):
            R[at // m, at % m] *= 1.0 / math.sqrt(n)
    cuda.syncthreads()
    return rank


@device
def orthogonal(
    G: Array, size: int, R: Array, rows: Array, U: Array, scratch: Array, shared: Shared
) -> None:
    """Change R, or G itself, so that Rᵀ G becomes Rᵀ F: `weights` on Haar frames."""
    me = cuda.threadIdx.x
    rank = G.shape[0]
    gram(G, rows, scratch)
    if me == 0:
        shared[0] = cholesky(rows, U)
        if shared[0] == rank:
            divide(U, R, rank)
    cuda.syncthreads()
    if shared[0] == rank:
        for at in range(me, rank * R.shape[1], THREADS):
            R[at // R.shape[1], at % R.shape[1]] *= 1.0 / math.sqrt(G.shape[1])
    else:
        _orthonormalise(G, size, scratch)
    cuda.syncthreads()


@device
def _orthonormalise(G: Array, size: int, scratch: Array) -> None:
    """`weights.orthonormalise`."""
    for k in range(G.shape[0]):
        row = G[k, :size]
        for _ in range(2):
            for j in range(k):
                add_multiple(row, -dot(G[j, :size], row, scratch), G[j, :size])
        put_multiple(row, 1.0 / math.sqrt(dot(row, row, scratch)), row)


@device
def _counter(block: int, network: int, layer: int, use: int) -> random.Counter:
    return np.uint64(block), np.uint64(network), np.uint64(layer), np.uint64(use)


@device
def fill_normals(out: Array, key: Key, network: int, layer: int, use: int) -> None:
    """`random.fill_normals`: the same numbers of stream (network, layer, use)."""
    blocks = out.size // 4
    for block in range(cuda.threadIdx.x, blocks, THREADS):
        w0, w1, w2, w3 = philox(_counter(block, network, layer, use), (key[0], key[1]))
        radius = math.sqrt(_twice_minus_log(w0))
        x, y = _circle(w1)
        out[block] = radius * x
        out[block + blocks] = radius * y
        radius = math.sqrt(_twice_minus_log(w2))
        x, y = _circle(w3)
        out[block + 2 * blocks] = radius * x
        out[block + 3 * blocks] = radius * y


@device
def fill_words(out: Words, key: Key, network: int, layer: int, use: int) -> None:
    """The words whose bits are `random.fill_signs`: word w has the signs 32 w … 32 w + 31."""
    for block in range(cuda.threadIdx.x, out.size // 4, THREADS):
        w0, w1, w2, w3 = philox(_counter(block, network, layer, use), (key[0], key[1]))
        out[4 * block] = w0
        out[4 * block + 1] = w1
        out[4 * block + 2] = w2
        out[4 * block + 3] = w3
