"""The trapezoid rule on stretched nodes, for analytic integrands at a large scale.

At large s a step that resolves F is far finer than φ needs. Where F is analytic in sectors beside
the real line, z = c sinh u puts the nodes evenly on F's scale near 0 and in log z far out, some
log(s) of them. By the theorem of `trapezoid`

    |error| ≤ 2 M / (e^{2π θ/h} − 1),      M = ∫ |F(z) He_m(z/s) φ(z/s) dz/s| along u = v ± iθ ;

`stretched_step` samples M, and sees by Cauchy's theorem whether a singularity lies between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation

from ..functions import sigmoid
from .integrands import SPACING, Terms, far_out, summed
from .trapezoid import ACCURACY

STRETCHED = 4.0
"""The scale from which nodes may be stretched."""


NEAR_REACH = 9.0
"""How far in x a sum goes, more or less, to choose the nodes that are fewer."""

_SCALES, _ANGLES = (4.0, 32.0, 1e3, 1e5, 1e6), tuple(k / 10 for k in range(1, 8))


def stretch(activation: Activation) -> float:
    """c of z = c sinh u: no farther than σ's nearest singularity."""
    return float(min(activation.strip, 2))


def stretched_step(
    activation: Activation,
    integrands: Sequence[tuple[Terms, int]],
    digits: float = ACCURACY[0],
    away: float = 0.0,
) -> float:
    """The largest step in u, z = c sinh u, that keeps the trapezoid rule for F(z) He_m(z/s) within
    2 e^{−digits} of its size, for every (F, m) of these and every scale s from `STRETCHED` on; 0
    where there is none, as for σ that oscillates.

    M is sampled at a few s; it must have settled between the last two. A normal density around μ
    beside F, |μ| as many standard deviations `away`, grows by e^{(μ/s)² sin²θ/(2 cos 2θ)}.
    """
    c, best, worst = stretch(activation), 0.0, 0.0
    orders = {order for terms, _ in integrands for factors in terms for order in factors}
    reach = math.asinh(12.0 * _SCALES[-1] / c)
    v = np.arange(-reach, reach, SPACING)
    real = _contour(activation, orders, c, v, 0.0)
    lines = [_norms(integrands, real, scale) for scale in _SCALES]
    for angle in _ANGLES:
        path = _contour(activation, orders, c, v, angle)
        grown = []
        for scale, (size, total) in zip(_SCALES, lines, strict=True):
            sizes, totals = _norms(integrands, path, scale)
            seen = size > 0
            if not (np.isfinite(size).all() and np.isfinite(sizes).all()):
                return best
            if not (np.abs(totals - total)[seen] <= 1e-6 * (sizes + size)[seen]).all():
                return best
            grown.append(float(np.log(sizes[seen] / size[seen]).max(initial=0.0)))
        if not grown[-1] <= grown[-2] + 0.1:
            return best
        worst = max(worst, *grown)
        beside = 0.5 * (away * math.sin(angle)) ** 2 / math.cos(2.0 * angle)
        best = max(best, 2.0 * math.pi * angle / (digits + worst + beside))
    return best


class _Contour(NamedTuple):
    """z = c sinh(v + iθ) along a line, dz, and the derivatives of σ there."""

    z: NDArray[Any]
    dz: NDArray[Any]
    values: dict[int, NDArray[Any]]


def _contour(
    activation: Activation, orders: set[int], c: float, v: NDArray[Any], angle: float
) -> _Contour:
    at = c * np.sinh(v + 1j * angle)
    values = {order: far_out(activation, order)(at) for order in orders}
    return _Contour(at, c * np.cosh(v + 1j * angle) * SPACING, values)


def _norms(
    integrands: Sequence[tuple[Terms, int]], path: _Contour, scale: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """∫ |F He_m φ dz| of each integrand; ∫ F He_m φ dz/(1 + e^{−z}), which no symmetry hides."""
    with np.errstate(all="ignore"):
        x = path.z / scale
        weight = np.where(np.abs(x) < 38.0, np.exp(-0.5 * x * x) * path.dz / scale, 0.0)
        sizes, totals = [], []
        for terms, degree in integrands:
            he = np.polynomial.hermite_e.hermeval(x, [0.0] * degree + [1.0])
            part = np.where(weight == 0.0, 0.0, summed(terms, path.values) * he * weight)
            sizes.append(np.abs(part).sum())
            totals.append((part * sigmoid(path.z)).sum())
    return np.array(sizes), np.array(totals)
