"""Averages of traces of words in random matrices and fixed matrices, for example

    E tr(O A Oᵀ B) = tr A tr B / n        (O Haar on O(n)).

A word is a ring of wires: the fixed matrices between one random factor and the next. The average
joins the ends of the wires, rows with rows and columns with columns, once for each term of

    O, U: Σ_{p,q} δ_p(rows) W(p,q) δ_q(cols),      Ginibre: Σ_p δ_p(rows) δ_p(cols),

and each closed loop of wires is a trace; a wire run backwards is transposed (derived here). For U a
pairing joins each factor with a conjugated one. Several random matrices are averaged in turn.

The circular orthogonal ensemble is U Uᵀ. Sp(n) is O(−n), and the circular symplectic ensemble is
the orthogonal one at −n: each trace changes its sign there, and a wire run backwards is the dual
Aᴰ = J Aᵀ Jᵀ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain, groupby, permutations, product
from math import factorial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import sympy
from flint import fmpq, fmpz_poly
from numpy.typing import NDArray

from ..arithmetic import powerseries
from ..arithmetic.polynomials import gathered
from ..arithmetic.rational import RationalFunction, as_sympy, written
from ..errors import InputError, as_integer, as_sequence, did_you_mean
from ..work.caches import cache
from .pairings import (
    Pairing,
    Partition,
    double_factorial_pairings,
    ordered,
    pair_partitions,
)
from .weingarten import table, value_at
from .zonal import partitions

LAWS = ("O", "U", "Sp", "COE", "CSE", "Ginibre")
LIMIT = 1_000_000
MOST_ORDER = 1_000
_PAIRED = {"Sp": "O", "COE": "U", "CSE": "U"}
"""The law whose pairings another one has."""
_CIRCULAR = ("COE", "CSE")
_DUAL = ("Sp", "CSE")
_REAL = ("O", "Ginibre")
_FORM = "J"
_LAWS = f"one of {', '.join(LAWS)}; or one for each random matrix"
_WORDS = (
    "products of matrix symbols, sums and powers of these, their transposes (not with Sp and CSE), "
    "or their adjoints if a law is complex; or a polynomial in traces of such"
)


def trace_moment(
    words: sympy.Expr | sympy.MatrixExpr | Sequence[sympy.MatrixExpr],
    random: sympy.MatrixSymbol | Sequence[sympy.MatrixSymbol],
    law: str | Sequence[str] = "O",
) -> sympy.Expr:
    """E[Π_w tr(w)] for words w in random matrices and fixed ones, in traces of the fixed ones.

    Arguments:
        words: a product of matrix symbols, their transposes, inverses and (for complex laws)
            adjoints, or a sum of such; a list of these, for the average of the product of their
            traces; or a polynomial in their `sympy.Trace`s.
        random: the random matrix, n × n, or n × m for "Ginibre"; or a list of independent ones.
        law: "O", "U" or "Sp" (Haar on the orthogonal, the unitary or the unitary symplectic
            matrices), "COE" or "CSE" (the circular ensembles U Uᵀ and U Uᴰ of a Haar unitary U), or
            "Ginibre" (independent real entries N(0, 1)); or one for each random matrix.

    For "Sp" and "CSE" n is the even size of the matrix and Aᴰ = J Aᵀ Jᵀ the dual of A, with the
    symplectic form J: real, Jᵀ = −J, J Jᵀ = 1. Their words have adjoints of random matrices, and
    neither transposes nor adjoints of fixed ones. Other laws do not stand beside these two.

    Returns a sympy expression in `Trace`s of the fixed matrices, with exact coefficients. Equal
    traces are written alike, tr(AB) = tr(BA) = tr(BᵀAᵀ). `trace_series` expands it in 1/n.

    With k pairs of random factors and a symbol as size, the result holds for n ≥ k, and for n ≥ 2k
    with "Sp", "COE" and "CSE". With a number as size it is exact at that size, however small.

    Derived here.

    Raises:
        InputError: for words that are not such products, or that need more than a million terms.

    >>> n = sympy.Symbol("n")
    >>> O, A, B = (sympy.MatrixSymbol(name, n, n) for name in "OAB")
    >>> trace_moment(O * A * O.T * B, O)
    Trace(A)*Trace(B)/n
    >>> trace_moment([O * A, O * B], O)
    Trace(A*B.T)/n
    >>> trace_moment(sympy.Trace(O * A) * sympy.Trace(O.adjoint() * B), O, "U")
    Trace(A*B)/n
    >>> trace_moment([O, O.adjoint()], O, "COE")
    2*n/(n + 1)
    >>> P = sympy.MatrixSymbol("P", n, n)
    >>> trace_moment((O * P * A * P.T * O.T + O * A) * B, [O, P])
    Trace(A)*Trace(B)/n
    """
    wanted = "the MatrixSymbol that is random, or a list of such"
    matrices = [random] if isinstance(random, sympy.MatrixSymbol) else random
    matrices = as_sequence("random", matrices, wanted)
    if not matrices or not all(isinstance(each, sympy.MatrixSymbol) for each in matrices):
        raise InputError("random", random, wanted)
    given = [law] * len(matrices) if isinstance(law, str) else as_sequence("law", law, _LAWS)
    if len(given) != len(matrices) or any(each not in LAWS for each in given):
        unknown = next((each for each in given if each not in LAWS), "")
        raise InputError("law", law, _LAWS + did_you_mean(str(unknown), LAWS))
    dual = any(each in _DUAL for each in given)
    if dual and not all(each in _DUAL for each in given):
        raise InputError("law", law, "Sp and CSE with no other laws")
    laws = {matrix.name: own for matrix, own in zip(matrices, given, strict=True)}
    for matrix in matrices:
        _check_size(matrix, laws[matrix.name])
    expr = _expression(words)
    terms, symbols = _polynomial(expr, laws), {x.name: x for x in expr.atoms(sympy.MatrixSymbol)}
    for matrix in matrices:
        terms = _averaged(terms, matrix, laws[matrix.name])
    if dual:
        symbols[_FORM] = sympy.MatrixSymbol(_FORM, *matrices[0].shape)
        terms = _with_form(terms)
    return _written_out(terms, symbols)


def _written_out(terms: _Terms, symbols: Mapping[str, sympy.MatrixSymbol]) -> sympy.Expr:
    """Σ value · Π traces, of terms that differ in their traces, so that nothing cancels."""
    known = {word: _trace(word, symbols) for word in dict.fromkeys(chain.from_iterable(terms))}
    factors = {traces: tuple(Counter(traces).items()) for traces in terms if traces}
    powers = {(word, j): known[word] ** j for word, j in dict.fromkeys(chain(*factors.values()))}
    products = [
        written(
            sympy.Mul,
            *(part for part in sympy.Mul.make_args(terms[traces]) if part is not sympy.S.One),
            *map(powers.__getitem__, pairs),
        )
        for traces, pairs in factors.items()
        if terms[traces] is not sympy.S.Zero
    ]
    return written(sympy.Add, *products) + terms.get((), 0)


def _check_size(matrix: sympy.MatrixSymbol, law: str) -> None:
    rows, cols = matrix.shape
    if law != "Ginibre" and rows != cols:
        raise InputError("random", f"a matrix of {rows} × {cols}", f"a square one for {law}")
    if law in _DUAL and rows.is_odd:
        raise InputError("random", f"a matrix of {rows} × {cols}", f"an even size for {law}")


def _averaged(terms: _Terms, random: sympy.MatrixSymbol, law: str) -> _Terms:
    """The average of a polynomial in traces over one random matrix."""
    found: dict[_Traces, list[sympy.Expr]] = defaultdict(list)
    for rings, coefficient in terms.items():
        diagram, counts = _Diagram(rings, random), dict[_Traces, Counter[_Key]]()
        numbers = diagram.numbers(_PAIRED.get(law, law))
        for loops, types in numbers.items():
            traces, powers = diagram.traces(loops)
            for mu, number in types.items():
                counts.setdefault(traces, Counter())[mu, powers] += number
        values: dict[frozenset[tuple[_Key, int]], sympy.Expr] = {}
        for traces, count in counts.items():
            key = frozenset(count.items())
            if key not in values:
                values[key] = coefficient * _coefficient(count, random.shape, law)
            negative = law in _DUAL and (len(traces) + len(rings)) % 2
            found[traces].append(-values[key] if negative else values[key])
    return {
        traces: sympy.factor(sympy.Add(*values)) if len(values) > 1 else values[0]
        for traces, values in found.items()
    }


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
    quotients: dict[sympy.Expr, dict[int, sympy.Expr]] = {}
    found: dict[int, list[sympy.Expr]] = defaultdict(list)
    for term in sympy.Add.make_args(expression.xreplace(normalised)):
        constant, growth = term.as_independent(n, as_Add=False)
        if growth not in quotients:
            quotients[growth] = _quotient(growth, n, order)
        for j, value in quotients[growth].items():
            found[j].append(_expanded(constant * value))
    return sympy.Add(*(sympy.Add(*values) * n**-j for j, values in found.items()))


def _quotient(expression: sympy.Expr, n: sympy.Symbol, order: int) -> dict[int, sympy.Expr]:
    """The coefficients of n^{−j} of a rational function, through `order`."""
    above, below = (sympy.Poly(side, n).all_coeffs() for side in expression.as_numer_denom())
    first = len(below) - len(above)
    found = powerseries.quotient(above, below, order + 1 - first, _expanded)
    return dict(enumerate(found, start=first))


def _expanded(expression: sympy.Expr) -> sympy.Expr:
    """`sympy.expand`, which is slow even where there is no sum."""
    return sympy.expand(expression) if expression.has(sympy.Add) else expression


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
_Terms: TypeAlias = dict[_Traces, sympy.Expr]
_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])
_Key = tuple[Partition, tuple[int, int]]


def _expression(
    words: sympy.Expr | sympy.MatrixExpr | Sequence[sympy.MatrixExpr],
) -> sympy.Expr:
    """The words as a polynomial in traces."""
    if isinstance(words, sympy.Expr) and not words.is_Matrix:
        return words
    given = [words] if isinstance(words, sympy.MatrixExpr) else as_sequence("words", words, _WORDS)
    for word in given:
        if not isinstance(word, sympy.MatrixExpr) or word.shape[0] != word.shape[1]:
            raise InputError("words", word, _WORDS)
    return sympy.Mul(*map(sympy.Trace, given))


def _polynomial(expr: sympy.Expr, laws: Mapping[str, str]) -> _Terms:
    """A polynomial in traces, by the words of the traces in each of its terms."""
    if isinstance(expr, sympy.Trace):
        words, size = _letters(expr.arg, laws), expr.arg.shape[0]
        return {(word,) if word else (): x if word else x * size for word, x in words.items()}
    if isinstance(expr, sympy.Add):
        return gathered(item for x in expr.args for item in _polynomial(x, laws).items())
    if isinstance(expr, sympy.Mul):
        return reduce(_product, (_polynomial(factor, laws) for factor in expr.args))
    if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and expr.exp > 0:
        return reduce(_product, [_polynomial(expr.base, laws)] * int(expr.exp))
    if expr.has(sympy.MatrixExpr):
        raise InputError("words", expr, _WORDS)
    return {(): expr}


def _product(
    one: Mapping[_Tuple, sympy.Expr], other: Mapping[_Tuple, sympy.Expr]
) -> dict[_Tuple, sympy.Expr]:
    terms = product(one.items(), other.items())
    return gathered((cast(_Tuple, a + b), x * y) for (a, x), (b, y) in terms)


def _letters(word: sympy.MatrixExpr, laws: Mapping[str, str]) -> dict[_Word, sympy.Expr]:
    """A word as a sum of products of letters."""
    if not isinstance(word, sympy.MatrixExpr):
        return {(): word}
    if isinstance(word, sympy.MatrixSymbol):
        letter = _Letter(word.name)
        squared = laws.get(word.name) in _CIRCULAR
        return {(letter, letter.transpose()) if squared else (letter,): sympy.Integer(1)}
    if isinstance(word, sympy.Identity):
        return {(): sympy.Integer(1)}
    if isinstance(word, sympy.MatAdd):
        return gathered(item for x in word.args for item in _letters(x, laws).items())
    if isinstance(word, sympy.MatMul):
        return reduce(_product, (_letters(factor, laws) for factor in word.args))
    if isinstance(word, sympy.Inverse):
        law = laws.get(str(word.arg), "Ginibre")
        if law != "Ginibre":
            return _letters(word.arg.T if law == "O" else word.arg.adjoint(), laws)
    elif isinstance(word, sympy.MatPow) and word.exp.is_Integer and word.exp > 0:
        return reduce(_product, [_letters(word.base, laws)] * int(word.exp))
    elif isinstance(word, sympy.Transpose) and not set(_DUAL) & set(laws.values()):
        return {_transpose(each): x for each, x in _letters(word.arg, laws).items()}
    elif isinstance(word, sympy.Adjoint) and not set(_REAL) >= set(laws.values()):
        return {
            tuple(_adjoint(letter, laws) for letter in reversed(each)): sympy.conjugate(x)
            for each, x in _letters(word.arg, laws).items()
        }
    if isinstance(word, sympy.Adjoint):
        real = " and ".join(dict.fromkeys(laws.values()))
        raise InputError(
            "words", word, f'the transpose, as matrices are real with {real}; or law="U", unitary'
        )
    raise InputError("words", word, _WORDS)


def _adjoint(letter: _Letter, laws: Mapping[str, str]) -> _Letter:
    """The adjoint: the transpose of what is real, and the dual of what is symplectic."""
    law = laws.get(letter.name)
    if law is None and set(_DUAL) & set(laws.values()):
        raise InputError("words", f"the adjoint of {letter.name}", _WORDS)
    turned = letter.transpose()
    return turned if law in (*_REAL, "Sp") else turned._replace(conjugated=not letter.conjugated)


def _with_form(terms: _Terms) -> _Terms:
    """With each product of duals written as J (…)ᵀ Jᵀ."""
    form = _Letter(_FORM)

    def written(word: _Word) -> _Word:
        first = next((i for i, letter in enumerate(word) if not letter.transposed), 0)
        runs = groupby(word[first:] + word[:first], key=lambda letter: letter.transposed)
        parts = ((form, *run, form.transpose()) if dual else tuple(run) for dual, run in runs)
        return tuple(letter for part in parts for letter in part)

    return {tuple(map(written, rings)): x for rings, x in terms.items()}


def _transpose(word: _Word) -> _Word:
    return tuple(letter.transpose() for letter in reversed(word))


class _Diagram:
    """The random factors of some rings, and the wires between them: the fixed matrices from where
    one random factor is left to where the next is entered.

    Factor f of F has its rows' end f and its columns' end F + f.
    """

    def __init__(self, rings: Sequence[_Word], random: sympy.MatrixSymbol) -> None:
        places = [
            [i for i, letter in enumerate(ring) if letter.name == random.name] for ring in rings
        ]
        self.fixed = [_canonical(ring) for ring, own in zip(rings, places, strict=True) if not own]
        self.factors = [ring[i] for ring, own in zip(rings, places, strict=True) for i in own]
        count = len(self.factors)
        self.across = [0] * (2 * count)
        self.words = [_Word()] * (2 * count)
        self.closed: dict[tuple[int, ...], int] = {}
        self.known: list[_Word] = [(), ()]
        first = 0
        for ring, own in zip(rings, places, strict=True):
            for k, place in enumerate(own):
                f, g = first + k, first + (k + 1) % len(own)
                following = own[k + 1] if k + 1 < len(own) else own[0] + len(ring)
                start = f if self.factors[f].transposed else count + f
                finish = count + g if self.factors[g].transposed else g
                self.across[start], self.across[finish] = finish, start
                word = (ring + ring)[place + 1 : following]
                self.words[start], self.words[finish] = word, _transpose(word)
            first += len(own)

    def numbers(self, law: str) -> dict[tuple[int, ...], Counter[Partition]]:
        """How often each product of traces comes with the type (p, q) of a Weingarten function."""
        count, options = len(self.factors), _options(self.factors, law)
        found = defaultdict[tuple[int, ...], Counter[Partition]](Counter)
        ends = range(2 * count)
        if not options:
            return found
        if law == "Ginibre":
            for p in options:
                found[self.loops(p + [count + b for b in p], ends)][()] += 1
            return found
        types, codes = partitions(count // 2), _types(count // 2, law)
        if any((a < count) != (b < count) for a, b in enumerate(self.across)):
            for p, row in zip(options, codes.tolist(), strict=True):
                for q, place in zip(options, row, strict=True):
                    found[self.loops(p + [count + b for b in q], ends)][types[place]] += 1
            return found
        both = [p + [count + b for b in p] for p in options]
        rows, cols = ([self.loops(each, ends[k : k + count]) for each in both] for k in (0, count))
        kinds = {own: place for place, own in enumerate(dict.fromkeys(cols))}
        known, places = list(kinds), np.array([kinds[own] for own in cols], np.int64)
        alike = defaultdict[tuple[int, ...], list[int]](list)
        for at, own in enumerate(rows):
            alike[own].append(at)
        for own, members in alike.items():
            keys = codes[members] * np.int64(len(known)) + places
            numbers = np.bincount(keys.ravel())
            for key in np.flatnonzero(numbers).tolist():
                place, col = divmod(key, len(known))
                found[tuple(sorted(own + known[col]))][types[place]] += int(numbers[key])
        return found

    def loops(self, joined: Sequence[int], ends: Iterable[int]) -> tuple[int, ...]:
        """The traces that joining these ends closes, by number in `known`: 0 and 1 are those of no
        matrix, of rows and of columns."""
        across, found, seen = self.across, [], bytearray(len(self.across))
        for start in ends:
            end, loop = start, list[int]()
            while not seen[end]:
                other = across[end]
                seen[end] = seen[other] = 1
                loop.append(end)
                end = joined[other]
            if loop:
                key = tuple(loop)
                if key not in self.closed:
                    self.closed[key] = self._number(key)
                found.append(self.closed[key])
        return tuple(sorted(found))

    def _number(self, loop: tuple[int, ...]) -> int:
        word = tuple(letter for end in loop for letter in self.words[end])
        if not word:
            return int(loop[0] >= len(self.factors))
        word = _canonical(word)
        if word not in self.known:
            self.known.append(word)
        return self.known.index(word)

    def traces(self, loops: tuple[int, ...]) -> tuple[_Traces, tuple[int, int]]:
        """The words of these traces and of the fixed ones, and how many of rows and columns."""
        words = sorted([*self.fixed, *(self.known[number] for number in loops if number > 1)])
        return tuple(words), (loops.count(0), loops.count(1))


@cache
def _canonical(word: _Word) -> _Word:
    """One representative of a word's rotations, forwards and transposed."""
    turned = [each[i:] + each[:i] for each in (word, _transpose(word)) for i in range(len(word))]
    return min(turned, key=lambda each: (sum(x.transposed != x.conjugated for x in each), each))


