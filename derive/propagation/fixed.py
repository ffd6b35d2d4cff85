"""Fixed lengths of a network with all that is linear around them: stability and depth scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import mpmath

from ..arithmetic.balls import exactly
from ..citations import rests_on
from ..depth.fixed_points import at_rest, every_rests
from ..depth.zeros import regula_falsi
from ..errors import InputError
from ..network import Network
from ..work.caches import cache
from .estimates import DIGITS, doubt, estimate
from .steps import Step, step_of

PLANE_DIGITS = 15
"""Of 1 − c* and of 1 − ∂c'/∂c, whose averages in two dimensions cost most."""
_EXACT = mpmath.mpf(10) ** -8  # of the doubt, at q = 0, where nothing is averaged


class FixedPointErrors(NamedTuple):
    """How far the numbers of a `FixedPoint` may be from the truth; 0 where there is none.

    Attributes:
        q, chi, chi_parallel: the errors of q*, χ and χ_∥.
        c, slope: those of c* and of ∂c'/∂c there.
        xi_q, xi_c, xi_grad: those of the depth scales.
    """

    q: float
    chi: float
    chi_parallel: float
    c: float
    slope: float
    xi_q: float
    xi_c: float
    xi_grad: float


@dataclass(frozen=True, repr=False)
class FixedPoint:
    """A fixed length with all that is linear around it; a deviation falls off as e^{−ℓ/ξ}.

    Attributes:
        q: q* = q'(q*), a variance; not a number where every q is fixed, with what is the same at
            all of them for the rest, and not a number what is not.
        chi: χ_γ (001, eq. 8); the network is ordered below 1 and chaotic above.
        chi_parallel: dq'/dq.
        c: the correlation that attracts: 1 unless chaotic; None at q* = 0, where correlations do
            not move at an exponential rate.
        slope: ∂c'/∂c there; χ where c = 1.
        xi_q: −1/log|χ_∥|, in layers. Scales are ∞ where nothing falls off, 0 where all does at
            once, and negative where deviations grow.
        xi_c: −1/log(slope). Source 001 prints χ for the slope, which holds for c = 1.
        xi_grad: −1/log χ, of gradients going back; negative where they grow.

    Each number is a float with an estimate of its `error`; `errors` are all of them.
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
    def errors(self) -> FixedPointErrors:
        """By the numbers' names."""
        numbers = (getattr(self, name) for name in FixedPointErrors._fields)
        return FixedPointErrors(*(getattr(each, "error", 0.0) for each in numbers))

    @property
    def is_line(self) -> bool:
        """True if every q is fixed."""
        return math.isnan(self.q)

    @property
    def is_stable(self) -> bool:
        """True if nearby lengths converge to q* exponentially."""
        return abs(self.chi_parallel) < 1

    @property
    def phase(self) -> str:
        """ "ordered", "critical" or "chaotic"; on a line where χ changes "by q"."""
        if math.isnan(self.chi):
            return "by q"
        if self.chi == 1:
            return "critical"
        return "ordered" if self.chi < 1 else "chaotic"

    def __str__(self) -> str:
        correlation = "" if self.c is None else f", c* = {self.c:.6g}"
        at = "every q" if self.is_line else f"q* = {self.q:.6g}"
        return (
            f"{at}, {self.phase}: χ = {self.chi:.6g}, χ_∥ = {self.chi_parallel:.6g}"
            f"{correlation}; ξ_q = {self.xi_q:.4g}, ξ_c = {self.xi_c:.4g}, ξ_∇ = {self.xi_grad:.4g}"
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str:
        correlation = "" if self.c is None else rf"c^* = {self.c:.6g},\; "
        at = r"\text{every } q" if self.is_line else f"q^* = {self.q:.6g}"
        return (
            rf"$\displaystyle {at}\ \text{{({self.phase})}},\; "
            rf"\chi = {self.chi:.6g},\; \chi_\parallel = {self.chi_parallel:.6g},\; {correlation}"
            rf"\xi_q = {self.xi_q:.4g},\; \xi_c = {self.xi_c:.4g},\; "
            rf"\xi_\nabla = {self.xi_grad:.4g}$"
        )


@rests_on("naitsaada2023")
def fixed_points(net: Network) -> tuple[FixedPoint, ...]:
    """Every fixed length in 0 ≤ q < ∞, ascending; () where there is none (001, §2.1).

    Found where q' − q changes sign, on a scan that ends where q' − q follows its laws at small and
    at large q (`derive.depth.zeros`); one that only touches zero is not found. Where every q is
    fixed, as for critical scale-invariant networks, there is one entry, whose q is not a number.

    Raises:
        InputError: where biases or weights change from layer to layer.

    >>> from derive import Gaussian
    >>> (point,) = fixed_points(Network("relu", Gaussian(C_W=1), C_b=1))
    >>> point.q, point.q.error < 1e-18
    (2.0, True)
    >>> fixed_points(Network("relu", Gaussian(C_W=2)))
    (every q, critical: χ = 1, χ_∥ = 1, c* = 1; ξ_q = inf, ξ_c = inf, ξ_∇ = inf,)
    """
    with mpmath.workdps(2 * DIGITS):
        step = step_of(net)
        if every_rests(step.activation, exactly(step.C_b), exactly(step.C_W)):
            return (_line(step),)
        return tuple(_describe(step, q) for q in _fixed_lengths(step))


def depth_scales(net: Network) -> FixedPoint:
    """The one fixed length that attracts, with ξ_q, ξ_c and ξ_∇ (001, §2).

    At K* = 0 of a critical network, where χ_∥ = 1, lengths may still fall off as a power.

    Raises:
        InputError: where none attracts, so that lengths grow or oscillate without end, or several,
            or where every q is fixed.

    >>> from derive import Gaussian
    >>> depth_scales(Network("relu", Gaussian(C_W=1), C_b=1))
    q* = 2, ordered: χ = 0.5, χ_∥ = 0.5, c* = 1; ξ_q = 1.443, ξ_c = 1.443, ξ_∇ = 1.443
    """
    found = fixed_points(net)
    if any(point.is_line for point in found):
        raise InputError("net", f"{net}", "a network without every q fixed (see fixed_points)")
    stable = [point for point in found if abs(point.chi_parallel) <= 1]
    if len(stable) != 1:
        listed = ", ".join(f"{point.q:.6g}" for point in stable) or "none"
        raise InputError(
            "net",
            f"{net}, whose attracting lengths are: {listed}",
            "exactly one (see fixed_points)",
        )
    return stable[0]


def _fixed_lengths(step: Step) -> list[mpmath.mpf]:
    """The q with q' = q."""
    activation, found = step.activation, []
    (at_zero,) = step.on_line(mpmath.mpf(0), step.equations.length)
    if at_zero == 0:
        found.append(mpmath.mpf(0))

    def excess(q: mpmath.mpf, digits: int) -> mpmath.mpf:
        with mpmath.workdps(2 * digits):
            return step.on_line(q, step.equations.length, digits=digits)[0] - q

    variances = exactly(step.C_b), exactly(step.C_W)
    return [*found, *at_rest(activation, *variances, excess, DIGITS)]


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
    last = mpmath.log(left)
    for at in regula_falsi(lambda t: function(mpmath.exp(t)), last, mpmath.log(right)):
        if abs(at - last) < mpmath.mpf(10) ** -accuracy:
            return mpmath.exp(at)
        last = at
    if not function(mpmath.exp(last)):
        return mpmath.exp(last)
    raise InputError("net", f"a zero near {mpmath.nstr(mpmath.exp(last), 6)}", "one that is simple")


def _line(step: Step) -> FixedPoint:
    """Where every q is fixed; what is there the same at all of them."""
    nothing = float("nan")
    if not step.activation.is_scale_invariant:
        return FixedPoint(nothing, nothing, 1.0, None, None, math.inf, nothing, nothing)
    return replace(_describe(step, mpmath.mpf(1)), q=nothing, chi_parallel=1.0, xi_q=math.inf)


def _describe(step: Step, q: mpmath.mpf) -> FixedPoint:
    maps = step.equations
    moved, gain, parallel = step.on_line(q, maps.length, maps.chi, maps.chi_parallel)
    off = q * mpmath.mpf(10) ** -DIGITS
    size, turns = gain * _EXACT, (mpmath.mpf(0), mpmath.mpf(0))
    if q:
        size = gain + 2 * (moved - step.C_b) / q
        turns = _turns(step, q, gain, parallel)
    uncertain, uncertain_parallel = (
        doubt(each) + off * abs(turn)
        for each, turn in zip((gain if q else size, size), turns, strict=True)
    )
    if abs(gain - 1) < mpmath.mpf(10) ** (3 - DIGITS):
        uncertain += abs(gain - 1)
        gain = mpmath.mpf(1)
    correlation, at_fixed, xi_c = None, None, math.inf
    if q != 0:
        c, slope, off_c = _attracting_correlation(step, q, gain, uncertain)
        # the slope is convex in c, so that it changes by no more than on the whole way to 1
        near = uncertain + (off_c * (gain - slope) / (1 - c) if c < 1 else 0)
        correlation, at_fixed, xi_c = estimate(c, off_c), estimate(slope, near), _scale(slope, near)
    return FixedPoint(
        estimate(q, off),
        estimate(gain, uncertain),
        estimate(parallel, uncertain_parallel),
        correlation,
        at_fixed,
        _scale(parallel, uncertain_parallel),
        xi_c,
        _scale(gain, uncertain),
    )


def _turns(
    step: Step, q: mpmath.mpf, gain: mpmath.mpf, parallel: mpmath.mpf
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """dχ/dq and dχ_∥/dq, as far as errors need them: by differences."""
    wide = q * mpmath.mpf(10) ** -4
    maps = step.equations
    beside = step.on_line(q + wide, maps.chi, maps.chi_parallel, digits=12)
    return (beside[0] - gain) / wide, (beside[1] - parallel) / wide


def _scale(factor: mpmath.mpf, uncertain: mpmath.mpf) -> float:
    """ξ with |factor| = e^{−1/ξ}."""
    if factor == 0:
        return estimate(mpmath.mpf(0), -1 / mpmath.log(uncertain) if uncertain else mpmath.mpf(0))
    rate = -mpmath.log(abs(factor))
    if abs(rate) < mpmath.mpf(10) ** (3 - DIGITS):
        return math.inf
    return estimate(1 / rate, uncertain / (abs(factor) * rate**2))


def _attracting_correlation(
    step: Step, q: mpmath.mpf, gain: mpmath.mpf, uncertain: mpmath.mpf
) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """c*, the slope there, and the doubt of c*, at q > 0, where χ is uncertain by so much.

    In σ's Hermite coefficients c' = Σ_k a_k² c^k has no negative term, so it is convex for c ≥ 0,
    and c* < 1 exists, once, if and only if the slope at 1 is above 1. It is solved for as 1 − c*,
    where the chord (1 − c')/(1 − c), which falls from χ, is 1.
    """
    if gain <= 1:
        return mpmath.mpf(1), gain, mpmath.mpf(0)
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
            slope = step.slope(mpmath.mpf(0), q, digits)
            return mpmath.mpf(0), slope, abs(below) / (1 - slope)
        left = right / 8
        few = digits - PLANE_DIGITS // 2
        while chord(left, few) < 0:
            left, right = left / 8, left
        away = zero(chord, left, right, digits, PLANE_DIGITS)
        off = away * (mpmath.mpf(10) ** (1 - PLANE_DIGITS) + uncertain / (gain - 1))
        return 1 - away, step.slope(1 - away, q, digits), off
