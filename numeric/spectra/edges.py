"""Where the density lives: the complement of real arcs of the curve.

On a real interval outside the supports of its factors the curve is real; where moreover its phase,
not reduced mod 2π, is 0 and d log z/dw < 0, it is the boundary value from above: z runs through a
gap of the spectrum. The edges are the critical points between such arcs and the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .problem import Problem
from .roots import root, roots

_SCAN = 600
_COMBINATIONS = 64
_BESIDE = np.geomspace(1e-9, 0.1, 50)
_RESOLVED = 12.0  # −log of the distance to the end of a density at which nodes still resolve it
_APART = 33.0  # −log of the relative distance at which the difference of two numbers has a digit
_FEW = 4  # roots that are found one by one
_POLE, _NO_MASS = 1e4, 1e-9  # where |w| is large, −w² d log z/dw is the mass of an atom


@dataclass(frozen=True)
class Edge:
    """An end of the bulk: log z there, w, every ξ_k, dξ_k/dw and d² log z/dw².

    w is infinite, and the rest left out, where an atom is about to be born, or where the edge is
    that of D² itself (one layer).
    """

    height: float
    w: float
    xi: NDArray[np.complex128]
    slope: NDArray[np.complex128]
    curvature: float


@dataclass(frozen=True)
class _Points:
    """The curve at many coordinates: w, log z, d log z/dw and (x, x − top) of every group, each an
    array; `real` where the curve is real and on the right side, and the rest means something."""

    real: NDArray[np.bool_]
    w: Array
    height: Array
    slope: Array
    places: list[tuple[Array, Array]]

    @property
    def falling(self) -> NDArray[np.bool_]:
        """Whether d log z/dw < 0: in a gap."""
        gap = (self.slope < 0) & ((np.abs(self.w) < _POLE) | (self.slope * self.w**2 < -_NO_MASS))
        return self.real & gap & np.isfinite(self.height)


@dataclass(frozen=True)
class Bulk:
    """log z from `lower` (None: from z = 0) to `upper`."""

    lower: Edge | None
    upper: Edge


def bulks(problem: Problem) -> tuple[Bulk, ...]:
    """The intervals on which JJᵀ has a density, ascending."""
    gaps: list[tuple[float, float, Edge | None, Edge | None]] = []
    for arc in _arcs(problem):
        gaps.extend(arc.gaps())
    gaps.sort(key=lambda gap: gap[0])
    found = []
    ceiling, below = -np.inf, None
    for low, high, low_edge, high_edge in gaps:
        # A gap that begins where another ends holds an atom there and nothing else.
        if low_edge is not None and low > ceiling + 1e-13 * (1 + abs(low)):
            found.append(Bulk(below, low_edge))
        if high > ceiling:
            ceiling, below = high, high_edge
    return tuple(found)


class _Arc:
    """One real interval for every group, described by the first group's coordinate."""

    def __init__(self, problem: Problem, choice: tuple[tuple[float, float], ...]) -> None:
        self.problem, self.choice = problem, choice

    def sums(self, k: int, x: Array, away: Array) -> tuple[Array, Array, Array]:
        """E[f/(x − f)], E[(1 − f)/(x − f)], E[f/(x − f)²], real."""
        group = self.problem.groups[k]
        inverse = self.inverse(k, x, away)
        mine = group.mine * inverse
        return (
            mine.sum(axis=1).real,
            ((inverse * group.rest) @ group.weights).real,
            (mine * inverse).sum(axis=1).real,
        )

    def mean(self, k: int, x: Array, away: Array) -> Array:
        """E[f/(x − f)] alone, for the roots, most of the work."""
        return np.asarray((self.inverse(k, x, away) @ self.problem.groups[k].mine).real)

    def inverse(self, k: int, x: Array, away: Array) -> NDArray[np.complex128]:
        """1/(x − f): a row for each x."""
        group = self.problem.groups[k]
        near = (np.abs(away) < np.abs(x))[:, None]
        apart = np.where(near, away[:, None] + group.below, x[:, None] - group.positions)
        return np.asarray(1.0 / apart, complex)

    def place(self, k: int, u: Array) -> tuple[Array, Array]:
        """(x, x − top) from coordinates u on the real line."""
        low, high = self.choice[k]
        top = self.problem.groups[k].top
        if np.isinf(low):
            x = -top * np.exp(u)
            return x, x - top
        if np.isinf(high):
            away = top * np.exp(u)
            return top + away, away
        part = 1.0 / (1.0 + np.exp(-u))
        away = -(high - low) / (1.0 + np.exp(u)) + (high - top)
        return low + (high - low) * part, away

    def points(self, u: Array) -> _Points:
        """The curve at coordinates u, (points,)."""
        problem = self.problem
        places = [self.place(0, u)]
        x = places[0][0]
        first, second, _ = self.sums(0, *places[0])
        w = first / problem.scales[0]
        one_plus = x * (first + second) if problem.scales[0] == 1.0 else 1.0 + w
        real = np.ones(len(u), bool)
        for k in range(1, len(problem.groups)):
            at = self.coordinates(k, w * problem.scales[k])
            real &= ~np.isnan(at)
            places.append(self.place(k, at))
        column = w[:, None]
        inner = np.where(problem.slopes == 1.0, one_plus[:, None], 1.0 + problem.slopes * column)
        bent = 1.0 + problem.jumps * column
        turns = (w < 0) - (problem.powers * (inner < 0)).sum(
            axis=1
        )  # of Im log z, unreduced, over π
        height = problem.constant + np.sum(problem.variances * column / bent, axis=1)
        height += self.logarithms(w, one_plus, inner)
        excess = problem.slopes - 1.0
        degree = problem.powers.sum()
        # Σ n/(w (1 + s w)) − 1/(w (1 + w)): in parts near w = 0, where at one layer 1/w cancels.
        order, apart = np.full(len(u), -1.0), np.abs(w) < 1.0
        slope = np.where(apart, degree, degree - 1.0 - 1.0 / w) / one_plus
        poles = problem.counts.sum() - 1.0
        if poles:
            slope += np.where(apart, poles / w, 0.0)
        slope += np.sum(problem.powers * excess / (inner * one_plus[:, None]), axis=1)
        slope += np.sum(problem.variances / bent**2, axis=1)
        for k, (x, away) in enumerate(places):
            n, s = problem.counts[k], problem.scales[k]
            if n == 0:
                continue
            mean, rest, prime = self.sums(k, x, away)
            turns -= n * ((s * w > -1) & (s * w < 0) & (x > 0))
            grown = x * (mean + rest)
            ratio = -x * rest / grown
            small = ratio > -0.5
            # Where it is not, M_k = s w.
            height += n * np.where(small, np.log1p(ratio), np.log(np.abs(x * s / grown)))
            order += np.where(small, 0.0, n)
            slope -= n * s / (x * prime)
            of_one = one_plus if s == 1.0 else grown
            slope += n * np.where(apart, -s, 1.0 / w) / of_one
        height += np.where(order == 0.0, 0.0, order * np.log(np.abs(w)))
        return _Points(real & (np.abs(turns) <= 1e-9), w, height, slope, places)

    def logarithms(self, w: Array, one_plus: Array, inner: Array) -> Array:
        """Σ c log|1 + a w|, with 1 + w taken out as the kernel does."""
        problem = self.problem
        ratios = inner / one_plus[:, None]
        near = np.abs(ratios - 1.0) < 0.5
        parts = np.where(near, (problem.slopes - 1.0) * (w / one_plus)[:, None], 0.0)
        logs = np.where(near, np.log1p(parts), np.log(np.abs(ratios)))
        total = problem.powers.sum() * np.log(np.abs(one_plus))
        return np.asarray(total + np.sum(problem.powers * logs, axis=1))

    def coordinates(self, k: int, values: Array) -> Array:
        """The u of group k, in its interval, with M_k(x) = value; NaN where there is none."""

        def mean(u: Array) -> Array:
            return self.mean(k, *self.place(k, u))

        def one(u: float, value: float = 0.0) -> float:
            return float(mean(np.array([u]))[0]) - value

        low, high = self.precise(k)
        crossed = (one(low) - values) * (one(high) - values) < 0
        wanted = values[crossed]

        def excess(u: Array, which: NDArray[np.int_]) -> Array:
            return np.asarray(mean(u) - wanted[which])

        found = np.full(len(values), np.nan)
        if len(wanted) <= _FEW:
            found[crossed] = [root(partial(one, value=each), low, high) for each in wanted]
        else:
            found[crossed] = roots(excess, low, high, len(wanted))
        return found

    def precise(self, k: int) -> tuple[float, float]:
        """The coordinates at which x is still apart from the ends of its interval: close to 0, to
        the top and to ∞ by themselves, to other ends by x minus them."""
        low, high = self.choice[k]
        top = self.problem.groups[k].top
        return -60.0 if low in (-np.inf, 0.0, top) else -_APART, 60.0 if high in (
            0.0,
            top,
            np.inf,
        ) else _APART

    def gaps(self) -> Iterator[tuple[float, float, Edge | None, Edge | None]]:
        """The runs of d log z/dw < 0, as (log z from, to) with the edges that end them."""
        grid = np.linspace(-34.0, 34.0, _SCAN)
        if any(start < end for start, end in self.problem.groups[0].support):
            grid = grid[np.abs(grid) < _RESOLVED] if np.isfinite(self.choice[0]).all() else grid
            grid = grid[grid > -_RESOLVED]
        with np.errstate(all="ignore"):
            grid = np.unique(np.concatenate([grid, self.beside_poles()]))
            points = self.points(grid)
            good = points.falling
            i = 0
            while i < len(grid):
                if not good[i]:
                    i += 1
                    continue
                j = i
                while j + 1 < len(grid) and good[j + 1]:
                    j += 1
                yield self.run(grid, points, i, j)
                i = j + 1

    def beside_poles(self) -> Array:
        """Coordinates close to w = −1/a: a bulk of mass m may be as narrow as √m there."""
        problem = self.problem
        low, high = self.precise(0)
        at = self.coordinates(0, -problem.scales[0] / problem.slopes[problem.powers != 0.0])
        at = at[~np.isnan(at), None]
        beside = np.concatenate([at - _BESIDE, at + _BESIDE]).ravel()
        return np.asarray(beside[(beside > low) & (beside < high)])

    def run(
        self, grid: Array, points: _Points, i: int, j: int
    ) -> tuple[float, float, Edge | None, Edge | None]:
        """One run, its ends refined. log z grows with x, and x with u where it is positive."""
        low_edge = high_edge = None
        if i > 0:
            low_edge = self.end(grid[i - 1], grid[i], grid[0])
        if j + 1 < len(grid):
            high_edge = self.end(grid[j + 1], grid[j], grid[-1])
        low, high = points.height[i], points.height[j]
        support = self.problem.groups[0].support
        if low_edge:
            low = low_edge.height
        elif i == 0 and self.choice[0][0] == 0.0:
            low = -np.inf
        elif i == 0 and any(start < end == self.choice[0][0] for start, end in support):
            low_edge = _singular(self.pole())
        if high_edge:
            high = high_edge.height
        elif all(np.isinf(each[1]) for each in self.choice):
            high = np.inf
        elif any(self.choice[0][1] == start < end for start, end in support):
            high_edge = _singular(high)
        if np.isinf(self.choice[0][0]):
            return float(high), float(low), high_edge, low_edge
        return float(low), float(high), low_edge, high_edge

    def pole(self) -> float:
        """log z at w → ∞, every x at the top of its support."""
        problem = self.problem
        tops = np.log([group.top for group in problem.groups])
        factors = np.sum(problem.powers * np.log(problem.slopes))
        return float(problem.constant + np.sum(problem.counts * tops) + factors)

    def end(self, outside: float, inside: float, limit: float) -> Edge | None:
        """The edge that ends a run; the pole of M itself where an atom there has no mass left."""
        last = self.points(np.array([limit]))
        w, height, slope = last.w[0], last.height[0], last.slope[0]
        if last.real[0] and abs(w) > _POLE and abs(slope * w**2) < _NO_MASS:
            return _singular(height)
        return self.refine(outside, inside)

    def refine(self, outside: float, inside: float) -> Edge | None:
        """The critical point between two coordinates, or None where the run ends otherwise."""

        def slope(u: float) -> float:
            found = self.points(np.array([u]))
            return float(found.slope[0]) if found.real[0] else np.nan

        for _ in range(60):  # the other end may be where the curve stops being real
            value = slope(outside)
            if value > 0:
                break
            middle = 0.5 * (outside + inside)
            if slope(middle) < 0:
                inside = middle
            else:
                outside = middle
        else:
            return None
        return self.edge(root(slope, min(outside, inside), max(outside, inside)))

    def edge(self, u: float) -> Edge | None:
        """Everything at a critical point, if the curve goes through it."""
        step = 1e-5
        found = self.points(np.array([u, u - step, u + step]))
        if not found.real.all():
            return None
        w, slope = found.w, found.slope
        xi, slopes = [], []
        for k, (x, away) in enumerate(found.places):
            top = self.problem.groups[k].top
            at, apart = float(x[0]), float(away[0])
            xi.append(np.log(abs(at / apart)) - (1j * np.pi if 0 < at < top else 0j))
            prime = -self.sums(k, x, away)[2][0] / self.problem.scales[k]
            slopes.append(-top / (at * apart) / prime)
        curvature = float((slope[2] - slope[1]) / (w[2] - w[1]))
        return Edge(
            float(found.height[0]), float(w[0]), np.array(xi), np.array(slopes, complex), curvature
        )


def _singular(height: float) -> Edge:
    nothing = np.zeros(0, complex)
    return Edge(float(height), np.inf, nothing, nothing, -1.0)


def _arcs(problem: Problem) -> Iterator[_Arc]:
    """Every choice of an interval for every group; equal choices alone where there are many."""
    intervals = [_intervals(group.support) for group in problem.groups]
    if np.prod([float(len(each)) for each in intervals]) <= _COMBINATIONS:
        for choice in product(*intervals):
            yield _Arc(problem, choice)
        return
    for k in range(max(map(len, intervals))):
        yield _Arc(problem, tuple(each[min(k, len(each) - 1)] for each in intervals))


def _intervals(support: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """The real line without 0 and the support."""
    ends = [-np.inf, 0.0, 0.0, *(end for interval in support for end in interval), np.inf]
    return [(low, high) for low, high in zip(ends[::2], ends[1::2], strict=True) if low < high]
