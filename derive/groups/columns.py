"""Haar averages of monomials, one column after the other.

Given its first c columns, column c+1 of a Haar matrix is uniform on the unit sphere of their
orthogonal complement, which has dimension N = n − c and projector P = 1 − Σ_{e≤c} v_e v_e†. So

    O:  E[Π_r v_r^{a_r}]             = Σ_{pairings}  Π P_{rr'} / N(N+2)…(N+2d−2),     2d = Σ a,
    U:  E[Π_r v_r^{a_r} v̄_r^{b_r}]  = Σ_{bijections} Π P_{rr'} / N(N+1)…(N+d−1),       d = Σ a,

is a polynomial in the columns before it. For Sp(n) the columns come in pairs, v and its partner
w_r = ±v̄_{r̄}, N = n − 2c, and P projects on the complement of both. With one column this is the
closed form on the sphere. The result holds at every n that has room for the columns, n < k
included. Source: T. Gorin, G. V. López, "Monomial integrals on the classical groups" (2008), for
the idea; the recursion is derived here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from math import prod
from typing import NamedTuple

from flint import Ordering, fmpz, fmpz_mpoly, fmpz_mpoly_ctx, fmpz_poly

from ..arithmetic.rational import RationalFunction
from ..work.caches import cache


class Row(NamedTuple):
    """A row's label; for Sp(n) the barred one is the partner n/2 + label."""

    label: object
    barred: bool = False

    @property
    def partner(self) -> Row:
        """The row that J pairs with this one."""
        return Row(self.label, not self.barred)

    @property
    def sign(self) -> int:
        """The entry of J at this row and its partner: + for the first half, − for the second."""
        return -1 if self.barred else 1


class Entry(NamedTuple):
    """The matrix entry of a row and a column label, or its conjugate."""

    row: Row
    col: object
    conjugated: bool = False


def column_average(entries: Sequence[Entry], group: str) -> RationalFunction:
    """E[Π entries] as a function of n; for Sp(n) the columns are those of the first half."""
    degrees = Counter(entry.col for entry in entries)
    columns = sorted(degrees, key=lambda col: (-degrees[col], str(col)))
    rows = sorted({entry.row for entry in entries}, key=str)
    if group == "Sp":
        rows = sorted({*rows, *(row.partner for row in rows)}, key=str)
    frame = _Frame(rows, len(columns), group)
    average = prod(
        (frame.entry(e.row, columns.index(e.col), e.conjugated) for e in entries),
        start=frame.constant(1),
    )
    poles: Counter[int] = Counter()
    for column in reversed(range(len(columns))):
        average, found = frame.average_out(average, column)
        poles += found
    coefficients = {exponents[-1]: int(c) for exponents, c in average.to_dict().items()}
    degree = max(coefficients, default=0)
    return RationalFunction(
        fmpz_poly([coefficients.get(i, 0) for i in range(degree + 1)]), dict(poles)
    )


