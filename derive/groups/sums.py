"""Haar averages as sums over pairs of pairings, written out or held.

    E[Π_a M_{i_a j_a} Π_b M̄_{i'_b j'_b}] = Σ_{p,q} δ_p(i) W(p,q) δ_q(j)

with p, q pairings of all factors (O: any; U: an M with an M̄; Sp: δ carries the form J). How it is
computed is chosen per integrand. For integer indices it is the sum itself where few pairings match,
otherwise one column after the other by `derive.groups.columns`, on the side with fewer columns. For
symbols the sum is written out where it is short, and held as a `PairingSum` where it is not. Where
a long sum has few symbols, each many times, δ_p depends only on the set partition π of the symbols
that p's pairs join, and the terms are gathered:

    Σ_{p,q} δ_p(i) W(p,q) δ_q(j) = Σ_{π,ρ} δ_π C(π,ρ) δ_ρ,    Σ_{π'≤π, ρ'≤ρ} C(π',ρ') = M(π,ρ),

M(π,ρ) being the average where the symbols of a block are one index and the blocks differ: an
average of integer indices, so C follows by Möbius inversion (derived here).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from math import factorial, prod
from typing import Any, TypeAlias

import sympy
from flint import fmpq
from sympy.core.symbol import Str
from sympy.printing.precedence import PRECEDENCE

from ..arithmetic.rational import RationalFunction, Term, as_sympy
from ..errors import InputError
from ..work.caches import cache
from .columns import Row, column_average
from .factors import Factor, matchings, read_all, unbarred
from .pairings import (
    Pairing,
    Partition,
    coset_type,
    double_factorial_pairings,
    joined,
    loop_type,
    pairings,
    set_partitions,
)
from .weingarten import MOST_PAIRS, as_partition, class_size, dimension, table, value_at
from .zonal import partitions

DIRECT_LIMIT = 4_000
SYMBOLIC_LIMIT = 200_000
"""Of pairs of pairings that are gone through for a sum written out."""
WRITTEN_LIMIT = 12_000
"""Of products of δ's in a sum written out: seconds, and megabytes of text."""
COINCIDENCES = 400
"""Of pairs of set partitions, whose averages are computed one by one."""
MOST_LABELS = 6
SHOWN = 3
"""Terms of a held sum in its text."""


def average(factors: Sequence[Factor], n: sympy.Expr, group: str) -> sympy.Expr:
    """The average; of symbols by the sum written out where it is short, otherwise held."""
    if not is_symbolic(factors):
        return concrete(factors, n, group)
    if prod(count_pairings(side, n, group) for side in _sides(factors)) <= SYMBOLIC_LIMIT:
        rows, cols = _weights(factors, n, group, symbolic=True)
        if len(rows) * len(cols) <= WRITTEN_LIMIT:
            return _written_out(_counts(rows, cols), n, group)
    gathered = _by_coincidence(factors, n, group)
    return PairingSum.of(factors, n, group) if gathered is None else gathered


def is_symbolic(factors: Sequence[Factor]) -> bool:
    """True if some index is not an integer."""
    return any(not isinstance(line.label, int) for f in factors for line in (f.row, f.col))


def concrete(factors: Sequence[Factor], n: sympy.Expr, group: str) -> sympy.Expr:
    """The average for indices that are known to be equal or different."""
    matching = _matching(factors, group)
    if matching == 0:
        return sympy.Integer(0)
    if matching <= DIRECT_LIMIT:
        return _combination(_counted(factors, n, group), n, group)
    moment = _by_columns(factors, group)
    return as_sympy(moment.at(int(n))) if n.is_Integer else moment.expr(n)


def _matching(factors: Sequence[Factor], group: str) -> int:
    return prod(matchings(side, group) for side in _sides(factors))


def _counted(factors: Sequence[Factor], n: sympy.Expr, group: str) -> Counter[Partition]:
    """How often each coset type occurs among the pairs of pairings that match, with signs."""
    counts = _counts(*_weights(factors, n, group, symbolic=False))
    return counts.get(sympy.Integer(1), Counter())


