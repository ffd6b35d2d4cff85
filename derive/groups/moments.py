"""Haar averages of products of matrix entries over O(n), U(n) and Sp(n), exact in n.

    E[Π_a M_{i_a j_a} Π_b M̄_{i'_b j'_b}] = Σ_{p,q} δ_p(i) W(p,q) δ_q(j)

with p, q pairings of all factors (O: any; U: an M with an M̄; Sp: δ carries the form J). How it is
computed is chosen per integrand: the sum itself where few pairings match, otherwise one column
after the other by `derive.groups.columns`, on the side with fewer columns.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from math import factorial, prod
from typing import NamedTuple, TypeAlias

import sympy
from flint import fmpq

from ..arithmetic.rational import RationalFunction, Term, as_sympy
from ..errors import InputError, flag, listed
from ..expressions import as_expression, is_name
from .columns import Entry, Row, column_average
from .pairings import Pairing, Partition, coset_type, double_factorial_pairings
from .weingarten import dimension, table, value_at

Index: TypeAlias = int | str | sympy.Expr
DIRECT_LIMIT = 4_000
SYMBOLIC_LIMIT = 200_000


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
    """E[Π_a M_{rows_a cols_a} Π_b conj(M_{conj_rows_b conj_cols_b})] for M Haar on O, U or Sp(n).

    Arguments:
        rows, cols: indices of the factors: integers from 1 to n, symbols (or their names).
        n: the dimension, an integer or a sympy expression; for Sp(n) even, with the form
            J = [[0, 1], [−1, 0]], so that the indices i and n/2 + i are partners.
        group: "O", "U" or "Sp".
        conj_rows, conj_cols: indices of the conjugated factors.
        distinct: take symbols for indices that differ from each other and from the integers
            (for Sp: for different indices up to n/2).

    Returns a number for integer n, a reduced and factored rational function of a symbolic n, and
    for symbolic indices a sum of Kronecker deltas times these, right for every coincidence.
    The average is invariant under permuting rows, permuting columns, and transposition. A symbolic
    n stands for any dimension that has room for the indices. Raises InputError for an index out
    of range, lists of unequal length, or a symbolic sum of too many terms. Collins
    and Matsumoto, 2017; four factors of O(n) are source 000's (3.5).

    >>> n, i, j = sympy.symbols("n i j")
    >>> haar_moment([1, 1, 2, 2], [1, 1, 2, 2], n)
    (n + 1)/(n*(n - 1)*(n + 2))
    >>> haar_moment([i, j], [1, 1], n)
    KroneckerDelta(i, j)/n
    """
    size, distinct = dimension(n, group), flag("distinct", distinct)
    factors = [
        *_factors(("rows", rows), ("cols", cols), size, group, False),
        *_factors(("conj_rows", conj_rows), ("conj_cols", conj_cols), size, group, group != "O"),
    ]
    if distinct:
        _check_distinct(factors, size, group)
    elif any(not isinstance(line.label, int) for f in factors for line in (f.row, f.col)):
        return _over_pairings(factors, size, group, symbolic=True)
    return _concrete(factors, size, group)


class Factor(NamedTuple):
    """The entry M_{row col} or its conjugate; columns are labelled as rows are."""

    row: Row
    col: Row
    conjugated: bool

    @property
    def transposed(self) -> Factor:
        """The same entry of Mᵀ."""
        return Factor(self.col, self.row, self.conjugated)


def _factors(
    rows: tuple[str, Sequence[Index]],
    cols: tuple[str, Sequence[Index]],
    n: sympy.Expr,
    group: str,
    conjugated: bool,
) -> Iterator[Factor]:
    given = [listed(name, values, "a list of indices") for name, values in (rows, cols)]
    if len(given[0]) != len(given[1]):
        raise InputError(f"{rows[0]}, {cols[0]}", (rows[1], cols[1]), "lists of equal length")
    for i, j in zip(*given, strict=True):
        yield Factor(_line(i, n, group, rows[0]), _line(j, n, group, cols[0]), conjugated)


def _line(given: Index, n: sympy.Expr, group: str, argument: str) -> Row:
    """The row or column of an index; for Sp(n) those in the second half are barred."""
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


def _check_distinct(factors: Sequence[Factor], n: sympy.Expr, group: str) -> None:
    room = n / 2 if group == "Sp" else n
    for name, labels in (
        ("rows", {f.row.label for f in factors}),
        ("cols", {f.col.label for f in factors}),
    ):
        if room.is_number and len(labels) > room:
            raise InputError(name, sorted(labels, key=str), f"at most {room} distinct indices")


def _concrete(factors: Sequence[Factor], n: sympy.Expr, group: str) -> sympy.Expr:
    """The average for indices that are known to be equal or different."""
    matching = _matchings(factors, group) * _matchings([f.transposed for f in factors], group)
    if matching == 0:
        return sympy.Integer(0)
    if matching <= DIRECT_LIMIT:
        return _over_pairings(factors, n, group, symbolic=False)
    if len({f.row.label for f in factors}) < len({f.col.label for f in factors}):
        factors = [f.transposed for f in factors]
    moment = column_average([_unbarred(f) for f in factors], group)
    sign = prod(-f.row.sign for f in factors if f.col.barred)
    value = as_sympy(moment.at(int(n))) if n.is_Integer else moment.expr(n)
    return sign * value


def _unbarred(factor: Factor) -> Entry:
    """S_{r j̄} as an entry of the first half's columns, S̄_{r̄ j} up to −J's sign on r."""
    row, col, conjugated = factor
    if col.barred:
        return Entry(row.partner, col.label, not conjugated)
    return Entry(row, col.label, conjugated)


def _matchings(factors: Sequence[Factor], group: str) -> int:
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


Forms: TypeAlias = dict[tuple[int, int], sympy.Expr]


def _forms(factors: Sequence[Factor], n: sympy.Expr, group: str, symbolic: bool) -> Forms:
    """What pairing two factors brings for their rows: δ, or J where Sp(n) has both alike.

    S̄ = J S Jᵀ, so a conjugated factor turns J into δ = J Jᵀ on its right, −δ = J J on its left.
    Pairs that bring nothing are left out.
    """

    def delta(a: Row, b: Row) -> sympy.Expr:
        if symbolic and not (isinstance(a.label, int) and isinstance(b.label, int)):
            x, y = (line.label + n / 2 if line.barred else line.label for line in (a, b))
            return sympy.KroneckerDelta(x, y)
        return sympy.Integer(a == b)

    def form(left: Factor, right: Factor) -> sympy.Expr:
        a, b = left.row, right.row
        if group == "O":
            return delta(a, b)
        if left.conjugated != right.conjugated:
            return -delta(a, b) if group == "Sp" and left.conjugated else delta(a, b)
        if group == "U":
            return sympy.Integer(0)
        above = sympy.Integer(0) if a.barred else delta(a.partner, b)
        below = sympy.Integer(0) if b.barred else delta(a, b.partner)
        return above - below

    pairs = combinations(enumerate(factors), 2)
    return {(a, b): weight for (a, f), (b, g) in pairs if (weight := form(f, g)) != 0}


def _over_pairings(
    factors: Sequence[Factor], n: sympy.Expr, group: str, *, symbolic: bool
) -> sympy.Expr:
    """Σ_{p,q} δ_p(rows) W(p,q) δ_q(cols), with equal products of δ's collected."""
    sides = (factors, [f.transposed for f in factors])
    forms = [_forms(side, n, group, symbolic) for side in sides]
    limit = SYMBOLIC_LIMIT if symbolic else DIRECT_LIMIT
    pairings = [
        list(islice(_pairings(tuple(range(len(factors))), form), limit + 1)) for form in forms
    ]
    if len(pairings[0]) * len(pairings[1]) > limit:
        raise InputError("rows, cols", len(factors), f"a sum of at most {limit} pairs of pairings")
    rows, cols = map(_by_weight, pairings, forms, (group == "Sp",) * 2)
    counts: dict[sympy.Expr, Counter[Partition]] = defaultdict(Counter)
    for row_weight, row_pairings in rows.items():
        for col_weight, col_pairings in cols.items():
            sign, deltas = (row_weight * col_weight).as_coeff_Mul()
            for p in row_pairings:
                for q in col_pairings:
                    counts[deltas][coset_type(p, q)] += int(sign)
    return sympy.Add(*(deltas * _combination(count, n, group) for deltas, count in counts.items()))


