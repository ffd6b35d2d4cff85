"""Claims' Python: each one's source, and its comments, keywords, strings and numbers marked."""

from __future__ import annotations

import ast
import inspect
import keyword
import re
import sys
from collections.abc import Callable
from functools import cache

from markupsafe import Markup, escape

_MARKED = re.compile(
    rf"""
    (?P<c>\#[^\n]*) |
    (?P<s>(?:\b(?:[uU]|[rbfRBF]{{1,2}}))?(?:
        \"{{3}}(?:\\.|[^\\])*?\"{{3}} | '{{3}}(?:\\.|[^\\])*?'{{3}} |
        "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*')) |
    (?P<k>\b(?:{"|".join(keyword.kwlist)})\b) |
    (?P<n>(?<!\w)(?:
        0[xX][\da-fA-F_]+ | 0[oO][0-7_]+ | 0[bB][01_]+ |
        (?:\d[\d_]*(?:\.(?:\d[\d_]*)?)? | \.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?[jJ]?))
    """,
    re.VERBOSE | re.DOTALL,
)
"""A language's tokens as far as they are marked, each found where none before it has begun."""


def marked(source: str) -> Markup:
    """Python as HTML."""
    parts: list[str] = []
    end = 0
    for token in _MARKED.finditer(source):
        parts += escape(source[end : token.start()]), f'<i class="{token.lastgroup}">'
        parts += escape(token.group()), "</i>"
        end = token.end()
    return Markup("".join([*parts, escape(source[end:])]))


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