def _by_columns(factors: Sequence[Factor], group: str) -> RationalFunction:
    """The average as a function of n, one column after the other."""
    if len({f.row.label for f in factors}) < len({f.col.label for f in factors}):
        factors = [f.transposed for f in factors]
    moment = column_average([unbarred(f) for f in factors], group)
    sign = prod(-f.row.sign for f in factors if f.col.barred)
    return RationalFunction(sign * moment.numerator, moment.poles)


def _sides(factors: Sequence[Factor]) -> tuple[Sequence[Factor], Sequence[Factor]]:
    return factors, [f.transposed for f in factors]


class PairingSum(sympy.Expr):
    """The average E[Π M_{i_a j_a} Π M̄_{i'_b j'_b}] of symbolic indices, its sum not written out.

    A sympy expression like any other. With `subs`, or called with names of indices, it becomes the
    average itself once every index is an integer, exactly and by the fastest road; its text shows
    the first terms, with W(μ) for Weingarten's function of a coset type.

    Arguments:
        rows, cols, conj_rows, conj_cols, n, group: as of `haar_moment`, which makes these.

    Raises InputError for an index out of range and for more than 60 factors. Derived here.

    >>> from derive import haar_moment
    >>> n = sympy.Symbol("n")
    >>> held = haar_moment(sympy.symbols("i:10"), sympy.symbols("j:10"), n)
    >>> held.number, held.by_type()[2, 1, 1, 1], held.function((5,)).subs(n, 10)
    (893025, 18900, 41/4023613440)
    >>> ones = {symbol: 1 for symbol in held.free_symbols - {n}}
    >>> held.subs(ones)
    945/(n*(n + 2)*(n + 4)*(n + 6)*(n + 8))
    """

    is_commutative = True

    def __new__(  # noqa: D102 (its arguments are the class's)
        cls, rows: Any, cols: Any, conj_rows: Any, conj_cols: Any, n: Any, group: Any = "O"
    ) -> sympy.Expr:
        name = str(group)
        size = dimension(n, name)
        factors = read_all(rows, cols, conj_rows, conj_cols, size, name)
        held = is_symbolic(factors)
        return cls.of(factors, size, name) if held else concrete(factors, size, name)

    @classmethod
    def of(cls, factors: Sequence[Factor], n: sympy.Expr, group: str) -> PairingSum:
        """The sum for these entries, held."""
        if len(factors) > 2 * MOST_PAIRS:
            wanted = f"{2 * MOST_PAIRS} factors or fewer with symbols"
            raise InputError("rows, cols", len(factors), wanted)
        plain = [f for f in factors if not f.conjugated]
        bars = [f for f in factors if f.conjugated]
        lists = (
            sympy.Tuple(*(_index(line, n) for line in lines))
            for some in (plain, bars)
            for lines in ([f.row for f in some], [f.col for f in some])
        )
        held: PairingSum = sympy.Expr.__new__(cls, *lists, n, Str(group))
        return held

    @property
    def n(self) -> sympy.Expr:
        """The dimension."""
        return self.args[4]

    @property
    def group(self) -> str:
        """O, U or Sp."""
        return str(self.args[5])

    @property
    def factors(self) -> list[Factor]:
        """The entries averaged."""
        rows, cols, conj_rows, conj_cols = self.args[:4]
        return read_all(rows, cols, conj_rows, conj_cols, self.n, self.group)

    @property
    def number(self) -> int:
        """The number of pairs of pairings."""
        return prod(count_pairings(side, self.n, self.group) for side in _sides(self.factors))

    def function(self, partition: Sequence[int]) -> sympy.Expr:
        """W(μ; n) of a coset type of these pairings (U: cycle type).

        Arguments:
            partition: the type μ, a partition of the number of pairs.

        Raises InputError for what is none.
        """
        mu = as_partition(partition)
        if 2 * sum(mu) != len(self.factors):
            raise InputError("partition", partition, f"a partition of {len(self.factors) // 2}")
        return _combination(Counter({mu: 1}), self.n, self.group)

    def by_type(self) -> dict[Partition, int]:
        """How many pairs of pairings have each coset type: how often W(μ; n) occurs.

        Where on one side every pairing occurs this is known without going through them.
        """
        factors = self.factors
        k = len(factors) // 2
        every = factorial(k) if self.group == "U" else double_factorial_pairings(2 * k)
        counts = [count_pairings(side, self.n, self.group) for side in _sides(factors)]
        if every in counts:
            other = prod(counts) // every
            return {mu: other * class_size(mu, self.group) for mu in partitions(k) if other}
        found: Counter[Partition] = Counter()
        for _, mu in self.terms():
            found[mu] += 1
        return {mu: found[mu] for mu in partitions(k) if found[mu]}

    def terms(self) -> Iterator[tuple[sympy.Expr, Partition]]:
        """Each δ_p(i) δ_q(j), with its sign for Sp(n), and the coset type of (p, q)."""
        forms = [_forms(side, self.n, self.group, True) for side in _sides(self.factors)]
        points, signed = len(self.factors), self.group == "Sp"
        for row_weight, p in _weighted(forms[0], points, signed):
            for col_weight, q in _weighted(forms[1], points, signed):
                yield row_weight * col_weight, loop_type(p, q)

    def subs(self, *args: Any, **kwargs: Any) -> sympy.Expr:
        """The average with other indices or another n, as sympy's `subs`.

        All are put in at once: an index of Sp(n) means a row of one half once n is known.
        """
        return self.func(*(arg.subs(*args, **kwargs) for arg in self.args[:5]), self.group)

    def doit(self, **_: object) -> sympy.Expr:
        """The sum written out, where it is short enough by now; otherwise as it is."""
        return average(self.factors, self.n, self.group)

    def __call__(self, **indices: int | sympy.Expr) -> sympy.Expr:
        """The average with values for indices, by name.

        Raises InputError for a name that is no index here, and for an index out of range.
        """
        names = {symbol.name: symbol for symbol in self.free_symbols}
        for name in indices:
            if name not in names:
                raise InputError("indices", name, f"names among {', '.join(sorted(names))}")
        return self.subs({names[name]: value for name, value in indices.items()})

    def _eval_derivative(self, symbol: sympy.Symbol) -> sympy.Expr:
        if symbol not in self.free_symbols:
            return sympy.Integer(0)
        return sympy.Derivative(self, symbol, evaluate=False)

    def _sympystr(self, printer: Any) -> str:
        entries = "*".join(
            f"conj({entry})" if f.conjugated else entry
            for f in self.factors
            for entry in [f"{self.group[0]}[{_index(f.row, self.n)},{_index(f.col, self.n)}]"]
        )
        text, left = self._shown(printer, "W({})*{}")
        return f"E[{entries} over {self.group}({self.n}) = {text} + ... and {left} terms more]"

    def _latex(self, printer: Any, **_: object) -> str:
        text, left = self._shown(printer, "W_{{{}}} {}")
        return rf"\left({text} + \cdots \text{{ and {left} terms more}}\right)"

    def _shown(self, printer: Any, term: str) -> tuple[str, int]:
        """The first terms, each a type and its δ's in this form, and how many are left."""
        shown = [
            term.format(",".join(map(str, mu)), printer.parenthesize(deltas, PRECEDENCE["Mul"]))
            for deltas, mu in islice(self.terms(), SHOWN)
        ]
        return " + ".join(shown), self.number - len(shown)


