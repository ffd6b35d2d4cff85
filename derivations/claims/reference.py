"""A fixed loop of plain Python: the unit in which a check's processor seconds are told.

Processors differ by a factor of two, and one that shares its caches is slower than one alone. The
seconds of a check over those of this loop, measured while the check runs, can be compared.
"""

from __future__ import annotations

import math
import statistics
import time

STEPS = 100_000
APART = 5.0
"""Seconds between two measurements, at least."""


def loop() -> int:
    """Integers multiplied, added, and put into a table of 1024."""
    total, seen = 0, {}
    for step in range(STEPS):
        total += step * step % 7
        seen[step & 1023] = total
    return total


class Reference:
    """The loop's processor seconds: the median of what was measured."""

    def __init__(self) -> None:
        self._measured: list[float] = []
        self._last = -math.inf

    def measure(self) -> None:
        """Run the loop, unless it ran a moment ago."""
        if time.monotonic() - self._last >= APART:
            start = time.process_time()
            loop()
            self._measured.append(time.process_time() - start)
            self._last = time.monotonic()

    @property
    def seconds(self) -> float | None:
        """None before the first measurement."""
        return statistics.median(self._measured) if self._measured else None
