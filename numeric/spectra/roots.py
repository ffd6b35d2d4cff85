"""Real roots between two points of opposite sign."""

from __future__ import annotations

from collections.abc import Callable


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a continuous function changes sign, to the last digit (Brent's method)."""
    from scipy.optimize import brentq  # noqa: PLC0415  (a third of a second to import)

    return float(brentq(function, low, high, xtol=1e-15, rtol=1e-15, maxiter=1000))