def _index(line: Row, n: sympy.Expr) -> sympy.Expr:
    label = sympy.sympify(line.label)
    return label + n / 2 if line.barred else label


def count_pairings(factors: Sequence[Factor], n: sympy.Expr, group: str) -> int:
    """The number of pairings p with δ_p(rows) not known to vanish.

    Factors that pair with the same others count as one kind, and a kind by how many are left.
    """
    if not is_symbolic([f._replace(col=f.row) for f in factors]):
        return matchings(factors, group)

    def kind(factor: Factor) -> tuple[object, ...]:
        label: object = factor.row.label
        if getattr(label, "is_Symbol", False) and (group != "Sp" or occurrences[label] == 1):
            label = "symbol"
        return label, factor.row.barred, factor.conjugated

    occurrences = Counter(f.row.label for f in factors)
    kinds = Counter(map(kind, factors))
    names = tuple(kinds)
    pairs = set()
    for f, g in combinations(factors, 2):
        if (kind(f), kind(g)) not in pairs and _forms((f, g), n, group, True):
            pairs |= {(kind(f), kind(g)), (kind(g), kind(f))}

    @cache(entries=2**16)
    def ways(left: tuple[int, ...]) -> int:
        first = next((i for i, number in enumerate(left) if number), None)
        if first is None:
            return 1
        rest = [*left]
        rest[first] -= 1
        total = 0
        for other, number in enumerate(rest):
            if number and (names[first], names[other]) in pairs:
                total += number * ways((*rest[:other], number - 1, *rest[other + 1 :]))
        return total

    return ways(tuple(kinds.values()))


