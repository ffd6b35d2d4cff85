r"""A long formula over several lines, for a page: LaTeX in amsmath's `aligned`, and text.

A sum is broken before its signs, a product around its longest sum:

    \begin{aligned}
    V & = C_W^2 \biggl( a + b \\
    & \qquad + c \biggr)
    \end{aligned}

so that no \left and its \right stand on different lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import sympy

from ..errors import as_integer

WIDTH = 80
"""Symbols, as a page prints them, that a line of a one-column article has room for."""

NARROWEST = 20

COLUMNS = 100
"""Characters of a line of text."""

_INDENT = 4  # what \qquad takes


def equation(
    left: str, right: sympy.Expr, width: int | None, latex: Callable[[sympy.Expr], str]
) -> str:
    """`left` = `right` in LaTeX, over several lines where one would be wider than `width`.

    Raises InputError for a width below 20 symbols.
    """
    one = f"{left} = {latex(right)}"
    if width is None or breadth(one) <= as_integer("width", width, NARROWEST):
        return one
    room = max(width - breadth(left) - 1 - _INDENT, NARROWEST)
    rows = _filled(list(_pieces(right, room, latex)), room, breadth)
    body = " \\\\\n& \\qquad ".join(rows)
    return f"\\begin{{aligned}}\n{left} & = {body}\n\\end{{aligned}}"


def _pieces(expr: sympy.Expr, room: int, latex: Callable[[sympy.Expr], str]) -> Iterator[str]:
    """The pieces of one line each, all but the first with a sign: within `room` if possible."""
    text = latex(expr)
    if breadth(text) <= room:
        yield text
    elif expr.is_Add:
        for place, term in enumerate(expr.as_ordered_terms()):
            first, *others = _pieces(term, room, latex)
            yield first if place == 0 or first.startswith("-") else f"+ {first}"
            yield from others
    elif expr.is_Mul and any(factor.is_Add for factor in expr.args):
        longest = max((each for each in expr.args if each.is_Add), key=lambda e: breadth(latex(e)))
        rest = expr / longest
        first, *others = _pieces(longest, room, latex)
        before = "-" if rest == -1 else latex(rest)
        inside = [f"{before} \\biggl( {first}", *others]
        yield from [*inside[:-1], f"{inside[-1]} \\biggr)"]
    else:
        yield text


def _filled(pieces: Sequence[str], room: int, size: Callable[[str], int]) -> list[str]:
    """The pieces in rows, as many in each as there is room for."""
    rows, taken = [pieces[0]], size(pieces[0])
    for piece in pieces[1:]:
        taken += 1 + size(piece)
        if taken <= room:
            rows[-1] += f" {piece}"
        else:
            rows.append(piece)
            taken = size(piece)
    return rows


_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\s]")
_SILENT = {
    *(r"\left", r"\right", r"\biggl", r"\biggr", r"\mathrm", r"\mathbb", r"\operatorname"),
    *(r"\,", r"\!", r"\quad", r"\qquad", "_", "^", "{", "}"),
}


def breadth(latex: str) -> int:
    r"""About how many symbols wide LaTeX is printed: of \frac the wider part."""
    return _breadth(iter(_TOKEN.findall(latex)))


def _breadth(tokens: Iterator[str], *, one: bool = False) -> int:
    """To the end of a group, or of `one` symbol or group."""
    total = 0
    for token in tokens:
        if token == "}":
            return total
        if token == "{":
            total += _breadth(tokens)
        elif token == r"\frac":
            total += max(_breadth(tokens, one=True), _breadth(tokens, one=True))
        else:
            total += token not in _SILENT
        if one:
            return total
    return total


def text(line: str, columns: int = COLUMNS) -> str:
    """A line of text over several, broken before the signs of a sum or of one in parentheses."""
    if len(line) <= columns:
        return line
    pieces, depth, start = [], 0, 0
    for place, letter in enumerate(line):
        depth += (letter in "([⟨") - (letter in ")]⟩")
        if letter == " " and depth <= 1 and line[place + 1 : place + 3] in {"+ ", "- "}:
            pieces.append(line[start:place])
            start = place + 1
    return "\n    ".join(_filled([*pieces, line[start:]], columns - 4, len))
