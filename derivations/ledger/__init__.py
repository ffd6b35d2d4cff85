"""Every numbered statement of the five sources, and others, and what in the book shows it.

One file a source, `000.toml` … `004.toml`, and `layers.toml`, `attention.toml`, `deep.toml` and
`training.toml` of the chapters beyond them; a line for each numbered equation, theorem, lemma,
table and figure, in the source's order:

    "5.18" = "vertex.single_input_vertex"             # the claims that show it: module.function
    "4.3" = ["linear.kernel", "linear.power_series"]
    "3.1" = "definition: the preactivations of a fully connected network"
    "Figure 4" = "open: training"

`definition` is for what states nothing that could be false, and `open` for training experiments.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from derivations.claims import CHAPTERS, WORST_FIRST, Claim, Kind, claims
from derive.errors import InputError

Status = Literal["shown", "not a statement", "open"]

_STATUS: Mapping[str, Status] = {"definition": "not a statement", "open": "open"}


@dataclass(frozen=True)
class Entry:
    """A numbered statement: the claims that show it, or why none does.

    Attributes:
        source, item: "000" and "5.18", "Lemma 4", "Figure 2" …
        status: "shown", "not a statement" (a definition) or "open" (a training experiment).
        claims: what shows it; none unless its status is "shown".
        note: what is defined, or which experiment is open.
    """

    source: str
    item: str
    status: Status
    claims: tuple[Claim, ...] = ()
    note: str = ""

    @property
    def numbered(self) -> bool:
        """True if the source numbers it: no §, nothing in brackets, no appendix of 001 or 003."""
        heading = self.source in {"001", "003"} and _HEADING.fullmatch(self.item)
        return not (heading or "§" in self.item or "(" in self.item)


_HEADING = re.compile(r"[A-Z]\.\d+")


def entries(source: str) -> list[Entry]:
    """The ledger of a source, in the source's order.

    Raises:
        InputError: for a source that has no ledger, or an entry that names no claim of the chapter.
    """
    if source not in CHAPTERS:
        raise InputError("source", source, f"one of {', '.join(CHAPTERS)}")
    text = (files(__name__) / f"{source}.toml").read_text(encoding="utf-8")
    by_name = {each.name: each for each in claims([source])}
    return [_entry(source, item, given, by_name) for item, given in tomllib.loads(text).items()]


def _entry(source: str, item: str, given: str | list[str], by_name: Mapping[str, Claim]) -> Entry:
    if isinstance(given, str) and ":" in given:
        word, note = given.split(":", 1)
        if word not in _STATUS:
            raise InputError(f"{source} {item}", given, "definition: …, or open: …")
        return Entry(source, item, _STATUS[word], note=note.strip())
    names = [given] if isinstance(given, str) else given
    for name in names:
        if name not in by_name:
            raise InputError(f"{source} {item}", name, "module.function of a claim of the chapter")
    return Entry(source, item, "shown", tuple(by_name[name] for name in names))


def verdict(entry: Entry, proven: Mapping[Claim, Kind]) -> str:
    """The verdict of an entry: the worst of its claims."""
    kinds = {proven[each] for each in entry.claims if each in proven}
    return next((kind for kind in WORST_FIRST if kind in kinds), entry.status)
