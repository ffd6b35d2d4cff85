"""Word of long derivations: how large one is before it starts, and how far it has come."""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType

LARGE = 2000
"""Averages over the weights: what takes less goes without saying."""


class Progress:
    """Counts steps; says on stderr how many there are to be, and then how many are done.

    Nothing is said where there are fewer than `LARGE`.
    """

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._said = monotonic()
        self._large = total >= LARGE

    def __enter__(self) -> Progress:
        if self._large:
            self._say(f"{self.what}: {self.total} averages over the weights to do")
        return self

    def advance(self) -> None:
        """One step more."""
        self.done += 1
        if self._large and monotonic() - self._said > 1:
            self._say(f"{self.what}: {self.done}/{self.total}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._large:
            self._say(f"{self.what}: {self.done}/{self.total}\n")

    def _say(self, text: str) -> None:
        self._said = monotonic()
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()
