"""Functions of one real symbol: their pieces, kinks, jumps and Taylor series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import factorial
from typing import NamedTuple

import sympy

from ..arithmetic import powerseries
from ..arithmetic.balls import vanishes
from ..errors import InputError, as_integer
from ..symbols import z
from ..work.caches import cache
from .piecewise import analytic_strip, between, logistic_to_tanh, split_pieces


class Piece(NamedTuple):
    """σ is the analytic `expr` on the interval lower < z < upper.

    Attributes:
        lower, upper: its ends, kinks of σ or ∓∞.
        expr: σ there, in `activations.z`.
    """

    lower: sympy.Expr
    upper: sympy.Expr
    expr: sympy.Expr

    @property
    def strip(self) -> sympy.Expr:
        """Distance of the interval to the nearest singularity of `expr` (`analytic_strip`)."""
        return analytic_strip(self.expr, self.lower, self.upper)


@dataclass(frozen=True)
class Pieces:
    """A function σ(z) of one real symbol, analytic between finitely many kinks.

    Attributes:
        name: what it is called.
        expr: σ as a sympy expression in `z`.
    """

    name: str
    expr: sympy.Expr

    def __post_init__(self) -> None:
        if not isinstance(self.expr, sympy.Expr):
            raise InputError("expr", self.expr, "a sympy expression in activations.z")

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """σ between its kinks, from −∞ to ∞; a single piece where σ is smooth."""
        return tuple(Piece(*piece) for piece in split_pieces(self.expr))

    @cached_property
    def kinks(self) -> tuple[sympy.Expr, ...]:
        """The points, ascending, where σ or one of its derivatives jumps."""
        return tuple(piece.lower for piece in self.pieces[1:])

    @cached_property
    def strip(self) -> sympy.Expr:
        """Half the width of the strip around the real axis where σ is analytic; 0 with kinks.

        Found exactly where the singularities solve a polynomial equation in z or in exp(c z);
        else a lower bound, 2^{-j}, certified by ball arithmetic on |Re z| ≤ 32.
        """
        return sympy.Integer(0) if self.kinks else self.pieces[0].strip

    @property
    def is_smooth(self) -> bool:
        """True if σ is analytic on the whole line."""
        return not self.kinks

    @cached_property
    def is_odd(self) -> bool:
        """True if σ(−z) = −σ(z)."""
        return self.kinks == tuple(-kink for kink in reversed(self.kinks)) and all(
            vanishes(left.expr.subs(z, -z) + right.expr, z, between(right.lower, right.upper))
            for left, right in zip(self.pieces, reversed(self.pieces), strict=True)
        )

    @property
    def is_polynomial(self) -> bool:
        """True if σ is a polynomial."""
        return self.is_smooth and bool(self.pieces[0].expr.is_polynomial(z))

    @property
    def is_linear(self) -> bool:
        """True if σ(z) = a z."""
        return self.is_scale_invariant and self.is_smooth

    @cached_property
    def is_scale_invariant(self) -> bool:
        """True if σ(c z) = c σ(z) for every c > 0: linear on both sides of 0."""
        return all(kink == 0 for kink in self.kinks) and all(
            vanishes(expr, z, between(piece.lower, piece.upper))
            for piece in self.pieces
            for expr in (piece.expr.diff(z, 2), z * piece.expr.diff(z) - piece.expr)
        )

    @property
    def slopes(self) -> tuple[sympy.Expr, sympy.Expr]:
        """(a_−, a_+) of a scale-invariant σ: σ = a_− z for z < 0 and a_+ z for z > 0.

        Raises InputError for any other.
        """
        if not self.is_scale_invariant:
            raise InputError("activation", self.name, "a scale-invariant one, to have two slopes")
        left, right = (sympy.simplify(self.pieces[k].expr.diff(z)) for k in (0, -1))
        return left, right

    def __str__(self) -> str:
        return self.name

    def derivative(self, order: int = 1) -> sympy.Expr:
        """σ^{(order)}(z) away from the kinks; `jumps` gives the jumps at the kinks.

        Raises InputError for an order that is not 0, 1, 2, …

        >>> from derive.activations import erf_unit_cubic
        >>> erf_unit_cubic.derivative(1)
        exp(-z**2/2)
        """
        order = checked_order("order", order)
        if order == 0:
            return self.expr
        return _derivative(self, order)

    def jumps(self, order: int) -> dict[sympy.Expr, sympy.Expr]:
        """At each kink where σ^{(order)} jumps, by how much: right limit minus left limit.

        So, as a distribution, σ^{(m)} is `derivative(m)` plus Σ_kinks Σ_{j<m} jump_j δ^{(m−1−j)}.
        Raises InputError where a one-sided limit is infinite, and for an order below 0.

        >>> from derive.activations import hard_tanh
        >>> hard_tanh.jumps(1)
        {-1: 1, 1: -1}
        """
        order = checked_order("order", order)
        found = {}
        for left, right in pairwise(self.pieces):
            at = right.lower
            jump = sympy.simplify(
                (right.expr.diff(z, order) - left.expr.diff(z, order)).subs(z, at)
            )
            if not jump.is_finite and jump.is_number:
                raise InputError("order", order, f"an order with finite one-sided limits at {at}")
            if jump != 0:
                found[at] = jump
        return found

    def taylor(self, order: int) -> tuple[sympy.Expr, ...]:
        """The Taylor coefficients σ^{(k)}(0)/k! for k = 0 … order.

        Raises InputError where σ has a kink at 0.
        """
        order = checked_order("order", order)
        if any(kink == 0 for kink in self.kinks):
            raise InputError("activation", self.name, "one without a kink at 0, to expand there")
        return tuple(map(sympy.simplify, series_at_zero(self.beside_zero(1), order)))

    def beside_zero(self, side: int) -> sympy.Expr:
        """The analytic σ just left (side −1) or just right (1) of 0."""
        if side < 0:
            return next(piece.expr for piece in self.pieces if piece.lower < 0 <= piece.upper)
        return next(piece.expr for piece in self.pieces if piece.lower <= 0 < piece.upper)


@cache
def _derivative(activation: Pieces, order: int) -> sympy.Expr:
    parts = [logistic_to_tanh(piece.expr.diff(z, order)) for piece in activation.pieces]
    return sympy.Piecewise(
        *((part, z < kink) for part, kink in zip(parts, activation.kinks, strict=False)),
        (parts[-1], True),
    )


@cache
def series_at_zero(expr: sympy.Expr, order: int) -> tuple[sympy.Expr, ...]:
    """The Taylor coefficients at 0 of what is analytic there, through z^order, as they come.

    By sympy's series, which does not differentiate over and over, where it has one.
    """
    try:
        found = sympy.expand(sympy.series(expr, z, 0, order + 1).removeO())
        if found.is_polynomial(z):
            return tuple(found.coeff(z, k) for k in range(order + 1))
    except (NotImplementedError, ValueError, TypeError, sympy.PoleError):
        pass
    return tuple(expr.diff(z, k).subs(z, 0) / factorial(k) for k in range(order + 1))


def product_series(
    taylor: Sequence[sympy.Expr], orders: Iterable[int], degree: int
) -> tuple[sympy.Expr, ...]:
    """The Taylor coefficients of Π σ^{(order)} through z^degree, from those of σ."""
    total: tuple[sympy.Expr, ...] = (sympy.Integer(1),) + (sympy.Integer(0),) * degree
    for order in orders:
        taken = [taylor[k + order] * sympy.ff(k + order, order) for k in range(degree + 1)]
        total = tuple(map(sympy.expand, powerseries.multiply(total, taken)))
    return total


def checked_order(argument: str, order: object) -> int:
    """The order of a derivative, or an InputError."""
    return as_integer(argument, order, 0, wanted="whole numbers, 0 or more")
