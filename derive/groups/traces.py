"""Averages of traces of words in a random matrix and fixed matrices, for example

    E tr(O A Oᵀ B) = tr A tr B / n        (O Haar on O(n)).

A word is a ring of wires: the fixed matrices between one random factor and the next. The average
joins the ends of the wires, rows with rows and columns with columns, once for each term of

    O, U: Σ_{p,q} δ_p(rows) W(p,q) δ_q(cols),      Ginibre: Σ_p δ_p(rows) δ_p(cols),

and each closed loop of wires is a trace; a wire run backwards is transposed (derived here). For U a
pairing joins each factor with a conjugated one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from math import factorial
from typing import NamedTuple

import sympy

from ..arithmetic.rational import RationalFunction, Term, as_sympy
from ..errors import InputError, as_integer, as_sequence
from ..work.caches import cache
from .pairings import (
    Pairing,
    Partition,
    coset_type,
    double_factorial_pairings,
    ordered,
    pair_partitions,
)
from .weingarten import table, value_at

LAWS = ("O", "U", "Ginibre")
LIMIT = 1_000_000
MOST_ORDER = 1_000
_WORDS = 'products of matrix symbols and their transposes, or their adjoints if the law is "U"'


def trace_moment(
    words: sympy.MatrixExpr | Sequence[sympy.MatrixExpr], random: sympy.MatrixSymbol, law: str = "O"
) -> sympy.Expr:
    """E[Π_w tr(w)] for words w in a random matrix and fixed ones, in traces of the fixed ones.

    Arguments:
        words: a product of matrix symbols, their transposes and (for "U") their adjoints; or a list
            of such products, for the average of the product of their traces.
        random: the random matrix, n × n; n × m for "Ginibre".
        law: "O" or "U" (Haar on the real or the complex rotations), or "Ginibre" (independent real
            entries N(0, 1)).

    Returns a sympy expression in `Trace`s of the fixed matrices, with exact coefficients. Equal
    traces are written alike, tr(AB) = tr(BA) = tr(BᵀAᵀ). `trace_series` expands it in 1/n.

    Derived here.

    Raises:
        InputError: for words that are not such products, or that need more than a million terms.

    >>> n = sympy.Symbol("n")
    >>> O, A, B = (sympy.MatrixSymbol(name, n, n) for name in "OAB")
    >>> trace_moment(O * A * O.T * B, O)
    Trace(A)*Trace(B)/n
    >>> trace_moment([O * A, O * B], O)
    Trace(A*B.T)/n
    >>> trace_moment([O * A, O.adjoint() * B], O, "U")
    Trace(A*B)/n
    """
    if not isinstance(law, str) or law not in LAWS:
        raise InputError("law", law, f"one of {', '.join(LAWS)}")
    if not isinstance(random, sympy.MatrixSymbol):
        raise InputError("random", random, "the MatrixSymbol that is random")
    sizes = random.shape
    if law != "Ginibre" and sizes[0] != sizes[1]:
        raise InputError(
            "random", f"a matrix of {sizes[0]} × {sizes[1]}", f"a square one for {law}"
        )
    given = [words] if isinstance(words, sympy.MatrixExpr) else as_sequence("words", words, _WORDS)
    diagram = _Diagram([_letters(word, law) for word in given], random)
    symbols = {x.name: x for word in given for x in word.atoms(sympy.MatrixSymbol)}
    counts: dict[_Traces, Counter[_Key]] = defaultdict(Counter)
    for joined, mu in _matchings(diagram.factors, law):
        traces, powers = diagram.loops(joined)
        counts[traces][mu, powers] += 1
    return sympy.Add(
        *(
            _coefficient(count, sizes, law) * sympy.Mul(*(_trace(word, symbols) for word in traces))
            for traces, count in counts.items()
        )
    )


def trace_series(expression: sympy.Expr, n: sympy.Symbol, order: int) -> sympy.Expr:
    """The series of an average of traces in 1/n, through n^{−order}.

    Arguments:
        expression: a result of `trace_moment`, or a sum or product of such, perhaps over a power
            of n.
        n: the size of the matrices.
        order: the largest power of 1/n, an integer.

    Traces grow like n: tr(w) = n τ(w), with normalised traces τ(w) that are taken as constants, and
    are symbols of that name in the result. Derived here. Raises InputError for an order that is no
    integer.

    >>> n = sympy.Symbol("n")
    >>> O, A = (sympy.MatrixSymbol(name, n, n) for name in "OA")
    >>> trace_series(trace_moment([O * A, O * A, O * A, O * A], O), n, 2)
    3*τ(A*A.T)**2 + (6*τ(A*A.T)**2 - 6*τ(A*A.T*A*A.T))/n**2
    """
    order = as_integer("order", order, -MOST_ORDER, MOST_ORDER)
    if not isinstance(n, sympy.Symbol):
        raise InputError("n", n, "the symbol of the size")
    if not isinstance(expression, sympy.Expr) or expression.is_Matrix:
        raise InputError("expression", expression, "an average of traces")
    normalised = {
        trace: n * sympy.Symbol(f"τ({trace.arg})") for trace in expression.atoms(sympy.Trace)
    }
    x = sympy.Dummy()
    rational = sympy.together(expression.xreplace(normalised).subs(n, 1 / x))
    top, bottom = (dict(_by_power(side, x)) for side in sympy.fraction(rational))
    first = min(bottom)
    quotient: dict[int, sympy.Expr] = {}
    for j in range(min(top) - first, order + 1):
        known = sum(bottom.get(first + i, 0) * quotient.get(j - i, 0) for i in range(1, j + 1))
        quotient[j] = sympy.expand((top.get(j + first, 0) - known) / bottom[first])
    return sympy.Add(*(value * n**-j for j, value in quotient.items()))


def _by_power(polynomial: sympy.Expr, x: sympy.Symbol) -> Iterator[tuple[int, sympy.Expr]]:
    for (power,), coefficient in sympy.Poly(polynomial, x).terms():
        yield power, coefficient


class _Letter(NamedTuple):
    """A matrix symbol in a word, by name, perhaps transposed, perhaps conjugated."""

    name: str
    transposed: bool = False
    conjugated: bool = False

    def transpose(self) -> _Letter:
        """Its transpose."""
        return self._replace(transposed=not self.transposed)

    def of(self, symbol: sympy.MatrixSymbol) -> sympy.MatrixExpr:
        """The letter in sympy."""
        if self.conjugated:
            return symbol.adjoint() if self.transposed else symbol.T.adjoint()
        return symbol.T if self.transposed else symbol


_Word = tuple[_Letter, ...]
_Traces = tuple[_Word, ...]
_Key = tuple[Partition, tuple[int, int]]
_End = tuple[int, int]
"""A random factor and its row (0) or column (1)."""


def _letters(word: sympy.MatrixExpr, law: str) -> _Word:
    """The letters of a product."""
    if isinstance(word, sympy.MatrixSymbol):
        return (_Letter(word.name),)
    if isinstance(word, sympy.MatMul) and all(isinstance(x, sympy.MatrixExpr) for x in word.args):
        return tuple(letter for factor in word.args for letter in _letters(factor, law))
    if isinstance(word, sympy.MatPow) and word.exp.is_Integer and word.exp > 0:
        return _letters(word.base, law) * int(word.exp)
    if isinstance(word, sympy.Transpose):
        return _transpose(_letters(word.arg, law))
    if law == "U" and isinstance(word, sympy.Adjoint):
        return tuple(
            letter._replace(conjugated=not letter.conjugated)
            for letter in _transpose(_letters(word.arg, law))
        )
    raise InputError("words", word, _WORDS)


def _transpose(word: _Word) -> _Word:
    return tuple(letter.transpose() for letter in reversed(word))


class _Wire(NamedTuple):
    """The fixed matrices from where one random factor is left to where the next is entered."""

    start: _End
    finish: _End
    word: _Word


class _Diagram:
    """The random factors of some rings and the wires between them."""

    def __init__(self, rings: Sequence[_Word], random: sympy.MatrixSymbol) -> None:
        self.factors: list[_Letter] = []
        self.wires: list[_Wire] = []
        self.fixed: list[_Word] = []
        for ring in rings:
            places = [i for i, letter in enumerate(ring) if letter.name == random.name]
            if not places:
                self.fixed.append(_canonical(ring))
                continue
            first = len(self.factors)
            self.factors += [ring[i] for i in places]
            for f, (place, following) in enumerate(
                zip(places, [*places[1:], places[0] + len(ring)], strict=True), start=first
            ):
                word = (ring + ring)[place + 1 : following]
                g = f + 1 if f + 1 < len(self.factors) else first
                start = (f, 0 if self.factors[f].transposed else 1)
                finish = (g, 1 if self.factors[g].transposed else 0)
                self.wires.append(_Wire(start, finish, word))
        self.at = {
            end: (i, forward)
            for i, wire in enumerate(self.wires)
            for end, forward in ((wire.start, True), (wire.finish, False))
        }

    def loops(self, joined: Mapping[_End, _End]) -> tuple[_Traces, tuple[int, int]]:
        """The traces that joining the ends closes, and how many empty ones of rows and columns."""
        words = list(self.fixed)
        empty = [0, 0]
        unseen = set(range(len(self.wires)))
        while unseen:
            i, forward = min(unseen), True
            word: _Word = ()
            while i in unseen:
                unseen.remove(i)
                wire = self.wires[i]
                word += wire.word if forward else _transpose(wire.word)
                i, forward = self.at[joined[wire.finish if forward else wire.start]]
            if word:
                words.append(_canonical(word))
            else:
                empty[wire.finish[1]] += 1
        return tuple(sorted(words)), (empty[0], empty[1])


@cache
def _canonical(word: _Word) -> _Word:
    """One representative of a word's rotations, forwards and transposed."""
    turned = [each[i:] + each[:i] for each in (word, _transpose(word)) for i in range(len(word))]
    return min(turned, key=lambda each: (sum(x.transposed != x.conjugated for x in each), each))


