"""A chapter in reading order: the cells of its modules' prose, and the claims between them.

A module is a percent script: a cell of Markdown is `# %% [markdown]` and the comment below it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from derivations.claims.registry import Claim, Outcome, in_module
from derivations.claims.verdicts import Verdict
from derivations.ledger import Entry
from derivations.pictures.drawn import Drawn, drawn
from derive import citations

from .book import Book, count
from .mathematics import CELL, mathml, phrase
from .sources import SOURCES

_CELL = re.compile(r"^# %% \[markdown\]\n((?:#(?! ?%%).*\n?)+)", re.MULTILINE)

TOP = 2
"""The level of a module's title among a page's headings."""
WIDEST = 1.6
"""A figure's width over its height that still fits a phone."""


@dataclass(frozen=True)
class Proof:
    """A claim's outcome, as a chapter shows it.

    Attributes:
        level: of its heading.
        anchor: on the chapter's page: the claim's name, with a number where a function proves
            several.
    """

    outcome: Outcome
    level: int
    anchor: str

    @property
    def claim(self) -> Claim:
        """The statement and its proof."""
        return self.outcome.claim

    @property
    def verdict(self) -> Verdict:
        """The result of the proof."""
        return self.outcome.verdict

    @property
    def against(self) -> str:
        """The other side of a comparison with "derived", in a word."""
        return "printed" if self.verdict.z is None else "sampled"

    @property
    def sides(self) -> list[tuple[Markup, Markup]]:
        """Derived and printed, as mathematics."""
        return [
            (mathml(left, display=True, boxed=True), mathml(right, display=True, boxed=True))
            for left, right in self.verdict.sides
        ]

    @property
    def widest(self) -> int:
        """Letters of the longest side."""
        return max((len(side.striptags()) for pair in self.sides for side in pair), default=0)

    @property
    def pictures(self) -> list[PictureView]:
        """The figures, by the names of their files."""
        found = []
        for name, picture in self.verdict.figures.items():
            stem = f"{self.claim.source}-{self.anchor}-{name}"
            stem = re.sub(r"[^\w.-]", "_", stem, flags=re.ASCII)
            found.append(PictureView(drawn(picture), f"{stem}.svg", f"{stem}.csv"))
        return found


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
class Section:
    """A module.

    Attributes:
        name: without its package.
        title: its first heading.
        parts: prose as HTML, its headings below the page's, and claims, in the source's order.
    """

    name: str
    title: Markup
    parts: tuple[Markup | Proof, ...]

    @property
    def claims(self) -> list[Proof]:
        """Those among its parts."""
        return [each for each in self.parts if isinstance(each, Proof)]


def sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """A chapter's modules, in the order in which their claims come."""
    modules: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        modules.setdefault(outcome.claim.prove.__module__, []).append(outcome)
    known = anchors(outcomes)
    return [_section(name, found, known) for name, found in modules.items()]


def anchors(outcomes: Sequence[Outcome]) -> dict[Claim, str]:
    """A claim's name; with a number where a function proves several."""
    found: dict[Claim, str] = {}
    names: Counter[str] = Counter()
    for outcome in outcomes:
        name = outcome.claim.name
        names[name] += 1
        found[outcome.claim] = name if names[name] == 1 else f"{name}-{names[name]}"
    return found


def _section(module: str, outcomes: Sequence[Outcome], known: Mapping[Claim, str]) -> Section:
    """Prose under a heading whose claims are all another chapter's is left out with them."""
    ours = {outcome.claim for outcome in outcomes}
    cells = _cells(module)
    marks: list[_Cell | Outcome | Claim] = [
        *cells,
        *outcomes,
        *(each for each in in_module(module) if each not in ours),
    ]
    titles = [words for cell in cells for level, words in cell.headings if level == TOP]
    name = module.rpartition(".")[2]
    title = titles[0] if titles else Markup("{}").format(name.replace("_", " "))
    parts: list[Markup | Proof] = []
    if not titles:
        parts.append(Markup("<h{0}>{1}</h{0}>").format(TOP, title))
    for group in _groups(sorted(marks, key=_line)):
        if any(isinstance(each, Claim) for each in group) and not any(
            isinstance(each, Outcome) for each in group
        ):
            continue
        level = TOP
        for each in group:
            if isinstance(each, _Cell):
                parts.append(each.html)
                level = each.headings[-1][0] if each.headings else level
            elif isinstance(each, Outcome):
                parts.append(Proof(each, level + 1, known[each.claim]))
    return Section(name, title, tuple(parts))


@dataclass(frozen=True)
class _Cell:
    """A cell of Markdown: its line, its HTML, and its headings with their levels on the page."""

    line: int
    html: Markup
    headings: tuple[tuple[int, Markup], ...]


def _cells(module: str) -> list[_Cell]:
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # made at a prompt, say
        return []
    found = []
    for match in _CELL.finditer(source):
        text = re.sub(r"^# ?", "", match[1], flags=re.MULTILINE)
        found.append(_cell(source.count("\n", 0, match.start()) + 1, text))
    return found


def _cell(line: int, text: str) -> _Cell:
    tokens = CELL.parse(text)
    headings = []
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type in {"heading_open", "heading_close"}:
            level = int(token.tag[1]) + TOP - 1
            token.tag = f"h{level}"
            if following is not None and token.type == "heading_open":
                words = CELL.renderer.render([following], CELL.options, {})
                headings.append((level, Markup(words)))
    return _Cell(line, Markup(CELL.renderer.render(tokens, CELL.options, {})), tuple(headings))


def _line(mark: _Cell | Outcome | Claim) -> int:
    if isinstance(mark, _Cell):
        return mark.line
    claim = mark.claim if isinstance(mark, Outcome) else mark
    return int(inspect.unwrap(claim.prove).__code__.co_firstlineno)


def _groups(
    marks: Sequence[_Cell | Outcome | Claim],
) -> Iterator[list[_Cell | Outcome | Claim]]:
    """The cells from one with a heading up to the next, the first of them included."""
    group: list[_Cell | Outcome | Claim] = []
    for mark in marks:
        if isinstance(mark, _Cell) and mark.headings and group:
            yield group
            group = []
        group.append(mark)
    if group:
        yield group


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
