"""The entries of a Haar matrix in an integrand: their rows and columns, read from index lists."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import factorial
from typing import NamedTuple, TypeAlias

import sympy

from ..errors import InputError, as_sequence
from ..expressions import as_expression, is_name
from .columns import Entry, Row
from .pairings import double_factorial_pairings

Index: TypeAlias = int | str | sympy.Expr


class Factor(NamedTuple):
    """The entry M_{row col} or its conjugate; columns are labelled as rows are."""

    row: Row
    col: Row
    conjugated: bool

    @property
    def transposed(self) -> Factor:
        """The same entry of Mᵀ."""
        return Factor(self.col, self.row, self.conjugated)


def read_all(
    rows: Sequence[Index],
    cols: Sequence[Index],
    conj_rows: Sequence[Index],
    conj_cols: Sequence[Index],
    n: sympy.Expr,
    group: str,
) -> list[Factor]:
    """The entries of these index lists; over O(n) a conjugated one is as good as one that is not.

    Raises InputError for lists of unequal length and for an index out of range.
    """
    return [
        *_factors(("rows", rows), ("cols", cols), n, group, False),
        *_factors(("conj_rows", conj_rows), ("conj_cols", conj_cols), n, group, group != "O"),
    ]


def _factors(
    rows: tuple[str, Sequence[Index]],
    cols: tuple[str, Sequence[Index]],
    n: sympy.Expr,
    group: str,
    conjugated: bool,
) -> Iterator[Factor]:
    given = [as_sequence(name, values, "a list of indices") for name, values in (rows, cols)]
    if len(given[0]) != len(given[1]):
        raise InputError(f"{rows[0]}, {cols[0]}", (rows[1], cols[1]), "lists of equal length")
    for i, j in zip(*given, strict=True):
        yield Factor(_line(i, n, group, rows[0]), _line(j, n, group, cols[0]), conjugated)


def _line(given: Index, n: sympy.Expr, group: str, argument: str) -> Row:
    """The row or column of an index; for Sp(n) those in the second half are barred."""
    if type(given) is int and group != "Sp" and 0 < given <= (int(n) if n.is_Integer else given):
        return Row(given, False)
    error = InputError(argument, given, f"integers from 1 to {n}, or symbols")
    if isinstance(given, str) and not is_name(given):
        raise error
    index = (
        sympy.Symbol(given)
        if isinstance(given, str)
        else as_expression(argument, given, error.wanted)
    )
    if n.is_Integer and index.is_number and index > n:
        raise error
    barred = False
    if group == "Sp":
        past_half = sympy.expand(index - n / 2)
        barred = bool(past_half > 0) if past_half.is_number else _mentions(index, n)
        index = past_half if barred else index
    if _mentions(index, n) or (index.is_number and not (index.is_Integer and index > 0)):
        raise error
    return Row(int(index) if index.is_number else index, barred)


def _mentions(index: sympy.Expr, n: sympy.Expr) -> bool:
    return bool(index.free_symbols & n.free_symbols)


def check_distinct(factors: Sequence[Factor], n: sympy.Expr, group: str) -> None:
    """InputError where there are more labels, all different, than rows or columns."""
    room = n / 2 if group == "Sp" else n
    for name, labels in (
        ("rows", {f.row.label for f in factors}),
        ("cols", {f.col.label for f in factors}),
    ):
        if room.is_number and len(labels) > room:
            raise InputError(name, sorted(labels, key=str), f"at most {room} distinct indices")


def unbarred(factor: Factor) -> Entry:
    """S_{r j̄} as an entry of the first half's columns, S̄_{r̄ j} up to −J's sign on r."""
    row, col, conjugated = factor
    if col.barred:
        return Entry(row.partner, col.label, not conjugated)
    return Entry(row, col.label, conjugated)


def matchings(factors: Sequence[Factor], group: str) -> int:
    """The number of pairings p with δ_p(rows) ≠ 0."""
    kinds: dict[object, Counter[bool]] = defaultdict(Counter)
    for (label, barred), _, conjugated in factors:
        kinds[label][conjugated ^ barred] += 1
    ways = 1
    for count in kinds.values():
        if group == "O":
            ways *= 0 if count.total() % 2 else double_factorial_pairings(count.total())
        else:
            ways *= factorial(count[True]) if count[True] == count[False] else 0
    return ways
