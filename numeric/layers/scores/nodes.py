"""Rules for normal and for χ² variables."""

from __future__ import annotations

import numpy as np
import scipy

from derive.work.caches import cache

from ...arrays import Array

_REACH = 8.5
"""How far a normal variable goes."""

_LEAST = 1e-11
"""Weights below this, relative to all, are left out."""

FEW_SCALES = 8
"""The least size of a head whose Gram matrices have few scales: below, integrals over them take
seconds."""

_TAIL = 1e-15
"""The chance beyond the last nodes of a χ² variable."""


@cache(entries=64)
def normal(step: float) -> tuple[Array, Array]:
    """Nodes and weights of the trapezoidal rule for N(0, 1): exponentially accurate."""
    count = int(np.ceil(_REACH / step))
    x = step * np.arange(-count, count + 1, dtype=float)
    weights = np.exp(-0.5 * x**2)
    return x, weights / weights.sum()


@cache(entries=64)
def chi_square(degrees: int, count: int) -> tuple[Array, Array]:
    """Nodes and weights of a χ² variable, in ascending order, for any smooth functions.

    The trapezoidal rule for w in χ² = degrees · exp(1 + w − e^{−w}): the left tail falls doubly
    exponentially, the right one by itself.
    """
    half = 0.5 * degrees
    ends = (f(half, _TAIL) for f in (scipy.special.gammaincinv, scipy.special.gammainccinv))
    low, high = (_before(float(max(2.0 * end, 1e-30) / degrees)) for end in ends)
    w = np.linspace(low, high, count)
    log = 1.0 + w - np.exp(-w)
    weights = np.exp(half * (log - np.exp(log) + 1.0)) * (1.0 + np.exp(-w))
    return degrees * np.exp(log), weights / weights.sum()


def mean_square(size: int | None, count: int) -> tuple[Array, Array]:
    """Nodes and weights of χ²_d/d; 1 for infinitely many degrees."""
    if size is None:
        return np.ones(1), np.ones(1)
    nodes, weights = chi_square(size, count)
    return nodes / size, weights


def _before(ratio: float) -> float:
    """The w of this χ²/degrees."""
    c = np.log(ratio) - 1.0
    return float(c + scipy.special.lambertw(np.exp(-c)).real)  # u = e^{−w} has u e^u = e^{−c}


@cache(entries=64)
def few_of_chi_square(degrees: int, count: int) -> tuple[Array, Array]:
    """Gauss's nodes and weights of a χ² variable, for functions near polynomials; 0 has none."""
    if degrees == 0:
        return np.zeros(1), np.ones(1)
    nodes, weights = scipy.special.roots_genlaguerre(count, 0.5 * degrees - 1.0)
    return 2.0 * nodes, weights / weights.sum()


def grams_of_two(S: Array, size: int | None, more: int) -> tuple[Array, Array]:
    """Weights, and the Gram matrices over d of two vectors with the covariance S, (nodes, 2, 2)."""
    if size is None:
        return np.ones(1), S[None]
    q, p = max(S[0, 0], 1e-300), S[0, 1]
    root = np.array([[np.sqrt(q), 0.0], [p / np.sqrt(q), np.sqrt(max(0.0, S[1, 1] - p * p / q))]])
    weights, grams = _wishart_of_two(size, more)
    return weights, root @ grams @ root.T


@cache(entries=16)
def _wishart_of_two(size: int, more: int) -> tuple[Array, Array]:
    """Weights, and F Fᵀ/d of two independent vectors of d components, (nodes, 2, 2)."""
    count = more + 4 + int(14 / np.sqrt(size))
    first, second = few_of_chi_square(size, count), few_of_chi_square(size - 1, count)
    g, of_g = np.polynomial.hermite_e.hermegauss(count)
    axes = np.meshgrid(first[0], second[0], g, indexing="ij")
    weights = np.einsum("a,c,g->acg", first[1], second[1], of_g / of_g.sum()).ravel()
    kept = weights > _LEAST
    a, c, along = (each.ravel()[kept] for each in axes)
    off = np.sqrt(a) * along
    grams = np.stack([a, off, off, along**2 + c], axis=-1).reshape(-1, 2, 2)
    return weights[kept], grams / size
