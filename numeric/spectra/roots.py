"""Real roots between two points of opposite sign: of one function, and of many at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array

_CLOSE = 1e-15
_STEPS = 1000


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a continuous function changes sign, to the last digit (Brent's method)."""
    from scipy.optimize import brentq  # noqa: PLC0415  (a third of a second to import)

    return float(brentq(function, low, high, xtol=_CLOSE, rtol=_CLOSE, maxiter=_STEPS))


def roots(
    function: Callable[[Array, NDArray[np.int_]], Array], low: float, high: float, count: int
) -> Array:
    """Where `count` continuous functions change sign, to the last digit (Chandrupatla's method).

    function(u, which) has the values of the functions `which` at u, both (points,): those that are
    found drop out. Each step is inverse quadratic where three points bend little, and halves the
    interval elsewhere.
    """
    which = np.arange(count)
    a, b = np.full(count, high), np.full(count, low)
    fa, fb = function(a, which), function(b, which)
    c, fc = a, fa
    part = np.full(count, 0.5)
    found = np.empty(count)
    for _ in range(_STEPS):
        at = a + part * (b - a)
        value = function(at, which)
        same = np.sign(value) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = at, value
        best, smallest = np.where(np.abs(fa) < np.abs(fb), a, b), np.minimum(np.abs(fa), np.abs(fb))
        nearest = (_CLOSE + _CLOSE * np.abs(best)) / np.abs(b - a)
        done = (nearest > 0.5) | (smallest == 0.0)
        found[which[done]] = best[done]
        left = ~done
        if not left.any():
            return found
        which, nearest = which[left], nearest[left]
        a, b, c, fa, fb, fc = (each[left] for each in (a, b, c, fa, fb, fc))
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            bent = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            across = fa / (fb - fa) * fc / (fb - fc)
            across += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        part = np.where(bent, across, 0.5).clip(nearest, 1 - nearest)
    raise ArithmeticError(f"{len(which)} of {count} roots were not found in {_STEPS} steps")
