"""What stands at one sample, σ made of pieces between kinks: a function and δ's at the kinks."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import sympy

from derive.activations.functions import Activation, z
from derive.errors import InputError, Words
from derive.gaussian.shapes import SingleShape
from derive.work.caches import cache

from ...brackets.one_input import distribution

Scaled: TypeAlias = "tuple[tuple[int, Fraction], ...]"
"""Factors σ^{(order)}(c z), by their orders and c."""

Group: TypeAlias = "tuple[tuple[int, ...] | Scaled, int]"
"""The orders of the derivatives of σ at one sample, and of the derivative of their product."""


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


def is_zero(activation: Activation, group: Group) -> bool:
    """True if there is nothing to average."""
    _, pieces, deltas = exact_distribution(activation, group)
    return not deltas and not any(pieces)
