"""Weingarten functions of O(n), U(n), Sp(n) and (signed) permutations, exact and in 1/n.

Haar averages are sums over pairings (O, Sp: pair partitions; U: bijections from U's to Ū's)

    E[O_{i1 j1} … O_{i2k j2k}] = Σ_{p,q} δ_p(i) W(p,q) δ_q(j),

where W, the inverse of the Gram matrix n^{loops(p,q)}, depends on the coset type μ ⊢ k of (p,q)
alone (U: the cycle type). Let the summed columns of two factors coincide: Σ_j O_ij O_i'j = δ_ii'.
Where those two points lie in a loop of length m ≥ 2 of type μ, comparing coefficients of δ_p gives

    n W(μ) = −(α−1)(m−1) W(μ) − Σ_{s=1}^{m−1} W(m → s, m−s) − α Σ_j μ_j W(m, μ_j → m+μ_j)

with j over the other loops and α = 2 for O(n), α = 1 for U(n) (source: B. Collins, S. Matsumoto,
"Weingarten calculus via orthogonality relations", 2017; derived here from the Gram matrix). The
Gram matrix has constant row sums Π_{j<k}(n + αj), which fixes W(1^k). Splitting a loop keeps the
order in 1/n and joining two loses two orders, so the system is solved order by order in integers.
The common denominator of all types is known, so the truncated series gives the exact functions.

Sp(n), n the even dimension of the matrix: W_Sp(μ; n) = (−1)^k W_O(μ; −n), for pairings that carry
the sign of their permutation, δ'_p(i) = sgn(p) Π_{(a,b)∈p} J_{i_a i_b}.

Of permutation matrices, S(n), and signed ones, B(n), the sums are over set partitions
(`permutations`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any, TypeAlias

import sympy
from flint import fmpq, fmpz_poly

from ..arithmetic.rational import RationalFunction, as_sympy, linear_product
from ..citations import note
from ..errors import InputError, as_integer, as_sequence, did_you_mean
from ..work.caches import cache
from ..work.progress import telling
from . import permutations as by_permutations
from .pairings import Blocks, Partition, pair_partitions
from .permutations import PERMUTATIONS
from .zonal import (
    insert,
    invertible_functions,
    jucys_murphy,
    partitions,
    remove,
    type_class_size,
)

ALPHA = {"O": 2, "U": 1, "Sp": 2}
MOST_PAIRS = 30
"""Partitions of more are not gone through."""
GUARD = 3
"""Orders in 1/n computed beyond the last that an exact function needs; they must vanish."""


Type: TypeAlias = "Sequence[int] | Sequence[Blocks]"
"""A coset or cycle type, block sizes, or two set partitions."""


def weingarten(partition: Type, n: sympy.Expr | int, group: str = "O") -> sympy.Expr:
    """The Weingarten function W(μ; n), exact, reduced and factored.

    Arguments:
        partition: the coset type (O, Sp) or cycle type (U) μ, a partition of k in any order. Of
            permutations (S, B) W(π, σ) depends on two set partitions of the factors: a partition
            (2, 1) is the diagonal, W(π, π) for a π with blocks of these sizes, and any W(π, σ) is
            that of a pair, (((0, 1), (2,)), ((0, 1, 2),)). For B all blocks are even.
        n: the dimension of the matrices: a positive integer (even for Sp) or a sympy expression.
        group: "O", "U", "Sp"; "S", the permutation matrices, or "B", those with signs ±1.

    Satisfies Σ_q W(p,q) n^{loops(q,r)} = δ_pr. At an integer n < k (Sp: n < 2k), where the Gram
    matrix is singular, W is its pseudo-inverse; the Haar averages are those of the group all the
    same. Collins and Matsumoto, 2017; two pairs of O(n) are source 000's (3.6).
    Of S and B it is Σ_{τ ≤ π∧σ} μ(τ,π) μ(τ,σ)/(n)_{|τ|} (`permutations`), and at an integer n
    without the τ of more than n blocks, with the averages of the group as well.
    Raises InputError for what is not a partition, a group or a dimension.

    >>> weingarten((2,), sympy.Symbol("n"))
    -1/(n*(n - 1)*(n + 2))
    >>> weingarten((1, 1), 1), weingarten((2, 1), 4, "U")
    (1/9, -1/180)
    >>> weingarten((2, 1), sympy.Symbol("n"), group="S")
    1/(n*(n - 2))
    """
    size = dimension(n, group)
    if group in PERMUTATIONS:
        pi, sigma = by_permutations.as_pair(partition, group)
        if size.is_number:
            return as_sympy(by_permutations.value_at(pi, sigma, int(size), group))
        return by_permutations.function(pi, sigma, group).expr(size)
    mu = as_partition(partition)
    with telling(f"Weingarten's functions of {sum(mu)} pairs"):
        if not size.is_number:
            return table(sum(mu), group).function(mu).expr(size)
        return as_sympy(value_at(mu, int(size), group))


def value_at(mu: Partition, n: int, group: str) -> fmpq:
    """W(μ; n) at an integer n, the pseudo-inverse where the Gram matrix is singular."""
    k = sum(mu)
    if n < k * (2 if group == "Sp" else 1):
        return _pseudo_inverse(k, n, group)[mu]
    return table(k, group).function(mu).at(n)


@dataclass(frozen=True)
class Table:
    """All W(μ), μ ⊢ k, as numerator polynomials over one denominator Π_c (n + c)^{poles[c]}."""

    k: int
    group: str
    poles: Mapping[int, int]
    numerators: Mapping[Partition, fmpz_poly]

    def function(self, partition: Sequence[int]) -> RationalFunction:
        """W(μ), not reduced."""
        mu = as_partition(partition)
        if mu not in self.numerators:
            raise InputError("partition", partition, f"a partition of {self.k}")
        return RationalFunction(self.numerators[mu], self.poles)

    def exprs(self, n: sympy.Expr) -> dict[Partition, sympy.Expr]:
        """Every W(μ) as a factored sympy expression in n."""
        return {mu: self.function(mu).expr(n) for mu in self.numerators}


@cache
def table(k: int, group: str = "O") -> Table:
    """The Weingarten functions of every type of k, as exact rational functions of n.

    The common denominator is lcm_λ Π_{(i,j)∈λ}(n + α(j−1) − (i−1)) over λ ⊢ k. Boxes of one content
    are nested along a diagonal, and the smallest λ with the box (i,j) is the i × j rectangle, so
    the lcm is the product over all boxes with i·j ≤ k. Series are multiplied by it and truncated;
    the coefficients past the cut must vanish, or an ArithmeticError says that the method broke.
    """
    k = _pairs(k)
    alpha = alpha_of(group)
    poles = Counter(
        alpha * (j - 1) - (i - 1) for i in range(1, k + 1) for j in range(1, k // i + 1)
    )
    degree = poles.total()
    length = degree - k + 1 + GUARD
    denominator_in_1_over_n = fmpz_poly(linear_product(poles).coeffs()[::-1])
    orders = _orders(k, alpha, length)
    numerators = {}
    for index, mu in enumerate(partitions(k)):
        expansion = fmpz_poly([row[index] for row in orders])
        coefficients = expansion.mul_low(denominator_in_1_over_n, length).coeffs()
        top = degree - 2 * k + len(mu)
        if len(coefficients) > top + 1:
            raise ArithmeticError(f"the Weingarten series of {mu} does not end at order {top}")
        numerators[mu] = fmpz_poly(coefficients[::-1]).left_shift(top + 1 - len(coefficients))
    if group == "Sp":
        numerators = {
            mu: (-1) ** k * RationalFunction(numerator, poles).reflected().numerator
            for mu, numerator in numerators.items()
        }
        poles = Counter({-c: e for c, e in poles.items()})
    return Table(k, group, poles, numerators)


def laurent(partition: Type, terms: int, group: str = "O") -> tuple[int, tuple[int, ...]]:
    """(leading power, integer coefficients): W(μ) = n^power (c_0 + c_1/n + … + c_{terms−1}/n^{…}).

    The power is ℓ(μ) − 2k; c_0 is the product of signed Catalan numbers, Möbius' function of the
    lattice of non-crossing partitions. Of S and B it is −|τ| for the coarsest τ ≤ π∧σ.

    >>> laurent((2,), 4)
    (-3, (-1, 1, -3, 5))
    >>> laurent((2, 1), 4, "S")
    (-2, (1, 2, 4, 8))
    """
    terms = as_integer("terms", terms, 0, wanted="a number of terms, 0 or more")
    if group in PERMUTATIONS:
        pi, sigma = by_permutations.as_pair(partition, group)
        first = min(by_permutations.counts(pi, sigma, group))
        found = by_permutations.coefficients(pi, sigma, first + max(terms, 1) - 1, group)
        return -first, found[first : first + terms]
    mu = as_partition(partition)
    alpha_of(group)
    return len(mu) - 2 * sum(mu), _coefficients(mu, terms, group)


@cache
def _coefficients(mu: Partition, terms: int, group: str) -> tuple[int, ...]:
    k = sum(mu)
    index = partitions(k).index(mu)
    coefficients = tuple(row[index] for row in _orders(k, ALPHA[group], terms))
    if group == "Sp":
        sign = (-1) ** (k + len(mu))
        coefficients = tuple(sign * (-1) ** j * c for j, c in enumerate(coefficients))
    return coefficients


def series(partition: Type, order: int, group: str = "O") -> tuple[int, ...]:
    """Integers c_0 … c_order with W(μ) = Σ_j c_j n^{−j} + O(n^{−order−1}).

    >>> series((1, 1), 6)
    (0, 0, 1, 0, 2, -2, 6)
    >>> series((4,), 4, "B")
    (0, 1, 3, 3, 3)
    """
    order = as_integer("order", order, 0, wanted="an order in 1/n, 0 or more")
    if group in PERMUTATIONS:
        return by_permutations.coefficients(
            *by_permutations.as_pair(partition, group), order, group
        )
    mu = as_partition(partition)
    first = 2 * sum(mu) - len(mu)
    coefficients = laurent(mu, max(order + 1 - first, 0), group)[1]
    return ((0,) * first + coefficients)[: order + 1]


def class_size(partition: Sequence[int], group: str = "O") -> int:
    """How many pairings q have this type relative to one p: α^{k−ℓ} k!/z_μ.

    >>> [class_size(mu) for mu in partitions(3)]
    [1, 6, 8]
    """
    return type_class_size(as_partition(partition), alpha_of(group))


def elements_of(k: int, group: str = "O") -> tuple[Blocks, ...]:
    """The pairings that index the Gram matrix: all of 2k points, for U those that pair the
    U's 0 … k−1 with the Ū's k … 2k−1; for S and B set partitions of k points."""
    k = _pairs(k)
    if group in PERMUTATIONS:
        return by_permutations.partitions_of(k, group)
    if alpha_of(group) == 1:
        return tuple(
            tuple((a, k + b) for a, b in enumerate(sigma)) for sigma in permutations(range(k))
        )
    return pair_partitions(2 * k)


@cache
def _orders(k: int, alpha: int, length: int) -> tuple[tuple[int, ...], ...]:
    """Row j holds the coefficients of n^{ℓ(μ)−2k−j} in W(μ), for μ in `partitions(k)`."""
    note("collins2017")
    types = partitions(k)
    position = {mu: i for i, mu in enumerate(types)}
    relations = [_relation(mu, position, alpha) for mu in types[1:]]
    sizes = [(i, type_class_size(mu, alpha), k - len(mu)) for i, mu in enumerate(types)]
    inverse = RationalFunction(fmpz_poly([1]), {alpha * j: 1 for j in range(k)})
    row_sums = inverse.series(k + length - 1)
    rows = [[0] * len(types)] * 2
    for j in range(length):
        others = sum(size * rows[-gap][i] for i, size, gap in sizes[1:] if gap <= j)
        row = [row_sums.get(k + j, 0) - others]
        recent = row, rows[-1], rows[-2]
        for relation in relations:
            row.append(-sum([weight * recent[gap][i] for i, weight, gap in relation]))
        rows.append(row)
    return tuple(map(tuple, rows[2:]))


def _relation(
    mu: Partition, position: Mapping[Partition, int], alpha: int
) -> list[tuple[int, int, int]]:
    """The orthogonality relation of μ at its smallest part m ≥ 2: the places of the types in
    −n W(μ), their coefficients, and how many orders in 1/n before its own each is taken at."""
    m = min(part for part in mu if part > 1)
    found: Counter[Partition] = Counter()
    for (part, rest), weight in jucys_murphy(m, remove(mu, m), alpha).items():
        found[insert(rest, part)] += weight
    return [(position[nu], each, 1 + len(mu) - len(nu)) for nu, each in found.items() if each]


@cache
def _pseudo_inverse(k: int, n: int, group: str) -> dict[Partition, fmpq]:
    """W(μ; n) = Σ_λ (d_λ/|X|) ω^λ(μ) / Π_{(i,j)∈λ}(n + c), over the λ with no vanishing factor."""
    sign, size = (-1, -n) if group == "Sp" else (1, n)
    total = dict.fromkeys(partitions(k), fmpq(0))
    for spherical in invertible_functions(k, alpha_of(group), size):
        eigenvalue = prod(size + content for content in spherical.contents)
        weight = spherical.weight / (sign**k * eigenvalue)
        for mu, value in spherical.values.items():
            total[mu] += weight * value
    return total


def as_partition(partition: Sequence[Any]) -> Partition:
    """A partition as a descending tuple of positive integers, or an InputError."""
    wanted = "a sequence of positive integers"
    parts = [
        as_integer("partition", part, 1, wanted=wanted)
        for part in as_sequence("partition", partition, wanted)
    ]
    if sum(parts) > MOST_PAIRS:
        raise InputError("partition", partition, f"a partition of {MOST_PAIRS} or less")
    return tuple(sorted(parts, reverse=True))


def dimension(n: sympy.Expr | int, group: str) -> sympy.Expr:
    """The matrix dimension as a sympy expression: a finite number, at least 1, even for Sp,
    or an expression with symbols."""
    if not isinstance(group, str) or group not in (*ALPHA, *PERMUTATIONS):
        wanted = "one of 'O', 'U', 'Sp', 'S', 'B'"
        raise InputError("group", group, wanted + did_you_mean(str(group), (*ALPHA, *PERMUTATIONS)))
    try:
        size = sympy.sympify(n, strict=True)
    except (sympy.SympifyError, TypeError, ValueError):
        size = sympy.nan
    wanted = f"a dimension of {group}(n): a positive integer{' that is even' * (group == 'Sp')}"
    if isinstance(size, sympy.Expr) and not size.is_number:
        return size
    odd = group == "Sp" and size.is_Integer and size % 2 != 0
    if not (isinstance(size, sympy.Expr) and size.is_Integer and size > 0) or odd:
        raise InputError("n", n, f"{wanted} or a sympy expression with symbols")
    return size


def alpha_of(group: str) -> int:
    """α of a group's name: 2 for O and Sp, 1 for U."""
    if not isinstance(group, str) or group not in ALPHA:
        raise InputError("group", group, "one of 'O', 'U', 'Sp'" + did_you_mean(str(group), ALPHA))
    return ALPHA[group]


def _pairs(k: int) -> int:
    return as_integer("k", k, 0, MOST_PAIRS, f"a number of pairs, 0 to {MOST_PAIRS}")