def _pairings(factors: Sequence[_Letter], law: str) -> tuple[int, Iterator[Pairing]]:
    """The pairings of an average, of U's factors with the conjugated ones, and their number."""
    if law != "U":
        return double_factorial_pairings(len(factors)), iter(pair_partitions(len(factors)))
    sides = [[i for i, each in enumerate(factors) if each.conjugated == bar] for bar in (0, 1)]
    if len(sides[0]) != len(sides[1]):
        return 0, iter(())
    bars = permutations(sides[1])
    return factorial(len(sides[0])), (tuple(map(ordered, sides[0], order)) for order in bars)


def _matchings(
    factors: Sequence[_Letter], law: str
) -> Iterator[tuple[dict[_End, _End], Partition]]:
    """How the ends are joined, with the type (p, q) whose Weingarten function weighs it."""
    if len(factors) % 2:
        return
    number, pairings = _pairings(factors, law)
    ways = number if law == "Ginibre" else number**2
    if ways > LIMIT:
        got = f"{len(factors)} random factors"
        raise InputError("words", got, f"at most {LIMIT} terms, not {ways}")
    options = list(pairings)
    for p, q in (
        zip(options, options, strict=True) if law == "Ginibre" else product(options, options)
    ):
        yield _joined(p, 0) | _joined(q, 1), coset_type(p, q)


def _joined(pairing: Pairing, side: int) -> dict[_End, _End]:
    ends = [((a, side), (b, side)) for a, b in pairing]
    return dict(ends) | {b: a for a, b in ends}


def _coefficient(
    counts: Counter[_Key], sizes: tuple[sympy.Expr, sympy.Expr], law: str
) -> sympy.Expr:
    """Σ counts · W(μ) · rows^a cols^b."""
    rows, cols = sizes
    if law == "Ginibre":
        terms = (c * rows**a * cols**b for (_, (a, b)), c in counts.items())
        return sympy.factor(sympy.Add(*terms))
    if rows.is_Integer:
        values = (
            as_sympy(c * value_at(mu, int(rows), law)) * rows ** (a + b)
            for (mu, (a, b)), c in counts.items()
        )
        return sympy.Add(*values)
    return RationalFunction.total(
        Term(c, table(sum(mu), law).function(mu), a + b) for (mu, (a, b)), c in counts.items()
    ).expr(rows)


def _trace(word: _Word, symbols: Mapping[str, sympy.MatrixSymbol]) -> sympy.Expr:
    return sympy.Trace(sympy.MatMul(*(letter.of(symbols[letter.name]) for letter in word)).doit())