def _options(factors: Sequence[_Letter], law: str) -> list[list[int]]:
    """The pairings of an average, of U's factors with the conjugated ones, as the partner of
    each."""
    plain, bars = ([i for i, f in enumerate(factors) if f.conjugated == bar] for bar in (0, 1))
    if len(factors) % 2 or (law == "U" and len(plain) != len(bars)):
        return []
    pairings: Iterable[Pairing]
    if law == "U":
        number = factorial(len(bars))
        pairings = (tuple(map(ordered, plain, order)) for order in permutations(bars))
    else:
        number, pairings = double_factorial_pairings(len(factors)), pair_partitions(len(factors))
    ways = number if law == "Ginibre" else number**2
    if ways > LIMIT:
        got = f"{len(factors)} random factors"
        raise InputError("words", got, f"at most {LIMIT} terms, not {ways}")
    return [_partners(pairing) for pairing in pairings]


def _partners(pairing: Pairing) -> list[int]:
    partners = [0] * (2 * len(pairing))
    for a, b in pairing:
        partners[a], partners[b] = b, a
    return partners


@cache(most_bytes=2**24)
def _types(k: int, law: str) -> NDArray[np.int8]:
    """The type of each two pairings of k pairs, by its place in `partitions(k)`.

    The powers of q∘p up to k/2 have as many fixed points as tell it: at most one loop is longer.
    """
    unitary = law == "U"
    pairings = permutations(range(k)) if unitary else map(_partners, pair_partitions(2 * k))
    partners = np.array(list(pairings), np.intp)
    back = partners.argsort(axis=1)
    number, size = partners.shape
    powers = range(1, k // 2 + 1)
    places = np.zeros((size + 1) ** len(powers), np.int8)
    for place, mu in enumerate(partitions(k)):
        fixed = (sum(part for part in mu if j % part == 0) for j in powers)
        each = (count * (1 if unitary else 2) for count in fixed)
        places[reduce(lambda code, count: code * (size + 1) + count, each, 0)] = place
    types = np.empty((number, number), np.int8)
    for some in np.array_split(np.arange(number), 1 + number * partners.size // 2**17):
        once = power = back[:, partners[some]]
        code = np.zeros(once.shape[:2], np.intp)
        for j in powers:
            code = code * (size + 1) + (power == np.arange(size)).sum(axis=2)
            if j < len(powers):
                power = np.take_along_axis(once, power, axis=2)
        types[:, some] = places[code]
    return types


def _coefficient(
    counts: Counter[_Key], sizes: tuple[sympy.Expr, sympy.Expr], law: str
) -> sympy.Expr:
    """Σ counts · W(μ) · rows^a cols^b, at −n where a wire run backwards is a dual."""
    rows, cols = sizes
    if law == "Ginibre":
        terms = (c * rows**a * cols**b for (_, (a, b)), c in counts.items())
        return sympy.factor(sympy.Add(*terms))
    dual = law in _DUAL
    if rows.is_Integer:
        n = int(rows)
        values = (
            c * _value(mu, n, law) * (-n if dual else n) ** (a + b)
            for (mu, (a, b)), c in counts.items()
        )
        return as_sympy(sum(values, fmpq(0)))
    own = table(sum(next(iter(counts))[0]), _PAIRED.get(law, law))
    parts = ((c * own.numerators[mu]).left_shift(a + b) for (mu, (a, b)), c in counts.items())
    total = RationalFunction(sum(parts, fmpz_poly([])), own.poles)
    return (total.reflected() if dual else total).expr(rows)


def _value(mu: Partition, n: int, law: str) -> fmpq:
    """W(μ; n), of laws with duals W(μ; −n): that of Sp(n) but for the sign (−1)^k of k pairs, and
    that of U(n) but for the sign of its number of cycles."""
    sign = {"Sp": sum(mu), "CSE": len(mu)}.get(law, 0)
    value: fmpq = (-1) ** sign * value_at(mu, n, law if law == "Sp" else _PAIRED.get(law, law))
    return value


def _trace(word: _Word, symbols: Mapping[str, sympy.MatrixSymbol]) -> sympy.Expr:
    runs = ((letter.of(symbols[letter.name]), len([*run])) for letter, run in groupby(word))
    powers = [matrix if times == 1 else matrix**times for matrix, times in runs]
    return sympy.Trace(sympy.MatMul(*powers) if len(powers) > 1 else powers[0])
