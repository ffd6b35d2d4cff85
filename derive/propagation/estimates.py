"""Floats that know their own error: a number from more digits than a float has, rounded.

What is rounded away is known, |float(x) − x|, and is most of the error; the rest, the doubt, is
what the digits inside do not tell: of quadrature, and of what layers make of it. Where a network is
followed through layers, the doubt is found by a second resolution. A copy with six digits less,
disturbed at each layer by as much as it leaves out, departs by 10⁶ times what the first one errs;
where that is more than a float's rounding, both have more digits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

import mpmath

from ..errors import InputError

DIGITS = 20
"""Of every number inside; the results are rounded to floats."""

_FEWER = 6  # digits of the copy
_CAUTION = 16
_SEEN = 1e-3  # a departure, relative, beyond which it no longer grows as the errors do
_ENOUGH = mpmath.mpf(10) ** -17
_MOST = 60

Rows: TypeAlias = "list[tuple[mpmath.mpf, ...]]"
"""Numbers by layer."""

Noise: TypeAlias = "Callable[[], mpmath.mpf]"
"""The next factor 1 + ε."""


class Estimate(float):
    """A float with the estimate of its own error.

    Attributes:
        error: how far it may be from the truth, in its own units.

    >>> third = Estimate(1 / 3, 2e-17)
    >>> third, third.error, 3 * third
    (0.3333333333333333, 2e-17, 1.0)
    """

    __slots__ = ("error",)
    error: float

    def __new__(cls, value: float, error: float = 0.0) -> Self:
        """A float, and how far it may be off."""
        made = super().__new__(cls, value)
        made.error = float(error)
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[float, float]]:
        return type(self), (float(self), self.error)


def doubt(size: mpmath.mpf) -> mpmath.mpf:
    """The uncertainty, with the digits inside, of a number made of terms of this size."""
    return abs(size) * mpmath.mpf(10) ** (1 - DIGITS)


def estimate(value: mpmath.mpf, uncertain: mpmath.mpf) -> Estimate:
    """The float next to a value, which itself is uncertain by so much."""
    found = float(value)
    if not math.isfinite(found):
        return Estimate(found, 0.0 if mpmath.isinf(value) else math.inf)
    error = abs(mpmath.mpf(found) - value) + uncertain
    return Estimate(found, math.nextafter(float(error), math.inf) if error else 0.0)


def rounded(name: str, got: object, value: mpmath.mpf, uncertain: mpmath.mpf) -> Estimate:
    """A result as a float; InputError for one that is too large, naming the argument it is of."""
    found = estimate(value, uncertain)
    if not math.isfinite(found):
        raise InputError(name, got, "values whose images are numbers up to 1e308")
    return found


def followed(
    run: Callable[[int, Noise], Rows],
    sizes: Callable[[tuple[mpmath.mpf, ...]], Sequence[mpmath.mpf]],
) -> tuple[Rows, Rows]:
    """Numbers by layer, and their doubts.

    Arguments:
        run: all layers, to so many digits, every layer's numbers multiplied by the noise.
        sizes: what a layer's numbers are small beside.
    """
    digits = DIGITS
    while True:
        with mpmath.workdps(2 * digits):
            found = run(digits, lambda: mpmath.mpf(1))
            copy = run(digits - _FEWER, _noise(digits - _FEWER))
            doubts, worst = [], mpmath.mpf(0)
            for layer, (row, other) in enumerate(zip(found, copy, strict=True)):
                floor = mpmath.mpf(10) ** (1 - digits) * min(layer, 1)
                uncertain = []
                for value, near, size in zip(row, other, sizes(row), strict=True):
                    apart = abs(value - near)
                    seen = apart <= _SEEN * size
                    own = apart * mpmath.mpf(10) ** -_FEWER if seen else apart
                    own = floor * size + _CAUTION * own if value or near else apart
                    uncertain.append(own)
                    worst = max(worst, own / size if size else mpmath.mpf(0))
                doubts.append(tuple(uncertain))
        if worst <= _ENOUGH or digits >= _MOST:
            return found, doubts
        digits += 10


def _noise(digits: int) -> Noise:
    """Factors within 10^{−digits} of 1, always the same ones."""
    drawn = random.Random(1993)
    return lambda: 1 + mpmath.mpf(drawn.uniform(-1, 1)) * mpmath.mpf(10) ** -digits
