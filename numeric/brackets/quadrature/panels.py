"""Gauss and Legendre's rule for piecewise analytic integrands, on panels that end at the kinks.

On a panel of half-width c, for F φ bounded by M in the Bernstein ellipse whose half-axes add up to
ρ, n nodes leave

    |error| ≤ (64/15) c M ρ^{−2n} / (1 − ρ^{−2})      (Trefethen, SIAM Rev. 50 (2008), thm 4.5);

entire pieces have M = e^{c²(ρ − 1/ρ)²/8}, so that 20 nodes on c = 2.25 leave 1e-18.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import arb, ctx
from numpy.typing import NDArray

from derive.activations.functions import Activation, z
from derive.errors import InputError
from derive.work.caches import cache


class Panels(NamedTuple):
    """Gauss and Legendre's rule in one of the dimensions: nodes per panel, reach, widest panel."""

    nodes: int
    reach: float
    width: float


PANELS = (Panels(20, 12.0, 4.5), Panels(20, 9.0, 4.5), Panels(12, 8.0, 4.0), Panels(12, 8.0, 4.0))
"""The panels of brackets in 1 … 4 dimensions; errors near 1e-14, 1e-13, 1e-10 and 1e-10. The
reach is for integrands that grow slowly: `panel_reach` has that of others."""

_BEYOND = (1e-15, 1e-13, 1e-10, 1e-10)
"""The part of an integrand's average that may lie beyond the panels."""


def panel_reach(rank: int, powers: float) -> float:
    """How far the panels of `rank` latent variables go for an integrand that grows as |y|^powers.

    Of |y|^powers times any function of y/|y| the part Γ(a, r²/2)/Γ(a), a = (powers + rank)/2, of
    the average lies beyond r.
    """
    place = max(rank, 1) - 1
    inside = scipy.special.gammainccinv(0.5 * (powers + place + 1), _BEYOND[place])
    return max(PANELS[place].reach, math.sqrt(2.0 * float(inside)))


@cache
def smooth_width(activation: Activation) -> float:
    """How wide in z a panel may be: ∞ for polynomial pieces, else twice as far as they are
    analytic around their interval, at most 4."""
    bounds = [
        2.0 * min(float(piece.strip), 2.0)
        for piece in activation.pieces
        if not piece.expr.is_polynomial(z)
    ]
    width = min(bounds, default=math.inf)
    if width <= 0:
        raise InputError("activation", activation.name, "pieces that are analytic up to the kinks")
    return width


@cache
def legendre(nodes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Gauss and Legendre's nodes and weights on (−1, 1), rounded once: NumPy's own weights lack
    three digits."""
    with ctx.workprec(128):
        found = [arb.legendre_p_root(nodes, k, weight=True) for k in reversed(range(nodes))]
    x, w = np.array([[float(each.mid()) for each in pair] for pair in found]).T
    return x, w
