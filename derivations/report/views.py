"""Chapters as the pages show them, ready for their templates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from derivations.claims.registry import Claim
from derivations.ledger import Entry
from derive import citations

from .book import Book, count
from .chapters import Proof, Section, anchors, sections
from .mathematics import phrase
from .sources import SOURCES


@dataclass(frozen=True)
class EntryView:
    """A numbered statement with links to its claims, (anchor, text) each, or a note."""

    item: str
    verdict: str
    links: tuple[tuple[str, Markup], ...]
    note: Markup


@dataclass(frozen=True)
class ChapterView:
    """A source: its sections, its ledger, and the counts of both.

    Attributes:
        beyond: the claims on which no numbered statement rests.
    """

    source: str
    title: str
    authors: str
    bibtex: str
    sections: tuple[Section, ...]
    entries: tuple[EntryView, ...]
    claimed: Mapping[str, int]
    counted: Mapping[str, int]
    seconds: float
    beyond: set[Claim]

    @property
    def page(self) -> str:
        """Its file."""
        return f"{self.source}.html"

    @property
    def claims(self) -> list[Proof]:
        """Of all sections."""
        return [each for section in self.sections for each in section.claims]


def chapter(book: Book, source: str) -> ChapterView:
    """All that the chapter's page shows."""
    outcomes = book.chapter(source)
    known = anchors(outcomes)
    entries = [_entry(book, each, known) for each in book.ledger.get(source, ())]
    title, authors = SOURCES.get(source, (source, ""))
    return ChapterView(
        source,
        title,
        authors,
        citations.entries().get(citations.SOURCES.get(source, ""), ""),
        tuple(sections(outcomes)),
        tuple(entries),
        count(outcome.verdict.kind for outcome in outcomes),
        count(entry.verdict for entry in entries),
        sum(outcome.seconds for outcome in outcomes),
        book.beyond(source),
    )


def _entry(book: Book, entry: Entry, known: Mapping[Claim, str]) -> EntryView:
    links = [(known[each], phrase(each.title)) for each in entry.claims if each in known]
    return EntryView(cited(entry.item), book.verdict(entry), tuple(links), phrase(entry.note or ""))


def cited(equation: str) -> str:
    """(5.18) for an equation's number, and its name for what has one; remarks after a comma."""
    number, _, remark = equation.partition(" (")
    if re.match(r"[A-Z]?\.?\d", number):
        number = f"({number})"
    return f"{number}, {remark.removesuffix(')')}" if remark else number


def duration(seconds: float) -> str:
    """0.3 s, or 2 min 5 s."""
    if seconds < 0.05:
        return "< 0.1 s"
    if seconds < 59.5:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
