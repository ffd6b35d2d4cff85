"""The pieces of a piecewise linear σ, as numbers."""

from __future__ import annotations

from functools import cache

import numpy as np
import sympy

from derive.activations.functions import Activation, z

from ..arrays import Array

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
