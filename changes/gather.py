"""The sentences of `changes/` go into the changelog, under the version of pyproject.toml.

python changes/gather.py        # `make changelog`

A version with headings of capabilities gets each sentence under the heading of its topic, by
`HEADINGS`. In the first release nothing has changed or was repaired for a reader: what is added is
gathered, and the other sentences are printed and dropped.
"""

from __future__ import annotations

import datetime
import re
import textwrap
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

KINDS = ("added", "changed", "fixed")
WIDTH = 140
HEADINGS = {
    "Derivations": ("depth", "exact", "gram", "haar", "recursion", "second", "third"),
    "Weights": ("entries", "laws", "weights"),
    "Layers": ("attention", "batch", "batchnorm", "convolutions", "fixed", "norm", "shaped"),
    "Training": ("descent", "posterior", "training", "trained"),
    "Ensembles": ("cluster", "comparison", "gpu", "simulate", "verify"),
    "Models": ("frameworks", "init", "model", "models", "qk", "report", "reports"),
    "The book": ("book", "chapter", "check", "figure"),
    "Sessions": ("command", "help", "short", "study", "unknown"),
}
"""The first words of topics under each heading; other topics are under "Numbers"."""


class Fragment(NamedTuple):
    """A sentence, its topic and its kind."""

    topic: str
    kind: str
    text: str


def fragments(folder: Path) -> list[Fragment]:
    """The sentences: what is added first, then what is changed, then what is fixed.

    Raises:
        ValueError: for a file whose name says none of these, or that is empty.
    """
    found = []
    for path in sorted(folder.glob("*.md")):
        match = re.fullmatch(rf"([\w-]+)\.({'|'.join(KINDS)})\.md", path.name)
        text = path.read_text(encoding="utf-8")
        if match and text.strip():
            found.append(Fragment(match[1], match[2], text))
        elif path.name != "README.md":
            raise ValueError(f"{path}: wanted a sentence in <topic>.<{'|'.join(KINDS)}>.md")
    return sorted(found, key=lambda each: (KINDS.index(each.kind), each.topic))


def heading(topic: str) -> str:
    """The capability of a topic.

    >>> heading("attention-keys"), heading("precise-kinks")
    ('Layers', 'Numbers')
    """
    first = topic.partition("-")[0]
    return next((name for name, words in HEADINGS.items() if first in words), "Numbers")


def gathered(
    changelog: str, version: str, found: Sequence[Fragment], today: datetime.date | None
) -> str:
    """The changelog with these sentences last under the version's heading, made if there is none.

    >>> new = [Fragment("keys", "added", "B.")]
    >>> print(gathered("# Changes\\n\\n## 1\\n\\n- A.\\n", "1", new, None))
    # Changes
    <BLANKLINE>
    ## 1
    <BLANKLINE>
    - A.
    - B.
    <BLANKLINE>
    """
    if not found:
        return changelog
    title, *sections = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    if not any(_is_of(each, version) for each in sections):
        sections.insert(0, f"## {version}, {today:%Y-%m-%d}\n\n")
    for place, section in enumerate(sections):
        if _is_of(section, version):
            end = "\n" if place == len(sections) - 1 else "\n\n"
            parts = re.split(r"^(?=### )", section, flags=re.MULTILINE)
            for each in found:
                at = _part(parts, heading(each.topic))
                parts[at] = f"{parts[at].rstrip()}{_gap(parts[at])}{_item(each.text)}\n\n"
            sections[place] = "".join(parts).rstrip("\n") + end
    return title + "".join(sections)


def is_first(changelog: str, version: str) -> bool:
    """True if the changelog has no other version."""
    return all(_is_of(line, version) for line in re.findall(r"^## .*", changelog, re.MULTILINE))


def _is_of(section: str, version: str) -> bool:
    return bool(re.match(rf"## {re.escape(version)}\b(?!\.)", section))


def _part(parts: Sequence[str], name: str) -> int:
    starts = [part.partition("\n")[0] for part in parts]
    return starts.index(f"### {name}") if f"### {name}" in starts else len(parts) - 1


def _gap(part: str) -> str:
    """A blank line between a heading and its first item."""
    return "\n" if "\n" in part.strip() else "\n\n"


def _item(text: str) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def main(root: Path) -> None:
    """Gather, then remove what was gathered."""
    folder, changelog = root / "changes", root / "CHANGELOG.md"
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text, version = changelog.read_text(encoding="utf-8"), project["version"]
    every = found = fragments(folder)
    if is_first(text, version):
        found = [each for each in every if each.kind == "added"]
    for each in every:
        if each not in found:
            print(f"dropped, {each.kind} before the first release: {each.topic}")
    today = datetime.datetime.now(tz=datetime.UTC).date()
    changelog.write_text(gathered(text, version, found, today), encoding="utf-8")
    for each in every:
        (folder / f"{each.topic}.{each.kind}.md").unlink()


if __name__ == "__main__":
    main(Path(__file__).parents[1])