def _combination(counts: Counter[Partition], n: sympy.Expr, group: str) -> sympy.Expr:
    """Σ_μ counts[μ] W(μ; n)."""
    if n.is_Integer:
        values = (count * value_at(mu, int(n), group) for mu, count in counts.items())
        return as_sympy(sum(values, start=fmpq(0)))
    return RationalFunction.total(
        Term(count, table(sum(mu), group).function(mu)) for mu, count in counts.items()
    ).expr(n)


def _by_weight(
    pairings: Sequence[Pairing], form: Forms, signed: bool
) -> dict[sympy.Expr, list[Pairing]]:
    """The pairings p by their δ_p, with their sign for Sp(n), without those where it vanishes."""
    collected: dict[sympy.Expr, list[Pairing]] = defaultdict(list)
    for pairing in pairings:
        weight = _merged(sympy.Mul(*(form[pair] for pair in pairing)))
        collected[_sign(pairing) * weight if signed else weight].append(pairing)
    collected.pop(sympy.Integer(0), None)
    return collected


def _pairings(points: tuple[int, ...], form: Forms) -> Iterator[Pairing]:
    """The pairings of these points by pairs where the form does not vanish."""
    if not points:
        yield ()
        return
    first, rest = points[0], points[1:]
    for position, partner in enumerate(rest):
        if (first, partner) in form:
            for tail in _pairings(rest[:position] + rest[position + 1 :], form):
                yield ((first, partner), *tail)


