"""Bounds of σ's derivatives on strips around the real line, by ball arithmetic.

    |σ^{(m)}(t + iβ)| ≤ size · (1 + t²)^{degree/2}      for all real t and |β| ≤ height

is found on the line Im z = height alone: G(z) = σ^{(m)}(z) (ω² + z²)^{−degree/2}, ω² = 1 + height²,
is analytic within, and bounded there by its bound on both edges (Phragmén and Lindelöf; σ is real
on the real line, so the edges are alike). On an edge |ω² + z²| ≥ 1 + t², and within it is at most
(1 + 2 height²)(1 + t²). The edge is covered by boxes as far as |t| = 2^30; what grows no faster
than |t|^degree so far is taken to go on so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import sympy
from flint import acb, arb, ctx

from derive.activations.functions import Activation, z
from derive.arithmetic.balls import Ball, compile_arb
from derive.work.caches import cache

from ...brackets import quadrature

_PARTS = 4000
"""Boxes that cover an edge, at most."""
_FARTHEST = 30
"""log2 of how far they go."""
_SLACK = 4
"""How much larger than values that are taken a bound may be."""
_FAST = 2**40
"""A function above so many powers of z far out grows faster than they."""
_BITS = 128


class Envelope(NamedTuple):
    """A bound of a function on a strip: size · (1 + t²)^{degree/2}."""

    size: arb
    degree: int

    def __mul__(self, other: object) -> Envelope:
        if not isinstance(other, Envelope):
            return NotImplemented
        return Envelope(self.size * other.size, self.degree + other.degree)


def heights(activation: Activation) -> tuple[float, ...]:
    """Of the strips on which envelopes are tried, the lowest first."""
    if activation.strip == sympy.oo:
        return tuple(2.0 ** (j / 2) for j in range(-4, 13))
    return tuple(float(activation.strip) * k / 8 for k in (1, 2, 4, 6, 7))


def of_product(activation: Activation, orders: Sequence[int], height: float) -> Envelope | None:
    """A bound of Π σ^{(order)} on a strip, or None where none is found."""
    total = Envelope(arb(1), 0)
    for order in orders:
        each = of_derivative(activation, order, height)
        if each is None:
            return None
        total = total * each
    return total


@cache(entries=1024)
def of_derivative(activation: Activation, order: int, height: float) -> Envelope | None:
    """A bound of σ^{(order)} on the strip |Im z| ≤ height, or None where none is found."""
    growth = math.ceil(quadrature.degree(activation, order) - 0.01)
    expr = activation.derivative(order)
    with ctx.workprec(_BITS):
        forms = [compile_arb(each, z) for each in dict.fromkeys((expr, _mirrored(expr)))]

        def function(box: acb, analytic: bool) -> acb:
            found = forms[0](box, analytic)
            return found if found.is_finite() else forms[-1](box, analytic)

        for degree in (growth, growth + 1):
            edge = _on_edge(function, height, degree)
            if edge is not None:
                inside = arb(1 + 2 * arb(height) ** 2) ** (arb(degree) / 2)
                return Envelope(edge * inside, degree)
    return None


def _mirrored(expr: sympy.Expr) -> sympy.Expr:
    """With log(1 + e^u) as u + log(1 + e^{−u}), the same in the strip, which is finite at u ≫ 1."""

    def rest(node: sympy.Expr) -> sympy.Expr:
        return node.args[0] - 1

    return expr.replace(
        lambda node: isinstance(node, sympy.log) and isinstance(rest(node), sympy.exp),
        lambda node: rest(node).args[0] + sympy.log(1 + sympy.exp(-rest(node).args[0])),
    )


def _on_edge(function: Ball, height: float, degree: int) -> arb | None:
    """sup |F(t + i height)| (1 + t²)^{−degree/2}."""
    marks = [0.0, *(2.0**k for k in range(_FARTHEST + 1))]
    right = list(pairwise(marks))
    pending = [part for low, high in reversed(right) for part in ((-high, -low), (low, high))]
    power, line = arb(degree) / 2, arb(height)
    taken, bound = arb(0), arb(0)
    for far in (-marks[-2], -marks[10], marks[10], marks[-2]):
        size = function(acb(arb(far), line), True).abs_lower()
        if not size < (1 + arb(far) ** 2) ** (power + 1) * _FAST:
            return None
    for _ in range(_PARTS):
        if not pending:
            return bound.upper()
        low, high = pending.pop()
        middle, nearest = (low + high) / 2, min(abs(low), abs(high))
        at = function(acb(arb(middle), line), True).abs_lower()
        taken = taken.max(at / (1 + arb(middle) ** 2) ** power)
        box = function(acb(arb(low).union(arb(high)), line), True).abs_upper()
        largest = box / (1 + arb(nearest) ** 2) ** power
        if largest.is_finite() and largest <= _SLACK * taken:
            bound = bound.max(largest)
        elif high - low < 2.0**-20:
            return None
        else:
            pending += [(low, middle), (middle, high)]
    return None
