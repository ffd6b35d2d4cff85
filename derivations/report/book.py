"""The data of a report: outcomes, and the ledger of each chapter."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import get_args

from derivations.claims import Claim, Kind, Outcome
from derivations.claims.kept import Tally
from derivations.ledger import Entry, entries, verdict
from derive.errors import InputError

ORDER = (*get_args(Kind), "not a statement", "open", "not checked")
"""The verdicts on a statement, in the order in which they are counted."""

FINE = 0.05
"""The resolution that half of the sampled numbers should have."""


@dataclass(frozen=True)
class Book:
    """Everything that was proven, and what it was to prove.

    Attributes:
        outcomes: of the claims, in the book's order.
        ledger: by source, the numbered statements.
        seed: of every ensemble.
        reference: processor seconds of the reference loop (`claims.reference`); None unmeasured.
    """

    outcomes: Sequence[Outcome]
    ledger: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    seed: int = 0
    reference: float | None = None

    @property
    def holds(self) -> bool:
        """True if nothing contradicts any claim."""
        return all(outcome.verdict.holds for outcome in self.outcomes)

    @property
    def weak(self) -> list[Outcome]:
        """The claims that agree, but would have agreed with too much."""
        return [outcome for outcome in self.outcomes if outcome.verdict.kind == "weak"]

    @cached_property
    def resolutions(self) -> list[float]:
        """Of each sampled number the relative difference that would have been noticed, in order."""
        return sorted(number for outcome in self.outcomes for number in outcome.verdict.resolutions)

    @property
    def median_resolution(self) -> float:
        """Half of the sampled numbers resolve better; there has to be one."""
        return statistics.median(self.resolutions)

    @property
    def fine(self) -> float:
        """The share of the sampled numbers that resolve to `FINE`; there has to be one."""
        return sum(number <= FINE for number in self.resolutions) / len(self.resolutions)

    @property
    def chapters(self) -> list[str]:
        """The sources that have a claim or a ledger, in order."""
        return sorted({each.claim.source for each in self.outcomes} | set(self.ledger))

    @property
    def compared(self) -> int:
        """The sampled numbers that were compared."""
        return sum(outcome.verdict.comparisons for outcome in self.outcomes)

    @property
    def sampled(self) -> int:
        """The claims that sample."""
        return sum(outcome.claim.sampled for outcome in self.outcomes)

    @property
    def ensembles(self) -> Tally:
        """Those that the claims drew or read back."""
        return sum((outcome.ensembles for outcome in self.outcomes), Tally())

    @property
    def processor(self) -> float:
        """The processor seconds of all claims, where they were counted."""
        return sum(outcome.processor or 0.0 for outcome in self.outcomes)

    def chapter(self, source: str) -> list[Outcome]:
        """The outcomes of a chapter."""
        return [each for each in self.outcomes if each.claim.source == source]

    @cached_property
    def _kinds(self) -> dict[Claim, Kind]:
        return {outcome.claim: outcome.verdict.kind for outcome in self.outcomes}

    def verdict(self, entry: Entry) -> str:
        """The verdict of a numbered statement: the worst of its claims, or why it has none."""
        found = verdict(entry, self._kinds)
        return "not checked" if found == "shown" else found

    def beyond(self, source: str) -> set[Claim]:
        """The chapter's claims that no entry of its ledger names; none where it has no ledger."""
        if source not in self.ledger:
            return set()
        named = {claim for entry in self.ledger[source] for claim in entry.claims}
        return {outcome.claim for outcome in self.chapter(source)} - named


def count(verdicts: Iterable[str]) -> dict[str, int]:
    """How many of each, in the order of `ORDER`."""
    found = Counter(verdicts)
    return {name: found[name] for name in ORDER if name in found}


def ledgers(sources: Iterable[str]) -> tuple[dict[str, Sequence[Entry]], list[str]]:
    """The ledgers of these sources, and what is wrong with those that can't be read: each such
    fault is a failure of the book."""
    found: dict[str, Sequence[Entry]] = {}
    faults = []
    for source in sources:
        try:
            found[source] = entries(source)
        except (InputError, OSError, ValueError) as error:
            faults.append(f"ledger of {source}: {error}")
    return found, faults
