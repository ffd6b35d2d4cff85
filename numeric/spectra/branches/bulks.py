"""Where a density of this road is, and its integrals: scanned, edges refined, panels halved."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from ...arrays import Array
from ..masses import integral, series
from .paths import Followed, Paths

RESOLVED = 1e-12
"""−Im M over |M| that is more than rounding."""

_NODES = 16
_LEFT = 1e-13  # λρ(λ) beyond which nothing is integrated
_CLOSE = 1e-10  # what the last terms of a panel's series may have
_AT_POLE = 1e-5  # log λ from a pole, within which a panel is not halved
_LEVELS, _MOST = 24, 2000  # halvings; panels of a bulk
_LOST = 1e-5  # the length of a panel whose points may be lost, beside a pole
_FADES = 1e-8  # λρ(λ) next to where it is rounding: a density that ends is larger there
_SMALL = 1e-5  # λρ(λ) of a panel whose points may be lost
_NEAREST = 1e-7  # log λ from an edge to the last point that it is read off
_DEEPEST = 200.0  # below log of the mean, to where an edge is looked for, and mass
_FAR = 700.0  # |log λ|


@dataclass(frozen=True)
class Interval:
    """log λ between two edges, or −∞ or ∞ where there is none; `off` what is not known of each."""

    low: float
    high: float
    off: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Panels:
    """λρ |ds/dv| as Legendre's series on panels of a coordinate v of one interval.

    Attributes:
        span: s = log λ of the interval's ends, as far as there is mass.
        kind: of the coordinate, (edge below, edge above).
        ends: v of the panels' ends, ascending, (panels, 2).
        values: λρ |ds/dv| at the nodes, (panels, nodes).
    """

    span: tuple[float, float]
    kind: tuple[bool, bool]
    ends: Array
    values: Array

    def sums(self, powers: NDArray[Any]) -> Array:
        """∫ λ^k ρ dλ for each k."""
        nodes, weights = legendre.leggauss(_NODES)
        half = 0.5 * (self.ends[:, 1:] - self.ends[:, :1])
        s = height(self.span, self.kind, self.ends.mean(axis=1, keepdims=True) + half * nodes)
        rows = self.values * weights * half
        return np.array([(rows * np.exp(k * s)).sum() for k in powers])

    def below(self, heights: Array) -> Array:
        """The mass up to each log λ."""
        marks = np.append(self.ends[:, 0], self.ends[-1, 1])
        below = integral(marks, self.values)
        found = below(_coordinate(self.span, self.kind, heights).clip(marks[0], marks[-1]))
        return np.asarray(found if self.ascending else below(marks[-1]) - found)

    @property
    def ascending(self) -> bool:
        """True if log λ grows with the coordinate."""
        return self.kind in ((False, False), (True, False))


def height(span: tuple[float, float], kind: tuple[bool, bool], v: Array) -> Array:
    """log λ of a coordinate, whose square is regular at an edge."""
    low, high = span
    if kind == (True, True):
        return np.asarray(0.5 * (low + high) + 0.5 * (high - low) * np.cos(v))
    if kind == (True, False):
        return np.asarray(low + v * v)
    return np.asarray(high - v * v if kind == (False, True) else v)


def _rate(span: tuple[float, float], kind: tuple[bool, bool], v: Array) -> Array:
    if kind == (True, True):
        return np.asarray(0.5 * (span[1] - span[0]) * np.sin(v))
    return np.asarray(np.ones(v.shape) if kind == (False, False) else 2.0 * v)


def _coordinate(span: tuple[float, float], kind: tuple[bool, bool], heights: Array) -> Array:
    low, high = span
    up, down = (np.maximum(each, 0.0) for each in (heights - low, high - heights))
    if kind == (True, True):
        return np.asarray(2.0 * np.arctan2(np.sqrt(down), np.sqrt(up)))
    if kind == (True, False):
        return np.asarray(np.sqrt(up))
    return np.asarray(np.sqrt(down) if kind == (False, True) else heights)


def density(found: Followed) -> Array:
    """λρ = −Im M/π; 0 where that is rounding, not a number where it is not solved."""
    size = -found.M.imag
    known = found.solved & (size > -1e-8 * (1.0 + np.abs(found.M)))
    real = size <= RESOLVED * np.abs(found.M)
    return np.asarray(np.where(known, np.where(real, 0.0, size / np.pi), np.nan))


@dataclass(frozen=True)
class Search:
    """Of one law: its paths, its mean and deviation, and λ at which it may have poles."""

    paths: Paths
    mean: float
    deviation: float
    poles: tuple[float, ...]

    def at(self, heights: Array) -> Array:
        """λρ at log λ."""
        with np.errstate(all="ignore"):
            return density(self.paths.above(heights, np.zeros(len(heights))))

    def intervals(self) -> tuple[Interval, ...]:
        """Every one that the scan sees."""
        grid = self._grid()
        values = self.at(grid)
        first = int(np.argmax(np.isfinite(values)))
        grid, sizes = grid[first:], np.nan_to_num(values[first:])
        on = sizes > 0.0
        changes = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]])))
        found: list[Interval] = []
        for i, j in zip(changes[::2], changes[1::2] - 1, strict=True):
            if sizes[i : j + 1].max() < _FADES:
                continue
            low, high = (-np.inf, 0.0), (np.inf, 0.0)
            if i > 0:
                low = self._edge(grid[i - 1], grid[i])
            if j + 1 < len(grid):
                high = self._edge(grid[j + 1], grid[j])
            found.append(Interval(low[0], high[0], (low[1], high[1])))
        return tuple(self._parted(found))

    def panels(self, interval: Interval, order: int, scale: Array) -> list[Panels]:
        """Panels on which λ^k ρ/scale_k is resolved, k = 0 … order, between poles inside."""
        inner = [p for p in self.poles if interval.low < p < interval.high]
        marks = [interval.low, *inner, interval.high]
        return [self._halved(low, high, order, scale) for low, high in pairwise(marks)]

    def _parted(self, found: list[Interval]) -> list[Interval]:
        """Without gaps that are nothing but a point that was lost."""
        merged: list[Interval] = []
        for each in found:
            if merged and each.low - merged[-1].high < 1e-9:
                last = merged.pop()
                merged.append(Interval(last.low, each.high, (last.off[0], each.off[1])))
            else:
                merged.append(each)
        return merged

    def _grid(self) -> Array:
        """log λ to scan, ascending: around the mean, beside poles, and down as far as there is
        mass; above the largest value nothing is."""
        top = self.paths.tree.top
        middle = np.log(self.mean)
        lam = self.mean + self.deviation * np.linspace(-4.0, 4.0, 97)
        grid = [np.log(lam[lam > 1e-6 * self.mean])]
        high = np.log(top) + 1e-3 if np.isfinite(top) else middle + 8.0
        grid.append(np.linspace(middle - 12.0, high, 161))
        beside = np.geomspace(1e-5, 1.0, 25)
        grid += [np.concatenate([p - beside, p + beside]) for p in self.poles]
        grid.append(np.arange(middle - _DEEPEST, middle - 12.0))
        every = np.unique(np.concatenate(grid))
        every = every[every <= high]
        if not np.isfinite(top):
            every = every[: 1 + np.flatnonzero(np.nan_to_num(self.at(every)) > 0.0)[-1]]
        return np.asarray(every)

    def _edge(self, outside: float, inside: float) -> tuple[float, float]:
        """Where a density ends, and by how much the last two estimates of it differ: its square, or
        one over it, is regular there. ∓∞ where it only falls below what is resolved."""
        for _ in range(3):
            marks = np.linspace(inside, outside, 17)
            on = np.nan_to_num(self.at(marks[1:-1])) > 0.0
            last = int(np.argmin(np.append(on, False)))
            inside, outside = marks[last], marks[last + 1]
        if self.at(np.array([inside]))[0] < _FADES:
            return (-np.inf if outside < inside else np.inf), 0.0
        away = abs(inside - outside)
        sign = np.sign(inside - outside)
        edge, change = 0.5 * (inside + outside), np.inf
        for _ in range(12):
            spots = edge + sign * away * np.array([1.0, 2.0, 4.0])
            values = self.at(spots)
            if not (np.isfinite(values).all() and values.all()):
                break
            squares = values**2 if values[0] < values[2] else values**-2
            if len(set(squares)) < len(squares):
                break
            new = _at_zero(squares, spots)
            if not min(outside, inside) <= new <= max(outside, inside):
                break
            edge, change = new, abs(new - edge)
            if away < _NEAREST:
                break
            away *= 0.1
        return float(edge), float(min(change, abs(inside - outside)))

    def _ends(self, low: float, high: float, order: int, scale: Array) -> tuple[float, float]:
        """The same with ends beyond which no moment is left."""

        powers = np.arange(order + 1)

        def reach(start: float, steps: Array) -> float:
            """The first place from which on nothing is left, or nothing is known."""
            places = start + steps
            sizes = self.at(places) * np.exp(np.minimum(np.outer(powers, places), _FAR))
            done = ~((sizes / scale[:, None]).max(axis=0) > _LEFT)
            first = min(int(np.argmax(np.append(done, True))), len(places) - 1)
            return float(places[first if np.isfinite(sizes[0, first]) else max(first - 1, 0)])

        middle = np.log(self.mean)
        if np.isinf(low):
            start = min(middle, high - 1.0)
            low = reach(start, -np.arange(0.0, _DEEPEST))
        if np.isinf(high):
            high = reach(max(middle, low + 1.0), np.arange(0.0, 40.0, 0.25))
        return low, high

    def _halved(self, low: float, high: float, order: int, scale: Array) -> Panels:
        kind = bool(np.isfinite(low)), bool(np.isfinite(high))
        span = self._ends(low, high, order, scale)
        first, last = sorted(_coordinate(span, kind, np.array(span)))
        nodes, _ = legendre.leggauss(_NODES)
        count = 4 if kind == (True, True) else max(4, int((span[1] - span[0]) / 4.0))
        marks = np.linspace(first, last, count + 1)
        todo = np.stack([marks[:-1], marks[1:]], axis=1)
        ends: list[Array] = []
        values: list[Array] = []
        powers = np.arange(order + 1)
        for level in range(_LEVELS):
            half = 0.5 * (todo[:, 1:] - todo[:, :1])
            v = todo.mean(axis=1, keepdims=True) + half * nodes
            s = height(span, kind, v)
            rho = self.at(s.ravel()).reshape(s.shape)
            rows = rho * _rate(span, kind, v)
            if not np.isfinite(rho).all():
                rows = self._beside(rows, s)
            grown = np.exp(np.minimum(powers[:, None, None] * s, _FAR)) / scale[:, None, None]
            tails = np.abs(series(rows * grown)) * half
            enough = tails[..., -2:].max(axis=(0, 2)) < _CLOSE
            beside = [(np.abs(s - pole).min(axis=1) < _AT_POLE) for pole in self.poles]
            enough |= np.any([*beside, np.zeros(len(s), bool)], axis=0) & (
                np.ptp(s, axis=1) < _AT_POLE
            )
            enough |= level == _LEVELS - 1 or len(todo) > _MOST
            ends.append(todo[enough])
            values.append(rows[enough])
            rest = todo[~enough]
            if not len(rest):
                break
            middle = rest.mean(axis=1)
            todo = np.concatenate([np.c_[rest[:, 0], middle], np.c_[middle, rest[:, 1]]])
        every, rows = np.concatenate(ends), np.concatenate(values)
        order_of = np.argsort(every[:, 0])
        return Panels(span, kind, every[order_of], rows[order_of])

    def _beside(self, rho: Array, s: Array) -> Array:
        """Points that are lost beside a pole, or far down, have their neighbours' values."""
        for k in np.flatnonzero(~np.isfinite(rho).all(axis=1)):
            good = np.flatnonzero(np.isfinite(rho[k]))
            away = [np.abs(s[k][~np.isfinite(rho[k])] - pole).max() for pole in self.poles]
            lost = np.ptp(s[k]) > _LOST and not (good.size and rho[k, good].max() < _SMALL)
            lost = lost and min(away, default=np.inf) > _LOST
            if lost or not good.size:
                if lost:
                    raise ArithmeticError(
                        f"{len(s[k]) - good.size} points of the spectrum at log λ of "
                        f"{s[k].min():.6g} to {s[k].max():.6g} are not certified"
                    )
                rho[k] = 0.0
                continue
            bad = np.flatnonzero(~np.isfinite(rho[k]))
            nearest = good[np.abs(bad[:, None] - good).argmin(axis=1)]
            rho[k, bad] = rho[k, nearest]
        return rho


def _at_zero(values: Array, places: Array) -> float:
    """The quadratic through three (value, place), at value 0."""
    total = 0.0
    for i in range(3):
        others = [k for k in range(3) if k != i]
        factors = [-values[k] / (values[i] - values[k]) for k in others]
        total += places[i] * float(np.prod(factors))
    return total
