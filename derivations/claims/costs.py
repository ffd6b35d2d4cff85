"""Costs of claims in processor seconds: as in the last check, else as in the table shipped.

The table is of one machine with an empty cache. How many seconds pass here for one of them, on a
machine that is slower, or busy with other work, comes out as claims are proven, and the time that
is left with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from derivations.claims.registry import Claim, Outcome
from derive.work.caches import cache

TABLE = Path(__file__).with_name("seconds.json")
"""Processor seconds by "source module.function", as `tests/support/timing.py` writes them."""

GUESS = {False: 0.5, True: 5.0}
"""Seconds of a claim that is in no table, by whether it samples."""

TRUST = 5.0
"""Seconds of claims as they were expected, with which the proven ones are averaged: the first few
milliseconds say little about a machine."""


class Costs:
    """The cost of each claim, and the speed of this machine, as far as it is known.

    Arguments:
        before: processor seconds of claims in an earlier check, by "source module.function".
    """

    def __init__(self, before: Mapping[str, float] | None = None) -> None:
        self._seconds = {**shipped(), **(before or {})}
        self._expected = self._taken = TRUST

    def of(self, claim: Claim) -> float:
        """Processor seconds, as expected before any was proven."""
        return self._seconds.get(key(claim), GUESS[claim.sampled])

    def learn(self, outcome: Outcome) -> None:
        """A claim took so long here."""
        self._expected += self.of(outcome.claim)
        self._taken += outcome.seconds

    def left(
        self,
        waiting: Sequence[Claim],
        running: Mapping[Claim, float] | None = None,
        jobs: int = 1,
    ) -> float:
        """Seconds until all is proven, at best: the work shared out evenly, nothing cut in two.

        Arguments:
            waiting: claims that no process has taken.
            running: seconds since a process began with each of the others.
            jobs: processes.
        """
        pace = self._taken / self._expected
        begun = [max(0.0, pace * self.of(each) - at) for each, at in (running or {}).items()]
        whole = [pace * self.of(each) for each in waiting]
        return max([sum(begun + whole) / jobs, *begun, *whole])


def key(claim: Claim) -> str:
    """ "source module.function", under which a claim's seconds are kept."""
    return f"{claim.source} {claim.name}"


def recorded(path: Path) -> dict[str, float]:
    """The processor seconds of each claim in a check's JSON, or those that passed where none were
    counted; nothing where that can't be read."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        return {
            f"{each['source']} {each['name']}": float(each.get("processor", each["seconds"]))
            for each in read["claims"]
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


@cache
def shipped() -> Mapping[str, float]:
    """The table that comes with the book."""
    table: dict[str, float] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table
