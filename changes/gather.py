"""The sentences of `changes/` go into the changelog, under the version of pyproject.toml.

python changes/gather.py        # `make changelog`
"""

from __future__ import annotations

import datetime
import re
import textwrap
import tomllib
from pathlib import Path

KINDS = ("added", "changed", "fixed")
WIDTH = 105


def fragments(folder: Path) -> list[Path]:
    """The files to gather: what is added first, then what is changed, then what is fixed.

    Raises:
        ValueError: for a file whose name says none of these, or that is empty.
    """
    found = []
    for path in sorted(folder.glob("*.md")):
        match = re.fullmatch(rf"[\w-]+\.({'|'.join(KINDS)})\.md", path.name)
        if match and path.read_text(encoding="utf-8").strip():
            found.append((KINDS.index(match[1]), path))
        elif path.name != "README.md":
            raise ValueError(f"{path}: wanted a sentence in <topic>.<{'|'.join(KINDS)}>.md")
    return [path for _, path in sorted(found)]


def gathered(changelog: str, version: str, sentences: list[str], today: datetime.date) -> str:
    """The changelog with these sentences last under the version's heading, made if there is none.

    >>> print(gathered("# Changes\\n\\n## 1, unreleased\\n\\n- A.\\n", "1", ["B."], None))
    # Changes
    <BLANKLINE>
    ## 1, unreleased
    <BLANKLINE>
    - A.
    - B.
    <BLANKLINE>
    """
    if not sentences:
        return changelog
    title, *sections = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    if not any(re.match(rf"## {re.escape(version)}\b(?!\.)", each) for each in sections):
        sections.insert(0, f"## {version}, {today:%Y-%m-%d}\n\n")
    lines = [
        textwrap.fill(
            " ".join(each.split()),
            WIDTH,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for each in sentences
    ]
    for place, section in enumerate(sections):
        if re.match(rf"## {re.escape(version)}\b(?!\.)", section):
            heading, _, body = section.partition("\n")
            items = [*([body.strip("\n")] if body.strip() else []), *lines]
            end = "\n" if place == len(sections) - 1 else "\n\n"
            sections[place] = f"{heading}\n\n" + "\n".join(items) + end
    return title + "".join(sections)


def main(root: Path) -> None:
    """Gather, then remove what was gathered."""
    files = fragments(root / "changes")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = root / "CHANGELOG.md"
    text = gathered(
        changelog.read_text(encoding="utf-8"),
        project["version"],
        [path.read_text(encoding="utf-8") for path in files],
        datetime.datetime.now(tz=datetime.UTC).date(),
    )
    changelog.write_text(text, encoding="utf-8")
    for path in files:
        path.unlink()


if __name__ == "__main__":
    main(Path(__file__).parents[1])
