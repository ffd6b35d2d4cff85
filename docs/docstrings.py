"""Docstrings of this package as reStructuredText.

They are plain text: `code` in single backticks, formulas indented after a blank line, |z|² and
K_{ab} as they are. What reStructuredText would take for markup is escaped, and what is code or a
formula becomes a literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

SECTION = re.compile(r"(Arguments|Args|Attributes|Returns|Raises|Yields):$")
MARKUP = re.compile(r"[\\*|]|(?<=\w)_(?!\w)|(?<!\w)_(?=_)|(?<=_)_")
CODE = re.compile(r"``?([^`]+)``?")


def as_rst(lines: Sequence[str]) -> list[str]:
    """The same docstring, line by line, for Sphinx and napoleon to read."""
    made: list[str] = []
    section = literal = False
    for place, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        after_blank = place > 0 and not lines[place - 1].strip()
        if line.strip() and indent == 0:
            literal = False
            section = bool(SECTION.match(line))
        if line.startswith(">>>") or (made and _in_session(lines, place)):
            made.append(line)
            continue
        if indent >= 4 and after_blank and not section and not literal:
            literal = True
            made += ["::", ""]
        made.append(
            line if literal or not line.strip() or (section and indent == 0) else _text(line)
        )
    return made


def _in_session(lines: Sequence[str], place: int) -> bool:
    """Whether a line is the output or the continuation of a doctest."""
    while place >= 0 and lines[place].strip():
        if lines[place].startswith(">>>"):
            return True
        place -= 1
    return False


def _text(line: str) -> str:
    """A line of prose: its code as literals, everything else without markup."""
    parts = CODE.split(line)
    made = [MARKUP.sub(r"\\\g<0>", part) for part in parts]
    for place in range(1, len(parts), 2):
        after = parts[place + 1][:1]
        made[place] = f"``{parts[place]}``" + ("\\ " if after.isalnum() else "")
    return "".join(made)
