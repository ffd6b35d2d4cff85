"""Names that two pieces of emitted source would share, told apart by a suffix."""

from __future__ import annotations

import re

_DEFINED = re.compile(r"^(?:def (\w+)|(\w+) =)", re.MULTILINE)


class Apart:
    """Renames what a piece of Python source defines at its top level.

    Arguments:
        source: the piece.
        suffix: put behind each name; "" changes nothing.
    """

    def __init__(self, source: str, suffix: str) -> None:
        names = {name for match in _DEFINED.finditer(source) for name in match.groups() if name}
        self._defined = re.compile(rf"\b({'|'.join(sorted(names)) or '(?!)'})\b")
        self._new = rf"\1{suffix}"
        self.source = self(source)

    def __call__(self, text: str) -> str:
        """The text with the new names."""
        return self._defined.sub(self._new, text)
