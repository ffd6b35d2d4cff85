"""Claims' Python: each one's source, and its comments, keywords, strings and numbers marked."""

from __future__ import annotations

import inspect
import io
import keyword
import tokenize
from collections.abc import Callable, Iterator
from itertools import accumulate

from markupsafe import Markup, escape

_KINDS = {tokenize.COMMENT: "c", tokenize.STRING: "s", tokenize.NUMBER: "n"}


def marked(source: str) -> Markup:
    """Python as HTML; what is none is left unmarked."""
    try:
        spans = list(_spans(source))
    except (tokenize.TokenError, SyntaxError):
        return escape(source)
    parts: list[str] = []
    end = 0
    for kind, start, stop in spans:
        parts += (
            escape(source[end:start]),
            f'<i class="{kind}">',
            escape(source[start:stop]),
            "</i>",
        )
        end = stop
    return Markup("".join([*parts, escape(source[end:])]))


def _spans(source: str) -> Iterator[tuple[str, int, int]]:
    """The marked pieces, from where to where; an f-string is marked whole."""
    begins = [0, *accumulate(map(len, io.StringIO(source)))]
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        start, stop = (begins[line - 1] + column for line, column in (token.start, token.end))
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":  # from Python 3.12 on
            opened.append(start)
        elif name == "FSTRING_END":
            first = opened.pop()
            if not opened:
                yield "s", first, stop
        elif not opened:
            kind = "k" if keyword.iskeyword(token.string) else _KINDS.get(token.type)
            if kind is not None:
                yield kind, start, stop


def source(function: Callable[..., object]) -> str:
    """A function as it is written, its decorators with it; empty where it is not in a file."""
    try:
        return inspect.cleandoc("\n" + inspect.getsource(function))
    except (OSError, TypeError):
        return ""
