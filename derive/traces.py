"""Averages of traces of words in a random matrix and fixed matrices, for example

    E tr(O A Oᵀ B) = tr A tr B / n        (O Haar on O(n)).

A word is a ring of wires: the fixed matrices between one random factor and the next. The average
joins the ends of the wires, rows with rows and columns with columns, once for each term of

    O, U: Σ_{p,q} δ_p(rows) W(p,q) δ_q(cols),      Ginibre, Wishart: Σ_p δ_p(rows) δ_p(cols),
    GOE:  each pair of p as δ_rows δ_cols or crosswise,

and each closed loop of wires is a trace; a wire run backwards is transposed (derived here).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import sympy
from flint import fmpz_poly

from .errors import InputError
from .pairings import (
    Pairing,
    Partition,
    coset_type,
    double_factorial_pairings,
    pair_partitions,
)
from .rational import RationalFunction, Term, as_sympy
from .weingarten import dimension, elements_of, table, value_at

LAWS = ("O", "U", "GOE", "Ginibre", "Wishart")
LIMIT = 1_000_000


def trace_moment(
    words: sympy.MatrixExpr | Sequence[sympy.MatrixExpr],
    random: sympy.MatrixSymbol,
    law: str = "O",
    degrees: sympy.Expr | int | None = None,
) -> sympy.Expr:
    """E[Π_w tr(w)] for words w in a random matrix and fixed ones, in traces of the fixed ones.

    Arguments:
        words: a product of matrix symbols, with Transpose and (for U) Adjoint or conjugate; or a
            list of such, the average of the product of their traces.
        random: the random matrix, n × n; n × m for "Ginibre".
        law: "O" or "U" (Haar); "Ginibre" (independent entries N(0, 1)); "GOE" (symmetric,
            E X_ij X_kl = δ_ik δ_jl + δ_il δ_jk); "Wishart" (X = G Gᵀ, G Ginibre).
        degrees: for "Wishart", the number of columns of G.

    Returns a sympy expression in `Trace`s of words up to rotation and transposition, with exact
    coefficients. Raises InputError for what is not such a word, or one with too many factors.

    >>> n = sympy.Symbol("n")
    >>> O, A, B = (sympy.MatrixSymbol(name, n, n) for name in "OAB")
    >>> trace_moment(O * A * O.T * B, O)
    Trace(A)*Trace(B)/n
    >>> trace_moment(A**4, A, "GOE").factor()
    n*(2*n**2 + 5*n + 5)
    """
    if law not in LAWS:
        raise InputError("law", law, f"one of {', '.join(LAWS)}")
    if not isinstance(random, sympy.MatrixSymbol):
        raise InputError("random", random, "a sympy MatrixSymbol")
    rows, cols = random.shape
    if law != "Ginibre" and rows != cols:
        raise InputError("random", random.shape, "a square matrix")
    if (law == "Wishart") != (degrees is not None):
        raise InputError("degrees", degrees, 'the columns of G for "Wishart", None for other laws')
    group = law if law in ("O", "U") else "O"
    sizes = dimension(rows, group), dimension(cols if degrees is None else degrees, group)
    given = [words] if isinstance(words, sympy.MatrixExpr) else list(words)
    rings = [_letters(word, random, law) for word in given]
    diagram = _Diagram(rings, random)
    counts: dict[_Traces, Counter[_Key]] = defaultdict(Counter)
    for joined, mu in _matchings(diagram.factors, law):
        traces, powers = diagram.loops(joined)
        counts[traces][mu, powers] += 1
    return sympy.Add(
        *(
            _coefficient(count, sizes, group) * sympy.Mul(*map(_trace, traces))
            for traces, count in counts.items()
        )
    )


def large_n(expression: sympy.Expr, n: sympy.Symbol, order: int) -> sympy.Expr:
    """The 1/n series, through n^{-order}, of an average of traces, with tr(w) = n τ(w).

    The normalised traces τ(w), of order 1, are symbols named τ(w). Divide by the n that the
    number of traces brings, or by the scale of a Gaussian matrix, first.
    """
    if not isinstance(n, sympy.Symbol):
        raise InputError("n", n, "the symbol of the dimension")
    if not isinstance(order, int):
        raise InputError("order", order, "an integer")
    normalised = {
        trace: n * sympy.Symbol(f"τ({trace.arg})") for trace in expression.atoms(sympy.Trace)
    }
    x = sympy.Dummy()
    top, bottom = sympy.fraction(sympy.together(expression.xreplace(normalised).subs(n, 1 / x)))
    numerator, denominator = (sympy.Poly(side, x).rep_terms() for side in (top, bottom))
    return numerator / denominator


class _Letter(NamedTuple):
    """A matrix symbol in a word, perhaps transposed or conjugated."""

    symbol: sympy.MatrixSymbol
    transposed: bool = False
    conjugated: bool = False

    def flipped(self) -> _Letter:
        return self._replace(transposed=not self.transposed)

    def expr(self) -> sympy.MatrixExpr:
        if self.conjugated:
            adjoint = sympy.Adjoint(self.symbol)
            return adjoint if self.transposed else sympy.Transpose(adjoint)
        return sympy.Transpose(self.symbol) if self.transposed else self.symbol


_Word = tuple[_Letter, ...]
_Traces = tuple[_Word, ...]
_Key = tuple[Partition, tuple[int, int]]
_End = tuple[int, int]
"""A random factor and its row (0) or column (1)."""
