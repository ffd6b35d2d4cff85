"""Fixed lengths of a network with all that is linear around them: stability and depth scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import mpmath

from ..citations import rests_on
from ..errors import InputError
from ..network import Network
from .steps import DIGITS, Step, step_of

SCAN = (-12, 4)
"""Fixed lengths are looked for at q between 10^−12 and 10^4."""
PLANE_DIGITS = 15
"""Of 1 − c* and of 1 − ∂c'/∂c, whose averages in two dimensions cost most."""
_STEPS_PER_DECADE = 6
_SURE = 1e-9  # a relative q' − q that has a sign one can trust, while scanning with 12 digits


@dataclass(frozen=True, repr=False)
class FixedPoint:
    """A fixed length with all that is linear around it; a deviation falls off as e^{−ℓ/ξ}.

    Attributes:
        q: q* = q'(q*), a variance.
        chi: χ_γ (001, eq. 8); the network is ordered below 1 and chaotic above.
        chi_parallel: dq'/dq.
        c: the correlation that attracts: 1 unless chaotic; None at q* = 0, where correlations do
            not move at an exponential rate.
        slope: ∂c'/∂c there; χ where c = 1.
        xi_q: −1/log|χ_∥|, in layers. Scales are ∞ where nothing falls off, 0 where all does at
            once, and negative where deviations grow.
        xi_c: −1/log(slope). Source 001 prints χ for the slope, which holds for c = 1.
        xi_grad: −1/log χ, of gradients going back; negative where they grow.
    """

    q: float
    chi: float
    chi_parallel: float
    c: float | None
    slope: float | None
    xi_q: float
    xi_c: float
    xi_grad: float

    @property
    def is_stable(self) -> bool:
        """Whether nearby lengths converge to q* exponentially."""
        return abs(self.chi_parallel) < 1

    @property
    def phase(self) -> str:
        """ "ordered", "critical" or "chaotic"."""
        if self.chi == 1:
            return "critical"
        return "ordered" if self.chi < 1 else "chaotic"

    def __str__(self) -> str:
        correlation = "" if self.c is None else f", c* = {self.c:.6g}"
        return (
            f"q* = {self.q:.6g}, {self.phase}: χ = {self.chi:.6g}, χ_∥ = {self.chi_parallel:.6g}"
            f"{correlation}; ξ_q = {self.xi_q:.4g}, ξ_c = {self.xi_c:.4g}, ξ_∇ = {self.xi_grad:.4g}"
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str:
        correlation = "" if self.c is None else rf"c^* = {self.c:.6g},\; "
        return (
            rf"$\displaystyle q^* = {self.q:.6g}\ \text{{({self.phase})}},\; "
            rf"\chi = {self.chi:.6g},\; \chi_\parallel = {self.chi_parallel:.6g},\; {correlation}"
            rf"\xi_q = {self.xi_q:.4g},\; \xi_c = {self.xi_c:.4g},\; "
            rf"\xi_\nabla = {self.xi_grad:.4g}$"
        )


@rests_on("naitsaada2023")
def fixed_points(net: Network) -> tuple[FixedPoint, ...]:
    """Every fixed length 0 or in 10^−12 ≤ q ≤ 10^4, ascending; () where there is none (001, §2.1).

    Found where q' − q changes sign; one that only touches zero is not found.

    Raises:
        InputError: where every q is fixed, as for critical scale-invariant networks, and where
            biases or weights change from layer to layer.

    >>> from derive import Gaussian
    >>> [point.q for point in fixed_points(Network("relu", Gaussian(C_W=1), C_b=1))]
    [2.0]
    """
    with mpmath.workdps(2 * DIGITS):
        step = step_of(net)
        return tuple(_describe(step, q) for q in _fixed_lengths(step))


def depth_scales(net: Network) -> FixedPoint:
    """The one fixed length that attracts, with ξ_q, ξ_c and ξ_∇ (001, §2).

    At K* = 0 of a critical network, where χ_∥ = 1, lengths may still fall off as a power.

    Raises:
        InputError: where none attracts, so that lengths grow or oscillate without end, or several.

    >>> from derive import Gaussian
    >>> depth_scales(Network("relu", Gaussian(C_W=1), C_b=1))
    q* = 2, ordered: χ = 0.5, χ_∥ = 0.5, c* = 1; ξ_q = 1.443, ξ_c = 1.443, ξ_∇ = 1.443
    """
    stable = [point for point in fixed_points(net) if abs(point.chi_parallel) <= 1]
    if len(stable) != 1:
        found = ", ".join(f"{point.q:.6g}" for point in stable) or "none"
        raise InputError(
            "net", f"{net}, whose attracting lengths are: {found}", "exactly one (see fixed_points)"
        )
    return stable[0]


def _fixed_lengths(step: Step) -> list[mpmath.mpf]:
    """The q with q' = q."""
    activation, found = step.activation, []
    if activation.is_scale_invariant and step.C_b == 0:
        (gain,) = step.on_line(mpmath.mpf(1), step.equations.length)
        if abs(gain - 1) < mpmath.mpf(10) ** (2 - DIGITS):
            raise InputError(
                "net", f"{activation} at its critical C_W", "a network without every q fixed"
            )
    (at_zero,) = step.on_line(mpmath.mpf(0), step.equations.length)
    if at_zero == 0:
        found.append(mpmath.mpf(0))

    def excess(q: mpmath.mpf, digits: int) -> mpmath.mpf:
        return step.on_line(q, step.equations.length, digits=digits)[0] / q - 1

    count = (SCAN[1] - SCAN[0]) * _STEPS_PER_DECADE
    grid = [
        mpmath.mpf(10) ** (SCAN[0] + mpmath.mpf(k) / _STEPS_PER_DECADE) for k in range(count + 1)
    ]
    scanned = [(q, value) for q in grid if abs(value := excess(q, 12)) > _SURE]
    for (left, below), (right, above) in pairwise(scanned):
        if below * above < 0:
            found.append(zero(excess, left, right, DIGITS + 4))
    return found


def zero(
    function: Callable[[mpmath.mpf, int], mpmath.mpf],
    left: mpmath.mpf,
    right: mpmath.mpf,
    digits: int = DIGITS,
    accuracy: int = DIGITS,
) -> mpmath.mpf:
    """The zero of function(t, digits) between two points of different sign, to 10^{−accuracy}.

    Found first with fewer digits, which cost far less, and then close by with all of them.
    """
    function = cache(function)
    half = accuracy // 2
    near = _bracketed(lambda t: function(t, digits - half), left, right, half - 1)
    width = mpmath.mpf(10) ** (3 - half)
    ends = max(left, near * (1 - width)), min(right, near * (1 + width))
    if function(ends[0], digits) * function(ends[1], digits) > 0:
        ends = left, right
    return _bracketed(lambda t: function(t, digits), *ends, accuracy - 1)


def _bracketed(
    function: Callable[[mpmath.mpf], mpmath.mpf],
    left: mpmath.mpf,
    right: mpmath.mpf,
    accuracy: int,
) -> mpmath.mpf:
    """Anderson and Björck's method in log t, until a step is below 10^{−accuracy}.

    (mpmath's own stops where the function is small, which near χ = 1 is everywhere.)
    """
    a, b = mpmath.log(left), mpmath.log(right)
    at_a, at_b = function(left), function(right)
    last = a
    for _ in range(200):
        at = b - at_b * (b - a) / (at_b - at_a)
        value = function(mpmath.exp(at))
        if value == 0 or abs(at - last) < mpmath.mpf(10) ** -accuracy:
            return mpmath.exp(at)
        if value * at_b < 0:
            a, at_a = b, at_b
        else:
            shrink = 1 - value / at_b
            at_a *= shrink if shrink > 0 else mpmath.mpf(1) / 2
        b, at_b, last = at, value, at
    raise InputError("net", f"a zero near {mpmath.nstr(mpmath.exp(b), 6)}", "one that is simple")


def _describe(step: Step, q: mpmath.mpf) -> FixedPoint:
    maps = step.equations
    gain, parallel = step.on_line(q, maps.chi, maps.chi_parallel)
    if abs(gain - 1) < mpmath.mpf(10) ** (3 - DIGITS):
        gain = mpmath.mpf(1)
    c, slope = _attracting_correlation(step, q, gain)
    return FixedPoint(
        float(q),
        float(gain),
        float(parallel),
        None if c is None else float(c),
        None if slope is None else float(slope),
        _scale(parallel),
        math.inf if slope is None else _scale(slope),
        _scale(gain),
    )


def _scale(factor: mpmath.mpf) -> float:
    """ξ with |factor| = e^{−1/ξ}."""
    if factor == 0:
        return 0.0
    rate = -mpmath.log(abs(factor))
    return math.inf if abs(rate) < mpmath.mpf(10) ** (3 - DIGITS) else float(1 / rate)


def _attracting_correlation(
    step: Step, q: mpmath.mpf, gain: mpmath.mpf
) -> tuple[mpmath.mpf, mpmath.mpf] | tuple[None, None]:
    """c* and the slope there.

    In σ's Hermite coefficients c' = Σ_k a_k² c^k has no negative term, so it is convex for c ≥ 0,
    and c* < 1 exists, once, if and only if the slope at 1 is above 1. It is solved for as 1 − c*,
    where the chord (1 − c')/(1 − c), which falls from χ, is 1.
    """
    if q == 0:
        return None, None
    if gain <= 1:
        return mpmath.mpf(1), gain
    # χ − 1 is what the chord must resolve, and 1 − c*, of the same order, is what it divides by
    digits = PLANE_DIGITS + 2 * math.ceil(-min(mpmath.log10(gain - 1), 0))
    with mpmath.workdps(2 * digits + DIGITS):
        (length,) = step.on_line(q, step.equations.length, digits=digits)

        @cache
        def chord(away: mpmath.mpf, digits: int) -> mpmath.mpf:
            kernel = (q, (1 - away) * q, q)
            covariance = step.on_plane(step.equations.covariance, kernel, digits)
            return (length - covariance) / (q * away) - 1

        right = mpmath.mpf(1)
        below = chord(right, digits)
        if abs(below) < mpmath.mpf(10) ** (4 - digits):
            return mpmath.mpf(0), step.slope(mpmath.mpf(0), q, digits)
        left = right / 8
        few = digits - PLANE_DIGITS // 2
        while chord(left, few) < 0:
            left, right = left / 8, left
        away = zero(chord, left, right, digits, PLANE_DIGITS)
        return 1 - away, step.slope(1 - away, q, digits)
