"""Averages over one matrix at finite width: which summed neurons it joins, with what coefficient.

    E[Π_a W_{i_a j_a}] = C_W^k Σ_{p,q} δ_p(i) C(p,q) δ_q(j)

Different rows are different neural indices. A *column* is what stands at a summed neuron j; columns
that are equal can be exchanged, so that the q are counted by what their blocks hold.

Averages behind a norm: the direction of z is uniform where rotations keep the law of z.

Let s² be (1/n) Σ z_i², or (1/n) Σ (z_i − m)² with the mean m of the z_i. Then

    E[Π z_i^{m_i} s^{-k}] = A E[q^{(M−k)/2}] ,    q = |z|²/n,  M = Σ m_i,

with one A for every law of the length |z|. Independent standard normal z_i give A: their z_i − m
are independent of m, with the covariance δ_ij − 1/n, and their length is independent of their
direction. Derived here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from itertools import pairwise, product
from math import comb, gcd, prod
from typing import Any, NamedTuple, TypeAlias

import sympy
from flint import fmpz_poly

from ..arithmetic.parameters import R_IN
from ..arithmetic.polynomials import UNIT, Expansion, add, constant, power
from ..arithmetic.rational import RationalFunction, Term, as_sympy
from ..errors import InputError
from ..groups.pairings import (
    Partition,
    coset_type,
    double_factorial_pairings,
    even_partitions,
    ordered,
    refining_pairings,
    refining_partitions,
)
from ..groups.weingarten import class_size
from ..groups.zonal import partitions
from ..weights import (
    Gaussian,
    IndependentEntries,
    Orthogonal,
    PermutationInvariant,
    WeightEnsemble,
)
from ..work.caches import cache
from .values import exact_value, multiply, raised

MAX_PAIRS = 6
"""Pairs of weights with different columns that a rotation joins: (2k−1)!! pairings."""

Column: TypeAlias = tuple[str, Any]
"""A space and what stands at a neuron of it; or "" and the number of a neuron with links."""
Row: TypeAlias = tuple[Column, ...]
Joined: TypeAlias = tuple[tuple[Column, ...], ...]
"""The columns in each block of q."""
Items: TypeAlias = tuple[tuple[Any, int], ...]
"""Different things, and how many there are of each."""
Graph: TypeAlias = tuple[tuple[int, int], ...]
"""The rows that each pair of a pairing joins."""


Cosets: TypeAlias = tuple[tuple[Any, int], ...]
"""Coset types of (p,q), and how many there are of each. For weights that only permutations keep,
(p, q) itself stands in place of its coset type."""


class Spectrum(NamedTuple):
    """Σ C(p,q)/C_W^k over such (p,q), of the matrix with this number, not evaluated."""

    matrix: int
    cosets: Cosets


class Matrix:
    """A random matrix of a network.

    Arguments:
        number: its place among the network's matrices.
        weights: its law.
        n_in, n_out: the widths that it joins.
        fan_in: n_in, as a polynomial in 1/n.
        variance: n_in E[W_ij²], likewise.

    Raises InputError for entries with a skewed law.
    """

    def __init__(
        self,
        number: int,
        weights: WeightEnsemble,
        n_in: sympy.Expr,
        n_out: sympy.Expr,
        fan_in: Expansion,
        variance: Expansion,
    ) -> None:
        self.number, self.weights, self.n_in, self.n_out = number, weights, n_in, n_out
        self.fan_in, self.variance = fan_in, variance
        if isinstance(weights, IndependentEntries):
            weights.check_symmetric()
        self._averages: dict[tuple[Row, ...], dict[Joined, Expansion]] = {}
        self._spectra: dict[Hashable, Expansion] = {}

    def average(self, rows: tuple[Row, ...]) -> dict[Joined, Expansion]:
        """Each way in which these rows' columns can be joined, and its coefficient.

        Raises InputError for more columns than finishes, and where the law is not known so far.
        """
        if rows not in self._averages:
            scale = raised(self.variance, sum(map(len, rows)) // 2)
            found = self._joined(rows) if scale else {}
            self._averages[rows] = {q: multiply(scale, each) for q, each in found.items() if each}
        return self._averages[rows]

    def value(self, cosets: Cosets) -> sympy.Expr:
        """Σ C(p,q)/C_W^k in sympy, exact in the widths."""
        parts = [count * self._coefficient(coset) for coset, count in cosets]
        used = sorted(sympy.Tuple(*parts).free_symbols, key=str)
        if not used:
            return sympy.Add(*parts)
        fractions = sympy.QQ.frac_field(*used)
        return fractions.to_sympy(sum(map(fractions.from_sympy, parts), start=fractions.zero))

    def series(self, cosets: Cosets, order: int, equal_widths: bool) -> Expansion:
        """Σ C(p,q)/C_W^k as a series in 1/n."""
        total: Expansion = {}
        for coset, count in cosets:
            add(total, self._expansion(coset, order, equal_widths), count)
        return total

    def spectrum(self, cosets: Counter[Any]) -> Expansion:
        """Σ C(p,q)/C_W^k: a number at integer widths, else an atom; nothing where all vanish."""
        divisor = gcd(*cosets.values())
        given = ((coset, count // divisor) for coset, count in cosets.items())
        key = tuple(sorted(each for each in given if self._coefficient(each[0]) != 0))
        if key not in self._spectra:
            numbers = [count * self._coefficient(coset) for coset, count in key]
            atom: Expansion = {(power(Spectrum(self.number, key), 1), 0): Fraction(1)}
            rational = all(value.is_Rational for value in numbers)
            self._spectra[key] = exact_value(sympy.Add(*numbers)) if rational else atom
        return multiply(constant(divisor), self._spectra[key])

    def _coefficient(self, coset: Any) -> sympy.Expr:
        return _coefficient(self.weights, coset, self.n_in, self.n_out)

    def _expansion(self, coset: Any, order: int, equal_widths: bool) -> Expansion:
        if isinstance(self.weights, PermutationInvariant):
            p, q = coset
            return self.weights.pairing_matrix(p, q, order, equal_widths)
        return self.weights.expansion(coset, order, equal_widths)

    def _joined(self, rows: tuple[Row, ...]) -> dict[Joined, Expansion]:
        if isinstance(self.weights, Gaussian | IndependentEntries):
            return self._by_rows(rows)
        if isinstance(self.weights, PermutationInvariant):
            return self._by_partitions(rows)
        return self._by_pairings(rows)

    def _by_rows(self, rows: tuple[Row, ...]) -> dict[Joined, Expansion]:
        """Independent entries: only p = q, its blocks of one row each, Π κ_{|B|} n_in^{-k}."""
        law = self.weights
        most = 0 if isinstance(law, IndependentEntries) else 2
        total: dict[Joined, Expansion] = {(): raised(self.fan_in, -(sum(map(len, rows)) // 2))}
        for row in rows:
            grown: dict[Joined, Expansion] = defaultdict(dict)
            for blocks, ways in _even_blocks(_counted(row), most or len(row)):
                value = constant(ways)
                if isinstance(law, IndependentEntries):
                    cumulants = (exact_value(law.cumulant(len(block))) for block in blocks)
                    value = reduce(multiply, cumulants, value)
                for known, before in total.items():
                    joined = tuple(sorted((*known, *blocks)))
                    add(grown[joined], multiply(before, value))
            total = grown
        return total

    def _by_pairings(self, rows: tuple[Row, ...]) -> dict[Joined, Expansion]:
        """Rotations: Σ C(p,q) over the p inside the rows depends on which rows q joins."""
        columns = [column for row in rows for column in row]
        pairs, sizes = len(columns) // 2, tuple(map(len, rows))
        if len(set(columns)) == 1:  # every q joins the same: Σ_q C(p,q) is the same for each p
            total = self.spectrum(Counter({mu: class_size(mu) for mu in partitions(pairs)}))
            ways = prod(map(double_factorial_pairings, sizes))
            return {((columns[0],) * 2,) * pairs: multiply(constant(ways), total)}
        if pairs > MAX_PAIRS:
            wanted = (
                f"a degree and a layer that need at most {2 * MAX_PAIRS} of these weights in front "
                f"of different factors, not {2 * pairs}"
            )
            raise InputError("weights", str(self.weights), wanted)
        found: dict[Joined, Counter[Partition]] = defaultdict(Counter)
        places = ((r, column) for r, row in enumerate(rows) for column in row)
        for chosen, ways in _pairs(_counted(places)).items():
            joined = tuple(sorted(tuple(sorted((a, b))) for (_, a), (_, b) in chosen))
            graph = tuple(sorted((min(r, s), max(r, s)) for (r, _), (s, _) in chosen))
            for coset, count in _overlaps(sizes, graph):
                found[joined][coset] += ways * count
        return {joined: self.spectrum(cosets) for joined, cosets in found.items()}

    def _by_partitions(self, rows: tuple[Row, ...]) -> dict[Joined, Expansion]:
        """Weights that are known by C(p, q) of any two set partitions."""
        columns = [column for row in rows for column in row]
        found: dict[Joined, Counter[Any]] = defaultdict(Counter)
        places = _places(tuple(map(len, rows)))
        self._coefficient((places, places))  # of more factors than are known, an error at once
        for q in even_partitions(range(len(columns))):
            blocks = (tuple(sorted(columns[a] for a in block)) for block in q)
            joined = tuple(sorted(blocks))
            for p in refining_partitions(places):
                found[joined][p, q] += 1
        return {joined: self.spectrum(cosets) for joined, cosets in found.items()}


@cache(entries=10_000)
def _coefficient(
    weights: WeightEnsemble, coset: Any, n_in: sympy.Expr, n_out: sympy.Expr
) -> sympy.Expr:
    if isinstance(weights, PermutationInvariant):
        p, q = coset
        return weights.joint(p, q, n_in, n_out)
    return weights.coefficient(coset, n_in, n_out)


def _counted(things: Any) -> Items:
    """Different things in a fixed order, and how often each occurs."""
    return tuple(Counter(things).items())


def _places(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    ends = [sum(sizes[:r]) for r in range(len(sizes) + 1)]
    return tuple(tuple(range(a, b)) for a, b in pairwise(ends))


def _without(items: Items, taken: Sequence[int]) -> Items:
    left = ((each, count - less) for (each, count), less in zip(items, taken, strict=True))
    return tuple((each, count) for each, count in left if count)


@cache
def _even_blocks(items: Items, largest: int) -> tuple[tuple[Joined, int], ...]:
    """The set partitions into even blocks of at most this size, by what the blocks hold."""
    if not items:
        return (((), 1),)
    rest = _without(items, [1] + [0] * (len(items) - 1))
    found: Counter[Joined] = Counter()
    for taken in product(*(range(min(count, largest - 1) + 1) for _, count in rest)):
        if sum(taken) % 2 == 0 or sum(taken) >= largest:
            continue
        ways = prod(comb(count, k) for (_, count), k in zip(rest, taken, strict=True))
        others = (each for (each, _), k in zip(rest, taken, strict=True) for _ in range(k))
        block = tuple(sorted((items[0][0], *others)))
        for blocks, count in _even_blocks(_without(rest, taken), largest):
            found[tuple(sorted((block, *blocks)))] += ways * count
    return tuple(found.items())


@cache(entries=64)
def _pairs(items: Items) -> Counter[tuple[tuple[Any, Any], ...]]:
    """The pairings of these things, by what the pairs hold."""
    if not items:
        return Counter({(): 1})
    rest = _without(items, [1] + [0] * (len(items) - 1))
    found: Counter[tuple[tuple[Any, Any], ...]] = Counter()
    for k, (partner, count) in enumerate(rest):
        left = _without(rest, [int(k == other) for other in range(len(rest))])
        for pairs, ways in _pairs(left).items():
            found[((items[0][0], partner), *pairs)] += count * ways
    return found


@cache
def _overlaps(sizes: tuple[int, ...], graph: Graph) -> tuple[tuple[Partition, int], ...]:
    """The coset types of (p,q) for the p inside rows of these sizes and a q that joins them so."""
    places = _places(sizes)
    free: list[Iterator[int]] = [iter(row) for row in places]
    q = tuple(sorted(ordered(next(free[r]), next(free[s])) for r, s in graph))
    return tuple(Counter(coset_type(p, q) for p in refining_pairings(places)).items())


class Moment(NamedTuple):
    """Π z_i^{m_i} s^{-k} at different indices: the m_i in order, k, and whether s has the mean m
    taken off."""

    powers: tuple[int, ...]
    norms: int
    centred: bool


class Directions(Matrix):
    """The A of a space of n neurons, in place of the C(p,q) of a matrix."""

    def __init__(self, number: int, n: sympy.Expr, size: Expansion) -> None:
        super().__init__(number, Orthogonal(), n, n, size, constant(1))

    def _coefficient(self, coset: Any) -> sympy.Expr:
        """A in sympy; InputError at a width where it has a pole."""
        made, n = angular(coset), self.n_in
        if not n.is_Integer:
            return made.expr(n)
        try:
            return as_sympy(made.at(int(n)))
        except InputError as error:
            raise InputError("width", n, f"more neurons behind a norm: {error.wanted}") from None

    def _expansion(self, coset: Any, order: int, equal_widths: bool) -> Expansion:
        """A as a series in 1/n."""
        return {
            (UNIT if equal_widths else power(R_IN, -j), j): Fraction(value)
            for j, value in angular(coset).series(order).items()
        }


@cache
def angular(moment: Moment) -> RationalFunction:
    """A as a rational function of n; M − k is even.

    Of d dimensions E|w|^{b−k} / E|w|^b is Π_j 1/(d + 2j), j = (b−k)/2 … b/2 − 1.

    >>> angular(Moment((4,), 4, centred=False)).expr(sympy.Symbol("n"))
    3*n/(n + 2)
    """
    powers, k, centred = moment
    weights: Counter[tuple[int, int]] = Counter()
    for ways, off, left in _even_splits(powers, centred):  # z_i = m + w_i
        for more, also, inner in _even_splits(left, centred):  # the pairs of w_i with −1/n
            if all(b % 2 == 0 for b in inner):
                pairs = prod(map(double_factorial_pairings, (*inner, off, also)))
                less = sum(powers) // 2 - (off + also) // 2
                weights[sum(left), less] += ways * more * pairs * (-1) ** (also // 2)
    terms = (
        Term(weight, _over(range(b - k - centred, b - centred, 2)), less)
        for (b, less), weight in weights.items()
    )
    total = RationalFunction.total(terms)
    poles = Counter(total.poles) + Counter(range(0, sum(powers) - k, 2))
    return RationalFunction(total.numerator, poles).reduced()


def _over(constants: range) -> RationalFunction:
    """Π_c 1/(n + c)."""
    return RationalFunction(fmpz_poly([1]), dict.fromkeys(constants, 1))


def _even_splits(
    powers: Sequence[int], centred: bool
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The terms of Π (a + b_i)^{m_i} with an even power of a: how many, that power, and the others.

    Without a mean to be taken off, a = 0.
    """
    for off in product(*(range(m + 1 if centred else 1) for m in powers)):
        if sum(off) % 2 == 0:
            left = tuple(m - c for m, c in zip(powers, off, strict=True))
            yield prod(map(comb, powers, off)), sum(off), left
