"""Gaussian averages to any number of digits: slow, independent of every closed form and kernel.

    ⟨f⟩_K = ∫ f(z) e^{−z²/2K} dz / √(2πK)

One variable goes through Arb's adaptive integration, which encloses the value rigorously; two go
through mpmath's nested quadrature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import comb
from typing import NamedTuple, TypeAlias

import mpmath
import sympy
from flint import acb, arb, ctx

from ..arithmetic import balls, trapezoid
from ..arithmetic.balls import Ball, compile_arb, constant, exactly, to_mpf
from ..arithmetic.hermite import by_parts, hermite
from ..errors import InputError, as_integer
from ..symbols import z
from ..work.caches import cache
from .pieces import Pieces
from .piecewise import Interval, split_pieces
from .shapes import Shape, leibniz

Number: TypeAlias = "sympy.Expr | float | mpmath.mpf"
Numeric: TypeAlias = Callable[[mpmath.mpf], mpmath.mpf]
MAX_DIGITS = 200


class Enclosure(NamedTuple):
    """A value and how far from it the truth can be."""

    value: mpmath.mpf
    radius: mpmath.mpf


def gaussian_average(
    function: sympy.Expr | Numeric,
    K: Number,
    digits: int = 30,
    kinks: Sequence[Number] = (),
) -> Enclosure:
    """⟨function(z)⟩_K for z ~ N(0, K), K ≥ 0, to a relative or absolute 10^{−digits}.

    Arguments:
        function: an expression in `activations.z` (its kinks are found), or an mpmath function.
        kinks: where an mpmath function is not analytic.

    Returns the value with its radius. For expressions the integral over |z| ≤ T√K is enclosed by
    ball arithmetic, and the tails beyond, of weight 10^{−digits−12} or less, are bounded by |f| at
    points that lie 5/4 apart, which takes |f| in between to be at most twice as large. For mpmath
    functions, and expressions that Arb cannot evaluate, it is the quadrature's own estimate.

    Raises InputError where K is negative or the integral does not reach the digits.
    """
    variance, goal = _mpf("K", K), _digits(digits)
    if variance < 0:
        raise InputError("K", K, "a variance, 0 or more")
    if not isinstance(function, sympy.Expr):
        return _by_mpmath(function, variance, goal, [_mpf("kinks", kink) for kink in kinks])
    if variance == 0:
        return _at_zero(function, goal)
    pieces = split_pieces(function)
    if len(pieces) == 1 and (even := pieces[0][2]).xreplace({z: -z}) == even:
        pieces = [(sympy.S.Zero, sympy.oo, 2 * even)]
    try:
        parted = _at_logarithms(pieces)
        compiled = [(lower, upper, compile_arb(part, z)) for lower, upper, part in parted]
    except InputError:
        ends = [_mpf("kinks", lower.evalf(goal + 10)) for lower, _, _ in pieces[1:]]
        return _by_mpmath(sympy.lambdify(z, function, "mpmath"), variance, goal, ends)
    return _by_arb(compiled, variance, goal, function)


def bracket(activation: Pieces, shape: Shape, K: object, digits: int = 20) -> Enclosure:
    """⟨∂^outer Π_p σ^{(orders_p)}(z_p)⟩ for z ~ N(0, K), as in `brackets.Bracket`.

    Arguments:
        shape: which derivatives; its positions p are the variables z_p.
        K: the covariance of the positions, nested lists or a matrix, singular or not, for one or
            two positions; or one variance, which puts all positions at a single z, whose product
            is differentiated Σ outer times.

    Distributions at the kinks are integrated exactly. The radius is rigorous where one variable is
    integrated, and mpmath's estimate where two are. Raises InputError for more positions, for a
    matrix that is not a covariance, or for a product of two distributions at one point.
    """
    goal = _digits(digits)
    if len(shape.orders) != len(shape.outer):
        raise InputError("shape", shape, "one number of outer derivatives per position")
    rows = _rows(K)
    if rows is None:
        same = [(order, mpmath.mpf(1)) for order in shape.orders]
        return _line(activation, same, sum(shape.outer), _mpf("K", K), goal)
    if len(rows) != len(shape.orders) or len(rows) > 2:
        raise InputError("K", K, "a covariance of the shape's positions, one or two of them")
    raised = [order + outer for order, outer in zip(*shape, strict=True)]
    if len(rows) == 1:
        return _line(activation, [(raised[0], mpmath.mpf(1))], 0, rows[0][0], goal)
    (K11, K12), (_, K22) = rows
    if K11 * K22 - K12**2 > 0:
        return _plane(activation, raised, (K11, K12, K22), goal)
    with mpmath.workdps(goal + 20):
        first, second = (0, 1) if K11 == 0 else (1, K12 / K11)
        collinear = [(raised[0], mpmath.mpf(first)), (raised[1], mpmath.mpf(second))]
        return _line(activation, collinear, 0, K22 if K11 == 0 else K11, goal)


def _at_logarithms(pieces: Iterable[Interval]) -> Iterator[Interval]:
    """The pieces, parted at 0 where they have a ln(1 + e^z), with z out of it where that grows: its
    branches then begin at the imaginary axis, and no wide ball away from that meets them. Quotients
    sinh/cosh are tanh, which no wide ball makes large."""
    for lower, upper, whole in pieces:
        part = whole.replace(sympy.sinh, lambda x: sympy.tanh(x) * sympy.cosh(x))
        if not part.has(sympy.log):
            yield lower, upper, part
            continue
        zero = sympy.S.Zero
        for side, left, right in ((-1, lower, min(upper, zero)), (1, max(lower, zero), upper)):
            if left < right:
                yield left, right, part.replace(sympy.log, partial(_outside, side))


def _outside(side: int, inside: sympy.Expr) -> sympy.Expr:
    """ln of a sum of exponentials, or of cosh, as rz + ln of what is bounded on this side of 0."""
    inside = inside.replace(sympy.cosh, lambda x: (sympy.exp(x) + sympy.exp(-x)) / 2)
    rates = [each.args[0].coeff(z) for each in inside.atoms(sympy.exp) if each.has(z)]
    if not inside.is_Add or not rates or not all(rate.is_number for rate in rates):
        return sympy.log(inside)
    fastest = max(rates, key=lambda rate: side * rate)
    if not fastest * side > 0:
        return sympy.log(inside)
    return fastest * z + sympy.log(sympy.expand(inside * sympy.exp(-fastest * z)))


def _mpf(argument: str, value: object) -> mpmath.mpf:
    try:
        with mpmath.workdps(MAX_DIGITS + 20):
            exact = value.evalf(MAX_DIGITS + 10) if isinstance(value, sympy.Expr) else value
            number = mpmath.mpf(exact)
    except (TypeError, ValueError):
        raise InputError(argument, value, "a real number") from None
    if not mpmath.isfinite(number):
        raise InputError(argument, value, "a finite real number")
    return number


def _digits(digits: object) -> int:
    return as_integer("digits", digits, 1, MAX_DIGITS)


def _rows(K: object) -> list[list[mpmath.mpf]] | None:
    """The covariance as lists, or None for a single variance."""
    nested = K.tolist() if hasattr(K, "tolist") else K
    if not isinstance(nested, list | tuple):
        return None
    rows = [[_mpf("K", entry) for entry in row] for row in nested]
    size = range(len(rows))
    if any(len(row) != len(rows) for row in rows) or any(
        rows[a][b] != rows[b][a] for a in size for b in size
    ):
        raise InputError("K", K, "a square symmetric matrix")
    slack = mpmath.mpf(2) ** -48
    if any(rows[a][a] < 0 for a in size) or any(
        rows[a][b] ** 2 > rows[a][a] * rows[b][b] * (1 + slack) for a in size for b in size
    ):
        raise InputError("K", K, "a positive semidefinite matrix")
    return rows


def _at_zero(function: sympy.Expr, digits: int) -> Enclosure:
    around = [part for lower, upper, part in split_pieces(function) if lower <= 0 <= upper]
    left, right = around[0].subs(z, 0), around[-1].subs(z, 0)
    if sympy.simplify(left - right) != 0:
        raise InputError("K", 0, "a positive variance, where the function jumps at 0")
    value = _mpf("function", right)
    return Enclosure(value, abs(value) * mpmath.mpf(10) ** -digits)


def _by_mpmath(
    function: Numeric, K: mpmath.mpf, digits: int, kinks: Sequence[mpmath.mpf]
) -> Enclosure:
    with mpmath.workdps(digits + 10):
        root = mpmath.sqrt(K)
        if root == 0:
            return Enclosure(function(root), mpmath.mpf(10) ** -digits)
        reach = _reach(digits)
        cuts = sorted(kink / root for kink in kinks if abs(kink) < reach * root)
        return _sum_of_integrals(
            [(lambda x: function(root * x), *ends) for ends in pairwise([-reach, *cuts, reach])],
            digits,
        )


def _reach(digits: int) -> mpmath.mpf:
    """Where the standard normal has fallen below 10^{−digits}, with some room for growth."""
    return mpmath.sqrt(2 * (digits + 3) * mpmath.log(10)) + 2


def _sum_of_integrals(
    pieces: Sequence[tuple[Numeric, mpmath.mpf, mpmath.mpf]], digits: int
) -> Enclosure:
    """Σ ∫ f(x) ρ(x) dx over intervals, ρ the standard normal's density.

    The trapezoid rule where one piece spans all of the Gaussian, else Gauss–Legendre on each.
    """
    total, radius = mpmath.mpf(0), mpmath.mpf(10) ** -digits
    for function, left, right in pieces:
        if left < right:
            whole = -left == right == _reach(digits)
            rule = _trapezoid if whole else _gauss_legendre
            value, error = rule(lambda x: function(x) * _normal(x), left, right, radius)  # noqa: B023
            total, radius = total + value, radius + error
    return Enclosure(total, radius)


def _gauss_legendre(
    integrand: Numeric, left: mpmath.mpf, right: mpmath.mpf, goal: mpmath.mpf
) -> tuple[mpmath.mpf, mpmath.mpf]:
    value, error = mpmath.quad(
        integrand, mpmath.linspace(left, right, 3), error=True, method="gauss-legendre"
    )
    return value, error


def _trapezoid(
    integrand: Numeric, left: mpmath.mpf, right: mpmath.mpf, goal: mpmath.mpf
) -> tuple[mpmath.mpf, mpmath.mpf]:
    def nodes(step: mpmath.mpf, half: int) -> mpmath.mpf:
        count = int(mpmath.nint((right - left) / step)) + 1 - half
        return mpmath.fsum(integrand(left + (k + half / 2) * step) for k in range(count)) * step

    found = trapezoid.halved(
        nodes, (right - left) / 16, 12, lambda total, change: change < goal * max(1, abs(total))
    )
    if found is None:
        raise InputError(
            "function", "one that a trapezoid rule of 65536 steps misses", "a smoother one"
        )
    return found


def _normal(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


def _by_arb(
    pieces: list[tuple[sympy.Expr, sympy.Expr, Ball]], K: mpmath.mpf, digits: int, given: object
) -> Enclosure:
    """Double the precision, and integrate farther out, until the relative error is 10^{−digits}.

    From the second time on an absolute error of that size will do: the average may be zero.
    """
    for attempt in range(4):
        with ctx.workprec((int(3.33 * digits) + 40) << attempt):
            total = _enclosure(pieces, +arb(K), 8**attempt)  # K to this precision
            scale = abs(total).upper() if attempt == 0 else arb(1).max(abs(total).upper())
            if total.is_finite() and total.rad() <= arb(10) ** -digits * scale:
                return Enclosure(to_mpf(total), to_mpf(total.rad().upper()))
    raise InputError("function", given, f"one whose average reaches {digits} digits")


def _enclosure(pieces: list[tuple[sympy.Expr, sympy.Expr, Ball]], K: arb, farther: int) -> arb:
    """Σ over the pieces of ∫ f e^{−z²/2K}/√(2πK), with every error in the ball's radius."""
    root, scale, rate = K.sqrt(), 1 / (2 * arb.pi() * K).sqrt(), -1 / (2 * K)
    reach = ((1.4 * arb(ctx.prec)).sqrt() * root * farther).mid()
    marks = [(reach * arb(1.25) ** k).mid() for k in range(11)]
    total = arb(0)
    for lower, upper, function in pieces:

        def weighted(x: acb, analytic: bool, function: Ball = function) -> acb:
            return function(x, analytic) * (x * x * rate).exp() * scale

        start = constant(lower) if lower.is_finite else -marks[-1]
        stop = constant(upper) if upper.is_finite else marks[-1]
        for end in (start, stop):
            total += arb(0, (weighted(acb(end), False).abs_upper() * end.rad()).upper())
        left, right = start.mid(), stop.mid()
        inner = left.max(-reach), right.min(reach)
        if inner[0] < inner[1]:
            total += balls.integral(weighted, *inner, eval_limit=200 * ctx.prec).real
        for near, far in pairwise(marks):
            mass = (near / (root * arb(2).sqrt())).erfc() / 2
            for first, last in ((-far, -near), (near, far)):
                a, b = first.max(left), last.min(right)
                if a < b:
                    ends = (function(acb(end), False).abs_upper() for end in (a, b))
                    total += arb(0, (2 * arb.max(*ends) * mass).upper())
    return total


