"""Claims and chapters as the pages show them, ready for their templates."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from derivations.claims.registry import Claim, Outcome
from derivations.ledger import Entry
from derivations.pictures.drawn import Drawn, drawn
from derive import citations

from .book import Book, count
from .chapters import Proof, Prose, sections
from .code import marked, source
from .formulas import mathml
from .mathematics import phrase, plain, prose
from .sources import SOURCES
from .terminal import measure

LONGEST = 300
"""Characters of a text that are shown before the rest is folded away."""


WIDEST = 1.6
"""A figure's width over its height that still fits a phone."""

NARROW, WIDE = 10, 40
"""Characters of a formula that leaves room for another beside it, on a phone and on a desk."""


@dataclass(frozen=True)
class Text:
    """A side in plain text: its beginning, and all of it where that is not all."""

    start: str
    all: str = ""

    @staticmethod
    def of(text: str) -> Text:
        """Cut where it is too long to read."""
        return Text(text) if len(text) <= LONGEST else Text(text[:LONGEST] + " …", text)


@dataclass(frozen=True)
class PictureView:
    """A figure: its files and its words."""

    made: Drawn
    svg: str
    numbers: str

    @property
    def wide(self) -> bool:
        """True if it has to scroll on a phone to be read."""
        box = re.search(r'viewBox="\S+ \S+ (\S+) ([^"\s]+)"', self.made.svg)
        return box is not None and float(box[1]) > WIDEST * float(box[2])


@dataclass(frozen=True)
class ClaimView:
    """A claim with all that the page says of it.

    Attributes:
        anchor: on the chapter's page.
        level: of its heading.
        citation: of the source's statement.
        title: without markup; `heading` with it.
        sure: how sure the verdict is.
        against: what stands against "derived".
        sides: both sides as mathematics; `stacked` if too long to stand side by side, `wide` if
            they may have to scroll on a phone.
        derived, printed: both as text.
        beyond: whether no numbered statement rests on it.
    """

    source: str
    anchor: str
    level: int
    citation: str
    title: str
    heading: Markup
    kind: str
    sure: str
    seconds: str
    prose: Markup
    against: str
    sides: tuple[tuple[Markup, Markup], ...]
    stacked: bool
    wide: bool
    derived: Text
    printed: Text
    detail: Markup
    witness: str
    pictures: tuple[PictureView, ...]
    table: str
    code: Markup
    beyond: bool


@dataclass(frozen=True)
class SectionView:
    """A module: prose as HTML, and claims."""

    name: str
    title: Markup
    parts: tuple[Markup | ClaimView, ...]

    @property
    def claims(self) -> list[ClaimView]:
        """Those among its parts."""
        return [each for each in self.parts if isinstance(each, ClaimView)]


@dataclass(frozen=True)
class EntryView:
    """A numbered statement with links to its claims, (anchor, text) each, or a note."""

    item: str
    verdict: str
    links: tuple[tuple[str, Markup], ...]
    note: Markup


@dataclass(frozen=True)
class ChapterView:
    """A source: its sections, its ledger, and the counts of both."""

    source: str
    title: str
    authors: str
    bibtex: str
    sections: tuple[SectionView, ...]
    entries: tuple[EntryView, ...]
    claimed: Mapping[str, int]
    counted: Mapping[str, int]
    seconds: str

    @property
    def page(self) -> str:
        """Its file."""
        return f"{self.source}.html"

    @property
    def claims(self) -> list[ClaimView]:
        """Of all sections."""
        return [each for section in self.sections for each in section.claims]


def chapter(book: Book, source: str) -> ChapterView:
    """All that the chapter's page shows."""
    outcomes, beyond = book.chapter(source), book.beyond(source)
    anchors = _anchors(outcomes)
    shown = []
    for section in sections(outcomes):
        parts = [
            part.html
            if isinstance(part, Prose)
            else _claim(part, anchors[part.outcome.claim], part.outcome.claim in beyond)
            for part in section.parts
        ]
        shown.append(SectionView(section.name, section.title, tuple(parts)))
    entries = [_entry(book, each, anchors) for each in book.ledger.get(source, ())]
    title, authors = SOURCES.get(source, (source, ""))
    return ChapterView(
        source,
        title,
        authors,
        citations.entries().get(citations.SOURCES.get(source, ""), ""),
        tuple(shown),
        tuple(entries),
        count(outcome.verdict.kind for outcome in outcomes),
        count(entry.verdict for entry in entries),
        duration(sum(outcome.seconds for outcome in outcomes)),
    )


def _anchors(outcomes: Sequence[Outcome]) -> dict[Claim, str]:
    """A claim's name; with a number where a function proves several."""
    found: dict[Claim, str] = {}
    names: Counter[str] = Counter()
    for outcome in outcomes:
        name = outcome.claim.name
        names[name] += 1
        found[outcome.claim] = name if names[name] == 1 else f"{name}-{names[name]}"
    return found


def _entry(book: Book, entry: Entry, anchors: Mapping[Claim, str]) -> EntryView:
    links = [(anchors[each], phrase(each.title)) for each in entry.claims if each in anchors]
    return EntryView(cited(entry.item), book.verdict(entry), tuple(links), phrase(entry.note or ""))


def _claim(proof: Proof, anchor: str, beyond: bool) -> ClaimView:
    claim, verdict = proof.outcome.claim, proof.outcome.verdict
    stems = {
        name: re.sub(r"[^\w.-]", "_", f"{claim.source}-{anchor}-{name}", flags=re.ASCII)
        for name in verdict.figures
    }
    pictures = [
        PictureView(drawn(each), f"{stems[name]}.svg", f"{stems[name]}.csv")
        for name, each in verdict.figures.items()
    ]
    sides = tuple(
        (mathml(left, display=True, boxed=True), mathml(right, display=True, boxed=True))
        for left, right in verdict.sides
    )
    lengths = [len(side.striptags()) for pair in sides for side in pair]
    return ClaimView(
        source=claim.source,
        anchor=anchor,
        level=proof.level,
        citation=cited(claim.equation),
        title=plain(claim.title),
        heading=phrase(claim.title),
        kind=verdict.kind,
        sure=measure(verdict),
        seconds=duration(proof.outcome.seconds),
        prose=prose(inspect.cleandoc(claim.prose)),
        against="sampled" if verdict.z is not None else "printed",
        sides=sides,
        stacked=max(lengths, default=0) > WIDE,
        wide=max(lengths, default=0) > NARROW,
        derived=Text.of(verdict.derived),
        printed=Text.of(verdict.printed),
        detail=phrase(verdict.detail),
        witness=str(verdict.witness or ""),
        pictures=tuple(pictures),
        table=verdict.table,
        code=marked(source(claim.prove)),
        beyond=beyond,
    )


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
