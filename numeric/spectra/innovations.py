"""What each layer of a sampled network adds to chance, with a mean known to be zero.

Given all layers before, x the activations, J the Jacobian so far and h = W x + b, for weights that
rotations of rows and columns keep,

    |h|²/n ÷ (C_W |x|²/n + C_b) − 1        the length,
    tr W J Jᵀ Wᵀ ÷ (C_W tr J Jᵀ) − 1        the trace,
    (1/n) Σ_i φ'(h_i)² − E[φ'(h_1)² | |h|]  the slopes, h being uniform on its sphere,

have the mean zero at every width, so that they are control variates (`estimators.controls`) of
whatever is measured of the network. Together they explain 40 to 90 % of the variance of a quantile
of log s. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from derive.activations.functions import Activation

from ..arrays import Array

COUNT = 3
"""Numbers of a layer."""

_DRAWS = 8
"""Draws to a slope of a fit: of the variance it then costs an eighth."""

_REACH, _PANELS, _NODES = 9.0, 8, 16


def columns(innovations: Array) -> Array:
    """Those that go into one fit, (draws, k): all, where there are enough draws for so many slopes;
    else the sum over layers and that of ℓ/L times them, or the sum alone; none of a few draws.

    Arguments:
        innovations: (draws, COUNT·depth), as `simulate` returns them.
    """
    draws, count = innovations.shape
    by_layer = innovations.reshape(draws, -1, COUNT)
    depth = by_layer.shape[1]
    if draws >= _DRAWS * count:
        return innovations
    sums = [by_layer.mean(axis=1)]
    if draws >= 2 * _DRAWS * COUNT:
        sums.append(np.tensordot(by_layer, np.arange(1, depth + 1), (1, 0)) / depth**2)
    return np.concatenate(sums, axis=1) if draws >= _DRAWS * COUNT else innovations[:, :0]


def of_slopes(activation: Activation, slope: Callable[[Array], Array], h: Array) -> float:
    """(1/n) Σ_i φ'(h_i)² less its mean over directions of h."""
    n, square = h.size, float(h @ h)
    seen = float(np.mean(slope(h) ** 2))
    if not 0.0 < square < np.inf:
        return 0.0
    nodes, weights = _sphere(n, tuple(float(k) for k in activation.kinks), np.sqrt(square))
    values = np.asarray(slope(nodes), float) * np.ones_like(nodes)
    return seen - float(weights @ values**2)


def _sphere(n: int, kinks: tuple[float, ...], length: float) -> tuple[Array, Array]:
    """Nodes and weights of E f(length·u_1), u uniform on the sphere of R^n: Gauss–Legendre in the
    angle, u_1 = sin θ with the density cos^{n−2} θ, between the kinks of f."""
    breaks, nodes, weights = _angles(n)
    inside = sorted(np.arcsin(k / length) for k in kinks if abs(k) < length)
    if inside:
        ends = np.unique(np.concatenate([breaks, inside]))
        nodes, weights = _panels(n, ends)
    return length * np.sin(nodes), weights


@lru_cache(maxsize=64)
def _angles(n: int) -> tuple[Array, Array, Array]:
    reach = min(np.pi / 2, _REACH / np.sqrt(n))
    breaks = np.linspace(-reach, reach, _PANELS + 1)
    return breaks, *_panels(n, breaks)


def _panels(n: int, breaks: Array) -> tuple[Array, Array]:
    x, w = _legendre()
    half = np.diff(breaks)[:, None] / 2
    nodes = (breaks[:-1, None] + half * (1 + x)).ravel()
    weights = (half * w).ravel() * np.cos(nodes) ** (n - 2)
    return nodes, weights / weights.sum()


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(_NODES)
    return np.asarray(x), np.asarray(w)
