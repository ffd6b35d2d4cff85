"""Factors of the curve on real intervals outside their supports, by a coordinate u on all of ℝ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .contour import Nodes
from .roots import root, roots

_APART = 33.0  # −log of the relative distance at which the difference of two numbers has a digit
_FEW = 4  # roots that are found one by one
_HELD = 1 << 16  # of arrays, points times nodes


@dataclass(frozen=True)
class Spots:
    """A factor at real points: x and x − top, E[f/(x − f)], E[(1 − f)/(x − f)], E[f/(x − f)²]."""

    x: Array
    away: Array
    mean: Array
    rest: Array
    prime: Array

    def log_inverse_s(self, value: Array) -> tuple[Array, NDArray[np.bool_]]:
        """log|1/S| = log|x M/(1 + M)| where 1/S is close to 1, from log(1 − x E[(1 − f)/(x − f)]
        /(1 + M)); elsewhere log|x value/(1 + M)|, `value` what M is a multiple of. And where."""
        grown = self.x * (self.mean + self.rest)
        ratio = -self.x * self.rest / grown
        small = ratio > -0.5
        return np.where(small, np.log1p(ratio), np.log(np.abs(self.x * value / grown))), small


@dataclass(frozen=True)
class Interval:
    """A real interval (low, high) outside the support of a group, (−∞, 0) and (top, ∞) among
    them."""

    group: Nodes
    low: float
    high: float

    def place(self, u: Array) -> tuple[Array, Array]:
        """(x, x − top) from coordinates u on the real line."""
        low, high, top = self.low, self.high, self.group.top
        if np.isinf(low):
            x = -top * np.exp(u)
            return x, x - top
        if np.isinf(high):
            away = top * np.exp(u)
            return top + away, away
        part = 1.0 / (1.0 + np.exp(-u))
        away = -(high - low) / (1.0 + np.exp(u)) + (high - top)
        return low + (high - low) * part, away

    def at(self, u: Array) -> Spots:
        """Everything at coordinates u."""
        parts = [self._at(part) for part in self._parts(u)]
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return Spots(*map(np.concatenate, columns))

    def _at(self, u: Array) -> Spots:
        x, away = self.place(u)
        inverse = self._inverse(x, away)
        mine = self.group.mine * inverse
        return Spots(
            x,
            away,
            mine.sum(axis=1).real,
            ((inverse * self.group.rest) @ self.group.weights).real,
            (mine * inverse).sum(axis=1).real,
        )

    def mean(self, u: Array) -> Array:
        """E[f/(x − f)] alone, for the roots, most of the work."""
        means = [self._inverse(*self.place(part)) @ self.group.mine for part in self._parts(u)]
        return np.concatenate(means).real

    def _parts(self, u: Array) -> list[Array]:
        """The coordinates, few enough at a time for arrays over all nodes."""
        return np.array_split(u, 1 + u.size * self.group.positions.size // _HELD)

    def _inverse(self, x: Array, away: Array) -> NDArray[np.complex128]:
        """1/(x − f): a row for each x."""
        near = (np.abs(away) < np.abs(x))[:, None]
        apart = np.where(near, away[:, None] + self.group.below, x[:, None] - self.group.positions)
        return np.asarray(1.0 / apart, complex)

    @property
    def span(self) -> Array:
        """The values of M, from the least to the greatest."""
        return np.sort(self.mean(np.array(self.precise)))

    def coordinates(self, values: Array) -> Array:
        """The u in the interval with M(x) = value; NaN where there is none."""
        return inverse(self.mean, *self.precise, values)

    @property
    def precise(self) -> tuple[float, float]:
        """The coordinates at which x is still apart from the ends of its interval: close to 0, to
        the top and to ∞ by themselves, to other ends by x minus them."""
        top = self.group.top
        return -60.0 if self.low in (-np.inf, 0.0, top) else -_APART, 60.0 if self.high in (
            0.0,
            top,
            np.inf,
        ) else _APART


def intervals(group: Nodes) -> list[Interval]:
    """The real line without 0 and the support."""
    between = [-np.inf, 0.0, 0.0, *(end for each in group.support for end in each), np.inf]
    pairs = zip(between[::2], between[1::2], strict=True)
    return [Interval(group, low, high) for low, high in pairs if low < high]


def inverse(function: Callable[[Array], Array], low: float, high: float, values: Array) -> Array:
    """Where a monotonic function has each value between two points; NaN where it does not."""

    def one(u: float, value: float = 0.0) -> float:
        return float(function(np.array([u]))[0]) - value

    crossed = (one(low) - values) * (one(high) - values) < 0
    wanted = values[crossed]

    def excess(u: Array, which: NDArray[np.int_]) -> Array:
        return np.asarray(function(u) - wanted[which])

    found = np.full(len(values), np.nan)
    if len(wanted) <= _FEW:
        found[crossed] = [root(partial(one, value=each), low, high) for each in wanted]
    else:
        found[crossed] = roots(excess, low, high, len(wanted))
    return found
