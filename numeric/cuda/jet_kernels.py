"""Arithmetic of jets, (draws, jets, m, n), a block of threads for each network.

They mirror `samplers.jets` and the kernels of `samplers.jet_kernels` of the same names.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from ..arrays import Array
from .device import THREADS, Indices, kernel
from .linear import dot
from .linear import total as total_of_one


@kernel
def add(x: Array, y: Array, out: Array) -> None:
    """x + y, either of them with one sample or without neurons."""
    s = cuda.blockIdx.x
    if s < out.shape[0]:
        for i in range(cuda.threadIdx.x, out.shape[3], THREADS):
            for jet in range(out.shape[1]):
                for a in range(out.shape[2]):
                    one = x[s, jet, a if x.shape[2] > 1 else 0, i if x.shape[3] > 1 else 0]
                    other = y[s, jet, a if y.shape[2] > 1 else 0, i if y.shape[3] > 1 else 0]
                    out[s, jet, a, i] = one + other


@kernel
def fill(x: Array, factor: float, out: Array) -> None:
    """factor·x, for all neurons the same where x has none."""
    s = cuda.blockIdx.x
    if s < out.shape[0]:
        for i in range(cuda.threadIdx.x, out.shape[3], THREADS):
            for jet in range(out.shape[1]):
                for a in range(out.shape[2]):
                    out[s, jet, a, i] = factor * x[s, jet, a, i if x.shape[3] > 1 else 0]


@kernel
def multiply(x: Array, y: Array, splits: tuple[Indices, Indices, Indices], out: Array) -> None:
    """x y; x may have no neural index."""
    s = cuda.blockIdx.x
    if s >= out.shape[0]:
        return
    start, left, right = splits
    for i in range(cuda.threadIdx.x, out.shape[3], THREADS):
        own = i if x.shape[3] > 1 else 0
        for jet in range(start.size - 1):
            for a in range(out.shape[2]):
                value = 0.0
                for t in range(start[jet], start[jet + 1]):
                    value += x[s, left[t], a, own] * y[s, right[t], a, i]
                out[s, jet, a, i] = value


@kernel
def total(x: Array, out: Array) -> None:
    """Σ x over neurons."""
    scratch = cuda.shared.array(THREADS, np.float64)
    s = cuda.blockIdx.x
    if s >= out.shape[0]:
        return
    for jet in range(x.shape[1]):
        for a in range(x.shape[2]):
            value = total_of_one(x[s, jet, a], scratch)
            if cuda.threadIdx.x == 0:
                out[s, jet, a, 0] = value


@kernel
def contract(x: Array, y: Array, splits: tuple[Indices, Indices, Indices], out: Array) -> None:
    """Σ x y over neurons."""
    scratch = cuda.shared.array(THREADS, np.float64)
    s = cuda.blockIdx.x
    if s >= out.shape[0]:
        return
    start, left, right = splits
    for jet in range(start.size - 1):
        for a in range(out.shape[2]):
            value = 0.0
            for t in range(start[jet], start[jet + 1]):
                value += dot(x[s, left[t], a], y[s, right[t], a], scratch)
            if cuda.threadIdx.x == 0:
                out[s, jet, a, 0] = value


@kernel
def mix(x: Array, mixture: Array, out: Array) -> None:
    """Σ_a mixture[b, a] x_a over samples."""
    s = cuda.blockIdx.x
    if s < out.shape[0]:
        for i in range(cuda.threadIdx.x, out.shape[3], THREADS):
            for jet in range(out.shape[1]):
                for b in range(out.shape[2]):
                    value = 0.0
                    for a in range(x.shape[2]):
                        value += mixture[b, a] * x[s, jet, a, i]
                    out[s, jet, b, i] = value


@kernel
def score(
    query: Array,
    key: Array,
    splits: tuple[Indices, Indices, Indices],
    scale: float,
    out: Array,
) -> None:
    """scale · q_t·k_s of each head, (networks, jets, signals · t, s, heads), a thread for each."""
    s = cuda.blockIdx.x
    if s >= out.shape[0]:
        return
    start, left, right = splits
    _, count, samples, positions, heads = out.shape
    size = query.shape[3] // heads
    for at in range(cuda.threadIdx.x, count * samples * positions * heads, THREADS):
        head, rest = at % heads, at // heads
        other, rest = rest % positions, rest // positions
        a, jet = rest % samples, rest // samples
        b = a - a % positions + other
        value = 0.0
        for t in range(start[jet], start[jet + 1]):
            for i in range(head * size, (head + 1) * size):
                value += query[s, left[t], a, i] * key[s, right[t], b, i]
        out[s, jet, a, other, head] = scale * value


@kernel
def attend(
    weights: Array, value: Array, splits: tuple[Indices, Indices, Indices], out: Array
) -> None:
    """Σ_s A[t,s] v_s of each head, A as `score` has its products."""
    s = cuda.blockIdx.x
    if s >= out.shape[0]:
        return
    start, left, right = splits
    positions, heads = weights.shape[3], weights.shape[4]
    for i in range(cuda.threadIdx.x, out.shape[3], THREADS):
        head = i * heads // out.shape[3]
        for jet in range(out.shape[1]):
            for a in range(out.shape[2]):
                total = 0.0
                for t in range(start[jet], start[jet + 1]):
                    for other in range(positions):
                        b = a - a % positions + other
                        total += weights[s, left[t], a, other, head] * value[s, right[t], b, i]
                out[s, jet, a, i] = total
