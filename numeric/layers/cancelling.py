"""Functions whose terms cancel near 0, as those of log(1 + e^z) − log 2 do: their series there.

Where z has a small variance all that counts is how σ falls to 0, and a sum of terms that are of
order one has lost as many digits as it is smaller than they. Inside |z| ≤ R/4, R the radius of a
disc on which balls show that the function is analytic, Σ a_k z^k keeps them all: a_k is Cauchy's
integral over |z| = R/2, a mean over `_POINTS` points, which errs by a_{k + points} (R/2)^points,
and what is left out is 4^{−terms} of the largest value on the disc: R is small enough that this is
a rounding of the function at R/4, as it is not of erf(8(z + 1)) with R = 2, e^{192} on the disc.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np
import sympy
from flint import acb, arb, ctx

from derive.arithmetic.balls import Ball, compile_arb
from derive.errors import InputError
from derive.symbols import z
from derive.work.caches import cache

from ..arrays import Array

_TERMS, _POINTS, _BITS = 40, 128, 320
_RADII = tuple(2.0**-k for k in range(-1, 9))
_BOXES = 8
"""Of a side of the square around a disc, on which the function is shown to be analytic."""

NEAR = np.array([sign * 10.0**-k for k in range(2, 7) for sign in (-1.0, 1.0)])
"""Where it is looked for what cancels."""

_ROUNDING = 2.0**-54
"""The part that may be left out of a series, of the function at its end."""

_LOST = 40.0
"""Roundings that are lost there by a sum that cancels."""


class Series(NamedTuple):
    """Σ a_k z^k for |z| ≤ radius."""

    radius: float
    coefficients: tuple[float, ...]

    def put(self, values: Array, at: Array) -> Array:
        """The values with the series in the place of those near 0."""
        near = np.abs(at) <= self.radius
        if not near.any():
            return values
        found = np.array(np.broadcast_to(values, at.shape))
        z, total = at[near], np.zeros(int(near.sum()))
        for each in reversed(self.coefficients):
            total = total * z + each
        found[near] = total
        return found


def series(expr: sympy.Expr, values: Array) -> Series | None:
    """The series of a function in z that has lost digits near 0; None for one that keeps them, or
    is not analytic there.

    Arguments:
        values: what it comes to in floats at `NEAR`.
    """
    exact = _at_points(expr)
    if exact is None:
        return None
    with np.errstate(all="ignore"):
        lost = np.abs(values - exact) > _LOST * np.finfo(float).eps * np.abs(exact)
    return _series(expr) if lost.any() else None


@cache
def _at_points(expr: sympy.Expr) -> Array | None:
    """The function at `NEAR`, to all digits of a float; None where it is not known."""
    try:
        function = compile_arb(expr, z)
    except InputError:
        return None
    with ctx.workprec(_BITS):
        found = [function(acb(at), False).real for at in NEAR.tolist()]
    known = all((each.is_finite() and each.rel_accuracy_bits() > 60) or each == 0 for each in found)
    return np.array([float(each.mid()) for each in found]) if known else None


@cache
def _series(expr: sympy.Expr) -> Series | None:
    function = compile_arb(expr, z)
    with ctx.workprec(_BITS):
        for radius in _RADII:
            largest = _largest(function, radius)
            if largest is None:
                continue
            near = radius / 4.0
            sizes = [float(function(acb(at), False).abs_lower()) for at in (-near, near)]
            if largest * 4.0**-_TERMS <= _ROUNDING * max(sizes):
                return Series(near, _coefficients(function, radius / 2.0))
    return None


def _largest(function: Ball, radius: float) -> float | None:
    """A bound of it on the square around the disc; None where it is not shown to be analytic."""
    side = arb(radius) / _BOXES
    parts = [side * arb(2 * k + 1 - _BOXES, 1) for k in range(_BOXES)]
    values = [function(acb(x, y), True) for x, y in product(parts, repeat=2)]
    if not all(value.is_finite() for value in values):
        return None
    return max(float(value.abs_upper()) for value in values)


def _coefficients(function: Ball, radius: float) -> tuple[float, ...]:
    """a_0, a_1, … as floats, those that vanish 0."""
    points = [radius * (acb(2 * k) / _POINTS).exp_pi_i() for k in range(_POINTS)]
    values = [function(point, False) for point in points]
    largest = max(float(each.abs_upper()) for each in values)
    turned = [(acb(-2 * k) / _POINTS).exp_pi_i() for k in range(_POINTS)]
    found = []
    for k in range(_TERMS):
        total = sum(
            (value * turned[k * j % _POINTS] for j, value in enumerate(values)), start=acb(0)
        )
        mean = float((total.real / _POINTS).mid())
        found.append(
            mean / radius**k if abs(mean) > largest * math.ldexp(1.0, -_POINTS + 8) else 0.0
        )
    return tuple(found)
