"""Kernels that take jets, the derivatives of z along random probes, through a layer (`probes`).

Vectors are rows: the jet number k of sample a is row k·m + a.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver
from ..random.lazy import add_multiple, cholesky, dot, factorise, put_multiple
from ..random.philox import fill_signs

PROBE = 1 << 30
"""Stream of a layer's directions: column k of probe e is PROBE + COLUMNS·e + k."""

COLUMNS = 1 << 16


@driver
def chain(
    Z: Array,
    derivatives: Array,
    rule: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> None:
    """z_{;O} → ∂_O σ(z) in place, for each draw: Z (draws, jets·m, n).

    Arguments:
        derivatives: σ, σ', … at z, (draws, orders, m, n).
        rule: `Probes.chain_rule`.
    """
    start, order, factors = rule
    _, _, m, n = derivatives.shape
    total, term = np.empty(n), np.empty(n)
    for s in range(Z.shape[0]):
        for jet in range(start.size - 2, 0, -1):  # a jet needs those before it as they were
            for a in range(m):
                if start[jet + 1] - start[jet] == 1:
                    _multiply(Z[s, jet * m + a], derivatives[s, 1, a])
                    continue
                total.fill(0.0)
                for t in range(start[jet], start[jet + 1]):
                    put_multiple(term, 1.0, derivatives[s, order[t], a])
                    for f in range(order[t] - 1):
                        _multiply(term, Z[s, factors[t, f] * m + a])
                    _add_product(total, term, Z[s, factors[t, order[t] - 1] * m + a])
                put_multiple(Z[s, jet * m + a], 1.0, total)
        for a in range(m):
            put_multiple(Z[s, a], 1.0, derivatives[s, 0, a])


@driver
def multiply(
    x: Array, y: Array, splits: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
) -> Array:
    """x y of jets (draws, jets, m, n); x may have no neural index, n = 1.

    Arguments:
        splits: arrays (start, a, b): jet k is the sum of x_a y_b over start[k] … start[k+1] − 1.
    """
    start, left, right = splits
    draws, _, m, n = y.shape
    out = np.zeros(y.shape)
    for s in range(draws):
        for jet in range(start.size - 1):
            for t in range(start[jet], start[jet + 1]):
                for a in range(m):
                    if x.shape[3] == n:
                        _add_product(out[s, jet, a], x[s, left[t], a], y[s, right[t], a])
                    else:
                        add_multiple(out[s, jet, a], x[s, left[t], a, 0], y[s, right[t], a])
    return out


@driver
def contract(
    x: Array, y: Array, splits: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
) -> Array:
    """Σ x y over neurons, (draws, jets, m, 1), of jets (draws, jets, m, n)."""
    start, left, right = splits
    draws, _, m, _ = y.shape
    out = np.zeros((*y.shape[:3], 1))
    for s in range(draws):
        for jet in range(start.size - 1):
            for t in range(start[jet], start[jet + 1]):
                for a in range(m):
                    out[s, jet, a, 0] += dot(x[s, left[t], a], y[s, right[t], a])
    return out


@driver
def _multiply(x: Array, y: Array) -> None:
    for i in range(x.size):
        x[i] *= y[i]


@driver
def _add_product(x: Array, y: Array, z: Array) -> None:
    for i in range(x.size):
        x[i] += y[i] * z[i]


@driver
def vary(
    S: Array,
    X: Array,
    Z: Array,
    draws: NDArray[np.int64],
    rates: tuple[float, float],
    raising: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    samples: int,
    source: tuple[NDArray[np.uint64], int],
) -> None:
    """Add to each jet O of a layer the terms ∂_{θ_e}W s_{;O∖e} and ∂_{θ_e}b.

    Arguments:
        S: X Xᵀ/n_in of each draw, (draws, jets·m, jets·m).
        X, Z: s_{;O} of the layer before, z_{;O} of this one, (draws, jets·m, n).
        rates: (λ_W, λ_b) of this layer.
        raising: `Probes.raising`.
        source: (key, layer) of the random numbers.

    ∂_{θ_e}(W, b) acts on (s, 1) for σ itself and on (s, 0) for the other jets: vectors whose
    Gram matrix is λ_W S, plus λ_b among the σ. It is a matrix of independent signs in an
    orthonormal basis of their span.
    """
    start, lower, upper = raising
    key, layer = source
    _, vectors, n_in = X.shape
    n_out = Z.shape[2]
    signs = np.empty(n_out + -n_out % 128)
    whole = np.empty((vectors, vectors))
    spare = (np.empty((vectors, n_in)), np.empty((vectors, n_in)), np.empty((2, vectors)))
    for probe in range(start.size - 1):
        jets = lower[start[probe] : start[probe + 1]]
        met = jets.size * samples
        T, R = np.empty((met, met)), np.empty((vectors + 1, met))
        for s in range(draws.size):
            rank = _directions(S[s], rates, jets, samples, T, R)
            if rank < 0:
                rank = factorise(S[s], X[s], whole, spare)
                rank = _all_directions(whole, rank, rates, jets, samples, R)
            for column in range(rank):
                fill_signs(signs, key, draws[s], layer, PROBE + COLUMNS * probe + column)
                for a in range(met):
                    if R[column, a] != 0.0:
                        row = upper[start[probe] + a // samples] * samples + a % samples
                        add_multiple(Z[s, row], R[column, a], signs[:n_out])


@driver
def _directions(
    S: Array,
    rates: tuple[float, float],
    jets: NDArray[np.int64],
    samples: int,
    T: Array,
    R: Array,
) -> int:
    """R with RᵀR = T, the Gram matrix of the vectors that a direction meets; its rank or −1."""
    lambda_W, lambda_b = rates
    met = T.shape[0]
    for a in range(met):
        left = jets[a // samples] * samples + a % samples
        for b in range(met):
            T[a, b] = lambda_W * S[left, jets[b // samples] * samples + b % samples]
            if a < samples and b < samples:  # both σ: the jet () comes first
                T[a, b] += lambda_b
    return cholesky(T, R)


@driver
def _all_directions(
    whole: Array,
    rank: int,
    rates: tuple[float, float],
    jets: NDArray[np.int64],
    samples: int,
    R: Array,
) -> int:
    """The same from a factor of S: the basis of all jets' vectors, and a direction for λ_b."""
    lambda_W, lambda_b = rates
    for a in range(R.shape[1]):
        for k in range(rank):
            R[k, a] = math.sqrt(lambda_W) * whole[k, jets[a // samples] * samples + a % samples]
        R[rank, a] = math.sqrt(lambda_b) if a < samples else 0.0
    return rank + 1
