"""The edge of chaos: the critical networks of an activation, by their fixed length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, overload

import mpmath
import sympy

from ..activations.functions import Activation, as_activation
from ..citations import rests_on
from ..errors import InputError, as_integer, as_sequence
from ..weights import Gaussian, LowRankGaussian
from .estimates import DIGITS, estimate
from .fixed import zero
from .steps import Step, check_chi, variance

MAX_POINTS = 10**4
"""Of the curve, milliseconds each."""

_LARGEST = 4  # log10 of the lengths at which an edge may begin
_DIGITS = 17  # of the curve, which is rounded to floats


class EdgePoint(NamedTuple):
    """A critical network: χ = 1 at a fixed length.

    Attributes:
        C_b, C_W: the variances of its biases and weights, E[W_ij²] = C_W/n_in; each a float with
            an estimate of its `error`.
    """

    C_b: float
    C_W: float


@dataclass(frozen=True, repr=False)
class Edge(Sequence[EdgePoint]):
    """The edge of chaos, a sequence of (C_b, C_W).

    Attributes:
        activation: σ.
        points: what the sequence holds.
        lengths: q* at each point.
        gamma: the ratio of rank to width.
    """

    activation: Activation
    points: tuple[EdgePoint, ...]
    lengths: tuple[float, ...]
    gamma: float

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, index: int) -> EdgePoint: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[EdgePoint, ...]: ...

    def __getitem__(self, index: int | slice) -> EdgePoint | tuple[EdgePoint, ...]:
        return self.points[index]

    def __repr__(self) -> str:
        shown = [f"({point.C_b:.6g}, {point.C_W:.6g})" for point in self.points]
        if len(shown) > 4:
            shown = [*shown[:2], "…", shown[-1]]
        rank = "" if self.gamma == 1 else f", γ = {self.gamma:g}"
        count = f"{len(self)} point" + "s" * (len(self) > 1)
        return f"edge of chaos of {self.activation}{rank}, {count} (C_b, C_W): {', '.join(shown)}"

    @cached_property
    def chi_parallel(self) -> tuple[float, ...]:
        """χ_∥ at each point; lengths near q* converge to it where this is below 1."""
        unit = _unit(self.activation)
        with mpmath.workdps(2 * DIGITS):
            pairs = (
                unit.on_line(mpmath.mpf(q), unit.equations.chi, unit.equations.chi_parallel)
                for q in self.lengths
            )
            off = mpmath.mpf(10) ** (1 - DIGITS)
            return tuple(
                estimate(parallel / gain, off * (1 + abs(parallel / gain)))
                for gain, parallel in pairs
            )

    @property
    def source_variances(self) -> tuple[tuple[float, float], ...]:
        """(σ_b², σ_α²) = (C_b, C_W)/γ at each point, the axes of source 001 not rescaled."""
        return tuple((point.C_b / self.gamma, point.C_W / self.gamma) for point in self.points)


@rests_on("naitsaada2023")
def edge_of_chaos(
    activation: Activation,
    gamma: sympy.Expr | float = 1,
    lengths: Sequence[float] | None = None,
    points: int | None = None,
) -> Edge:
    """The critical networks of an activation (001, Figures 1 and 10).

    The curve is explicit in the fixed length: χ = 1 at q* = q'(q*) means

        C_W = 1/⟨σ'σ'⟩_{q*},        C_b = q* − C_W ⟨σσ⟩_{q*} ≥ 0 .

    Arguments:
        activation: σ, or its name.
        gamma: rank over width; (C_b, C_W) = γ (σ_b², σ_α²) is the same curve for all of them.
        lengths: the q* to take; by default equally spaced roots √q* from where C_b = 0, or 0, to
            two more.
        points: the number of lengths, 200 by default; not together with `lengths`.

    Raises:
        InputError: for γ outside (0, 1]; where σ jumps; and where a length is no fixed point of a
            critical network because C_b would be negative.

    >>> edge_of_chaos("erf_unit_slope", lengths=[0, 1])
    edge of chaos of erf_unit_slope, 2 points (C_b, C_W): (0, 1), (0.148361, 2.03509)
    """
    activation = as_activation(activation)
    ratio = sympy.sympify(LowRankGaussian(gamma=gamma).gamma)
    if not ratio.is_number:
        raise InputError("gamma", gamma, "a number in (0, 1]")
    check_chi(activation)
    unit = _unit(activation)
    with mpmath.workdps(2 * DIGITS):
        if lengths is None:
            at = _default_lengths(unit, 200 if points is None else points)
        elif points is not None:
            raise InputError("points", points, "None, because lengths are given")
        else:
            at = [
                variance("lengths", q)
                for q in as_sequence("lengths", lengths, "a list of variances")
            ]
        if not at:
            raise InputError("lengths", lengths, "one length or more")
        found = [_critical(unit, q) for q in at]
        wrong = [q for q, (C_b, _) in zip(at, found, strict=True) if C_b < 0]
        if wrong:
            raise InputError(
                "lengths",
                [float(q) for q in wrong[:3]],
                f"lengths at which a critical {activation} network has C_b ≥ 0",
            )
        return Edge(
            activation,
            tuple(_point(q, C_b, C_W) for q, (C_b, C_W) in zip(at, found, strict=True)),
            tuple(estimate(q, mpmath.mpf(0)) for q in at),
            float(ratio),
        )


def _point(q: mpmath.mpf, C_b: mpmath.mpf, C_W: mpmath.mpf) -> EdgePoint:
    """Of what q − C_W ⟨σσ⟩ leaves of C_b, as much as `_critical` takes for zero may be wrong."""
    off = mpmath.mpf(10) ** (1 - _DIGITS)
    return EdgePoint(estimate(C_b, 10 * off * q), estimate(C_W, off * C_W))


def _unit(activation: Activation) -> Step:
    """The maps with C_W = 1 and C_b = 0."""
    return Step(activation, Gaussian(), mpmath.mpf(1), mpmath.mpf(0))


def _critical(unit: Step, q: mpmath.mpf, digits: int = _DIGITS) -> tuple[mpmath.mpf, mpmath.mpf]:
    """(C_b, C_W) with χ = 1 at the fixed length q; C_b to 10^{−digits} of q."""
    square, gain = unit.on_line(q, unit.equations.length, unit.equations.chi, digits=digits)
    if gain == 0:
        raise InputError("activation", str(unit.activation), f"one that is not flat at q = {q}")
    bias = q - square / gain
    if abs(bias) < q * mpmath.mpf(10) ** (2 - digits):
        bias = mpmath.mpf(0)
    return bias, 1 / gain


def _default_lengths(unit: Step, points: int) -> list[mpmath.mpf]:
    """Equally spaced √q*, from the smallest length with C_b ≥ 0 on."""
    points = as_integer("points", points, 2, MAX_POINTS)
    start = mpmath.mpf(0)
    if unit.on_line(start, unit.equations.length)[0] > 0:
        start = _first_critical(unit)
    first = mpmath.sqrt(start)
    return [(first + mpmath.mpf(2 * k) / (points - 1)) ** 2 for k in range(points)]


def _first_critical(unit: Step) -> mpmath.mpf:
    """The smallest length at which C_b turns from negative to 0, up to 10^4."""

    def bias(q: mpmath.mpf, digits: int = _DIGITS) -> mpmath.mpf:
        return _critical(unit, q, digits)[0] / q

    grid = [mpmath.mpf(10) ** (k / 3) for k in range(-6, 3 * _LARGEST + 1)]
    for left, right in pairwise(grid):
        if bias(left) < 0 <= bias(right):
            root = zero(bias, left, right, _DIGITS, _DIGITS - 3)
            return root * (1 + mpmath.mpf(10) ** (5 - _DIGITS))
    raise InputError("activation", str(unit.activation), "one whose critical networks have C_b ≥ 0")
