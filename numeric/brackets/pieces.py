"""Piecewise analytic σ: its pieces as numbers, and where derivatives outside a bracket go."""

from __future__ import annotations

import numpy as np
import sympy

from derive.activations.functions import Activation, z
from derive.gaussian.shapes import Shape
from derive.work.caches import cache

from ..arrays import Array
from . import quadrature

SLACK = 1e-14
"""Correlations that differ from ±1 by this or less are ±1: K has no more digits than that."""


@cache
def table(activation: Activation) -> Array | None:
    """A row (lower end, constant, slope) for each piece of a continuous piecewise linear σ, from
    left to right; None for another σ."""
    if activation.is_smooth or activation.jumps(0):
        return None
    rows = []
    for piece in activation.pieces:
        if not piece.expr.is_polynomial(z) or sympy.degree(piece.expr, z) > 1:
            return None
        slope = piece.expr.diff(z)
        rows.append([float(piece.lower), float(piece.expr - slope * z), float(slope)])
    return np.array(rows)


@cache
def forms(activation: Activation, shape: Shape) -> tuple[Shape, Shape | None]:
    """The shape as it is summed for regular K and for singular K.

    Regular: all derivatives inside that no jump forbids. Singular: the shape as it is, or None
    where a factor is itself a distribution.
    """
    orders, outer = list(shape.orders), list(shape.outer)
    for p in range(len(orders)):
        while any(activation.jumps(j) for j in range(orders[p])):
            orders[p], outer[p] = orders[p] - 1, outer[p] + 1
    singular = shape if tuple(orders) == shape.orders else None
    for p in range(len(orders)):
        while outer[p] and not activation.jumps(orders[p]):
            orders[p], outer[p] = orders[p] + 1, outer[p] - 1
    return Shape(tuple(orders), tuple(outer)), singular


def powers(activation: Activation, form: Shape) -> float:
    """How fast the integrand of this form grows far out, Hermite's polynomial included."""
    return sum(quadrature.degree(activation, m) for m in form.orders) + sum(form.outer)


TRUNCATED = (1.0, 1e2, 1e3, 1e6, 1e6)
"""The error of the panels of so many latent variables, in units of rounding."""
