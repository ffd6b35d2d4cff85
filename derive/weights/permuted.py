"""Weights P W₀ Q: any law of W₀, between independent uniform signed permutations P and Q.

E[W_{i1 j1} … W_{i2k j2k}] then depends on which row indices coincide and which column indices, and
vanishes unless each occurs an even number of times. Of four factors there are five such moments,

    fourth = E[W_11⁴],    row = E[W_11² W_12²],    column = E[W_11² W_21²],
    apart = E[W_11² W_22²],    around = E[W_11 W_12 W_21 W_22],

and inversion over the set partitions of rows and of columns, p and q pairings, 1 one block, gives

    C(p,p) = apart,    C(p,q) = around where p ≠ q,
    C(p,1) = column − apart − 2 around,    C(1,q) = row − apart − 2 around,
    C(1,1) = fourth − 3 row − 3 column + 3 apart + 6 around.

With Σ_j of order n for each block of q, and C_W = 1, κ(z, z, z, z) is of order 1/n where

    C(p,p) − n_in^{-2}, C(p,q), C(1,q) = O(n^{-3})    and    C(p,1), C(1,1) = O(n^{-2}) .

Then the first two bring a and 2b, of C(p,p) = n^{-2} + a n^{-3} and C(p,q) = b n^{-3}, to V/⟨σ²⟩²,
C(p,1) its ⟨σ⁴⟩ and 1 the diagonal cumulant, which enters G1 one layer later. Derived here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from inspect import signature
from itertools import product
from math import prod
from typing import Any, NamedTuple

import sympy

from ..arithmetic import powerseries
from ..arithmetic.parameters import R_IN
from ..arithmetic.polynomials import UNIT, Expansion, add, power
from ..errors import InputError
from ..expressions import as_expression
from ..groups.pairings import Blocks, mobius, refinements, set_partitions
from ..symbols import r_in, r_out
from ..work.caches import cache
from .entries import IndependentEntries, PermutationInvariant
from .laws import Masked
from .rotations import NO_C_W, in_atoms

_T = sympy.Dummy("t", positive=True)
"""1/n."""
MOMENTS = ("fourth", "row", "column", "apart", "around")
_WANTED = "a rational function of the symbols n_in, n_out, or of n where they are one"


class _Fourth(NamedTuple):
    """C(p, q) of four factors, by what p and q are: two pairs or one block."""

    same: sympy.Expr
    other: sympy.Expr
    column: sympy.Expr
    row: sympy.Expr
    one: sympy.Expr


_EXCESS = {
    "same": "1/n_in² in E[W_11² W_22²]: the sum of all squares fluctuates, and V is of order n",
    "other": "E[W_11 W_12 W_21 W_22] of order n^{-3}: W has large singular values, "
    "and V is of order n",
    "row": "E[W_11² W_12²] of 1/n_in² to leading order: the rows' lengths differ, z is not "
    "Gaussian for any width",
    "column": "E[W_11² W_21²] of order n^{-2}: V is of a larger order than 1",
    "one": "E[W_11⁴] of order n^{-2}: few entries of W are large, z is not Gaussian for any width",
}
_LEAST = {"same": 3, "other": 3, "row": 3, "column": 2, "one": 2}
"""The powers of 1/n with which each may begin, `same` without its n_in^{-2}."""


@dataclass(frozen=True)
class FourMoments(PermutationInvariant):
    """A law of which moments of two and of four weights are known."""

    def moments(self, n_in: sympy.Expr, n_out: sympy.Expr) -> tuple[sympy.Expr, ...]:
        """Those of `MOMENTS`, in their order, with C_W = 1, exact at these widths."""
        raise NotImplementedError

    def joint(
        self, rows: Blocks, columns: Blocks, n_in: sympy.Expr, n_out: sympy.Expr
    ) -> sympy.Expr:
        """C(p, q)/C_W^k of two or four factors; InputError for more."""
        n_in, n_out = sympy.sympify(n_in), sympy.sympify(n_out)
        if self._pairs(rows) < 2:
            return 1 / n_in if rows else sympy.Integer(1)
        if 1 in (n_in, n_out):
            raise InputError("n_in, n_out", (n_in, n_out), "two neurons or more, to be permuted")
        return sympy.cancel(getattr(_inverted(self, n_in, n_out), _place(rows, columns)))

    def joint_expansion(
        self, rows: Blocks, columns: Blocks, order: int, equal_widths: bool
    ) -> Expansion:
        """`joint` in 1/n, for tensors of leading order and G1, Theta1.

        Raises InputError where a cumulant of four z would be larger than 1/n, and for corrections
        of the next order, which cumulants of six weights and more enter.
        """
        k = self._pairs(rows)
        if order > k + 1:
            wanted = "K, G1, V and their kin: those of the next order need moments of six weights"
            raise InputError("weights", str(self), wanted)
        if k == 0:
            return {(UNIT, 0): Fraction(1)}
        first = UNIT if equal_widths else power(R_IN, -1)
        if k == 1:
            return {(first, 1): Fraction(1)} if order else {}
        found = _series(self, equal_widths)[_place(rows, columns)]
        return {key: value for key, value in found.items() if key[1] <= order}

    def _pairs(self, rows: Blocks) -> int:
        k = sum(map(len, rows)) // 2
        if k > 2:
            wanted = "tensors that averages of four weights give, here: their moments are known"
            raise InputError("weights", str(self), wanted)
        return k


def _place(rows: Blocks, columns: Blocks) -> str:
    """Which of `_Fourth` C(p, q) is."""
    if len(rows) == len(columns) == 2:
        alike = {frozenset(block) for block in rows} == {frozenset(block) for block in columns}
        return "same" if alike else "other"
    if len(rows) == len(columns) == 1:
        return "one"
    return "column" if len(rows) == 2 else "row"


def _inverted(law: FourMoments, n_in: sympy.Expr, n_out: sympy.Expr) -> _Fourth:
    fourth, row, column, apart, around = law.moments(n_in, n_out)
    pairs = apart + 2 * around
    return _Fourth(
        same=apart,
        other=around,
        column=column - pairs,
        row=row - pairs,
        one=fourth - 3 * row - 3 * column + 3 * pairs,
    )


@cache
def _series(law: FourMoments, equal_widths: bool) -> dict[str, Expansion]:
    """C(p, q) of four factors up to n^{-3}, checked to be as small as the engine takes them for."""
    into, out = (sympy.Integer(1), sympy.Integer(1)) if equal_widths else (r_in, r_out)
    exact = _inverted(law, into / _T, out / _T)
    leading = UNIT if equal_widths else power(R_IN, -2)
    found = {}
    for name, value in exact._asdict().items():
        beyond = value - (_T / into) ** 2 if name == "same" else value
        terms = _in_powers(law, beyond, 3)
        if any(m < _LEAST[name] for m in terms):
            raise InputError("weights", str(law), _EXCESS[name])
        series: Expansion = {(leading, 2): Fraction(1)} if name == "same" else {}
        for m, coefficient in terms.items():
            add(series, in_atoms(coefficient, m))
        found[name] = series
    return found


def _in_powers(law: FourMoments, value: sympy.Expr, order: int) -> dict[int, sympy.Expr]:
    """The coefficients of t^m up to `order`, other than 0, of a rational function of t = 1/n."""
    top, bottom = sympy.fraction(sympy.cancel(sympy.together(value)))
    if not (top.is_polynomial(_T) and bottom.is_polynomial(_T)):
        raise InputError("weights", str(law), f"moments, each {_WANTED}")
    above, below = (sympy.Poly(each, _T).all_coeffs()[::-1] for each in (top, bottom))
    start = next(k for k, each in enumerate(below) if each != 0)
    found = powerseries.quotient(above, below[start:], order + start + 1, sympy.cancel)
    return {m: each for m, each in enumerate(found, start=-start) if each != 0}


def _takes_three(given: Any) -> bool:
    """True if it can be called with three arguments, so far as its signature tells."""
    if not callable(given):
        return False
    try:
        signature(given).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have none
        pass
    return True


@dataclass(frozen=True)
class Permuted(FourMoments):
    """P W₀ Q with independent uniform signed permutations P and Q, by moments of P W₀ Q.

    Arguments:
        fourth, row, column, apart, around: E[W_11⁴], E[W_11² W_12²], E[W_11² W_21²],
            E[W_11² W_22²] and E[W_11 W_12 W_21 W_22] at C_W = 1, that is E[W_11²] = 1/n_in:
            rational functions of the symbols n_in, n_out, or of n, which is both, and of other
            symbols.
        matrix: a function of n_out, n_in and NumPy's generator that returns W₀ at C_W = 1 as an
            array of that shape, for `simulate`, which permutes it, and refuses it where sixteen
            matrices differ from the moments by more than ten standard errors; left out, there are
            no samples.
        C_W: n_in E[W_ij²].

    Recursions give the tensors of leading order, G1 and Theta1, of a law whose averages of six
    weights and more bring nothing of order 1/n; InputError where those of four are too large. Such
    is W₀, w_i its rows at C_W = 1, if n E x² → 0 for x = |w_i|² − 1 squared, Σ_j W_ij⁴ and, of two
    rows, (w_i·w_k)². It is not if a few rows have another length, as dead neurons have, or large
    entries, or each row another one along it. `flow` draws `matrix` and refuses those; without it
    the moments are taken to be all. Derived here.

    >>> n = sympy.Symbol("n")
    >>> haar = 1 / (n * (n - 1) * (n + 2))
    >>> Permuted(fourth=3 * (n - 1) * haar, row=(n - 1) * haar, column=(n - 1) * haar,
    ...          apart=(n + 1) * haar, around=-haar).name
    'permuted'
    """

    fourth: Any = field(kw_only=True)
    row: Any = field(kw_only=True)
    column: Any = field(kw_only=True)
    apart: Any = field(kw_only=True)
    around: Any = field(kw_only=True)
    matrix: Callable[[int, int, Any], Any] | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in MOMENTS:
            value = as_expression(name, getattr(self, name), _WANTED)
            object.__setattr__(self, name, value)
        if self.matrix is not None and not _takes_three(self.matrix):
            raise InputError("matrix", self.matrix, "a function of n_out, n_in and a generator")

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols among the moments other than the widths, and those of C_W."""
        found = sympy.Tuple(self.C_W, *(getattr(self, name) for name in MOMENTS)).free_symbols
        return {each for each in found if each.name not in ("n", "n_in", "n_out")}

    def moments(self, n_in: sympy.Expr, n_out: sympy.Expr) -> tuple[sympy.Expr, ...]:
        """Those given, at these widths; InputError for n where the two differ."""
        return tuple(self._at(name, n_in, n_out) for name in MOMENTS)

    def _at(self, name: str, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        value = getattr(self, name)
        widths = {"n_in": n_in, "n_out": n_out, "n": n_in}
        used = {each: widths[each.name] for each in value.free_symbols if each.name in widths}
        if n_in != n_out and any(each.name == "n" for each in used):
            wanted = (
                "a function of n_in and n_out where they differ, as inputs and neurons do in "
                "layer 1, which first_weights gives another law"
            )
            raise InputError(name, value, wanted)
        return value.subs(used, simultaneous=True)

    def __str__(self) -> str:
        values = [f"C_W={self.C_W}", *(f"{name}={getattr(self, name)}" for name in MOMENTS)]
        if self.matrix is not None:
            values.append(f"matrix={getattr(self.matrix, '__qualname__', self.matrix)}")
        return f"Permuted({', '.join(values)})"


@dataclass(frozen=True, init=False)
class RegularSparse(Masked, FourMoments):
    """Entries that are 0 but for exactly p n_in in each row and p n_out in each column.

    The mask is any such one, its rows and columns permuted: one matrix of shuffled groups is of
    this kind. Its entries are independent. With m the mask's, of averages over its permutations,

        E[m_11 m_12] = p (p n_in − 1)/(n_in − 1),    E[m_11 m_21] = p (p n_out − 1)/(n_out − 1),
        E[m_11 m_22] = p (p n_in − E[m_21 | m_11 = 1])/(n_in − 1),

    by counting what is left of a row and of a column.

    Attributes:
        C_W: n_in E[W_ij²].
        p: the part that is not 0, in (0, 1], or a symbol; InputError outside.
        of: the symmetric law of those, normal if left out. Derived here.

    >>> print(RegularSparse("1/4"))
    RegularSparse(C_W=1, p=1/4, of=None)
    """

    def __init__(
        self,
        p: sympy.Expr | float | str,
        of: IndependentEntries | None = None,
        C_W: sympy.Expr | float = NO_C_W,
    ) -> None:
        super().__init__(p, of, C_W)
        if self.of is not None:
            self.of.check_symmetric()

    def joint(
        self, rows: Blocks, columns: Blocks, n_in: sympy.Expr, n_out: sympy.Expr
    ) -> sympy.Expr:
        """C(p, q)/C_W^k of six factors or fewer; InputError for more, and where no mask exists.

        Of six by Möbius inversion: three entries of the mask are a forest of rows and columns, of
        which every such mask has as many. Of eight, cycles of four entries are not that.
        """
        self.check_widths(n_in, n_out)
        if sum(map(len, rows)) != 6:
            return super().joint(rows, columns, n_in, n_out)
        n_in, n_out = sympy.sympify(n_in), sympy.sympify(n_out)
        total = (
            above * beside * _average(self, pi, rho, n_in, n_out)
            for pi, above in refinements(rows)
            for rho, beside in refinements(columns)
        )
        return sympy.cancel(sympy.Add(*total))

    def check_widths(self, n_in: sympy.Expr | int, n_out: sympy.Expr | int) -> None:
        """Raise InputError where p n_in or p n_out is a number that is not whole."""
        if any((self.p * width).is_integer is False for width in (n_in, n_out)):
            raise InputError("p", self.p, f"whole parts of the widths {n_in} and {n_out}")

    def moments(self, n_in: sympy.Expr, n_out: sympy.Expr) -> tuple[sympy.Expr, ...]:
        """Those of the mask times (p n_in)^{-2}, and E[x⁴] of an entry."""
        p, scale = self.p, (self.p * n_in) ** -2
        own = self.own_moment(4)
        beside = (p * n_in - 1) / (n_in - 1)
        below = (p * n_out - 1) / (n_out - 1)
        apart = p * (p * n_in - below) / (n_in - 1)
        return tuple(scale * each for each in (p * own, p * beside, p * below, apart, sympy.S.Zero))


@cache(entries=10_000)
def _average(
    law: RegularSparse, rows: Blocks, columns: Blocks, n_in: sympy.Expr, n_out: sympy.Expr
) -> sympy.Expr:
    """E[Π W] at C_W = 1 where the points of a block have one index, and the blocks different ones;
    0 where there are more blocks than neurons."""
    row, column = (
        {point: k for k, block in enumerate(each) for point in block} for each in (rows, columns)
    )
    entries = Counter((row[point], column[point]) for point in row)
    places = sympy.ff(n_out, len(rows)) * sympy.ff(n_in, len(columns))
    if any(count % 2 for count in entries.values()) or places == 0:
        return sympy.S.Zero
    own = prod((law.own_moment(count) for count in entries.values()), start=sympy.S.One)
    scale = (law.p * n_in) ** -(len(row) // 2)
    return own * scale * _embeddings(law, tuple(sorted(entries)), n_in, n_out) / places


def _embeddings(
    law: RegularSparse, entries: tuple[tuple[int, int], ...], n_in: sympy.Expr, n_out: sympy.Expr
) -> sympy.Expr:
    """Σ over different rows and over different columns of Π m_{rc}, these entries a forest.

    By inclusion and exclusion, of sums over all rows and columns: of a tree it is n_out, times
    p n_in for each column and p n_out for each row but one.
    """
    counts = (1 + max(each) for each in zip(*entries, strict=True))
    total = sympy.S.Zero
    for sigma, tau in product(*(tuple(set_partitions(tuple(range(k)))) for k in counts)):
        rows, columns = (
            {point: k for k, block in enumerate(each) for point in block} for each in (sigma, tau)
        )
        trees = len(sigma) + len(tau) - len({(rows[r], columns[c]) for r, c in entries})
        sums = n_out**trees * (law.p * n_in) ** len(tau) * (law.p * n_out) ** (len(sigma) - trees)
        total += sums * prod(mobius(len(block)) for block in (*sigma, *tau))
    return total
