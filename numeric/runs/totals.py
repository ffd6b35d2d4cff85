"""Totals of chunks: their sums, or their rows one below the other.

A total is a value: adding a chunk gives another, so that an interrupt finds the one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

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
