"""Where the density lives: the complement of real arcs of the curve.

On a real interval outside the supports of its factors the curve is real; where moreover its phase,
not reduced mod 2π, is 0 and d log z/dw < 0, it is the boundary value from above: z runs through a
gap of the spectrum. The edges are the critical points between such arcs and the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .blocks import FARTHEST, NEAR, RESOLVED, SCAN, Line, Run, lines, runs
from .lines import Interval, Spots, intervals
from .problem import Problem
from .roots import root

T = TypeVar("T")

_COMBINATIONS = 64
_OVERLAP = 1e-6  # of gaps, in log z: more than what rounding leaves of M's poles
_BESIDE = np.geomspace(1e-9, 0.1, 50)
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
    """The curve at many coordinates: w, log z and d log z/dw, each an array, and every factor;
    `real` where the curve is real and on the right side, and the rest means something."""

    real: NDArray[np.bool_]
    w: Array
    height: Array
    slope: Array
    spots: list[Spots]

    @property
    def falling(self) -> NDArray[np.bool_]:
        """True if d log z/dw < 0: in a gap."""
        gap = (self.slope < 0) & ((np.abs(self.w) < _POLE) | (self.slope * self.w**2 < -_NO_MASS))
        return self.real & gap & np.isfinite(self.height)


@dataclass(frozen=True)
class Bulk:
    """log z from `lower` (None: from z = 0) to `upper`."""

    lower: Edge | None
    upper: Edge


def bulks(problem: Problem) -> tuple[Bulk, ...]:
    """The intervals on which JJᵀ has a density, ascending.

    Raises ArithmeticError for gaps that overlap: a bulk between them was not seen.
    """
    gaps: list[tuple[float, float, Edge | None, Edge | None]] = []
    for arc in _arcs(problem):
        gaps.extend(arc.gaps())
    gaps.sort(key=lambda gap: gap[0])
    found = []
    floor, ceiling, below = -np.inf, -np.inf, None
    for low, high, low_edge, high_edge in gaps:
        again = _same(low, floor) and _same(high, ceiling)  # found in several arcs
        if min(high, ceiling) - low > _OVERLAP * (1.0 + abs(low)) and not again:
            raise ArithmeticError(
                f"gaps of the spectrum at log λ = {low:.6g} … {high:.6g} and up to {ceiling:.6g} "
                "overlap"
            )
        # A gap that begins where another ends holds an atom there and nothing else.
        if low_edge is not None and low > ceiling + 1e-13 * (1 + abs(low)):
            found.append(Bulk(below, low_edge))
        if high > ceiling:
            floor, ceiling, below = low, high, high_edge
    for height in _born(problem):
        found = [part for bulk in found for part in _split(bulk, height)]
    return tuple(found)


def _same(one: float, other: float) -> bool:
    return one == other or abs(one - other) <= _OVERLAP * (1.0 + abs(one))


def _split(bulk: Bulk, height: float) -> tuple[Bulk, ...]:
    low = -np.inf if bulk.lower is None else bulk.lower.height
    away = 1e-12 * (1 + abs(height))
    if not low + away < height < bulk.upper.height - away:
        return (bulk,)
    return Bulk(bulk.lower, _singular(height)), Bulk(_singular(height), bulk.upper)


def _born(problem: Problem) -> list[float]:
    """log z where an atom of blocks alone is about to be born: at γ² of each, where the defects
    2 (1 − mass of A's zeros) of all add up to 1."""
    blocks = problem.blocks
    defects = sum(2.0 * block.count / block.members[1].base for block in blocks)
    others = {float(a): c for a, c in zip(problem.slopes, problem.powers, strict=True) if c != 0.0}
    alone = problem.factors[: problem.plain] == [None] and others == {1.0: 1.0}
    if not (blocks and alone and problem.base == 1.0 and abs(defects - 1.0) < 1e-12):
        return []
    return [problem.log_mean + sum(each.count * each.members[0].log_share for each in blocks)]


class _Arc:
    """One real interval for every group, described by the first group's coordinate."""

    steps: tuple[float, ...] = (1e-5,)

    def __init__(
        self, problem: Problem, first: Interval, others: tuple[Interval | Run, ...]
    ) -> None:
        self.problem, self.first, self.others = problem, first, others
        plain, blocks = problem.plain, problem.blocks
        self.counts = np.array([*problem.counts[:plain], *(each.count for each in blocks)])
        self.scales = np.array([*problem.scales[:plain], *(each.scale for each in blocks)])

    def points(self, u: Array) -> _Points:
        """The curve at coordinates u, (points,)."""
        problem = self.problem
        first = self.first.at(u)
        w = first.mean / problem.scales[0]
        one_plus = first.x * (first.mean + first.rest) if problem.scales[0] == 1.0 else 1.0 + w
        real, spots = np.ones(len(u), bool), [first]
        for line, s in zip(self.others, self.scales[1:], strict=True):
            at = line.coordinates(w * s)
            real &= ~np.isnan(at)
            spots.append(line.at(at))
        return self.along(w, one_plus, real, spots)

    def along(
        self,
        w: Array,
        one_plus: Array,
        real: NDArray[np.bool_],
        spots: list[Spots],
    ) -> _Points:
        """The curve at w, each factor at its place."""
        problem = self.problem
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
        order, apart = np.full(len(w), -1.0), np.abs(w) < 1.0
        slope = np.where(apart, degree, degree - 1.0 - 1.0 / w) / one_plus
        poles = self.counts.sum() - 1.0
        if poles:
            slope += np.where(apart, poles / w, 0.0)
        slope += np.sum(problem.powers * excess / (inner * one_plus[:, None]), axis=1)
        slope += np.sum(problem.variances / bent**2, axis=1)
        for n, s, spot in zip(self.counts, self.scales, spots, strict=True):
            if n == 0:
                continue
            turns -= n * ((s * w > -1) & (s * w < 0) & (spot.x > 0))
            logs, small = spot.log_inverse_s(np.full(len(w), s))
            # Where it is not small, M_k = s w, and w is left out.
            height += n * logs
            order += np.where(small, 0.0, n)
            slope -= n * s / (spot.x * spot.prime)
            of_one = one_plus if s == 1.0 else spot.x * (spot.mean + spot.rest)
            slope += n * np.where(apart, -s, 1.0 / w) / of_one
        height += np.where(order == 0.0, 0.0, order * np.log(np.abs(w)))
        return _Points(real & (np.abs(turns) <= 1e-9), w, height, slope, spots)

    def logarithms(self, w: Array, one_plus: Array, inner: Array) -> Array:
        """Σ c log|1 + a w|, with 1 + w taken out as the kernel does."""
        problem = self.problem
        ratios = inner / one_plus[:, None]
        near = np.abs(ratios - 1.0) < 0.5
        parts = np.where(near, (problem.slopes - 1.0) * (w / one_plus)[:, None], 0.0)
        logs = np.where(near, np.log1p(parts), np.log(np.abs(ratios)))
        total = problem.powers.sum() * np.log(np.abs(one_plus))
        return np.asarray(total + np.sum(problem.powers * logs, axis=1))

    def gaps(self) -> Iterator[tuple[float, float, Edge | None, Edge | None]]:
        """The runs of d log z/dw < 0, as (log z from, to) with the edges that end them."""
        with np.errstate(all="ignore"):
            grid = self.grid()
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

    def grid(self) -> Array:
        """Coordinates of the first line that its nodes resolve."""
        grid, line = np.linspace(-34.0, 34.0, SCAN), self.first
        if any(start < end for start, end in line.group.support):
            between = np.isfinite([line.low, line.high]).all()
            grid = grid[np.abs(grid) < RESOLVED] if between else grid
            grid = grid[grid > -RESOLVED]
        return np.unique(np.concatenate([grid, self.beside_poles()]))

    def beside_poles(self) -> Array:
        """Coordinates close to w = −1/a: a bulk of mass m may be as narrow as √m there."""
        problem = self.problem
        low, high = self.first.precise
        at = self.first.coordinates(-problem.scales[0] / problem.slopes[problem.powers != 0.0])
        at = at[~np.isnan(at), None]
        beside = np.concatenate([at - _BESIDE, at + _BESIDE]).ravel()
        return np.asarray(beside[(beside > low) & (beside < high)])

    def run(
        self, grid: Array, points: _Points, i: int, j: int
    ) -> tuple[float, float, Edge | None, Edge | None]:
        """One run, its ends refined. log z grows with x, and x with u where it is positive."""
        low_edge = high_edge = None
        if i > 0:
            low_edge = self.end(grid, points, i, 0)
        if j + 1 < len(grid):
            high_edge = self.end(grid, points, j, len(grid) - 1)
        low, high = points.height[i], points.height[j]
        first = self.first
        support = first.group.support
        if low_edge:
            low = low_edge.height
        elif i == 0 and first.low == 0.0:
            low = -np.inf
        elif i == 0 and any(start < end == first.low for start, end in support):
            low_edge = _singular(self.pole())
        if high_edge:
            high = high_edge.height
        elif all(np.isinf(each.high) for each in (first, *self.others)):
            high = np.inf
        elif any(first.high == start < end for start, end in support):
            high_edge = _singular(high)
        if np.isinf(first.low):
            return float(high), float(low), high_edge, low_edge
        return float(low), float(high), low_edge, high_edge

    def pole(self) -> float:
        """log z at w → ∞, every x at the top of its support."""
        problem = self.problem
        tops = np.log([group.top for group in problem.groups])
        factors = np.sum(problem.powers * np.log(problem.slopes))
        return float(problem.constant + np.sum(problem.counts * tops) + factors)

    def end(self, grid: Array, points: _Points, at: int, last: int) -> Edge | None:
        """The edge that ends a run before the grid's end `last`; the pole of M itself where an atom
        there has no mass left and nothing but the pole is between."""
        beyond, between = (at + 1, points.w[at + 1 :]) if last > at else (at - 1, points.w[:at])
        if (np.abs(between) > _POLE).all():
            limit = self.points(grid[last : last + 1])
            w, height, slope = limit.w[0], limit.height[0], limit.slope[0]
            if limit.real[0] and abs(slope * w**2) < _NO_MASS:
                return _singular(height)
        return self.refine(grid[beyond], grid[at])

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
        for step in self.steps:
            found = self.points(np.array([u, u - step, u + step]))
            if found.real.all():
                break
        else:
            return None
        w, slope = found.w, found.slope
        curvature = float((slope[2] - slope[1]) / (w[2] - w[1]))
        return Edge(float(found.height[0]), float(w[0]), *self.unknowns(u, found), curvature)

    def unknowns(
        self, u: float, found: _Points
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Every ξ at the first of some points, and dξ/dw."""
        w = found.w[0]
        xi: list[complex] = []
        slopes: list[complex] = []
        for line, s, spot in zip((self.first, *self.others), self.scales, found.spots, strict=True):
            if isinstance(line, Run):
                of_block = line.line.unknowns(line.line.curve(line.coordinates(np.array([s * w]))))
                xi += list(of_block[0])
                slopes += list(s * of_block[1])
                continue
            top = line.group.top
            at, apart = float(spot.x[0]), float(spot.away[0])
            xi.append(np.log(abs(at / apart)) - (1j * np.pi if 0 < at < top else 0j))
            prime = -spot.prime[0] / s
            slopes.append(-top / (at * apart) / prime)
        return np.array(xi), np.array(slopes, complex)


class _BlockArc(_Arc):
    """One block alone, repeated, on a corner of trace 1, described by its own coordinate; the edge
    of a branch may be close to that of the sum."""

    steps = (1e-5, 1e-6, 1e-7, 1e-8)

    def __init__(self, problem: Problem, line: Line) -> None:
        super().__init__(problem, line.first, ())
        self.line = line
        self.counts, self.scales = self.counts[1:], self.scales[1:]

    def points(self, u: Array) -> _Points:
        """The curve at coordinates u."""
        problem = self.problem
        curve = self.line.curve(u)
        w = curve.mean
        found = self.along(w, curve.grown, curve.real, [self.line.at(curve)])
        height = (self.line.at_pole(curve) - np.log1p(1.0 / w)) * self.counts[0]
        height += np.log(np.abs(problem.slopes + 1.0 / w[:, None])) @ problem.powers
        height += (problem.powers.sum() - 1.0) * np.log(np.abs(w)) + problem.constant
        return replace(found, height=np.where(np.abs(w) > _POLE, height, found.height))

    def grid(self) -> Array:
        """Those of the line."""
        return self.line.grid()

    def run(
        self, grid: Array, points: _Points, i: int, j: int
    ) -> tuple[float, float, Edge | None, Edge | None]:
        """One run, its ends refined; M at the ends of the grid says where z goes there,
        or it has come to the end of a density."""
        ends: list[tuple[float, Edge | None]] = []
        for at, last in ((i, 0), (j, len(grid) - 1)):
            w, height = points.w[at], float(points.height[at])
            edge = None
            if at != last:
                edge = self.end(grid, points, at, last)
                height = edge.height if edge else height
            elif abs(w) < NEAR:
                height = np.inf
            elif abs(1.0 + w) < NEAR:
                height = -np.inf
            elif abs(grid[at]) < FARTHEST or (
                abs(w) > _POLE and abs(points.slope[at] * w**2) < _NO_MASS
            ):
                edge = _singular(height)
            ends.append((height, edge))
        (low, low_edge), (high, high_edge) = sorted(ends, key=lambda end: end[0])
        return low, high, low_edge, high_edge

    def unknowns(
        self, u: float, found: _Points
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Those of the coordinate of w and of the members."""
        xi, slopes = self.line.unknowns(self.line.curve(np.array([u])))
        one_plus = 1.0 + found.w[0]
        first = np.log(abs(one_plus)) - (1j * np.pi if one_plus < 0 else 0j)
        return np.array([first, *xi]), np.array([1.0 / one_plus, *slopes], complex)


def _singular(height: float) -> Edge:
    nothing = np.zeros(0, complex)
    return Edge(float(height), np.inf, nothing, nothing, -1.0)


def _arcs(problem: Problem) -> Iterator[_Arc]:
    """Every choice of an interval for every group; equal choices alone where there are many."""
    blocks, plain = problem.blocks, problem.groups[: problem.plain]
    if len(blocks) == 1 and problem.factors[: problem.plain] == [None] and problem.base == 1.0:
        for line in lines(blocks[0]):
            if line.first.low >= 0.0:
                yield _BlockArc(problem, line)
        return
    firsts, *choices = [intervals(group) for group in plain]
    if not blocks:
        for first, *rest in _combined([firsts, *choices]):
            yield _Arc(problem, first, tuple(rest))
        return
    # choices that have a w in common
    parts: list[list[Interval | Run]] = [list(each) for each in choices]
    with np.errstate(all="ignore"):
        parts += [list(runs(block)) for block in problem.blocks]
        scales = [*problem.scales[1 : problem.plain], *(each.scale for each in problem.blocks)]
        for first in firsts:
            low, high = first.span / problem.scales[0]
            others = [
                [each for each in part if each.span[0] / s < high and each.span[1] / s > low]
                for part, s in zip(parts, scales, strict=True)
            ]
            if all(others):
                for choice in _combined(others):
                    yield _Arc(problem, first, choice)


def _combined(choices: list[list[T]]) -> Iterator[tuple[T, ...]]:
    """One of each list, in every way; where these are many, those in the same place."""
    if np.prod([float(len(each)) for each in choices]) <= _COMBINATIONS:
        yield from product(*choices)
        return
    for k in range(max(map(len, choices))):
        yield tuple(each[min(k, len(each) - 1)] for each in choices)
