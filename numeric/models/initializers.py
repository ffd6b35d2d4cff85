"""Known initializers, recognized by the variance of a matrix's entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import sympy
from scipy import special

from ..arrays import Array

_BOUND = 4.0
"""A known variance matches the measured one within this number of standard errors."""
_ALARM = 1e-6
"""The probability at which the largest entry is too small for a known law."""
_ROUNDING = 1e-5
CUT = float(special.ndtr(2.0)), float(special.ndtr(-2.0))
CUT_SCALE = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / (CUT[0] - CUT[1]))
"""The standard deviation of a standard normal number truncated at ±2."""
_COARSE, _FINE, _FINE_OF_ONE = 0.06, 0.02, 0.032
"""Relative half widths of the interval. Above the first no initializer is named. More entries are
drawn above the second, and down to it; if one initializer fits, only above the third: a gain that
is 3 % off then fits by chance 1 time in 1000 at most."""
_TOLD = 7.0
"""Two known variances are distinguished if they differ by this number of standard errors."""


class Measured(NamedTuple):
    """A measured variance.

    Attributes:
        value, error: the variance and its standard error.
        low, high: the interval of the true variance.
        size: the number of entries.
        power: k, where the error falls as size^{−1/k}.
    """

    value: float
    error: float
    low: float
    high: float
    size: int
    power: int

    @classmethod
    def of_square(cls, entries: Array, kurtosis: float) -> Measured:
        """Measure by the mean square."""
        value = float((entries**2).mean())
        error = value * math.sqrt((kurtosis + 2) / entries.size)
        within = _BOUND * error + _ROUNDING * value
        return cls(value, error, value - within, value + within, entries.size, 2)

    @classmethod
    def of_sizes(cls, squares: Array, size: int) -> Measured:
        """Measure by the mean squares of matrices whose sizes differ."""
        value, error = float(squares.mean()), float(squares.std(ddof=1)) / math.sqrt(len(squares))
        return cls(value, error, value - _BOUND * error, value + _BOUND * error, size, 2)

    @classmethod
    def of_bound(cls, largest: float, size: int, unit: float, edge: float) -> Measured:
        """Measure by the largest of `size` entries, if the law has a bound.

        Arguments:
            unit: the variance over the bound's square.
            edge: the density p of |x|/bound at 1. The largest is below (1 − t) of the bound with
                probability (1 − p t)^size.
        """
        gap = 1 / (edge * size)
        value = unit * (largest * (1 + gap)) ** 2
        high = unit * (largest * (1 - math.log(_ALARM) * gap)) ** 2
        low = unit * largest**2
        within = low * (1 - _ROUNDING), high * (1 + _ROUNDING)
        return cls(value, 2 * gap * value, *within, size, 1)

    def wanted(self, times: float) -> int:
        """The number of entries that makes the error smaller by a factor `times`."""
        return math.ceil(self.size * max(times, 1.1) ** self.power)


Known = tuple[sympy.Expr, str]


def named(
    kind: str, measured: Measured, shape: tuple[int, int], depths: Sequence[int] = ()
) -> tuple[Known | None, tuple[str, ...], int]:
    """The exact C_W and the name of the initializer that has this variance.

    Returns three values: the initializer or None; the candidates if there are several; and the
    number of entries that would decide, 0 if it is decided.
    """
    fan_in = shape[1]
    scale = measured.value * fan_in
    near = {
        C: name
        for C, name in reversed(known(kind, shape, depths))
        if measured.low * fan_in <= float(C) <= measured.high * fan_in
    }
    width = (measured.high - measured.low) * fan_in / 2
    if len(near) < 2:
        is_fine = width <= (_FINE_OF_ONE if near else _FINE) * scale
        wanted = 0 if is_fine else measured.wanted(width / (_FINE * scale))
        found = next(iter(near.items())) if near and width <= _COARSE * scale else None
        return found, () if found else tuple(near.values()), wanted
    gaps = [b - a for a, b in pairwise(sorted(map(float, near)))]
    wanted = measured.wanted(2 * width / min(gaps) * _TOLD / (2 * _BOUND))
    return None, tuple(near[C] for C in sorted(near, key=float)), wanted


def known(kind: str, shape: tuple[int, int], depths: Sequence[int]) -> list[Known]:
    """C_W and the names of the known initializers of a matrix (out, in), the most usual first."""
    out, fan_in = shape
    found: list[Known] = [(sympy.Rational(1, 3), "1/(3 fan-in), torch's default")]
    scales: tuple[Known, ...] = (
        (sympy.Integer(1), "1/fan-in"),
        (sympy.Rational(2 * fan_in, out + fan_in), "2/(fan-in + fan-out)"),
        (sympy.Rational(fan_in, out), "1/fan-out"),
    )
    gains = _GAINS | _BOUNDED if kind in {"uniform", "truncated normal"} else _GAINS
    for gain, told in gains.items():
        found += [(gain * C, f"{name}{told and ', '}{told}") for C, name in scales]
    for std in _DEVIATIONS:
        found.append((sympy.Rational(std) ** 2 * fan_in, f"standard deviation {std}"))
    found += [
        (C / blocks, f"{name}, over {blocks}, for {L} blocks")
        for L in depths
        for blocks in (L, 2 * L)
        for C, name in found
    ]
    if kind == "truncated normal":
        found += [(_cut(C), f"{name} before the cut at two of it") for C, name in found]
    return found


def _cut(C: sympy.Expr) -> sympy.Expr:
    return sympy.Float(f"{float(C) * CUT_SCALE**2:.6g}", 15)


_GAINS = {
    sympy.Integer(1): "",
    sympy.Integer(2): "gain √2, of relu",
    sympy.Rational(25, 9): "gain 5/3, of tanh",
    sympy.Rational(9, 16): "gain 3/4, of selu",
}
_BOUNDED = {sympy.Rational(25, 13): "gain √(2/1.04), of leaky_relu(0.2)"}
"""Too near to others, but where C is known by a largest entry."""
_DEVIATIONS = ("0.02", "0.01", "0.05", "0.1", "0.001")