def _line(
    activation: Pieces,
    scaled: Sequence[tuple[int, mpmath.mpf]],
    outer: int,
    K: mpmath.mpf,
    digits: int,
) -> Enclosure:
    """⟨∂_z^outer Π σ^{(order)}(rate·z)⟩ over z ~ N(0, K), for the pairs (order, rate)."""
    factors = [(order, exactly(rate)) for order, rate in scaled]
    variance = exactly(K)
    if activation.is_smooth:
        return gaussian_average(_smooth(activation, factors, outer), K, digits)
    if K == 0 and outer:
        raise InputError("K", 0, "a positive variance, for outer derivatives across a kink")
    weight = by_parts(outer, z, variance)
    kinks = sorted({kink / rate for kink in activation.kinks for _, rate in factors if rate != 0})
    ends = [-sympy.oo, *kinks, sympy.oo]
    parts = [
        sympy.prod(
            _part_at(activation, order, rate, _inside(lower, upper)) for order, rate in factors
        )
        for lower, upper in pairwise(ends)
    ]
    integrand = sympy.Piecewise(
        *((part * weight, z < kink) for part, kink in zip(parts, kinks, strict=False)),
        (parts[-1] * weight, True),
    )
    value, radius = gaussian_average(integrand, K, digits)
    with mpmath.workdps(digits + 20):
        for kink in kinks:
            value += _mpf("K", _delta_average(activation, factors, weight, kink, variance))
    return Enclosure(value, radius)


