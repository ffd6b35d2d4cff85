"""Haar averages of products of matrix entries over O(n), U(n) and Sp(n), exact in n.

    E[Π_a M_{i_a j_a} Π_b M̄_{i'_b j'_b}] = Σ_{p,q} δ_p(i) W(p,q) δ_q(j)

with p, q pairings of all factors (O: any; U: an M with an M̄; Sp: δ carries the form J). How it is
computed is chosen per integrand: the sum itself where few pairings match, otherwise one column
after the other by `derive.columns`, on the side with fewer columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import factorial, prod
from typing import NamedTuple

import sympy
from flint import fmpq

from .columns import column_average
from .errors import InputError
from .pairings import Pairing, Partition, coset_type, double_factorial_pairings
from .rational import RationalFunction, Term, as_sympy
from .weingarten import alpha_of, dimension, table, value_at

Index = int | str | sympy.Expr
DIRECT_LIMIT = 4_000
SYMBOLIC_LIMIT = 200_000


def haar_moment(
    rows: Sequence[Index],
    cols: Sequence[Index],
    n: sympy.Expr | int,
    group: str = "O",
    conj_rows: Sequence[Index] = (),
    conj_cols: Sequence[Index] = (),
    *,
    distinct: bool = False,
) -> sympy.Expr:
    """E[Π_a M_{rows_a cols_a} Π_b conj(M_{conj_rows_b conj_cols_b})] for M Haar on O, U or Sp(n).

    Arguments:
        rows, cols: indices of the factors: integers from 1 to n, symbols (or their names).
        n: the dimension, an integer or a sympy expression; for Sp(n) even, with form
            J = [[0, 1], [−1, 0]], so that the indices i and n/2 + i are partners.
        group: "O", "U" or "Sp".
        conj_rows, conj_cols: indices of the conjugated factors.
        distinct: take symbols for indices that differ from each other and from the integers
            (for Sp: as names of indices up to n/2 that differ).

    Returns a number for integer n, a reduced and factored rational function of a symbolic n, and
    for symbolic indices a sum of Kronecker deltas times these, right for every coincidence.
    Invariant under permutations of rows and columns and under transposition (M and Mᵀ are equal in
    law). Raises InputError for an index out of range, or lists of unequal length.

    >>> n, i, j = sympy.symbols("n i j")
    >>> haar_moment([1, 1, 2, 2], [1, 1, 2, 2], n)
    (n + 1)/(n*(n - 1)*(n + 2))
    >>> haar_moment([i, j], [1, 1], n)
    KroneckerDelta(i, j)/n
    """
    size = dimension(n, group)
    factors = _factors(rows, cols, size, group, conjugated=False) + _factors(
        conj_rows, conj_cols, size, group, conjugated=True
    )
    if distinct:
        _check_distinct(factors, size, group)
    if not distinct and any(
        not isinstance(label, int) for factor in factors for label in (factor.row, factor.col)
    ):
        return _symbolic(factors, size, group)
    return _concrete(factors, size, group)


class Factor(NamedTuple):
    """An entry M_{row col}; for Sp the barred index is the partner n/2 + index."""

    row: int | sympy.Expr
    col: int | sympy.Expr
    conjugated: bool
    row_barred: bool = False
    col_barred: bool = False


def _factors(
    rows: Sequence[Index], cols: Sequence[Index], n: sympy.Expr, group: str, *, conjugated: bool
) -> tuple[Factor, ...]:
    prefix = "conj_" if conjugated else ""
    if len(rows) != len(cols):
        raise InputError(
            f"{prefix}rows, {prefix}cols", (rows, cols), "lists of equal length, one index a factor"
        )
    factors = []
    for row, col in zip(rows, cols, strict=True):
        i, row_barred = _index(row, n, group, f"{prefix}rows")
        j, col_barred = _index(col, n, group, f"{prefix}cols")
        factors.append(Factor(i, j, conjugated and group != "O", row_barred, col_barred))
    return tuple(factors)


def _index(
    given: Index, n: sympy.Expr, group: str, argument: str
) -> tuple[int | sympy.Expr, bool]:
    """The index, reduced to the first half for Sp, and whether it was in the second."""
    wanted = f"an integer from 1 to {n}, or a symbol"
    if isinstance(given, str):
        if not given.isidentifier():
            raise InputError(argument, given, wanted)
        return sympy.Symbol(given), False
    try:
        index = sympy.sympify(given, strict=True)
    except sympy.SympifyError:
        raise InputError(argument, given, wanted) from None
    if not isinstance(index, sympy.Expr) or isinstance(given, bool):
        raise InputError(argument, given, wanted)
    if index.is_Integer and (index < 1 or (n.is_Integer and index > n)):
        raise InputError(argument, given, wanted)
    barred = False
    if group == "Sp":
        shifted = sympy.expand(index - n / 2)
        if index.is_Integer and n.is_Integer:
            barred = bool(shifted > 0)
        else:
            barred = index.has(*n.free_symbols) and not shifted.has(*n.free_symbols)
        index = shifted if barred else index
    if index.is_number and (not index.is_Integer or index < 1):
        raise InputError(argument, given, wanted)
    return (int(index) if index.is_Integer else index), barred


def _check_distinct(factors: Sequence[Factor], n: sympy.Expr, group: str) -> None:
    room = n / 2 if group == "Sp" else n
    for side, labels in (("rows", {f.row for f in factors}), ("cols", {f.col for f in factors})):
        if room.is_number and len(labels) > room:
            raise InputError(side, sorted(labels, key=str), f"at most {room} distinct indices")


def _concrete(factors: Sequence[Factor], n: sympy.Expr, group: str) -> sympy.Expr:
    """The average for indices that are known to be equal or different."""
    if sum(f.conjugated for f in factors) * 2 != len(factors) and group == "U":
        return sympy.Integer(0)
    if len(factors) % 2 or not (_matching(factors, "row") and _matching(factors, "col")):
        return sympy.Integer(0)
    if _matching(factors, "row") * _matching(factors, "col") <= DIRECT_LIMIT:
        average = _direct(factors, n, group)
        return average.expr(n) if isinstance(average, RationalFunction) else as_sympy(average)
    moment = column_average(factors, group)
    return as_sympy(moment.at(int(n))) if n.is_Integer else moment.expr(n)
