"""Brackets of a σ that is linear up to its nearest kink, at small K: a power of K, and a tail."""

from __future__ import annotations

from collections import defaultdict
from math import factorial

import sympy

from ..activations.functions import Activation
from ..arithmetic import powerseries
from ..arithmetic.hermite import by_parts
from ..arithmetic.logseries import ZERO, size
from ..gaussian.brackets import Bracket
from ..gaussian.closed_forms import deltas
from ..gaussian.pieces import series_at_zero
from ..gaussian.small_kernel import around_zero
from ..symbols import K, z
from .logarithmic import beyond


def core(activation: Activation, bracket: Bracket) -> dict[sympy.Expr, sympy.Expr]:
    """The bracket as if σ went on beyond ±d as it is around 0: exact, for it is linear there."""
    bare = sum(order == 0 for _, order in bracket.factors)
    return dict(around_zero(activation, bracket, sympy.Rational(bare, 2)))


def tail(
    activation: Activation, bracket: Bracket, distance: sympy.Expr, extent: int
) -> tuple[dict[sympy.Expr, sympy.Expr], sympy.Expr]:
    """The contribution of the kinks at ±d, over ρ = e^{−d²/2K}/√(2πK), and the power of its cut.

    With f the product, g what it has beyond d against its continuation and w the polynomial that
    differentiates a Gaussian average,

        ∫_0^∞ g(d + t) w(d + t) e^{−dt/K} e^{−t²/2K} dt = Σ g_k w_i (−1/2K)^j/j! n! (K/d)^{n+1},

    n = k + i + 2j, where g_k, w_i are Taylor's coefficients; and δ-functions on the kink.
    """
    orders = tuple(order for _, order in bracket.factors)
    outer = len(bracket.outer)
    weight = by_parts(outer, z, K)
    many = extent + outer + 1
    cut = sympy.Integer(extent + 1)
    found: dict[sympy.Expr, sympy.Expr] = defaultdict(lambda: ZERO)
    for kink in (each for each in activation.kinks if abs(each) == distance):
        side = int(sympy.sign(kink))
        jump = _product(beyond(activation, kink, side), orders, kink, side, many)
        jump = tuple(
            a - b
            for a, b in zip(
                jump, _product(activation.beside_zero(side), orders, kink, side, many), strict=True
            )
        )
        at = sympy.Poly(sympy.expand(weight.subs(z, kink + side * z)), z)
        for k, value in enumerate(jump):
            for (i,), factor in at.terms() if value != 0 else ():
                for j in range(many - k + 1):
                    n = k + i + 2 * j
                    part = value * factor * sympy.Rational(factorial(n), (-2) ** j * factorial(j))
                    _add(found, sympy.expand(part * K ** (n + 1 - j) / distance ** (n + 1)))
        for (place, m), value in deltas(activation, orders).items():
            if place == kink:
                density = sympy.exp((distance**2 - z**2) / (2 * K))
                part = (weight * density).diff(z, m).subs(z, kink)
                _add(found, sympy.expand(value * (-1) ** m * part))
    return {q: value for q, value in found.items() if value != 0 and size(q) < cut}, cut


def _product(
    piece: sympy.Expr, orders: tuple[int, ...], kink: sympy.Expr, side: int, degree: int
) -> tuple[sympy.Expr, ...]:
    """The Taylor coefficients of Π σ^{(o)}(kink + side·t) in t of σ's analytic piece."""
    series = series_at_zero(piece.subs(z, kink + side * z), degree + max(orders, default=0))
    total: tuple[sympy.Expr, ...] = (sympy.Integer(1),) + (ZERO,) * degree
    for order in orders:
        taken = tuple(
            side**order * series[k + order] * sympy.ff(k + order, order) for k in range(degree + 1)
        )
        total = tuple(powerseries.multiply(total, taken))
    return tuple(map(sympy.expand, total))


def _add(found: dict[sympy.Expr, sympy.Expr], expression: sympy.Expr) -> None:
    """Its powers of K."""
    for term in sympy.Add.make_args(expression):
        value, rest = term.as_independent(K)
        found[rest.as_base_exp()[1] if rest != 1 else ZERO] += value
