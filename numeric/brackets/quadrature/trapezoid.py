"""The trapezoid rule for analytic integrands, with the step that an error bound allows.

For F analytic on |Im z| ≤ b, with step h,

    |Σ_k h F(s k h) φ(k h) − ∫ F(s x) φ(x) dx| ≤ 2 M / (e^{2π a/h} − 1),      a = b/s,

with M the integral of |F φ| along Im x = ±a (Trefethen and Weideman, SIAM Rev. 56 (2014), thm 5.1),
so M ≤ e^{a²/2} G(b) for φ the normal density and G(b) the growth of F from the line to Im z = b,
both in units of F's size on the line. `integrands.growth` samples G at a few b; a module takes the
largest h for which one of them bounds the error by 2 e^{−accuracy}. With a factor He_m(x) beside F
the growth gains L_m(−a²)^{1/2} ≤ (1 + a²)^{m/2}: the norm of He_m(x + ia) in units of that of
He_m(x).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from ...arrays import Array

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
