"""The average of f(z_1) g(z_2) on the plane of two preactivations.

For analytic f and g by the trapezoid rule. With z_1 = √K_11 x, z_2 = √K_22 y, ρ = K_12/√(K_11 K_22)
and both x and y on the multiples of h,

    ⟨f g⟩ ≈ h²/(2π s) Σ_i f_i u_i Σ_j g_j u_j r^{ij},    u_i = e^{−(ih)²/2s²},  r = e^{ρh²/s²},

s² = 1 − ρ². The inner sum is a polynomial in r^i, which Arb evaluates at once, and f and g are
needed on two lines alone, not at every node. The rule resolves a normal variable of deviation s:
where s is small, one line inside the other has fewer nodes.

For σ^{(a)} and σ^{(b)} of a piecewise analytic σ on panels between kinks (`on_panels`),

    ∫ dz_1 N(z_1; 0, K_11) σ^{(a)}(z_1) ∫ dz_2 N(z_2; rate z_1, rest) σ^{(b)}(z_2) .

Both integrals are sums by Gauss and Legendre's rule, on panels that are no wider than the Gaussians
and than twice the distance to the nearest singularity. The error is read off a second sum, with
more nodes and a longer reach.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import mpmath
from flint import acb, arb, arb_poly, ctx

from ..arithmetic.balls import Ball, compile_arb, constant, to_mpf
from ..symbols import z
from ..work.caches import cache
from .pieces import Pieces

_NARROWEST = 1 / 6
"""s from which on, for tanh, the plane has fewer operations than nested lines."""
_NODES = 1500
"""On half a line, at most."""
_SAFETY = 4  # digits
_WIDTH = 4.5  # of a panel, in standard deviations
_HALVINGS = 3
_PAIRS = 2**21  # of nodes, some five seconds
_SECOND = (8, 1.2)  # more nodes and reach


def average(
    functions: tuple[Ball, Ball],
    kernel: tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf],
    step: float,
    digits: int,
    precision: int,
    *,
    even: bool,
) -> arb | None:
    """⟨f(z_1) g(z_2)⟩ to 10^{−digits} of its terms; None where the rule is not the one to take.

    Arguments:
        functions: f and g, analytic.
        kernel: K_11, K_12 and K_22, both variances above 0.
        step: a power of 2 that resolves f and g, in deviations, to some digits.
        digits: of the result. What is below its error is 0.
        precision: bits of the balls.
        even: whether f(−z_1) g(−z_2) = f(z_1) g(z_2).

    The step is halved until the sum's change, squared, is small: what the change of the next would
    be.
    """
    K11, K12, K22 = kernel
    with mpmath.workprec(2 * precision):
        square = 1 - K12**2 / (K11 * K22) if K11 and K22 else mpmath.mpf(0)
        correlation = K12 / mpmath.sqrt(K11 * K22) if square > 0 else mpmath.mpf(1)
    if square < _NARROWEST**2:
        return None
    step = min(step, 2.0 ** math.floor(math.log2(float(mpmath.sqrt(square)))))
    goal = 10.0 ** (-(digits + _SAFETY) / 2)
    with ctx.workprec(precision):
        shape = arb(correlation), arb(square)
        last: arb | None = None
        while (found := _sum(functions, (K11, K22), shape, step, digits, even)) is not None:
            total, size = found
            if last is not None:
                apart = abs(total - last)
                if total.overlaps(last) or float(apart.mid()) <= goal * size:
                    error = total.rad() + (apart * apart / arb(size) if size else arb(0))
                    return total if abs(total) > error else arb(0)
            last, step = total, step / 2
    return None


def _sum(
    functions: tuple[Ball, Ball],
    variances: tuple[mpmath.mpf, mpmath.mpf],
    shape: tuple[arb, arb],
    step: float,
    digits: int,
    even: bool,
) -> tuple[arb, float] | None:
    """The rule with this step, and the sum of its rows' sizes; None where it has too many nodes.

    Rows and columns go on until the last ones do not count.
    """
    correlation, square = shape
    reach = math.sqrt(2 * math.log(10) * (digits + 3))
    negligible = 10.0 ** -(digits + 6)
    norm = arb(step) ** 2 / (2 * arb.pi() * square.sqrt())
    rate = (correlation * arb(step) ** 2 / square).exp()
    width = -(arb(step) ** 2) / (2 * square)
    while (count := math.ceil(reach / step)) <= _NODES:
        normal = [(width * i**2).exp() for i in range(count + 1)]
        rows, columns = (
            [value * normal[abs(at)] for at, value in enumerate(line, -count)]
            for line in (
                _line(function, variance, step, count, ctx.prec)
                for function, variance in zip(functions, variances, strict=True)
            )
        )
        inner, outer = arb_poly(columns), arb_poly(rows)
        first = 0 if even else -count
        powers = {i: rate**i for i in {*range(first, count + 1), -count, count}}
        terms = [
            (2 if even and i else 1) * rows[count + i] * inner(powers[i]) * powers[i] ** -count
            for i in range(first, count + 1)
        ]
        size = float(sum(map(abs, terms), arb(0)).mid())
        last = [
            abs(float((line[count + i] * along(powers[i]) * powers[i] ** -count).mid()))
            for line, along in ((rows, inner), (columns, outer))
            for i in (-count, count)
        ]
        if max(last) <= negligible * size:
            return sum(terms, arb(0)) * norm, size * float(norm.mid())
        reach *= 1.25
    return None


@cache(entries=64)
def _line(
    function: Ball, variance: mpmath.mpf, step: float, count: int, precision: int
) -> list[arb]:
    """f at the multiples of the step, −count … count, in so many bits: of ctx, which says so too.

    Networks of one length need them for every correlation.
    """
    length = arb(variance).sqrt()
    places = (length * (step * i) for i in range(-count, count + 1))
    return [function(acb(place), False).real for place in places]


def on_panels(
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
                found.append(
                    _sum_of_pairs(grids[0], grids[1], conditional, reach * farther * spread)
                )
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


def _sum_of_pairs(
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