Forms: TypeAlias = dict[tuple[int, int], sympy.Expr]


def _forms(factors: Sequence[Factor], n: sympy.Expr, group: str, symbolic: bool) -> Forms:
    """The factor that pairs two rows: δ, or J where Sp(n) has both alike.

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


def _written_out(
    collected: Mapping[sympy.Expr, Counter[Partition]], n: sympy.Expr, group: str
) -> sympy.Expr:
    """Σ_{p,q} δ_p(rows) W(p,q) δ_q(cols), with equal products of δ's collected."""
    values: dict[frozenset[tuple[Partition, int]], sympy.Expr] = {}
    terms = []
    for deltas, counts in collected.items():
        key = frozenset(counts.items())
        if key not in values:
            values[key] = _combination(counts, n, group)
        terms.append(deltas * values[key])
    return sympy.Add(*terms)


Weights: TypeAlias = dict[sympy.Expr, list[Pairing]]


def _weights(
    factors: Sequence[Factor], n: sympy.Expr, group: str, *, symbolic: bool
) -> tuple[Weights, Weights]:
    """The pairings of the rows by their δ_p, and those of the columns by their δ_q."""
    rows, cols = (
        _by_weight(_forms(side, n, group, symbolic), len(factors), group == "Sp")
        for side in _sides(factors)
    )
    return rows, cols


def _counts(rows: Weights, cols: Weights) -> dict[sympy.Expr, Counter[Partition]]:
    """By product of δ's, how often each coset type occurs with it, with signs."""
    counts: dict[sympy.Expr, Counter[Partition]] = defaultdict(Counter)
    for row_weight, row_pairings in rows.items():
        for col_weight, col_pairings in cols.items():
            sign, deltas = (row_weight * col_weight).as_coeff_Mul()
            for p in row_pairings:
                for q in col_pairings:
                    counts[deltas][coset_type(p, q)] += int(sign)
    return counts


Blocks: TypeAlias = tuple[tuple[object, ...], ...]


def _by_coincidence(factors: Sequence[Factor], n: sympy.Expr, group: str) -> sympy.Expr | None:
    """Σ_{π,ρ} δ_π C(π,ρ) δ_ρ, or None for Sp(n), where W is singular and where π and ρ are many."""
    if group == "Sp" or (n.is_Integer and 2 * n < len(factors)):
        return None
    rows, cols = (_coincidences(side, group) for side in _sides(factors))
    if not 0 < len(rows) * len(cols) <= COINCIDENCES:
        return None
    averages = {
        (pi, rho): _regular(
            [
                Factor(Row(i), Row(j), f.conjugated)
                for f, i, j in zip(
                    factors,
                    _identified([f.row.label for f in factors], pi),
                    _identified([f.col.label for f in factors], rho),
                    strict=True,
                )
            ],
            group,
        )
        for pi in rows
        for rho in cols
    }
    for along, parts in enumerate((rows, cols)):
        for coarse in parts:
            finer = [part for part in parts if part != coarse and _refines(part, coarse)]
            for key, whole in averages.items():
                if key[along] == coarse:
                    others = [(part, key[1]) if along == 0 else (key[0], part) for part in finer]
                    terms = [Term(1, whole), *(Term(-1, averages[other]) for other in others)]
                    averages[key] = RationalFunction.total(terms).reduced()
    return sympy.Add(
        *(
            _joined(pi) * _joined(rho) * (as_sympy(c.at(int(n))) if n.is_Integer else c.expr(n))
            for (pi, rho), c in averages.items()
            if c.numerator
        )
    )


