"""Averages over one and two distinct samples, σ made of polynomials between kinks, in balls.

A product of derivatives at a sample is a distribution F (`one_input.distribution`), and its average
over z ~ N(μ, v) is entire in μ: of the pieces, truncated moments N_k = ∫ z^k by

    N_{k+1} = μ N_k + v (k N_{k−1} − [z^k ρ(z)]),

with error functions in N_0, and of c δ^{(m)}(z − κ) He_m((κ − μ)/√v) v^{−m/2} ρ(κ). Of two samples
the second is averaged so at a given first one, z_2 ~ N(r z_1, v), and Arb integrates over the
first's pieces with a proof; F_1's δ^{(m)} differentiate ρ(z_1) ⟨F_2⟩. What lies beyond R is bounded
by Hölder's inequality, P(|x| > R)^{1/2} ⟨F_1⁴⟩^{1/4} ⟨F_2⁴⟩^{1/4}.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import comb, factorial
from typing import NamedTuple, TypeAlias

import sympy
from flint import acb, arb, ctx

from derive.activations.functions import Activation, z
from derive.arithmetic import balls
from derive.arithmetic.balls import Ball
from derive.errors import InputError, Words
from derive.gaussian.shapes import SingleShape
from derive.work.caches import cache

from ...brackets.one_input import distribution
from . import functions
from .functions import Number
from .geometry import Matrix

Scaled: TypeAlias = "tuple[tuple[int, Fraction], ...]"
"""Factors σ^{(order)}(c z), by their orders and c."""

Group: TypeAlias = "tuple[tuple[int, ...] | Scaled, int]"
"""The orders of the derivatives of σ at one sample, and of the derivative of their product."""


class Distribution(NamedTuple):
    """Polynomials between the kinks, by their coefficients, plus Σ c δ^{(m)}(z − κ)."""

    kinks: list[arb]
    pieces: list[list[arb]]
    deltas: list[tuple[arb, int, arb]]


class Exact(NamedTuple):
    """Kinks, the pieces between them, and {(κ, m): c}."""

    kinks: list[sympy.Expr]
    pieces: list[sympy.Expr]
    deltas: dict[tuple[sympy.Expr, int], sympy.Expr]


@cache(entries=4096)
def exact_distribution(activation: Activation, group: Group) -> Exact:
    """The factors at one sample."""
    factors, outer = group
    orders = tuple(order for order in factors if isinstance(order, int))
    if len(orders) < len(factors):
        return _scaled(
            activation, tuple(each for each in factors if isinstance(each, tuple)), outer
        )
    found = distribution(activation, SingleShape(orders, outer))
    pieces = list(found.pieces)
    return Exact(list(activation.kinks), pieces, found.deltas)


def _coefficients(piece: sympy.Expr) -> list[sympy.Expr]:
    return sympy.Poly(piece, z).all_coeffs()[::-1] if piece != 0 else []


def _scaled(activation: Activation, factors: Scaled, outer: int) -> Exact:
    """∂^outer Π σ^{(order)}(c z), c ≠ 0, for orders at which σ has no δ."""
    for order, _ in factors:
        if any(activation.jumps(j) for j in range(order)):
            wanted = "without a precision, inputs that are collinear, where σ^{(m)} has a δ"
            raise InputError(
                "precision", Words(f"a precision with {activation} and such inputs"), wanted
            )
    marks = {kink / sympy.Rational(c) for kink in activation.kinks for _, c in factors}
    kinks = sorted(marks)
    inside = [sympy.Integer(0)]
    if kinks:
        inside = [kinks[0] - 1, *((a + b) / 2 for a, b in pairwise(kinks)), kinks[-1] + 1]
    pieces = [
        sympy.expand(
            sympy.prod(
                _piece_at(activation, at * sympy.Rational(c))
                .diff(z, order)
                .subs(z, z * sympy.Rational(c))
                for order, c in factors
            )
        )
        for at in inside
    ]
    deltas: dict[tuple[sympy.Expr, int], sympy.Expr] = {}
    for _ in range(outer):
        deltas = {(kink, m + 1): c for (kink, m), c in deltas.items()}
        for kink, (left, right) in zip(kinks, pairwise(pieces), strict=True):
            jump = sympy.simplify((right - left).subs(z, kink))
            if jump != 0:
                deltas[kink, 0] = jump
        pieces = [piece.diff(z) for piece in pieces]
    return Exact(kinks, pieces, deltas)


def _piece_at(activation: Activation, at: sympy.Expr) -> sympy.Expr:
    """σ as the polynomial that it is around a point."""
    return next(piece.expr for piece in activation.pieces if piece.lower <= at < piece.upper)


@cache(entries=4096)
def _balls(activation: Activation, group: Group, precision: int) -> Distribution:
    """The same as balls of so many bits."""
    kinks, pieces, deltas = exact_distribution(activation, group)
    ball = functions.ball
    with ctx.workprec(precision):
        return Distribution(
            [ball(kink) for kink in kinks],
            [[ball(each) for each in _coefficients(piece)] for piece in pieces],
            [(ball(kink), m, ball(c)) for (kink, m), c in deltas.items()],
        )


def is_zero(activation: Activation, group: Group) -> bool:
    """True if there is nothing to average."""
    _, pieces, deltas = exact_distribution(activation, group)
    return not deltas and not any(pieces)


def of_one(activation: Activation, group: Group, K: arb) -> arb:
    """⟨F(z)⟩ for z ~ N(0, K), K > 0."""
    return _given(_balls(activation, group, ctx.prec), arb(0), K)


def _given(F: Distribution, mean: Number, v: arb) -> Number:
    """⟨F(z)⟩ for z ~ N(mean, v)."""
    root = v.sqrt()
    one = mean * 0 + 1
    densities = [_density(kink, mean, root) for kink in F.kinks]
    # beyond a kink: half of erfc, from the side on which it is small does not matter to balls
    below = [((one * kink - mean) / (root * arb(2).sqrt())).erf() / 2 for kink in F.kinks]
    total = one * 0
    for place, piece in enumerate(F.pieces):
        ends = [
            (F.kinks[k], densities[k], below[k]) if 0 <= k < len(F.kinks) else None
            for k in (place - 1, place)
        ]
        low, high = ends
        part = (high[2] if high else one / 2) - (low[2] if low else -one / 2)
        last, moment = one * 0, part
        for k, coefficient in enumerate(piece):
            total += coefficient * moment
            edge = one * 0
            if high:
                edge += functions.power(high[0], k) * high[1]
            if low:
                edge -= functions.power(low[0], k) * low[1]
            last, moment = moment, mean * moment + v * (k * last - edge)
    for kink, m, c in F.deltas:
        x = (one * kink - mean) / root
        total += c * _hermite(m, x) * _density(kink, mean, root) / root**m
    return total


def _hermite(degree: int, x: Number) -> Number:
    """He_degree(x)."""
    before, value = x * 0, x * 0 + 1
    for k in range(degree):
        before, value = value, x * value - k * before
    return value


def _density(at: arb, mean: Number, root: arb) -> Number:
    x = (mean - at) / root
    return (-x * x / 2).exp() / (root * (2 * arb.pi()).sqrt())


def of_two(activation: Activation, groups: tuple[Group, Group], K: Matrix, goal: float) -> arb:
    """⟨F_1(z_1) F_2(z_2)⟩ at a kernel of determinant > 0, to about e^{−goal}.

    A kernel of balls is taken at its middle; its radius counts with the derivatives by it.
    """
    entries = K[0][0], K[0][1], K[1][1]
    value = _at(activation, groups, _Kernel(*(each.mid() for each in entries)), goal)
    (first, one), (second, two) = groups
    own = _Kernel(*entries)
    for entry, (a, b), half in zip(entries, ((2, 0), (1, 1), (0, 2)), (2, 1, 2), strict=True):
        if not entry.is_exact():
            slope = _at(activation, ((first, one + a), (second, two + b)), own, 20.0)
            value += arb(0, (entry.rad() * abs(slope).upper() / half).upper())
    return value


class _Kernel(NamedTuple):
    """The entries of a kernel of two samples."""

    K11: arb
    K12: arb
    K22: arb


def _at(
    activation: Activation,
    groups: tuple[Group, Group],
    kernel: _Kernel,
    goal: float,
) -> arb:
    K11, K12, K22 = kernel
    rate = K12 / K11
    v, root = K22 - K12 * rate, K11.sqrt()
    if not v.lower() > 0:
        return arb("nan")
    first, second = (_balls(activation, group, ctx.prec) for group in groups)
    reach = arb(2.0 * (goal + 4.0) ** 0.5 + 2.0)
    tolerance = arb(-goal).exp()

    def integrand(piece: list[arb]) -> Ball:
        def values(x: acb, analytic: bool) -> acb:
            at = root * x
            weight = (-x * x / 2).exp() / (2 * arb.pi()).sqrt()
            return _polynomial(piece, at) * weight * _given(second, rate * at, v)

        return values

    total = arb(0)
    marks = [(kink / root) for kink in first.kinks]
    ends = [-reach, *(mark.max(-reach).min(reach) for mark in marks), reach]
    for piece, left, right in zip(first.pieces, ends, ends[1:], strict=False):
        if any(not each.is_zero() for each in piece) and left.mid() < right.mid():
            function = integrand(piece)
            part = balls.integral(
                function, left.mid(), right.mid(), rel_tol=tolerance, abs_tol=tolerance,
                eval_limit=4000 * ctx.prec, depth_limit=8 * ctx.prec,
            )  # fmt: skip
            total += part.real
            for end in (left, right):
                if not end.is_exact():
                    near = function(acb(end), False).abs_upper()
                    total += arb(0, (near * end.rad()).upper())
    total += arb(0, _beyond(first, second, K11, K22, v, reach))
    (orders, outer) = groups[1]
    for kink, m, c in first.deltas:
        x, density = kink / root, _density(kink, arb(0), root)
        for k in range(m + 1):
            raised = _balls(activation, (orders, outer + k), ctx.prec)
            he = _hermite(m - k, x) / root ** (m - k)
            total += comb(m, k) * (-rate) ** k * c * he * density * _given(raised, rate * kink, v)
    return total


def _polynomial(coefficients: Sequence[arb], at: acb) -> acb:
    total = acb(0)
    for coefficient in reversed(coefficients):
        total = total * at + coefficient
    return total


def _beyond(
    first: Distribution, second: Distribution, K11: arb, K22: arb, v: arb, reach: arb
) -> arb:
    """A bound of what |x_1| > reach adds."""
    root = v.sqrt()
    singular = arb(0)
    for _, m, c in second.deltas:  # |He_m(x)| ρ(x) < √m!
        singular += abs(c) * arb(factorial(m)).sqrt() / root ** (m + 1)
    one = _fourth(first, K11)
    two = _fourth(second, K22) + singular
    return ((reach / arb(2).sqrt()).erfc().sqrt() * one * two).upper()


def _fourth(F: Distribution, K: arb) -> arb:
    """⟨P⁴⟩^{1/4} of P = Σ_k max|c_k| |z|^k, by Minkowski's inequality."""
    total = arb(0)
    for k in range(max(map(len, F.pieces))):
        largest = max((abs(piece[k]).upper() for piece in F.pieces if k < len(piece)), key=float)
        moment = arb(1)
        for j in range(1, 4 * k, 2):
            moment *= j * K.upper()
        total += largest * moment.sqrt().sqrt()
    return total
