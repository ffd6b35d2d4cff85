"""Word of long derivations: how large one is before it starts, and how far it has come."""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType

LARGE = 500_000
"""Terms, some five seconds of them: what takes less goes without saying."""


class Progress:
    """Counts averages; says on stderr how large the whole is, and then how many are done.

    Nothing is said of what has fewer terms than `LARGE`.
    """

    def __init__(self, what: str, total: int, terms: int) -> None:
        self.what, self.total, self.terms, self.done = what, total, terms, 0
        self._said = monotonic()
        self._large = terms >= LARGE

    def __enter__(self) -> Progress:
        if self._large:
            size = f"about {self.terms:.0e} terms in {self.total} averages over the weights"
            self._say(f"{self.what}: {size}\n")
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
