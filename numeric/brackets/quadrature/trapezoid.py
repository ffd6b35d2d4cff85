"""The trapezoid rule for analytic integrands, with the step that an error bound allows.

For F analytic on |Im z| ≤ b, with step h,

    |Σ_k h F(s k h) φ(k h) − ∫ F(s x) φ(x) dx| ≤ 2 M / (e^{2π a/h} − 1),      a = b/s,

with M the integral of |F φ| along Im x = ±a (Trefethen and Weideman, SIAM Rev. 56 (2014), thm 5.1),
so M ≤ e^{a²/2} G(b) for φ the normal density and G(b) the growth of F from the line to Im z = b,
both in units of F's size on the line. `integrands.growth` samples G at a few b; a module takes the
largest h for which one of them bounds the error by 2 e^{−accuracy}. With a factor He_m(x) beside F
the growth gains L_m(−a²)^{1/2} ≤ (1 + a²)^{m/2}: the norm of He_m(x + ia) in units of that of
He_m(x).

At large s a step that resolves F is far finer than φ needs. Where F is analytic in sectors beside
the real line, z = c sinh u puts the nodes evenly on F's scale near 0 and in log z far out, some
log(s) of them. By the theorem above

    |error| ≤ 2 M / (e^{2π θ/h} − 1),      M = ∫ |F(z) He_m(z/s) φ(z/s) dz/s| along u = v ± iθ ;

`stretched_step` samples M, and sees by Cauchy's theorem whether a singularity lies between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from derive.activations.functions import Activation

from ...arrays import Array
from ..functions import sigmoid
from .integrands import SPACING, Terms, far_out, summed

ACCURACY = (36.0, 34.0, 32.0, 30.0)
"""log(1/ε) of the trapezoid rule in 1 … 4 dimensions."""

FINEST = 1e-5
"""The smallest step in x that is tried."""


def accuracy(rank: int) -> float:
    """log(1/ε) of the trapezoid rule with so many latent variables."""
    return (ACCURACY[0], *ACCURACY)[rank] if rank <= len(ACCURACY) else ACCURACY[-1]


def steps(
    scale: Array, strips: Array, growth: Array, digits: float, widest: float, degree: int = 0
) -> Array:
    """The step for each scale, as `step` of an emitted module finds it; nan where it is too fine.

    Arguments:
        strips, growth: from functions of these names.
        digits: log(1/ε), as `accuracy` has it.
    """
    needed = digits + growth
    with np.errstate(divide="ignore"):
        a = np.minimum(strips / np.asarray(scale)[..., None], np.sqrt(2.0 * needed))
    needed = needed + 0.5 * degree * np.log1p(a * a)
    largest = (2.0 * math.pi * a / (needed + 0.5 * a * a)).max(axis=-1)
    return np.where(largest > FINEST, np.minimum(largest, widest), math.nan)


def reach(rank: int, powers: float, digits: float | None = None) -> float:
    """How far the nodes of `rank` latent variables go for an integrand that grows as |y|^powers.

    |y|^powers has all but e^{−digits} of its average within: an incomplete Γ function. The digits
    are those of `accuracy` unless others are given.
    """
    digits = accuracy(rank) if digits is None else digits
    inside = scipy.special.gammainccinv(0.5 * (powers + max(rank, 1)), math.exp(-digits))
    return max(math.sqrt(2.0 * digits) + 0.5, math.sqrt(2.0 * float(inside)))


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