def _smooth(
    activation: Pieces, factors: Sequence[tuple[int, sympy.Expr]], outer: int
) -> sympy.Expr:
    """∂_z^outer Π σ^{(order)}(rate·z), every rate 1 where there are derivatives outside."""
    inside = tuple(order for order, _ in factors)
    terms = leibniz(inside, outer) if outer else {inside: 1}
    return sum(
        count
        * sympy.prod(
            activation.derivative(order).subs(z, rate * z)
            for order, (_, rate) in zip(orders, factors, strict=True)
        )
        for orders, count in terms.items()
    )


def _inside(lower: sympy.Expr, upper: sympy.Expr) -> sympy.Expr:
    if lower.is_finite and upper.is_finite:
        return (lower + upper) / 2
    return lower + 1 if lower.is_finite else upper - 1


def _part_at(activation: Pieces, order: int, rate: sympy.Expr, at: sympy.Expr) -> sympy.Expr:
    """σ^{(order)}(rate·z) as the analytic expression that holds around z = at."""
    value = rate * at
    (part,) = (p.expr for p in activation.pieces if p.lower <= value < p.upper)
    if rate == 0 and (0 in activation.kinks):
        raise InputError("K", 0, f"a positive variance at every position ({activation} kinks at 0)")
    return part.diff(z, order).subs(z, rate * z)


