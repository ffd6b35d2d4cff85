"""Zonal spherical functions ω^λ of pair partitions (α = 2) and normalised characters (α = 1).

Functions of the type μ ⊢ k form a commutative algebra; its characters ω^λ, one for each λ ⊢ k with
ω^λ(1^k) = 1, diagonalise every matrix M(p,q) that depends on the type of (p,q) alone:

    M(μ) = Σ_λ (d_λ/|X|) ω^λ(μ) m_λ,        m_λ = Σ_μ |μ| ω^λ(μ) M(μ),        |μ| = class size.

They are built box by box. The last Jucys–Murphy element J acts on functions of (m; ρ), the loop m
of the last point and the other loops ρ, as in the orthogonality relation of `derive.weingarten`,

    (J f)(m; ρ) = (α−1)(m−1) f(m; ρ) + Σ_{s=1}^{m−1} f(s; ρ ∪ {m−s}) + α Σ_j ρ_j f(m+ρ_j; ρ∖ρ_j),

and its eigenvalue on what grows from ω^λ by one box is that box's content, α(j−1) − (i−1).
Projecting ω^λ, set on m = 1, to one content and averaging over the marked loop gives the next ω.
Source: S. Matsumoto, "Jucys–Murphy elements, orthogonal matrix integrals, and Jack measures"
(2011), for the odd elements J; the projection is derived here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import factorial, prod

from flint import fmpq
from sympy.utilities.iterables import partitions as multiplicities

from ..citations import note
from ..errors import as_integer
from ..work.caches import cache
from ..work.resources import check_memory
from .pairings import Partition

Marked = tuple[int, Partition]

_BYTES = 250
"""Of a rational value in its table."""


@dataclass(frozen=True)
class Spherical:
    """ω^λ: its values by type, its weight d_λ/|X|, dimension d_λ and the contents of λ's boxes."""

    shape: Partition
    values: dict[Partition, fmpq]
    weight: fmpq
    multiplicity: int
    contents: tuple[int, ...]


@cache
def spherical_functions(k: int, alpha: int) -> tuple[Spherical, ...]:
    """Every ω^λ with λ ⊢ k, exact."""
    return invertible_functions(k, alpha, None)


def invertible_functions(k: int, alpha: int, size: int | None) -> tuple[Spherical, ...]:
    """The ω^λ with λ ⊢ k of which no box's content c has size + c = 0; all of them without a size.

    Of O(n) and U(n) these are the λ of n rows or fewer. InputError where memory can't hold them.
    """
    note("matsumoto2011")
    shapes = [_shapes(j, alpha, size) for j in range(k + 1)]
    held = sum(len(each) * len(partitions(j)) for j, each in enumerate(shapes))
    functions = f"{sum(map(len, shapes))} zonal functions of up to {k} pairs"
    check_memory("k", k, _BYTES * held, functions)
    return tuple(_spherical(shape, alpha) for shape in shapes[k])


def _shapes(k: int, alpha: int, size: int | None) -> list[Partition]:
    return [mu for mu in partitions(k) if size is None or -size not in contents(mu, alpha)]


def contents(shape: Partition, alpha: int) -> tuple[int, ...]:
    """α(j−1) − (i−1) of each box, row by row."""
    return tuple(alpha * j - i for i, row in enumerate(shape) for j in range(row))


@cache
def _spherical(shape: Partition, alpha: int) -> Spherical:
    k = sum(shape)
    if k == 0:
        return Spherical((), {(): fmpq(1)}, fmpq(1), 1, ())
    parent = _spherical(_without_last_box(shape), alpha)
    content = alpha * (shape[-1] - 1) - (len(shape) - 1)
    state = {(1, mu): value for mu, value in parent.values.items()}
    for other in _growth(parent.shape, alpha):
        if other != content:
            moved = _jucys_murphy(state, k, alpha)
            state = {
                key: (moved[key] - other * state.get(key, 0)) / fmpq(content - other)
                for key in moved
            }
    sums: dict[Partition, fmpq] = dict.fromkeys(partitions(k), fmpq(0))
    for (m, rest), value in state.items():
        mu = insert(rest, m)
        sums[mu] += value * fmpq(m * mu.count(m), k)
    values = {mu: value / sums[(1,) * k] for mu, value in sums.items()}
    norm = sum(
        (type_class_size(mu, alpha) * value**2 for mu, value in values.items()), start=fmpq(0)
    )
    elements = factorial(k) if alpha == 1 else prod(range(1, 2 * k, 2))
    weight = 1 / norm
    multiplicity = int((elements * weight).p)
    return Spherical(shape, values, weight, multiplicity, (*parent.contents, content))


def _jucys_murphy(state: dict[Marked, fmpq], k: int, alpha: int) -> dict[Marked, fmpq]:
    return {
        key: sum((weight * state.get(other, fmpq(0)) for other, weight in terms), start=fmpq(0))
        for key, terms in _jucys_murphy_terms(k, alpha).items()
    }


@cache
def _jucys_murphy_terms(k: int, alpha: int) -> dict[Marked, tuple[tuple[Marked, int], ...]]:
    return {
        (m, rest): tuple(jucys_murphy(m, rest, alpha).items())
        for m in range(1, k + 1)
        for rest in partitions(k - m)
    }


def jucys_murphy(m: int, rest: Partition, alpha: int) -> Counter[Marked]:
    """(J f)(m; ρ): the arguments of f, with their coefficients."""
    found: Counter[Marked] = Counter()
    found[m, rest] += (alpha - 1) * (m - 1)
    for s in range(1, m):
        found[s, insert(rest, m - s)] += 1
    for part, count in Counter(rest).items():
        found[m + part, remove(rest, part)] += alpha * part * count
    return found


def _growth(shape: Partition, alpha: int) -> list[int]:
    """The contents of the boxes that can be added to a shape."""
    rows = (*shape, 0)
    return [alpha * row - i for i, row in enumerate(rows) if i == 0 or rows[i - 1] > row]


def _without_last_box(shape: Partition) -> Partition:
    return (*shape[:-1], shape[-1] - 1) if shape[-1] > 1 else shape[:-1]


@cache
def partitions(k: int) -> tuple[Partition, ...]:
    """The partitions of k, longest first, so that each comes after those it splits into.

    >>> partitions(3)
    ((1, 1, 1), (2, 1), (3,))
    """
    k = as_integer("k", k, 0)
    found = (
        tuple(part for part in sorted(m, reverse=True) for _ in range(m[part]))
        for m in multiplicities(k)
    )
    return tuple(sorted(found, key=lambda mu: (-len(mu), mu)))


def type_class_size(mu: Partition, alpha: int) -> int:
    """How many elements have type μ relative to a given one: α^{k−ℓ} k!/z_μ."""
    k = sum(mu)
    z = prod(part**count * factorial(count) for part, count in Counter(mu).items())
    size: int = alpha ** (k - len(mu)) * factorial(k) // z
    return size


def set_partition_count(mu: Partition) -> int:
    """How many partitions of a set have blocks of these sizes: k!/Π_i (μ_i! m_i!)."""
    blocks = prod(factorial(part) for part in mu)
    return factorial(sum(mu)) // (blocks * prod(map(factorial, Counter(mu).values())))


def insert(parts: Partition, part: int) -> Partition:
    """The partition with one more part."""
    return tuple(sorted((*parts, part), reverse=True))


def remove(parts: Partition, part: int) -> Partition:
    """The partition without one of its parts."""
    position = parts.index(part)
    return parts[:position] + parts[position + 1 :]
