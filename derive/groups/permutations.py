"""Averages over the permutation matrices S(n), and over the signed ones B(n).

A permutation matrix P has P_ij = 1 where i is the image of j. With ker i the set partition of the
factors by equal indices,

    E[P_{i1 j1} … P_{ik jk}] = [ker i = ker j] / (n)_{|ker i|},    (n)_b = n(n − 1) … (n − b + 1),

and of P with independent random signs the same where the blocks of ker i are even, else 0. So much
follows from counting permutations. With δ_π(i) = 1 where i is constant on the blocks of π, Möbius'
inversion of [ker i = τ] in the lattice of set partitions gives, for both groups,

    E[…] = Σ_{π,σ} δ_π(i) W(π,σ) δ_σ(j),    W(π,σ) = Σ_{τ ≤ π∧σ} μ(τ,π) μ(τ,σ) / (n)_{|τ|},

over set partitions, of B(n) over those with even blocks: what is coarser than such a τ is one. The
δ's are a basis of the invariant tensors for n ≥ k, and W is the inverse of their Gram matrix
n^{|π∨σ|}. Derived here; the basis is that of the partition algebra (V. Jones, P. Martin, 1994).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations, pairwise, product
from math import comb, prod
from typing import Any

import sympy
from flint import fmpq, fmpz_poly

from ..arithmetic.rational import RationalFunction, Term, as_sympy
from ..errors import InputError, as_integer
from ..work.caches import cache
from ..work.resources import check_time
from .factors import Factor
from .pairings import Blocks, even_partitions, joined, mobius, set_partitions

PERMUTATIONS = ("S", "B")
"""The permutation matrices, and the signed ones."""
MOST_ENTRIES = 6
"""Different entries with symbolic indices, whose coincidences are written out."""
MOST_POINTS = 30
_RATE = 10**5
"""Products of Möbius functions that are added up in a second."""

_WANTED = (
    "block sizes such as (2, 1), or two set partitions of the same points, such as "
    "(((0, 1), (2,)), ((0, 1, 2),))"
)


def partitions_of(points: int, group: str) -> tuple[Blocks, ...]:
    """The set partitions of 0 … points − 1 that index the Gram matrix; of B those of even blocks.

    >>> len(partitions_of(4, "S")), len(partitions_of(4, "B"))
    (15, 4)
    """
    each = set_partitions(tuple(range(points))) if group == "S" else even_partitions(range(points))
    return tuple(sorted(tuple(sorted(map(tuple, map(sorted, blocks)))) for blocks in each))


def join(pi: Blocks, sigma: Blocks) -> Blocks:
    """π ∨ σ: the finest set partition that both refine.

    >>> join(((0, 1), (2,), (3,)), ((0,), (1, 2), (3,)))
    ((0, 1, 2), (3,))
    """
    return tuple(sorted(tuple(sorted(block)) for block in joined((*pi, *sigma))))


def as_pair(given: Any, group: str) -> tuple[Blocks, Blocks]:
    """The argument of `weingarten` as π and σ: block sizes are those of π = σ.

    Raises InputError for what is neither block sizes nor two set partitions of the same points,
    and for blocks of odd size, of B.
    """
    try:
        parts = list(given)
        sizes = all(not hasattr(part, "__iter__") for part in parts)
        pair = [] if sizes else [[[int(point) for point in b] for b in blocks] for blocks in parts]
    except (TypeError, ValueError):
        raise InputError("partition", given, _WANTED) from None
    if sizes:
        ends = [0]
        for part in sorted(
            (as_integer("partition", p, 1, wanted=_WANTED) for p in parts), reverse=True
        ):
            ends.append(ends[-1] + part)
        blocks = tuple(tuple(range(a, b)) for a, b in pairwise(ends))
        pi = sigma = blocks
    else:
        points = [sorted(point for block in blocks for point in block) for blocks in pair]
        repeated = any(len(set(each)) < len(each) for each in points)
        empty = not all(block for blocks in pair for block in blocks)
        if len(pair) != 2 or points[0] != points[1] or repeated or empty:
            raise InputError("partition", given, _WANTED)
        pi, sigma = (tuple(sorted(tuple(sorted(b)) for b in blocks)) for blocks in pair)
    if sum(map(len, pi)) > MOST_POINTS:
        raise InputError("partition", given, f"{MOST_POINTS} points or fewer")
    if group == "B" and any(len(block) % 2 for block in (*pi, *sigma)):
        raise InputError("partition", given, "blocks of even sizes, for signed permutations")
    return pi, sigma


@cache
def counts(pi: Blocks, sigma: Blocks, group: str) -> dict[int, int]:
    """c_b of W(π,σ) = Σ_b c_b/(n)_b: Σ μ(τ,π) μ(τ,σ) over the τ ≤ π∧σ of b blocks.

    τ splits each block of the meet into some number of blocks, and μ depends on the numbers alone.
    """
    above = {point: k for k, block in enumerate(pi) for point in block}
    beside = {point: k for k, block in enumerate(sigma) for point in block}
    sizes = Counter((above[point], beside[point]) for point in above)
    ways = [_splits(size, group) for size in sizes.values()]
    terms = prod(map(len, ways))
    check_time("partition", (pi, sigma), terms // _RATE, f"{terms} splittings of its blocks")
    total: Counter[int] = Counter()
    for chosen in product(*(each.items() for each in ways)):
        of_pi, of_sigma = [0] * len(pi), [0] * len(sigma)
        for (k, other), (parts, _) in zip(sizes, chosen, strict=True):
            of_pi[k] += parts
            of_sigma[other] += parts
        weight = prod(way for _, way in chosen)
        total[sum(of_pi)] += weight * prod(map(mobius, of_pi)) * prod(map(mobius, of_sigma))
    return {blocks: count for blocks, count in sorted(total.items()) if count}


@cache
def _splits(size: int, group: str) -> dict[int, int]:
    """How many set partitions of so many points, into even blocks of B, have each number of
    blocks."""
    if not size:
        return {0: 1}
    total: Counter[int] = Counter()
    for first in range(1 + (group == "B"), size + 1, 1 + (group == "B")):
        for parts, ways in _splits(size - first, group).items():
            total[parts + 1] += comb(size - 1, first - 1) * ways
    return dict(total)


def function(pi: Blocks, sigma: Blocks, group: str) -> RationalFunction:
    """W(π,σ) as a rational function of n."""
    return RationalFunction.total(
        Term(count, _inverse(blocks)) for blocks, count in counts(pi, sigma, group).items()
    )


def value_at(pi: Blocks, sigma: Blocks, n: int, group: str) -> fmpq:
    """W(π,σ) at an integer n, without the τ of more than n blocks, which are no index's kernel."""
    values = counts(pi, sigma, group).items()
    return sum((_inverse(b).at(n) * count for b, count in values if b <= n), start=fmpq(0))