def _delta_average(
    activation: Pieces,
    factors: Sequence[tuple[int, sympy.Expr]],
    weight: sympy.Expr,
    kink: sympy.Expr,
    K: sympy.Expr,
) -> sympy.Expr:
    """The terms of the δ-functions at z = kink: δ^{(m)}(rz − c) = δ^{(m)}(z − c/r)/(|r| r^m)."""
    carriers = [
        position
        for position, (order, rate) in enumerate(factors)
        if any(kink * rate in activation.jumps(j) for j in range(order))
    ]
    if not carriers:
        return sympy.Integer(0)
    order, rate = factors[carriers[0]]
    others = [factor for position, factor in enumerate(factors) if position != carriers[0]]
    deepest = max(order - 1 - j for j in range(order) if kink * rate in activation.jumps(j))
    rough = any(kink * r in activation.jumps(o + k) for o, r in others for k in range(deepest + 1))
    if len(carriers) > 1 or rough or K == 0:
        raise InputError(
            "shape",
            tuple(order for order, _ in factors),
            f"one factor at most that is singular at the kink {kink}, the others smooth there",
        )
    smooth = weight * sympy.prod(_part_at(activation, o, r, kink) for o, r in others)
    density = sympy.exp(-(z**2) / (2 * K)) / sympy.sqrt(2 * sympy.pi * K)
    return sum(
        (
            activation.jumps(j)[kink * rate]
            * (-1) ** (order - 1 - j)
            * (smooth * density).diff(z, order - 1 - j).subs(z, kink)
            / (abs(rate) * rate ** (order - 1 - j))
            for j in range(order)
            if kink * rate in activation.jumps(j)
        ),
        sympy.Integer(0),
    )


