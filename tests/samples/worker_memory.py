"""How much memory a process of the test run holds, and which tests raised that."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from derive import clear_caches

try:
    import resource
except ImportError:  # not on Windows
    resource = None

GROWTH = 100
"""Megabytes that a process may grow before it empties its caches."""
NAMED = 6
"""How many tests the summary names."""


def held() -> int:
    """Megabytes that this process holds; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") // 2**20


def peak() -> int:
    """The most megabytes that this process held so far; 0 where the system does not say."""
    if resource is None:
        return 0
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit


class Memory:
    """What the tests take, one after another."""

    def __init__(self) -> None:
        self.kept, self.most = held(), peak()
        self.raised: list[tuple[int, str]] = []

    def after(self, test: pytest.Item, following: pytest.Item | None) -> None:
        """Note by how much this test raised the peak; empty the caches if they have grown.

        Those of the test's module are emptied where no other test of it follows.
        """
        if (most := peak()) > self.most:
            self.raised.append((most - self.most, test.nodeid.removeprefix("tests/")))
            self.most = most
        if held() > self.kept + GROWTH:
            module = getattr(test, "module", None)
            if module is not getattr(following, "module", None):
                for value in vars(module).values():
                    if hasattr(value, "cache_clear"):
                        value.cache_clear()
            clear_caches()
            self.kept = held()

    def __str__(self) -> str:
        rows = sorted(self.raised, reverse=True)[:NAMED]
        named = ", ".join(f"{name} +{megabytes}" for megabytes, name in rows)
        return f"{peak()} MB at most ({named})"
