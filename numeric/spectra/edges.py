"""Where the density lives: the complement of real arcs of the curve.

On a real interval outside the supports of its factors the curve is real; where moreover its phase,
not reduced mod 2π, is 0 and d log z/dw < 0, it is the boundary value from above: z runs through a
gap of the spectrum. The edges are the critical points between such arcs and the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .problem import Problem
from .roots import root

Point = tuple[float, float, float, list[tuple[float, float]]]

_SCAN = 600
_COMBINATIONS = 64
_BESIDE = np.geomspace(1e-9, 0.1, 50)
_RESOLVED = 12.0  # −log of the distance to the end of a density at which nodes still resolve it
_APART = 33.0  # −log of the relative distance at which the difference of two numbers has a digit
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

    def sums(self, k: int, x: float, away: float) -> tuple[float, float, float]:
        """E[f/(x − f)], E[(1 − f)/(x − f)], E[f/(x − f)²], real."""
        group = self.problem.groups[k]
        inverse = self.inverse(k, x, away)
        mine = group.mine * inverse
        return (
            float(mine.sum().real),
            float((group.weights @ (inverse * group.rest)).real),
            float((mine @ inverse).real),
        )

    def mean(self, k: int, x: float, away: float) -> float:
        """E[f/(x − f)] alone, for the roots, most of the work."""
        return float((self.problem.groups[k].mine @ self.inverse(k, x, away)).real)

    def inverse(self, k: int, x: float, away: float) -> NDArray[np.complex128]:
        """1/(x − f)."""
        group = self.problem.groups[k]
        return 1.0 / (away + group.below if abs(away) < abs(x) else x - group.positions)

    def place(self, k: int, u: float) -> tuple[float, float]:
        """(x, x − top) from a coordinate u on the real line."""
        low, high = self.choice[k]
        top = self.problem.groups[k].top
        if np.isinf(low):
            x = -top * float(np.exp(u))
            return x, x - top
        if np.isinf(high):
            away = top * np.exp(u)
            return top + away, away
        part = 1.0 / (1.0 + np.exp(-u))
        away = -(high - low) / (1.0 + np.exp(u)) + (high - top)
        return low + (high - low) * part, away

    def point(self, u: float) -> Point | None:
        """w, log z, d log z/dw and all (x, x − top); None where the curve is not real and on
        the right side."""
        problem = self.problem
        places = [self.place(0, u)]
        first, second, _ = self.sums(0, *places[0])
        w = first / problem.scales[0]
        one_plus = places[0][0] * (first + second) if problem.scales[0] == 1.0 else 1.0 + w
        for k in range(1, len(problem.groups)):
            found = self.invert(k, w * problem.scales[k])
            if found is None:
                return None
            places.append(found)
        inner = np.where(problem.slopes == 1.0, one_plus, 1.0 + problem.slopes * w)
        bent = 1.0 + problem.jumps * w
        turns = float(w < 0) - problem.powers[inner < 0].sum()  # of Im log z, not mod 2π, over π
        height = problem.constant + np.sum(problem.variances * w / bent)
        height += self.logarithms(w, one_plus, inner)
        excess = problem.slopes - 1.0
        degree = problem.powers.sum()
        # Σ n/(w (1 + s w)) − 1/(w (1 + w)): in parts near w = 0, where at one layer 1/w cancels.
        order, apart = -1.0, abs(w) < 1.0
        slope = degree / one_plus if apart else (degree - 1.0 - 1.0 / w) / one_plus
        poles = problem.counts.sum() - 1.0
        if apart and poles:
            slope += poles / w
        slope += np.sum(problem.powers * excess / (inner * one_plus))
        slope += np.sum(problem.variances / bent**2)
        for k, (x, away) in enumerate(places):
            n, s = problem.counts[k], problem.scales[k]
            if n == 0:
                continue
            mean, rest, prime = self.sums(k, x, away)
            turns -= n * float(-1 < s * w < 0 < x)
            grown = x * (mean + rest)
            ratio = -x * rest / grown
            if ratio > -0.5:
                height += n * np.log1p(ratio)
            else:  # M_k = s w
                height += n * np.log(abs(x * s / grown))
                order += n
            slope -= n * s / (x * prime)
            of_one = one_plus if s == 1.0 else grown
            slope += -n * s / of_one if apart else n / (w * of_one)
        if order:
            height += order * np.log(abs(w))
        if abs(turns) > 1e-9:
            return None
        return w, float(height), float(slope), places

    def logarithms(self, w: float, one_plus: float, inner: Array) -> float:
        """Σ c log|1 + a w|, with 1 + w taken out as the kernel does."""
        problem = self.problem
        ratios = inner / one_plus
        near = np.abs(ratios - 1.0) < 0.5
        exact = np.log1p(np.where(near, (problem.slopes - 1.0) * w / one_plus, 0.0))
        logs = np.where(near, exact, np.log(np.abs(ratios)))
        return float(problem.powers.sum() * np.log(abs(one_plus)) + np.sum(problem.powers * logs))

    def invert(self, k: int, value: float) -> tuple[float, float] | None:
        """The x of group k, in its interval, with M_k(x) = value, and x − top."""
        u = self.coordinate(k, value)
        return None if u is None else self.place(k, u)

    def coordinate(self, k: int, value: float) -> float | None:
        """The u of group k, in its interval, with M_k(x) = value."""

        def excess(u: float) -> float:
            return self.mean(k, *self.place(k, u)) - value

        low, high = self.precise(k)
        if not excess(low) * excess(high) < 0:
            return None
        return root(excess, low, high)

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
            points = [self.point(u) for u in grid]
            good = [p is not None and _falling(p[0], p[2]) and np.isfinite(p[1]) for p in points]
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
        found = []
        for a in problem.slopes[problem.powers != 0.0]:
            u = self.coordinate(0, -problem.scales[0] / a)
            if u is not None:
                found.extend([u - _BESIDE, u + _BESIDE])
        beside = np.concatenate(found) if found else np.zeros(0)
        return np.asarray(beside[(beside > low) & (beside < high)])

    def run(
        self, grid: Array, points: Sequence[Point | None], i: int, j: int
    ) -> tuple[float, float, Edge | None, Edge | None]:
        """One run, its ends refined. log z grows with x, and x with u where it is positive."""
        low_edge = high_edge = None
        if i > 0:
            low_edge = self.end(grid[i - 1], grid[i], grid[0])
        if j + 1 < len(grid):
            high_edge = self.end(grid[j + 1], grid[j], grid[-1])
        low, high = points[i][1], points[j][1]  # type: ignore[index]
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
        last = self.point(limit)
        if last is not None and abs(last[0]) > _POLE and abs(last[2] * last[0] ** 2) < _NO_MASS:
            return _singular(last[1])
        return self.refine(outside, inside)

    def refine(self, outside: float, inside: float) -> Edge | None:
        """The critical point between two coordinates, or None where the run ends otherwise."""

        def slope(u: float) -> float:
            found = self.point(u)
            return np.nan if found is None else found[2]

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
        found, left, right = self.point(u), self.point(u - step), self.point(u + step)
        if found is None or left is None or right is None:
            return None
        w, height, _, places = found
        xi, slopes = [], []
        for k, (x, away) in enumerate(places):
            top = self.problem.groups[k].top
            xi.append(np.log(abs(x / away)) - (1j * np.pi if 0 < x < top else 0j))
            prime = -self.sums(k, x, away)[2] / self.problem.scales[k]
            slopes.append(-top / (x * away) / prime)
        curvature = (right[2] - left[2]) / (right[0] - left[0])
        return Edge(height, w, np.array(xi), np.array(slopes, complex), float(curvature))


def _singular(height: float) -> Edge:
    nothing = np.zeros(0, complex)
    return Edge(float(height), np.inf, nothing, nothing, -1.0)


def _falling(w: float, slope: float) -> bool:
    return slope < 0 and (abs(w) < _POLE or slope * w * w < -_NO_MASS)


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
