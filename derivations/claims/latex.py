"""The LaTeX of what a claim compares, as the report shows it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import chain, repeat
from typing import Any

import mpmath
import sympy

from derive.display.labels import TENSOR_LATEX, component_latex

LONGEST = 1200
"""Characters of LaTeX; what is longer is read better as text, and more of it not at all."""

OPERATIONS = 200
"""Operations in an expression that is still spelled out."""

SHOWN = 4
"""Pairs of sides that a verdict spells out."""

Sides = tuple[str, str]
"""The derived and the printed side."""


def sides(
    pairs: Iterable[tuple[Any, Any]], digits: int | None = None, labels: Iterable[str] = ()
) -> tuple[Sides, ...]:
    """The first few different pairs (derived, printed) of expressions and numbers, in LaTeX.

    With `digits`, an expression is followed by its value to so many. What a pair is the value of,
    its label in LaTeX, stands before the derived side. Pairs with a side that is neither an
    expression nor a number, or too long, are left out.
    """
    found: dict[Sides, str] = {}
    for (left, right), label in zip(pairs, chain(labels, repeat("")), strict=False):
        both = latex(left, digits), latex(right, digits)
        if all(both):
            found.setdefault(both, label)
        if len(found) == SHOWN or sum(len(side) for pair in found for side in pair) > LONGEST:
            break
    return tuple(
        (f"{label} = {left}" if label else left, right) for (left, right), label in found.items()
    )


def latex(value: Any, digits: int | None = None) -> str:
    """The LaTeX of an expression, a matrix or a number; empty if it has none or too much of it."""
    if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
        value = sympy.sympify(value)
    if digits is not None and isinstance(value, (float, mpmath.mpf, sympy.Float)):
        return decimal(value, digits)
    if not isinstance(value, (sympy.Expr, sympy.MatrixBase)) or _operations(value) > OPERATIONS:
        return ""
    written = str(sympy.latex(value, symbol_names=_names(value)))
    if len(written) > LONGEST:
        return ""
    if digits is None or isinstance(value, sympy.MatrixBase) or value.is_Rational:
        return written
    return rf"{written} \approx {decimal(value.evalf(digits + 5), digits)}"


def decimal(value: Any, digits: int) -> str:
    """A number to so many digits, at most 15, with ×10^k for its exponent."""
    mantissa, _, exponent = mpmath.nstr(mpmath.mpf(value), min(digits, 15)).partition("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}" if exponent else mantissa


def _operations(value: Any) -> int:
    return int(sum(each.count_ops() for each in getattr(value, "flat", lambda: [value])()))


def _names(value: Any) -> dict[sympy.Symbol, str]:
    """The tensors that a single input leaves as symbols, such as G1, as the sources print them."""
    labels = {symbol: str(symbol) for symbol in value.free_symbols}
    return {
        symbol: component_latex(label, ())
        for symbol, label in labels.items()
        if label.startswith("kappa(") or (label in TENSOR_LATEX and not label.isalpha())
    }
