"""M at many points at once: down the negative axis from infinity, then around each point's circle.

The tree's equations F(u) = log z are followed by the tangent and corrected by Newton's steps, each
point with steps of its own. On z < 0 all is real and nothing is singular; from there the phase of z
is taken from π to 0, where a density is not 0 and the equations regular. Where it is an edge they
are not, and a point closer to it than its last step is given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...arrays import Array
from .systems import Known, Product

Complex = NDArray[np.complex128]

CLOSE, ON_THE_WAY = 1e-9, 1e-3
"""Newton's last step, whose square is what is left, where the equations are solved; and between."""

_ITERATIONS = 7
_ROUNDED = 1e-8  # that step, where 1 + M is small and known as well as rounding lets it be
_FARTHEST = 0.6  # of an unknown, from what the tangent says
_SHORTEST = 2.0**-26  # of the step to be made
_START, _MARKS = 25.0, 0.5


@dataclass(frozen=True)
class Followed:
    """The values at each z: M, all unknowns, the last of Newton's steps and where it is
    solved."""

    M: Complex
    u: Complex
    residual: Array
    solved: NDArray[np.bool_]


@dataclass(frozen=True)
class Paths:
    """The continuation of one tree."""

    tree: Product

    def above(self, heights: Array, phases: Array) -> Followed:
        """At log z = heights + i phases, 0 ≤ phases < π."""
        flat = np.asarray(heights, float)
        u, ok = self._on_the_left(flat)
        start = flat + 1j * np.pi
        u, residual, on = self._follow(u, start, flat + 1j * np.asarray(phases, float))
        known = self.tree.at(u, 0)
        return Followed(np.exp(known.log_m), u, residual, ok & on)

    @cached_property
    def _marks(self) -> tuple[Array, Complex, bool]:
        """Heights on the negative axis, descending, with their unknowns, and whether no more can be
        had; filled as needed."""
        return np.zeros(0), np.zeros((0, self.tree.unknowns), complex), False

    def _on_the_left(self, heights: Array) -> tuple[Complex, NDArray[np.bool_]]:
        """At −e^height, down to where 1 + M is lost to rounding."""
        low = float(heights.min(initial=0.0)) - _MARKS
        marks, known, last = self._marks
        top = np.log(self.tree.mean) + _START + np.log1p(len(self.tree.factors))
        high = max(top, float(heights.max(initial=0.0)) + _MARKS)
        if not len(marks) or (marks[-1] > low and not last) or marks[0] < high:
            marks, known, last = self._marked(high, low)
            self.__dict__["_marks"] = marks, known, last
        within = heights >= marks[-1] - _MARKS
        nearest = np.clip(np.round((marks[0] - heights) / _MARKS).astype(int), 0, len(marks) - 1)
        stop = np.where(within, heights, marks[nearest]) + 1j * np.pi
        u, _, ok = self._follow(known[nearest], marks[nearest] + 1j * np.pi, stop)
        return u, ok & within

    def _marked(self, high: float, low: float) -> tuple[Array, Complex, bool]:
        marks = np.arange(high, low - _MARKS, -_MARKS)
        at = complex(marks[0], np.pi)
        start = np.array([self.tree.start(np.log(self.tree.mean) - at)], complex)
        u, off, _ = self._corrected(start, np.array([at]), np.full(1, CLOSE))
        if not off[0] <= CLOSE:
            raise ArithmeticError("the spectrum's equations are not solved far from it")
        rows = [u[0]]
        for mark in marks[1:]:
            to = complex(mark, np.pi)
            u, _, ok = self._follow(u, np.array([at]), np.array([to]))
            if not ok.all():
                break
            at = to
            rows.append(u[0])
        return marks[: len(rows)], np.array(rows), len(rows) < len(marks)

    def _follow(
        self, u: Complex, start: Complex, stop: Complex
    ) -> tuple[Complex, Array, NDArray[np.bool_]]:
        """From start to stop, each point on its own."""
        u, way = u.copy(), stop - start
        done, step = np.zeros(len(u)), np.full(len(u), 0.25)
        residual = np.zeros(len(u))
        left = way != 0.0
        tangent = np.empty_like(u)
        if left.any():
            tangent[left] = self._newton(u[left], start[left])[1]
        while left.any():
            active = np.flatnonzero(left)
            part = np.minimum(step[active], 1.0 - done[active])
            guess = u[active] + (part * way[active])[:, None] * tangent[active]
            reached = done[active] + part
            reached[1.0 - reached < 1e-13] = 1.0
            goals = np.where(reached == 1.0, CLOSE, ON_THE_WAY)
            new, off, ahead = self._corrected(guess, start[active] + reached * way[active], goals)
            moved = np.abs(new - u[active]).max(axis=1, keepdims=True) + 1e-6
            ok = (off <= np.maximum(goals, _ROUNDED)) & (
                np.abs(new - guess) <= _FARTHEST * moved
            ).all(axis=1)
            on = active[ok]
            u[on], tangent[on], done[on], residual[on] = new[ok], ahead[ok], reached[ok], off[ok]
            step[on] *= 1.7
            step[active[~ok]] = 0.4 * part[~ok]
            left = (done < 1.0) & (step > _SHORTEST) & (way != 0.0)
        return u, residual, (done == 1.0) | (way == 0.0)

    def _corrected(
        self, u: Complex, target: Complex, goals: Array
    ) -> tuple[Complex, Array, Complex]:
        """By Newton's steps: u, the size of the last step, and du/d log z before it."""
        u, tangent = u.copy(), np.zeros_like(u)
        size, left = np.full(len(u), np.inf), np.ones(len(u), bool)
        for _ in range(_ITERATIONS):
            active = np.flatnonzero(left)
            change, tangent[active] = self._newton(u[active], target[active])
            found = np.abs(change).max(axis=1)
            fine = np.isfinite(found) & (found < 2.0)
            u[active[fine]] -= change[fine]
            size[active] = np.where(fine, found, np.inf)
            left[active] = fine & (found > goals[active])
            if not left.any():
                break
        return u, size, tangent

    def _newton(self, u: Complex, target: Complex) -> tuple[Complex, Complex]:
        """A step, and du/d log z."""
        values, rows = self._equations(self.tree.at(u, 0), target)
        right = np.zeros((*u.shape, 2), complex)
        right[:, :, 0], right[:, 0, 1] = values, 1.0
        found = _solve(rows, right)
        return found[:, :, 0], found[:, :, 1]

    @staticmethod
    def _equations(known: Known, target: Complex) -> tuple[Complex, Complex]:
        """All that has to be 0, and its derivatives."""
        off = known.log_x - target
        turns = np.round(off.imag / (2.0 * np.pi))
        pairs = [(off - 2j * np.pi * turns, known.d_x), *known.defects]
        return np.stack([v for v, _ in pairs], axis=1), np.stack([d for _, d in pairs], axis=1)


def _solve(rows: Complex, right: Complex) -> Complex:
    """Linear equations of each point; not a number where they are singular."""
    try:
        return np.asarray(np.linalg.solve(rows, right))
    except np.linalg.LinAlgError:
        found = np.full(right.shape, np.nan, complex)
        for k, (row, value) in enumerate(zip(rows, right, strict=True)):
            try:
                found[k] = np.linalg.solve(row, value)
            except np.linalg.LinAlgError:
                continue
        return found
