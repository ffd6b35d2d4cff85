"""Totals of chunks: their sums, their rows one below the other, or the rows' means.

A total is a value: adding a chunk gives another, so that an interrupt finds the one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from ..arrays import Array


class Total(Protocol):
    """The total of the chunks so far; the next one's draws are added in their order."""

    def plus(self, found: Array) -> Self:
        """With what one more chunk comes to."""

    def arrays(self) -> dict[str, Array]:
        """The arrays that a run stores."""

    def restored(self, arrays: Mapping[str, Array], draws: int) -> Self | None:
        """The total of so many draws from what was kept; None if that is none of this kind."""


@dataclass(frozen=True)
class Sums:
    """Chunks of one shape, added."""

    sums: Array

    def plus(self, found: Array) -> Self:
        """The sum."""
        return replace(self, sums=self.sums + found)

    def arrays(self) -> dict[str, Array]:
        """The sums."""
        return {"sums": self.sums}

    def restored(self, arrays: Mapping[str, Array], draws: int) -> Self | None:
        """The sums kept, of the same shape."""
        fits = set(arrays) == {"sums"} and arrays["sums"].shape == self.sums.shape
        return replace(self, sums=arrays["sums"]) if fits else None


@dataclass(frozen=True)
class Rows:
    """Chunks (draws, …) joined.

    Arguments:
        room: (all draws, …), of which the first `count` are filled.
        count: draws so far.
    """

    room: Array
    count: int = 0

    @property
    def rows(self) -> Array:
        """Those that are there, (draws, …)."""
        return self.room[: self.count]

    def plus(self, found: Array) -> Self:
        """With these below."""
        stop = self.count + len(found)
        self.room[self.count : stop] = found  # beyond what this total counts
        return replace(self, count=stop)

    def arrays(self) -> dict[str, Array]:
        """The rows."""
        return {"rows": self.rows}

    def restored(self, arrays: Mapping[str, Array], draws: int) -> Self | None:
        """The rows kept, one for each draw."""
        fits = set(arrays) == {"rows"}
        if not fits or arrays["rows"].shape != (draws, *self.room.shape[1:]):
            return None
        return replace(self, count=0).plus(arrays["rows"])


@dataclass(frozen=True)
class Means:
    """Means over draws and sums of squared deviations (Chan, Golub and LeVeque, 1983).

    So many draws are added at a time, however long the chunks are: rounding does not tell.

    Arguments:
        step: how many draws are added at a time.
        count: the draws that have been.
        mean, squares: of these, (observables, …).
        rest: the draws that wait until there are enough of them, (draws, observables, …).
    """

    step: int
    count: int
    mean: Array
    squares: Array
    rest: Array

    @classmethod
    def none(cls, step: int, shape: tuple[int, ...]) -> Self:
        """Of no draws yet, of rows of this shape."""
        return cls(step, 0, np.zeros(shape), np.zeros(shape), np.zeros((0, *shape)))

    def plus(self, found: Array) -> Self:
        """With these draws, (draws, observables, …)."""
        waiting, total = np.concatenate([self.rest, found]), self
        while len(waiting) >= self.step:
            total, waiting = total._merged(waiting[: self.step]), waiting[self.step :]
        return replace(total, rest=waiting)

    def _merged(self, rows: Array) -> Self:
        values = np.ascontiguousarray(np.moveaxis(rows, 1, 0))
        count, mean = len(rows), values.mean(axis=1)
        squares = ((values - mean[:, None]) ** 2).sum(axis=1)
        total = self.count + count
        shift = mean - self.mean
        return replace(
            self,
            count=total,
            mean=self.mean + shift * (count / total),
            squares=self.squares + (squares + shift**2 * (self.count * count / total)),
        )

    def result(self) -> tuple[Array, Array]:
        """The means over all draws, and their standard errors."""
        total = self._merged(self.rest) if len(self.rest) else self
        return total.mean, np.sqrt(total.squares / (total.count - 1) / total.count)

    def arrays(self) -> dict[str, Array]:
        """Means, squares, and the draws that wait."""
        return {"mean": self.mean, "squares": self.squares, "rest": self.rest}

    def restored(self, arrays: Mapping[str, Array], draws: int) -> Self | None:
        """The means kept, of rows of the same shape."""
        if set(arrays) != {"mean", "squares", "rest"}:
            return None
        mean, squares, rest = (arrays[name] for name in ("mean", "squares", "rest"))
        left, shape = draws % self.step, self.mean.shape
        if not mean.shape == squares.shape == shape or rest.shape != (left, *shape):
            return None
        return type(self)(self.step, draws - left, mean, squares, rest)
