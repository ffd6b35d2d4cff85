"""The average of σ^{(a)}(z_1) σ^{(b)}(z_2) of a piecewise analytic σ, on panels between kinks.

    ∫ dz_1 N(z_1; 0, K_11) σ^{(a)}(z_1) ∫ dz_2 N(z_2; rate z_1, rest) σ^{(b)}(z_2)

Both integrals are sums by Gauss and Legendre's rule, on panels that are no wider than the Gaussians
and than twice the distance to the nearest singularity. The error is read off a second sum, with
more nodes and a longer reach.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import mpmath
from flint import acb, arb, ctx

from ..arithmetic.balls import compile_arb, constant, to_mpf
from ..symbols import z
from ..work.caches import cache
from .pieces import Pieces

_WIDTH = 4.5  # of a panel, in standard deviations
_HALVINGS = 3
_PAIRS = 2**21  # of nodes, some five seconds
_SECOND = (8, 1.2)  # more nodes and reach


def average(
    activation: Pieces,
    orders: tuple[int, int],
    conditional: tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf],
    digits: int,
) -> mpmath.mpf | None:
    """The average for (K_11, rate, rest), rest > 0, or None if it takes too many nodes.

    The error is 10^{−digits} of the integrand's size. No factor may have δ-functions.
    """
    K11, rate, rest = conditional
    root, spread = float(mpmath.sqrt(K11)), float(mpmath.sqrt(rest))
    scales = (min(root, spread / abs(float(rate))) if rate else root, spread)
    reach, nodes = math.sqrt(2 * math.log(10) * (digits + 3)) + 2, int(1.3 * digits) + 8
    total = root + abs(float(rate)) * root + spread
    for halvings in range(_HALVINGS):
        widths = [_WIDTH * scale / 2**halvings for scale in scales]
        found = []
        with ctx.workprec(int(3.33 * digits) + 60):
            for more, farther in ((0, 1.0), _SECOND):
                far = (reach * farther * root, reach * farther * total)
                grids = [
                    _grid(activation, order, end, width, nodes + more)
                    for order, end, width in zip(orders, far, widths, strict=True)
                ]
                if len(grids[0]) * len(grids[1]) * min(1.0, 3 * spread / total) > _PAIRS:
                    return None
                found.append(_sum(grids[0], grids[1], conditional, reach * farther * spread))
            (value, size), (second, _) = found
            if abs(value - second) <= arb(10) ** -digits * size:
                return to_mpf(second)
    return None


def _grid(
    activation: Pieces, order: int, reach: float, width: float, nodes: int
) -> list[tuple[arb, arb]]:
    """The nodes z within the reach, ascending, with weight·σ^{(order)}(z)."""
    found = []
    for piece in activation.pieces:
        expr = piece.expr.diff(z, order)
        left = constant(piece.lower) if piece.lower > -reach else arb(-reach)
        right = constant(piece.upper) if piece.upper < reach else arb(reach)
        if expr == 0 or not left < right:
            continue
        function = compile_arb(expr, z)
        widest = min(width, 2 * float(piece.strip))
        count = math.ceil(float((right - left).mid()) / widest)
        half = (right - left) / (2 * count)
        for k in range(count):
            for x, weight in _legendre(nodes, ctx.prec):
                at = left + half * (2 * k + 1 + x)
                found.append((at, half * weight * function(acb(at), False).real))
    return found


@cache(entries=32)
def _legendre(nodes: int, precision: int) -> list[tuple[arb, arb]]:
    """Nodes, ascending, and weights; `precision` must be the bits of ctx."""
    return [arb.legendre_p_root(nodes, k, weight=True) for k in reversed(range(nodes))]


def _sum(
    first: list[tuple[arb, arb]],
    second: list[tuple[arb, arb]],
    conditional: tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf],
    reach: float,
) -> tuple[arb, arb]:
    """The sum over pairs of nodes within the reach, and the sum of the absolute values."""
    K11, rate, rest = map(arb, conditional)
    places = [float(at.mid()) for at, _ in second]
    total, size = arb(0), arb(0)
    outer, inner = -1 / (2 * K11), -1 / (2 * rest)
    for at, value in first:
        mean = rate * at
        centre = float(mean.mid())
        near = second[bisect_left(places, centre - reach) : bisect_right(places, centre + reach)]
        terms = [g * ((z2 - mean) ** 2 * inner).exp() for z2, g in near]
        factor = value * (at**2 * outer).exp()
        total += factor * sum(terms, arb(0))
        size += abs(factor) * sum(map(abs, terms), arb(0))
    norm = 2 * arb.pi() * (K11 * rest).sqrt()
    return (total / norm).mid(), (size / norm).mid()
