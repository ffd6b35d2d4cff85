"""The sources' figures by their numbers: the claims that draw one, and what is open of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from derivations.claims.registry import CHAPTERS, Claim
from derivations.ledger import entries
from derive.errors import InputError

_NAME = re.compile(r"(\w+):(\d+)")
_ITEM = re.compile(r"Figure (\d+)( \(.*\))?")


@dataclass(frozen=True)
class SourceFigure:
    """A figure of a source.

    Attributes:
        source, number: "000", 3.
        claims: what draws it, in the ledger's order; none where all of it is an experiment.
        open: the notes on what of it is an experiment with training.
    """

    source: str
    number: int
    claims: tuple[Claim, ...]
    open: tuple[str, ...]

    @property
    def name(self) -> str:
        """ "000:3", as `wickgarten figure` takes it."""
        return f"{self.source}:{self.number}"


def figures(source: str) -> dict[int, SourceFigure]:
    """All figures of a source by their numbers; InputError for a source that has no ledger."""
    found: dict[int, SourceFigure] = {}
    for entry in entries(source):
        if match := _ITEM.fullmatch(entry.item):
            number = int(match[1])
            before = found.get(number, SourceFigure(source, number, (), ()))
            notes = (entry.note,) if entry.status == "open" else ()
            claims = dict.fromkeys((*before.claims, *entry.claims))
            found[number] = SourceFigure(source, number, tuple(claims), (*before.open, *notes))
    return found


def drawn() -> list[SourceFigure]:
    """Those that the book draws, in its order."""
    return [each for source in CHAPTERS for each in figures(source).values() if each.claims]


def figure(name: str) -> SourceFigure:
    """The figure of a name such as "000:3".

    Raises:
        InputError: for anything else, for a figure that the source does not have, and for one that
            is an experiment with training, which the book does not repeat.
    """
    match = _NAME.fullmatch(name)
    if not match or match[1] not in CHAPTERS:
        having = [source for source in CHAPTERS if figures(source)]
        raise InputError("FIGURE", name, f"SOURCE:NUMBER, the source one of {', '.join(having)}")
    source, number = match[1], int(match[2])
    known = figures(source)
    there = ", ".join(each.name for each in known.values() if each.claims)
    if not known:
        raise InputError("FIGURE", name, f"a figure: {source} has none")
    if number not in known:
        raise InputError("FIGURE", name, f"one of {source}'s that the book draws: {there}")
    if not known[number].claims:
        (note,) = known[number].open
        raise InputError("FIGURE", name, f"one that is no {note}; of {source} there are {there}")
    return known[number]
