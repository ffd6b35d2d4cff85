"""The distribution at one sample of σ in pieces between kinks: a function, and δ's at the kinks."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import sympy

from ..errors import InputError, Words
from ..symbols import z
from ..work.caches import cache
from . import closed_forms
from .pieces import Pieces
from .shapes import SingleShape

Scaled: TypeAlias = "tuple[tuple[int, Fraction], ...]"
"""Factors σ^{(order)}(c z), by their orders and c."""

Group: TypeAlias = "tuple[tuple[int, ...] | Scaled, int]"
"""The orders of the derivatives of σ at one sample, and of the derivative of their product."""


class Distribution(NamedTuple):
    """Functions between kinks plus Σ c δ^{(m)}(z − κ), deltas = {(κ, m): c}."""

    kinks: tuple[sympy.Expr, ...]
    pieces: tuple[sympy.Expr, ...]
    deltas: dict[tuple[sympy.Expr, int], sympy.Expr]


def distribution(activation: Pieces, shape: SingleShape) -> Distribution:
    """(d/dz)^outer Π σ^{(order)}."""
    pieces = [
        sympy.Mul(*(piece.expr.diff(z, order) for order in shape.orders))
        for piece in activation.pieces
    ]
    deltas = dict(closed_forms.deltas(activation, shape.orders))
    found = _differentiated(Distribution(activation.kinks, tuple(pieces), deltas), shape.outer)
    return found._replace(pieces=tuple(sympy.simplify(piece) for piece in found.pieces))


def _differentiated(whole: Distribution, times: int) -> Distribution:
    """Its derivative, so many times: jumps between pieces become δ's."""
    kinks, pieces, deltas = whole
    for _ in range(times):
        deltas = {(kink, order + 1): c for (kink, order), c in deltas.items()}
        for kink, (left, right) in zip(kinks, pairwise(pieces), strict=True):
            deltas[kink, 0] = (right - left).subs(z, kink)
        pieces = tuple(piece.diff(z) for piece in pieces)
    simple = {at: sympy.simplify(c) for at, c in deltas.items()}
    return Distribution(kinks, pieces, {at: c for at, c in simple.items() if c != 0})


@cache(entries=4096)
def of_group(activation: Pieces, group: Group) -> Distribution:
    """The factors at one sample."""
    factors, outer = group
    orders = tuple(order for order in factors if isinstance(order, int))
    if len(orders) == len(factors):
        return distribution(activation, SingleShape(orders, outer))
    return _scaled(activation, tuple(each for each in factors if isinstance(each, tuple)), outer)


def _scaled(activation: Pieces, factors: Scaled, outer: int) -> Distribution:
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
    return _differentiated(Distribution(tuple(kinks), tuple(pieces), {}), outer)


def _piece_at(activation: Pieces, at: sympy.Expr) -> sympy.Expr:
    """σ as the polynomial that it is around a point."""
    return next(piece.expr for piece in activation.pieces if piece.lower <= at < piece.upper)


def is_zero(activation: Pieces, group: Group) -> bool:
    """True if there is nothing to average."""
    _, pieces, deltas = of_group(activation, group)
    return not deltas and not any(pieces)