def _regular(factors: Sequence[Factor], group: str) -> RationalFunction:
    """The average of integer indices as a function of n."""
    if _matching(factors, group) > DIRECT_LIMIT:
        return _by_columns(factors, group).reduced()
    counted = _counted(factors, sympy.Dummy("n"), group)
    functions = table(len(factors) // 2, group).function
    return RationalFunction.total(Term(c, functions(mu)) for mu, c in counted.items()).reduced()


def _coincidences(factors: Sequence[Factor], group: str) -> list[Blocks]:
    """The set partitions of the row labels whose blocks can be paired within, finest first; none
    where there are too many labels."""
    labels = sorted({f.row.label for f in factors}, key=str)
    if len(labels) > MOST_LABELS:
        return []
    plain = Counter(f.row.label for f in factors if not f.conjugated)
    bars = Counter(f.row.label for f in factors if f.conjugated)

    def paired(block: Sequence[object]) -> bool:
        a, b = (sum(counts[label] for label in block) for counts in (plain, bars))
        within = a == b if group == "U" else (a + b) % 2 == 0
        return within and sum(isinstance(label, int) for label in block) < 2

    found = [blocks for blocks in set_partitions(labels) if all(map(paired, blocks))]
    return sorted(found, key=len, reverse=True)


def _identified(labels: Sequence[object], blocks: Blocks) -> list[int]:
    """An integer for the block of each label."""
    number = {label: i for i, block in enumerate(blocks, start=1) for label in block}
    return [number[label] for label in labels]


def _refines(fine: Blocks, coarse: Blocks) -> bool:
    return all(any(set(block) <= set(other) for other in coarse) for block in fine)


def _joined(blocks: Blocks) -> sympy.Expr:
    """The product of δ's that says that the labels of each block are equal."""
    product = sympy.Integer(1)
    for block in blocks:
        first, *others = sorted(map(sympy.sympify, block), key=sympy.default_sort_key)
        product *= sympy.Mul(*(sympy.KroneckerDelta(first, other) for other in others))
    return product


def _combination(counts: Counter[Partition], n: sympy.Expr, group: str) -> sympy.Expr:
    """Σ_μ counts[μ] W(μ; n)."""
    if n.is_Integer:
        values = (count * value_at(mu, int(n), group) for mu, count in counts.items())
        return as_sympy(sum(values, start=fmpq(0)))
    return RationalFunction.total(
        Term(count, table(sum(mu), group).function(mu)) for mu, count in counts.items()
    ).expr(n)


def _by_weight(form: Forms, points: int, signed: bool) -> Weights:
    """The pairings p by their δ_p."""
    collected: Weights = defaultdict(list)
    for weight, pairing in _weighted(form, points, signed):
        collected[weight].append(pairing)
    return collected


def _weighted(form: Forms, points: int, signed: bool) -> Iterator[tuple[sympy.Expr, Pairing]]:
    """Each pairing p whose δ_p does not vanish: δ_p, with p's sign for Sp(n), and p."""
    for pairing in pairings(points, form):
        weight = _merged(sympy.Mul(*(form[pair] for pair in pairing)))
        if weight != 0:
            yield (_sign(pairing) if signed else 1) * weight, pairing


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
    merged = sign
    for members in joined(delta.args[:2] for delta in deltas):
        if any(sympy.KroneckerDelta(x, y) == 0 for x, y in combinations(members, 2)):
            return sympy.Integer(0)
        first, *others = sorted(members, key=sympy.default_sort_key)
        merged *= sympy.Mul(*(sympy.KroneckerDelta(first, other) for other in others))
    return merged