class _Frame:
    """The polynomial ring of the entries of some columns, and of n."""

    def __init__(self, rows: Sequence[Row], columns: int, group: str) -> None:
        self.rows, self.group = rows, group
        self.kinds = 1 if group == "O" else 2
        self.stride = len(rows) * self.kinds
        self.ring = fmpz_mpoly_ctx.get(
            [f"x{i}" for i in range(self.stride * columns)] + ["n"], Ordering.lex
        )
        self.gens = self.ring.gens()
        self.place = {row: i for i, row in enumerate(rows)}
        half = len(rows)
        bases: dict[object, list[int]] = {}
        for i, row in enumerate(rows):
            bases.setdefault(row.label, []).extend(i + half * kind for kind in range(self.kinds))
        self.places = tuple(bases.values())

    def constant(self, value: int) -> fmpz_mpoly:
        return self.ring.constant(value)

    def entry(self, row: Row, column: int, conjugated: bool) -> fmpz_mpoly:
        kind = len(self.rows) if conjugated and self.kinds == 2 else 0
        return self.gens[column * self.stride + kind + self.place[row]]

    def projector(self, row: Row, other: Row, columns: int) -> fmpz_mpoly:
        """P_{row, other} on the complement of the first columns."""
        total = self.constant(int(row == other))
        for c in range(columns):
            total -= self.entry(row, c, False) * self.entry(other, c, True)
            if self.group == "Sp":
                partners = self.entry(row.partner, c, True) * self.entry(other.partner, c, False)
                total -= row.sign * other.sign * partners
        return total

    def average_out(self, poly: fmpz_mpoly, column: int) -> tuple[fmpz_mpoly, Counter[int]]:
        """The average over a column given those before it: numerator and poles."""
        first, last = column * self.stride, (column + 1) * self.stride
        by_pattern: dict[tuple[int, ...], dict[tuple[int, ...], fmpz]] = defaultdict(dict)
        for exponents, coefficient in poly.to_dict().items():
            rest = (*exponents[:first], *(0,) * self.stride, *exponents[last:])
            by_pattern[tuple(map(int, exponents[first:last]))][rest] = coefficient
        degrees = {pattern: sum(pattern) // 2 for pattern in by_pattern}
        step, back = (2 if self.group == "O" else 1), (2 if self.group == "Sp" else 1)
        top = max(degrees.values(), default=0)
        poles = [step * t - back * column for t in range(top)]
        wick = self._wick(column)
        averages: dict[int, list[fmpz_mpoly]] = defaultdict(list)
        for pattern, terms in by_pattern.items():
            averages[degrees[pattern]].append(wick(pattern) * self.ring.from_dict(terms))
        total = self.constant(0)
        for degree, polys in averages.items():
            average = self.merged(self._sum(polys), column)
            total += prod((self.gens[-1] + pole for pole in poles[degree:]), start=average)
        return total, Counter(poles)

    def _sum(self, polys: list[fmpz_mpoly]) -> fmpz_mpoly:
        """Added in pairs, so that no long sum is copied for each short one."""
        while len(polys) > 1:
            polys = [a + b for a, b in zip_longest(*[iter(polys)] * 2, fillvalue=self.constant(0))]
        return polys[0] if polys else self.constant(0)

    def merged(self, poly: fmpz_mpoly, columns: int) -> fmpz_mpoly:
        """The same average with monomials brought together that permuting rows or columns maps
        to each other, and without those that vanish.

        Rows are ordered by the last column first, so that few patterns of it are left to average.
        """
        merged: dict[tuple[int, ...], fmpz] = defaultdict(fmpz)
        order = range(columns - 1, -1, -1)
        starts = [[c * self.stride + i for i in place] for c in order for place in self.places]
        labels = len(self.places)
        targets = [i for place in self.places for i in place]
        for exponents, coefficient in poly.to_dict().items():
            powers = [tuple([exponents[i] for i in place]) for place in starts]
            if columns == 1 and any(each[::2] != each[1::2] for each in powers if self.kinds == 2):
                continue  # of what is left, one column, each factor is paired with its conjugate
            matrix = [powers[i : i + labels] for i in range(0, len(powers), labels)]
            if columns > 1:
                matrix.sort(key=lambda column: sorted(column, reverse=True))
            rows = sorted(zip(*matrix, strict=True), reverse=True)
            new = [0] * len(exponents)
            for c, column in zip(order, zip(*rows, strict=True), strict=True):
                base = c * self.stride
                for i, power in zip(targets, chain.from_iterable(column), strict=True):
                    new[base + i] = power
            new[-1] = exponents[-1]
            merged[tuple(new)] += coefficient
        return self.ring.from_dict(dict(merged))

    def _wick(self, columns: int) -> Callable[[tuple[int, ...]], fmpz_mpoly]:
        """The function a ↦ Σ_{matchings} Π P: one factor is matched with each other one in turn."""
        size = len(self.rows)
        shift = 0 if self.group == "O" else size
        projector = [
            [
                (s + shift, p)
                for s, b in enumerate(self.rows)
                if (p := self.projector(a, b, columns))
            ]
            for a in self.rows
        ]

        @cache(entries=2**16)
        def wick(pattern: tuple[int, ...]) -> fmpz_mpoly:
            r = next((r for r in range(size) if pattern[r]), None)
            if r is None:
                return self.constant(int(not any(pattern)))
            left = _lowered(pattern, r)
            return sum(
                (left[s] * p * wick(_lowered(left, s)) for s, p in projector[r] if left[s]),
                start=self.constant(0),
            )

        return wick


def _lowered(pattern: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*pattern[:place], pattern[place] - 1, *pattern[place + 1 :])