def _sign(pairing: Pairing) -> int:
    """The sign of the permutation a_1 b_1 a_2 b_2 …: −1 for each crossing of two pairs."""
    crossings = sum(a < c < b < d for (a, b), (c, d) in combinations(pairing, 2))
    return -1 if crossings % 2 else 1


def _merged(weight: sympy.Expr) -> sympy.Expr:
    """A product of δ's as one δ for each index but the first in every set of equal indices."""
    sign, product = weight.as_coeff_Mul()
    deltas = sympy.Mul.make_args(product)
    if not all(isinstance(delta, sympy.KroneckerDelta) for delta in deltas):
        return weight
    classes: list[set[sympy.Expr]] = []
    for delta in deltas:
        joined = set(delta.args[:2])
        for other in [other for other in classes if other & joined]:
            joined |= other
            classes.remove(other)
        classes.append(joined)
    merged = sign
    for members in classes:
        if any(sympy.KroneckerDelta(x, y) == 0 for x, y in combinations(members, 2)):
            return sympy.Integer(0)
        first, *others = sorted(members, key=sympy.default_sort_key)
        merged *= sympy.Mul(*(sympy.KroneckerDelta(first, other) for other in others))
    return merged


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
_ENTRY = r"(?P<{0}name>[OUS])\[(?P<{0}row>\w+),(?P<{0}col>\w+)\]"
_FACTOR = re.compile(
    rf"(?:{_ENTRY.format('')}|conj\({_ENTRY.format('conj_')}\)|\|{_ENTRY.format('abs_')}\|)"
    r"(?:\^(?P<power>\d{1,3}))?"
)


def parse_moment(text: str) -> Moment:
    """Read a product such as "O[1,1]^2*O[1,2]^2" or "U[1,1]*conj(U[1,2])" or "|U[1,1]|^4".

    A letter O, U or S, the same throughout; indices are positive integers or names; powers are
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
