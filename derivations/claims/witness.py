"""The witness of a misprint: a number that the printed statement and the derived one give apart.

Two expressions differ if they differ at one point, so that a pair of numbers and the values of the
symbols at which they were taken prove it, where an algebra system's failing to reduce a difference
to 0 would not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import sympy

from derive.errors import InputError
from derive.gaussian.brackets import Average, Component

DIGITS = 30
"""To which expressions are evaluated."""

SHOWN = 8
"""Digits that are written; an error that does not show at them is not."""

EXACT, ROUNDED = 1e-20, 1e-9
"""The relative error allowed of an expression's value, and of a float."""

POINTS = 12
"""At how many points two expressions are tried."""


@dataclass(frozen=True)
class Witness:
    """A number as printed and as derived.

    Attributes:
        printed, derived: decimals.
        error: what both together may be off.
        at: the values of the symbols, in words.
    """

    printed: str
    derived: str
    error: float = 0.0
    at: str = ""

    @property
    def differ(self) -> bool:
        """True if they are further apart than their error."""
        with mpmath.workdps(DIGITS):
            return bool(abs(mpmath.mpf(self.printed) - mpmath.mpf(self.derived)) > self.error)

    def __str__(self) -> str:
        def short(number: str) -> str:
            return str(mpmath.nstr(mpmath.mpf(number), SHOWN))

        where = f" at {self.at}" if self.at else ""
        with mpmath.workdps(DIGITS):
            apart = abs(mpmath.mpf(self.printed) - mpmath.mpf(self.derived))
            error = f" (together ± {self.error:.1g})" if self.error > apart * 10.0**-SHOWN else ""
            return f"printed {short(self.printed)}, derived {short(self.derived)}{where}{error}"


def given(pair: Sequence[Any]) -> Witness:
    """The witness of numbers (printed, derived), or (printed, derived, error).

    Raises InputError for anything but two or three numbers.
    """
    wanted = "(printed, derived), or with a bound on their error"
    if isinstance(pair, str) or not 2 <= len(pair) <= 3:
        raise InputError("witness", pair, wanted)
    values = [value for each in pair if (value := _value(each)) is not None]
    if len(values) < len(pair):
        raise InputError("witness", pair, f"real numbers: {wanted}")
    floats = any(_rounded(each) for each in pair[:2])
    size = max(abs(value) for value in values[:2])
    error = values[2] if len(pair) == 3 else size * (ROUNDED if floats else EXACT)
    return Witness(_text(values[0]), _text(values[1]), float(error))


def generic(derived: Any, printed: Any) -> Witness | None:
    """The witness of two expressions at rational values of their symbols; None where no point is
    found at which they differ."""
    left, right = sympy.sympify(derived), sympy.sympify(printed)
    unknown = _unknown(left) | _unknown(right)
    floats = _rounded(left) or _rounded(right)
    for values in _points(unknown):
        derived_value, printed_value = (_value(each.xreplace(values)) for each in (left, right))
        if derived_value is None or printed_value is None:
            continue
        size = max(abs(derived_value), abs(printed_value))
        at = ", ".join(f"{symbol} = {value}" for symbol, value in values.items())
        error = float(size) * (ROUNDED if floats else EXACT)
        found = Witness(_text(printed_value), _text(derived_value), error, at)
        if found.differ:
            return found
    return None


def _points(unknown: set[sympy.Basic]) -> Iterator[Mapping[sympy.Basic, sympy.Rational]]:
    """Rational values, different for each, below 1 and above it by turns; primes for integers."""
    ordered = sorted(unknown, key=str)
    for attempt in range(POINTS if ordered else 1):
        values = {}
        for k, symbol in enumerate(ordered):
            small, large = (sympy.prime(k + attempt + 2 + more) for more in (0, 3))
            value = sympy.Rational(*((large, small) if attempt % 2 else (small, large)))
            value = sympy.Integer(small) if symbol.is_integer else value
            values[symbol] = -value if symbol.is_negative else value
        yield values


def _unknown(expression: sympy.Basic) -> set[sympy.Basic]:
    """The unknowns that need a value: symbols, functions of which nothing is known, components of
    tensors, and averages over an unspecified activation."""
    opaque = expression.atoms(Average, Component, sympy.core.function.AppliedUndef)
    around = expression.xreplace({each: sympy.Dummy() for each in opaque})
    return {*opaque, *(each for each in around.free_symbols if not isinstance(each, sympy.Dummy))}


def _rounded(value: Any) -> bool:
    """True if it is a float, or has one in it."""
    if isinstance(value, sympy.Basic):
        return bool(value.atoms(sympy.Float))
    return not isinstance(value, int) and not hasattr(value, "numerator")


def _value(number: Any) -> mpmath.mpf | None:
    """To `DIGITS` digits; None unless it is real and finite."""
    with mpmath.workdps(DIGITS):
        if hasattr(number, "numerator") and not isinstance(number, sympy.Basic | float):
            return mpmath.mpf(int(number.numerator)) / int(number.denominator)
        if isinstance(number, sympy.Basic):
            number = sympy.sympify(number).doit().evalf(DIGITS)
            if not (number.is_number and number.is_real and number.is_finite):
                return None
        try:
            value = mpmath.mpf(number)
        except (TypeError, ValueError):
            return None
        return value if mpmath.isfinite(value) else None


def _text(value: mpmath.mpf) -> str:
    return str(mpmath.nstr(value, DIGITS))
