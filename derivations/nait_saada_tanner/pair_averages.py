"""⟨σ(z_a) σ(z_b)⟩ of every two inputs, at many kernels at once: the map of K, network by network.

For analytic σ, z_1 = B_11 y_1 and z_2 = B_21 y_1 + B_22 y_2 with independent normal y, and the
trapezoid rule in both. Kernels whose steps round down to the same powers of 2^{1/4} share nodes, so
that none depends on the others. `averages` has the brackets of recursions, at one kernel.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.gaussian.shapes import Shape, SingleShape
from numeric.arrays import Array
from numeric.brackets import quadrature
from numeric.layers import large_variance, one_sample, positions, sigma
from numeric.layers.several_samples import Sums

_HELD = 1 << 15
"""Nodes that are held at a time, more or less: what fits a processor's cache."""

_MOST = 1 << 18
"""Nodes of a kernel; one that needs more has those of `broad`, or the tree of `Sums`, which holds
less."""

_PRODUCT = ((0,), (0,))
_PAIR = SingleShape((0,)), SingleShape((0,))


def averages(activation: Activation, K: Array) -> Array:
    """⟨σ(z_a) σ(z_b)⟩, (…, m, m), at kernels (…, m, m); nan where one is no covariance, or too
    large for the rule."""
    m = K.shape[-1]
    kernels, found = K.reshape(-1, m, m), np.empty(K.shape)
    flat = found.reshape(-1, m, m)
    below = [(a, b) for a in range(m) for b in range(a)]
    if not activation.is_smooth:
        for a, b in [*below, *((a, a) for a in range(m))]:
            flat[:, a, b] = flat[:, b, a] = positions.averages(
                activation, [Shape((0, 0), (0, 0))], kernels[:, [[a], [b]], [a, b]]
            )[0]
        return found
    alone = one_sample.averages(activation, [SingleShape((0, 0))])
    diagonal = kernels.diagonal(axis1=1, axis2=2)
    at = np.arange(m)
    flat[:, at, at] = np.asarray(alone(diagonal.ravel())[0][0]).reshape(-1, m)
    for a, b in below:
        flat[:, a, b] = flat[:, b, a] = _smooth(activation, kernels[:, [[a], [b]], [a, b]])
    return found


def _smooth(activation: Activation, K: Array) -> Array:
    """At kernels of two inputs, (c, 2, 2) → (c,)."""
    sums = Sums(activation, [_PRODUCT])
    far = large_variance.Sums(activation, [_PAIR], quadrature.accuracy(2))

    def alone(kernel: Array) -> Array:
        return (far if far.exist and large_variance.is_broad(kernel) else sums)(kernel)

    found = np.full(len(K), math.nan)
    B, possible = _factors(K)
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.abs(B).max(axis=1)
        steps = np.stack([sums.step(largest[:, k], rank=2) for k in (0, 1)], axis=1)
        rounded = np.floor(4.0 * np.log2(steps))
        reach = np.ceil(sums.reach(2, np.abs(B).sum(axis=(1, 2))))
        keys = np.column_stack([rounded, reach])
    possible = possible & np.isfinite(keys).all(axis=1)
    for key in np.unique(keys[possible], axis=0):
        part = np.flatnonzero(possible & (keys == key).all(axis=1))
        h = 2.0 ** (key[:2] / 4.0)
        counts = np.ceil(key[2] / h).astype(np.int64)
        size = int((2 * counts + 1).prod())
        if size > _MOST:
            found[part] = [alone(K[each])[0, 0] for each in part]
            continue
        held = max(1, _HELD // size)
        for first in range(0, len(part), held):
            chosen = part[first : first + held]
            found[chosen] = _summed(activation, B[chosen], h, counts, half=sums.half)
    return found


def _summed(activation: Activation, B: Array, h: Array, counts: Array, *, half: bool) -> Array:
    """The rule with these steps and so many nodes on either side, of y_1 half where −y gives what y
    does: (c,)."""
    outer, inner = (
        h[k] * np.arange(0 if half and k == 0 else -counts[k], counts[k] + 1) for k in (0, 1)
    )
    weights = [
        np.exp(-0.5 * y * y) * (step / math.sqrt(2.0 * math.pi))
        for y, step in zip((outer, inner), h, strict=True)
    ]
    if half:
        weights[0][1:] *= 2.0
    value = sigma.derivatives(activation, (0,))
    (first,) = value(B[:, 0, 0, None] * outer)
    (second,) = value((B[:, 1, 0, None] * outer)[:, :, None] + B[:, 1, 1, None, None] * inner)
    given = np.einsum("cij,j->ci", second, weights[1])  # and not @, whose sums differ with c
    return np.asarray(np.einsum("ci,ci,i->c", first, given, weights[0]))


def _factors(K: Array) -> tuple[Array, NDArray[np.bool_]]:
    """B with K = B Bᵀ, lower triangular, and where there is one: for finite kernels without
    negative variances."""
    variances = K.diagonal(axis1=1, axis2=2)
    with np.errstate(invalid="ignore"):
        proper = np.isfinite(K).all(axis=(1, 2)) & (variances >= 0.0).all(axis=1)
        possible = np.asarray(proper, np.bool_)
        scale = np.sqrt(np.where(possible[:, None], variances, 0.0))
    B = np.zeros(K.shape)
    product = scale.prod(axis=1)
    c = np.divide(K[:, 0, 1], product, out=np.zeros(len(K)), where=possible & (product > 0.0))
    rest = 1.0 - c * c
    B[:, 0, 0], B[:, 1, 0] = scale[:, 0], scale[:, 1] * c
    B[:, 1, 1] = scale[:, 1] * np.sqrt(np.where(rest > 1e-13, rest, 0.0))
    return B, possible