def coefficients(pi: Blocks, sigma: Blocks, order: int, group: str) -> tuple[int, ...]:
    """Integers c_0 … c_order with W(π,σ) = Σ_j c_j n^{−j} + O(n^{−order−1})."""
    series = function(pi, sigma, group).series(order)
    return tuple(series.get(j, 0) for j in range(order + 1))


def _inverse(blocks: int) -> RationalFunction:
    """1/(n)_b."""
    return RationalFunction(fmpz_poly([1]), {-j: 1 for j in range(blocks)})


def moment(factors: Sequence[Factor], n: sympy.Expr, group: str, *, distinct: bool) -> sympy.Expr:
    """E[Π P_{i j}] over S(n) or B(n); `distinct` takes different symbols for different indices.

    Raises InputError for more than `MOST_ENTRIES` different entries with symbolic indices.
    """
    entries = Counter((factor.row.label, factor.col.label) for factor in factors)
    known = distinct or all(isinstance(label, int) for entry in entries for label in entry)
    if not known and len(entries) > MOST_ENTRIES:
        wanted = f"{MOST_ENTRIES} different entries or fewer, where indices are symbols"
        raise InputError("rows, cols", len(entries), wanted)
    if known:
        rows, cols = ({entry[side] for entry in entries} for side in range(2))
        matched = len(rows) == len(cols) == len(entries)
        even = group == "S" or all(count % 2 == 0 for count in entries.values())
        return _falling(len(entries), n) if matched and even else sympy.Integer(0)
    total = sympy.Integer(0)
    for blocks in set_partitions(tuple(entries)):
        if group == "S" or all(sum(entries[e] for e in block) % 2 == 0 for block in blocks):
            where = sympy.Mul(*_conditions(blocks))
            total += where * _falling(len(blocks), n) if where else 0
    return total


def _conditions(blocks: Sequence[Sequence[tuple[Hashable, Hashable]]]) -> Iterator[sympy.Expr]:
    """The factors of [ker i = ker j = this set partition] in Kronecker's deltas."""
    for side in range(2):
        for block in blocks:
            for entry in block[1:]:
                yield sympy.KroneckerDelta(block[0][side], entry[side])
        for one, other in combinations(blocks, 2):
            yield 1 - sympy.KroneckerDelta(one[0][side], other[0][side])


def _falling(blocks: int, n: sympy.Expr) -> sympy.Expr:
    """1/(n)_b, and 0 where n has no room for so many different indices."""
    if not n.is_Integer:
        return _inverse(blocks).expr(n)
    return as_sympy(_inverse(blocks).at(int(n))) if blocks <= n else sympy.Integer(0)
