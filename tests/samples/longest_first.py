"""Which worker runs what, and when: whole modules, the longest first.

A worker that has a module keeps what its fixtures made and what its kernels compiled to; what
comes last is short, so that all workers end together.
"""

from __future__ import annotations

from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

SECONDS = Path(__file__).parents[1] / "seconds.txt"
INDEPENDENT = ("tests/derivations/test_book.py",)
"""Modules whose tests share nothing: any worker may have any of them."""


def unit(name: str) -> str:
    """What runs on one worker with a test: its module, or the test alone."""
    module = name.partition("::")[0]
    return name if module in INDEPENDENT else module


def measured() -> dict[str, tuple[float, float]]:
    """Processor seconds by unit: of the tests that are not slow, and of the slow ones."""
    rows = (line.split(" ", 2) for line in SECONDS.read_text(encoding="utf-8").splitlines())
    return {name: (float(quick), float(slow)) for quick, slow, name in rows}


def arrange(items: list, chosen: str) -> None:
    """The longest unit first, by what `-m` chooses; those that nobody measured last."""
    known = measured()

    def seconds(item):
        quick, slow = known.get(unit(item.nodeid), (0.0, 0.0))
        return quick * (chosen != "slow") + slow * (chosen != "not slow")

    items.sort(key=seconds, reverse=True)


class Units(LoadScopeScheduling):
    """A worker that has nearly ended its unit is given the next one."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
