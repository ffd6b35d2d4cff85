"""The average of f(z_1) g(z_2) on the plane of two preactivations, by the trapezoid rule.

With z_1 = √K_11 x, z_2 = √K_22 y, ρ = K_12/√(K_11 K_22) and both x and y on the multiples of h,

    ⟨f g⟩ ≈ h²/(2π s) Σ_i f_i u_i Σ_j g_j u_j r^{ij},    u_i = e^{−(ih)²/2s²},  r = e^{ρh²/s²},

s² = 1 − ρ². The inner sum is a polynomial in r^i, which Arb evaluates at once, and f and g are
needed on two lines alone, not at every node. The rule resolves a normal variable of deviation s:
where s is small, one line inside the other has fewer nodes.
"""

from __future__ import annotations

import math

import mpmath
from flint import acb, arb, arb_poly, ctx

from ..arithmetic.balls import Ball
from ..work.caches import cache

_NARROWEST = 1 / 6
"""s from which on, for tanh, the plane has fewer operations than nested lines."""
_NODES = 1500
"""On half a line, at most."""
_SAFETY = 4  # digits


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
