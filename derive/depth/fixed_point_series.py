"""The dense layer's fixed points K* > 0, in numbers, each with its error.

No such K* is rational in general, nor are Gaussian averages there. By Price's theorem,
d⟨F⟩_K/dK = ½⟨F''⟩_K, a bracket is a power series in δ = K − K* with averages at K* for
coefficients. Two kinds of fixed point let depth act in a way that can be solved:

* Half-stable, χ_∥ = 1 (and χ_⊥ = 1) with δ' = δ + aδ² + bδ³ + …, a ≠ 0. Then 1/δ' = 1/δ − a +
  (a² − b)δ + …, so that δ = −1/(aℓ) + O(log ℓ/ℓ²) from the side where aδ < 0, as at K* = 0 with
  exponent 1. As a factor χ_∥ = 1 + 2aδ + … is 1 − 2/ℓ, every tensor follows a power of ℓ, with
  χ_⊥ = 1 − p/ℓ + …, p = (C_W/a) d⟨σ'σ'⟩/dK, not rational.
* Stable, |χ_∥| < 1. Then δ ~ χ_∥^ℓ, below every power of ℓ: up to what falls exponentially the
  brackets stay as they are at K*, and T(ℓ+1) = a T(ℓ) + s has T = s/(1 − a) for its limit,
  approached as a^ℓ, where |a| < 1; a line in ℓ where a = 1; and grows as a^ℓ where |a| > 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import mpmath
import sympy

from ..activations.functions import Activation
from ..errors import InputError
from ..gaussian.brackets import Bracket
from ..gaussian.oracle import Enclosure
from ..gaussian.small_kernel import around_point
from ..work.caches import cache
from .fixed_points import fixed_points
from .points import CriticalPoint

ValueAndSlope: TypeAlias = Callable[[mpmath.mpf], tuple[Enclosure, Enclosure]]

DIGITS = 50
"""Of K* and of the averages there."""
_FIRST = 15
_SIGMA, _BALANCE = (Bracket(((1, 0), (1, b))) for b in (0, 2))


@cache(entries=2**8)
def half_stable(activation: Activation, point: CriticalPoint) -> Enclosure:
    """An isolated critical K*, to 50 digits."""
    with mpmath.workdps(DIGITS + 20):
        near = mpmath.mpf(sympy.N(point.K, DIGITS + 10))

        def balance(at: mpmath.mpf) -> tuple[Enclosure, Enclosure]:
            value, slope = around_point(activation, _BALANCE, at, 2, DIGITS + 5)
            return value, slope

        return _sharpened(balance, near)


@cache(entries=2**8)
def stable(activation: Activation, C_b: sympy.Expr, C_W: sympy.Expr) -> Enclosure:
    """The one K* > 0 that attracts at these variances, to 50 digits.

    Raises InputError where none does, or several.
    """
    found = fixed_points(activation, C_b, C_W, _FIRST)
    if any(at.free_symbols for at, _, _ in found):
        raise InputError("C_b, C_W", (C_b, C_W), "those of an isolated K*: here every K is fixed")
    close = [(at, parallel) for at, parallel, _ in found if abs(parallel) < 1]
    if len(close) != 1:
        listed = ", ".join(
            f"K* = {sympy.N(at, 6)} with χ_∥ = {sympy.N(x, 6)}" for at, x, _ in found
        )
        wanted = f"variances with one K* > 0 that attracts (found: {listed or 'no K* > 0'})"
        raise InputError("C_b, C_W", (C_b, C_W), wanted)
    with mpmath.workdps(DIGITS + 20):
        bias, weight = (mpmath.mpf(sympy.N(each, DIGITS + 20)) for each in (C_b, C_W))
        near = mpmath.mpf(close[0][0])

        def excess(at: mpmath.mpf) -> tuple[Enclosure, Enclosure]:
            value, slope = around_point(activation, _SIGMA, at, 2, DIGITS + 5)
            miss = Enclosure(bias + weight * value.value - at, weight * value.radius)
            return miss, Enclosure(weight * slope.value - 1, weight * slope.radius)

        return _sharpened(excess, near)


def _sharpened(function: ValueAndSlope, near: mpmath.mpf) -> Enclosure:
    """The zero by Newton's method, with twice its last step and the function's error for radius."""
    goal = near * mpmath.mpf(10) ** -DIGITS
    for _ in range(12):
        value, slope = function(near)
        step = value.value / slope.value
        near -= step
        radius = 2 * (step**2 / near + value.radius / abs(slope.value))
        if abs(step) < goal:
            return Enclosure(near, 2 * abs(step) + radius)
    raise InputError("activation", f"a fixed point near {mpmath.nstr(near, 8)}", "a simple one")
