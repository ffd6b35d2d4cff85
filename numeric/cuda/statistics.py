"""From what is known of networks to sums of products of their statistics.

They mirror `path_kernels.sum_over_neurons`, `polynomials.evaluate` and `moments.accumulate`.
Products are made from their last factor to their first, so that no thread waits for another.
"""

from __future__ import annotations

from numba import cuda

from ..arrays import Array
from ..estimators.polynomials import Structure
from .device import THREADS, Indices, kernel


@kernel
def sum_over_neurons(
    columns: Array, tree: tuple[Indices, Indices], factors: Array, first: int
) -> None:
    """Σ_j of products of columns of each network into factors[:, first:], a thread for each."""
    s = cuda.blockIdx.x
    if s >= columns.shape[0]:
        return
    parent, column = tree
    for k in range(cuda.threadIdx.x, parent.size, THREADS):
        total = 0.0
        for i in range(columns.shape[2]):
            value = columns[s, column[k], i]
            above = parent[k]
            while above >= 0:
                value *= columns[s, column[above], i]
                above = parent[above]
            total += value
        factors[s, first + k] = total


@kernel
def evaluate(
    factors: Array, structure: Structure, coefficients: Array, layer: int, values: Array
) -> None:
    """Polynomials in each network's factors, with this layer's coefficients."""
    s = cuda.blockIdx.x
    if s >= values.shape[0]:
        return
    parent, factor, start, which = structure
    for x in range(cuda.threadIdx.x, start.size - 1, THREADS):
        total = 0.0
        for t in range(start[x], start[x + 1]):
            term = coefficients[layer, t]
            monomial = which[t]
            while monomial >= 0:
                term *= factors[s, factor[monomial]]
                monomial = parent[monomial]
            total += term
        values[s, x] = total


@kernel
def put(values: Array, factors: Array, first: int) -> None:
    """Values into as many columns of `factors`, from this one on."""
    s = cuda.blockIdx.x
    if s < values.shape[0]:
        for k in range(cuda.threadIdx.x, values.shape[1], THREADS):
            factors[s, first + k] = values[s, k]


@kernel
def accumulate(
    values: Array,
    first: int,
    reference: Array,
    chain: tuple[Indices, Indices],
    layer: int,
    sums: Array,
) -> None:
    """Add the products of X − X⁰ to sums (BLOCKS, depth, products), a block of threads for each.

    Networks first, first + 1, … are the rows of `values`; each sum takes its own in their order.
    """
    own = cuda.blockIdx.x
    if own >= min(sums.shape[0], values.shape[0]):
        return
    parent, factor = chain
    block = (first + own) % sums.shape[0]
    for i in range(cuda.threadIdx.x, parent.size, THREADS):
        total = sums[block, layer, i]
        for s in range(own, values.shape[0], sums.shape[0]):
            product = 1.0
            at = i
            while at >= 0:
                product *= values[s, factor[at]] - reference[layer, factor[at]]
                at = parent[at]
            total += product
        sums[block, layer, i] = total
