"""Haar averages of products of matrix entries, exact in n: O(n), U(n), Sp(n), permutations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import sympy

from ..errors import InputError, flag
from ..expressions import is_name
from . import permutations
from .factors import Index, check_distinct, read_all
from .permutations import PERMUTATIONS
from .sums import average, concrete
from .weingarten import dimension

__all__ = ["Index", "Moment", "haar_moment", "parse_moment"]


def haar_moment(
    rows: Sequence[Index],
    cols: Sequence[Index],
    n: sympy.Expr | int,
    group: str = "O",
    *,
    conj_rows: Sequence[Index] = (),
    conj_cols: Sequence[Index] = (),
    distinct: bool = False,
) -> sympy.Expr:
    """E[Π_a M_{rows_a cols_a} Π_b conj(M_{conj_rows_b conj_cols_b})] for M Haar on O, U or Sp(n),
    or a uniform permutation matrix.

    Arguments:
        rows, cols: indices of the factors: integers from 1 to n, symbols (or their names).
        n: the dimension, an integer or a sympy expression; for Sp(n) even, with the form
            J = [[0, 1], [−1, 0]], so that the indices i and n/2 + i are partners.
        group: "O", "U" or "Sp"; "S", the permutation matrices, or "B", those with signs ±1.
        conj_rows, conj_cols: indices of the conjugated factors.
        distinct: take symbols for indices that differ from each other and from the integers
            (for Sp: for different indices up to n/2).

    Returns a number for integer n, a reduced and factored rational function of a symbolic n, and
    for symbolic indices a sum of Kronecker deltas times these, right for every coincidence. Where
    that sum is too long to write, of five pairs of symbols for example, it is held: an expression,
    `derive.groups.sums.PairingSum`, that shows its first terms, counts them by coset type, and
    becomes the average when integers are put for the indices, by `subs` or by calling it.
    The average is invariant under permuting rows, permuting columns, and transposition. A symbolic
    n stands for any dimension that has room for the indices. Raises InputError for an index out
    of range, lists of unequal length, or symbols in more than 60 factors. Collins
    and Matsumoto, 2017; four factors of O(n) are source 000's (3.5).

    >>> n, i, j = sympy.symbols("n i j")
    >>> haar_moment([1, 1, 2, 2], [1, 1, 2, 2], n)
    (n + 1)/(n*(n - 1)*(n + 2))
    >>> haar_moment([i, j], [1, 1], n)
    KroneckerDelta(i, j)/n
    >>> haar_moment([1, 1, 2], [1, 1, 3], n, "S")
    1/(n*(n - 1))
    >>> held = haar_moment(sympy.symbols("a:10"), sympy.symbols("b:10"), n)
    >>> held.subs({index: 1 for index in held.free_symbols - {n}})
    945/(n*(n + 2)*(n + 4)*(n + 6)*(n + 8))
    """
    size, distinct = dimension(n, group), flag("distinct", distinct)
    real = "O" if group in PERMUTATIONS else group
    factors = read_all(rows, cols, conj_rows, conj_cols, size, real)
    if distinct:
        check_distinct(factors, size, group)
    if group in PERMUTATIONS:
        return permutations.moment(factors, size, group, distinct=distinct)
    return (concrete if distinct else average)(factors, size, group)


class Moment(NamedTuple):
    """A product of matrix entries, as the index lists of `haar_moment`."""

    rows: tuple[int | str, ...]
    cols: tuple[int | str, ...]
    conj_rows: tuple[int | str, ...] = ()
    conj_cols: tuple[int | str, ...] = ()

    def average(self, n: sympy.Expr | int, group: str = "O") -> sympy.Expr:
        """Its Haar average, `haar_moment`."""
        return haar_moment(
            self.rows, self.cols, n, group, conj_rows=self.conj_rows, conj_cols=self.conj_cols
        )

    def latex(self, letter: str = "O") -> str:
        """The product in LaTeX, for example O_{1,1}^{2} O_{1,2}^{2}."""
        plain = Counter(zip(self.rows, self.cols, strict=True))
        bars = Counter(zip(self.conj_rows, self.conj_cols, strict=True))
        return " ".join(
            f"{name}_{{{i},{j}}}" + (f"^{{{power}}}" if power > 1 else "")
            for name, count in ((letter, plain), (rf"\overline{{{letter}}}", bars))
            for (i, j), power in count.items()
        )


_MOST_DIGITS = 100
_ENTRY = r"(?P<{0}name>[OUSP])\[(?P<{0}row>\w+),(?P<{0}col>\w+)\]"
_FACTOR = re.compile(
    rf"(?:{_ENTRY.format('')}|conj\({_ENTRY.format('conj_')}\)|\|{_ENTRY.format('abs_')}\|)"
    r"(?:\^(?P<power>\d{1,3}))?"
)


def parse_moment(text: str) -> Moment:
    """Read a product such as "O[1,1]^2*O[1,2]^2" or "U[1,1]*conj(U[1,2])" or "|U[1,1]|^4".

    A letter O, U, S or P, the same throughout; indices are positive integers or names; powers are
    ^ or ** with at most three digits, even for |…|. Anything else raises InputError.

    >>> parse_moment("|U[1,i]|^2")
    Moment(rows=(1,), cols=('i',), conj_rows=(1,), conj_cols=('i',))
    """
    wanted = 'a product such as "O[1,1]^2*O[1,2]^2", "U[1,1]*conj(U[1,1])" or "|U[1,1]|^4"'
    if not isinstance(text, str):
        raise InputError("moment", text, wanted)
    plain: list[tuple[int | str, int | str]] = []
    bars: list[tuple[int | str, int | str]] = []
    letters = set()
    for part in "".join(text.split()).replace("**", "^").split("*"):
        match = _FACTOR.fullmatch(part)
        if match is None:
            raise InputError("moment", text, wanted)
        kind = next(kind for kind in ("", "conj_", "abs_") if match[f"{kind}name"])
        power = int(match["power"] or 1)
        entry = (_label(match[f"{kind}row"], text), _label(match[f"{kind}col"], text))
        letters.add(match[f"{kind}name"])
        if kind == "abs_" and power % 2:
            raise InputError("moment", text, "an even power of an absolute value")
        half = power // 2 if kind == "abs_" else power
        plain += [entry] * (half if kind != "conj_" else 0)
        bars += [entry] * (half if kind else 0)
    if len(letters) > 1:
        raise InputError("moment", text, "entries of one matrix")
    rows, cols = zip(*plain, strict=True) if plain else ((), ())
    conj_rows, conj_cols = zip(*bars, strict=True) if bars else ((), ())
    return Moment(rows, cols, conj_rows, conj_cols)


def _label(text: str, moment: str) -> int | str:
    if text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    if is_name(text):
        return text
    raise InputError("moment", moment, "indices that are positive integers or names")