def _plane(
    activation: Pieces,
    orders: Sequence[int],
    covariance: tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf],
    digits: int,
) -> Enclosure:
    """⟨σ^{(o1)}(z_1) σ^{(o2)}(z_2)⟩ as ∫ over z_1 of the average over z_2 given z_1.

    Given z_1, z_2 is r z_1 + s x with x standard normal. A δ^{(m)} of the first factor takes m
    derivatives of (density × conditional average); one of the second differentiates its density.
    Where r z_1 crosses a kink the average over z_2 turns within a few s: the integral over z_1 is
    cut there, however small s is.
    """
    K11, K12, K22 = covariance
    with mpmath.workdps(digits + 12):
        rate = K12 / K11
        root, spread = mpmath.sqrt(K11), mpmath.sqrt(K22 - K12 * rate)
        radii = [mpmath.mpf(0)]

        def average(order: int, mean: mpmath.mpf, scale: mpmath.mpf, g: Numeric) -> mpmath.mpf:
            value, radius = _sum_of_integrals(
                [
                    (_product_at(f, g, mean, scale), *ends)
                    for f, *ends in _pieces(activation, order, mean, scale, _reach(digits))
                ],
                digits,
            )
            radii.append(radius)
            return value

        def given_first(order: int, first: mpmath.mpf) -> mpmath.mpf:
            mean = rate * first
            regular = average(order, mean, spread, lambda x: mpmath.mpf(1))
            return regular + sum(
                jump * _density_derivative(m, (kink - mean) / spread, spread) * (-1) ** m
                for kink, m, jump in _deltas(activation, order)
            )

        bends = [
            (_mpf("kinks", kink) + turn * spread) / (rate * root)
            for kink in activation.kinks
            for turn in (-_reach(digits), -4, -2, -1, 0, 1, 2, 4, _reach(digits))
            if rate != 0
        ]
        total, radius = _sum_of_integrals(
            [
                (_product_at(f, lambda x: given_first(orders[1], root * x), 0, root), *ends)
                for f, *whole in _pieces(activation, orders[0], mpmath.mpf(0), root, _reach(digits))
                for ends in _cut(whole, bends)
            ],
            digits,
        )
        radii.append(radius)
        for kink, m, jump in _deltas(activation, orders[0]):
            total += (
                jump
                * (-1) ** m
                * sum(
                    comb(m, k)
                    * _density_derivative(m - k, kink / root, root)
                    * rate**k
                    * given_first(orders[1] + k, kink)
                    for k in range(m + 1)
                )
            )
        return Enclosure(total, max(radii) * (1 + abs(total)))


def _cut(
    whole: Sequence[mpmath.mpf], at: Sequence[mpmath.mpf]
) -> Iterator[tuple[mpmath.mpf, mpmath.mpf]]:
    """The interval in parts that end at these points, where they are inside."""
    left, right = whole
    return pairwise([left, *sorted(point for point in at if left < point < right), right])


def _product_at(f: Numeric, g: Numeric, mean: mpmath.mpf, scale: mpmath.mpf) -> Numeric:
    return lambda x: f(mean + scale * x) * g(x)


def _pieces(
    activation: Pieces, order: int, mean: mpmath.mpf, scale: mpmath.mpf, reach: mpmath.mpf
) -> list[tuple[Numeric, mpmath.mpf, mpmath.mpf]]:
    """The pieces of σ^{(order)} that are not zero, and their ends in x where z = mean + scale·x."""
    return [
        (
            function,
            max(-reach, (lower - mean) / scale),
            min(reach, (upper - mean) / scale),
        )
        for function, lower, upper in _compiled(activation, order)
    ]


@cache
def _compiled(activation: Pieces, order: int) -> list[tuple[Numeric, mpmath.mpf, mpmath.mpf]]:
    return [
        (sympy.lambdify(z, part, "mpmath"), *(_end(end) for end in (lower, upper)))
        for lower, upper, expr in activation.pieces
        if (part := expr.diff(z, order)) != 0
    ]


def _end(end: sympy.Expr) -> mpmath.mpf:
    return _mpf("kinks", end) if end.is_finite else mpmath.mpf("inf") * int(sympy.sign(end))


def _deltas(activation: Pieces, order: int) -> list[tuple[mpmath.mpf, int, mpmath.mpf]]:
    """(kink, m, size) of every δ^{(m)} in σ^{(order)}."""
    return [
        (_mpf("kinks", kink), order - 1 - j, _mpf("jump", jump))
        for j in range(order)
        for kink, jump in activation.jumps(j).items()
    ]


def _density_derivative(m: int, x: mpmath.mpf, scale: mpmath.mpf) -> mpmath.mpf:
    """The m-th derivative of N(0, scale²)'s density at scale·x: (−1)^m He_m(x) ρ(x)/scale^{m+1}."""
    return (-1) ** m * hermite(m, x) * _normal(x) / scale ** (m + 1)
