"""Claims' Python: each one's source, and its comments, keywords, strings and numbers marked."""

from __future__ import annotations

import ast
import inspect
import io
import keyword
import sys
import tokenize
from collections.abc import Callable, Iterator
from itertools import accumulate

from markupsafe import Markup, escape

from derive.work.caches import cache

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
    """A function of a module as it is written, its decorators with it; empty where it is not in a
    file, made at a prompt, say."""
    try:
        lines, ends = _functions(function.__module__)
        first: int = function.__code__.co_firstlineno
        return inspect.cleandoc("\n" + "".join(lines[first - 1 : ends[first]]))
    except (OSError, TypeError, KeyError, AttributeError):
        return ""


@cache
def _functions(module: str) -> tuple[list[str], dict[int, int]]:
    """The lines of a module, and where each of its functions ends, by where it begins."""
    lines = inspect.getsource(sys.modules[module]).splitlines(keepends=True)
    ends = {}
    for each in ast.walk(ast.parse("".join(lines))):
        if isinstance(each, ast.FunctionDef):
            first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
            ends[first] = each.end_lineno or first
    return lines, ends
