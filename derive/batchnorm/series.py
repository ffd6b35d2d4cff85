"""Moments of one step of the batch-norm chain, as series around orthogonality.

A row of batch norm's output is u = g/|g|, g ~ N(0, C) with C = (1 + D)/n, tr D = 0. On the unit
sphere its density, relative to the uniform one, is det(1+D)^{−1/2} (uᵀ(1+D)^{−1}u)^{−n/2}, and

    E_uniform Π_i uᵀA_i u = Σ_pairings Π_loops tr(A A …) / [n(n+2)…(n+2k−2)],

so every average is a polynomial in t_k = tr D^k and, where a vector x is left over, x_k = xᵀD^k x.
Pairings enter by how many join |B| given forms into one loop, a class size. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import factorial, prod

import sympy
from sympy.polys.fields import FracElement
from sympy.polys.rings import PolyElement

from ..groups.pairings import joined, ordered, set_partitions
from ..groups.weingarten import class_size
from ..groups.zonal import partitions
from ..symbols import batch as n
from ..work.caches import cache

DEGREE = 4
"""The largest power of D that any of this needs."""

FIELD = sympy.QQ.frac_field(n)
N = FIELD.from_sympy(n)
RING = sympy.polys.rings.PolyRing(
    [f"t{k}" for k in range(2, DEGREE + 1)] + [f"x{k}" for k in range(DEGREE + 1)], FIELD
)
_T, _X = RING.gens[: DEGREE - 1], RING.gens[DEGREE - 1 :]
GRADES = (*range(2, DEGREE + 1), *range(DEGREE + 1))
"""The power of D in each generator."""

Powers = tuple[int, ...]
"""Exponents k of a product Π uᵀD^k u, ascending."""


def trace(k: int) -> PolyElement:
    """tr D^k."""
    if k < 2:
        return RING(N if k == 0 else 0)
    return _T[k - 2]


def truncated(polynomial: PolyElement, degree: int) -> PolyElement:
    """The terms with at most this many D's."""
    kept = {
        exponents: value
        for exponents, value in polynomial.terms()
        if sum(e * g for e, g in zip(exponents, GRADES, strict=True)) <= degree
    }
    return RING.from_dict(kept)


@cache
def weight(degree: int) -> Mapping[Powers, PolyElement]:
    """The density of u, by the product of forms uᵀD^k u that each term holds."""
    terms: dict[Powers, PolyElement] = {}
    for forms in _compositions(degree):
        # (1 + y)^{−n/2}, y = Σ_k (−1)^k uᵀD^k u: binomial coefficients, by the number of forms
        j = len(forms)
        binomial = prod((-N / 2 - i for i in range(j)), start=FIELD.one) / factorial(j)
        sign = (-1) ** sum(forms)
        key = tuple(sorted(forms))
        terms[key] = terms.get(key, RING.zero) + RING(binomial * sign)
    determinant = _determinant(degree)
    return {key: truncated(value * determinant, degree - sum(key)) for key, value in terms.items()}


def _determinant(degree: int) -> PolyElement:
    """det(1+D)^{−1/2} = exp(−½ Σ_k (−1)^{k+1} t_k/k)."""
    exponent = RING.zero
    for k in range(2, degree + 1):
        exponent += trace(k) * sympy.QQ((-1) ** k, 2 * k)
    total, power = RING.one, RING.one
    for order in range(1, degree // 2 + 1):
        power = truncated(power * exponent, degree)
        total += power * sympy.QQ(1, factorial(order))
    return total


def _compositions(degree: int) -> Iterator[Powers]:
    """All ordered tuples of positive powers with a sum of at most `degree`."""
    yield ()
    for first in range(1, degree + 1):
        for rest in _compositions(degree - first):
            yield (first, *rest)


def mean(forms: Iterable[int], degree: int, legs: int = 0) -> PolyElement:
    """E[(x·u)^{2 legs} Π_k uᵀD^k u] over the forms' powers k, through this power of D."""
    fixed = tuple(forms)
    total = RING.zero
    for extra, value in weight(max(degree - sum(fixed), 0)).items():
        if sum(fixed) + sum(extra) <= degree:
            total += value * _uniform(tuple(sorted((*fixed, *extra))), legs)
    return truncated(total, degree)


@cache
def _uniform(forms: Powers, legs: int) -> PolyElement:
    """The same with u uniform on the sphere: the pairings, loop by loop.

    (x·u)^{2 legs} is `legs` more forms uᵀ(xxᵀ)u; a loop through c of them is cut into c chains.
    """
    powers = [k for k in forms if k]
    size = len(powers) + legs
    total = RING.zero
    for partition in set_partitions(tuple(range(size))):
        term = RING.one
        for block in partition:
            inside = [powers[i] for i in block if i < len(powers)]
            term *= _loop(tuple(sorted(inside)), len(block) - len(inside))
        total += term
    return total * (1 / census(size))


@cache
def _loop(powers: Powers, cuts: int) -> PolyElement:
    """All ways to close these forms, and `cuts` times xxᵀ, into one loop."""
    size = len(powers) + cuts
    ways = class_size((size,))
    if cuts == 0:
        return ways * trace(sum(powers))
    # The loop puts its members in every cyclic order equally often. Seen from one cut, a chain of
    # given forms occurs once for each of their orders.
    orders = RING.zero
    count = 0
    for chains in product(range(cuts), repeat=len(powers)):
        members = [[k for k, c in zip(powers, chains, strict=True) if c == i] for i in range(cuts)]
        frequency = prod(factorial(len(each)) for each in members)
        orders += frequency * prod((_X[sum(each)] for each in members), start=RING.one)
        count += frequency
    return orders * sympy.QQ(ways, count)


@cache
def census(size: int) -> FracElement:
    """E|g|^{2 size} = Σ_pairings n^{loops}, the normalisation."""
    return sum((class_size(mu) * N ** len(mu) for mu in partitions(size)), start=FIELD.zero)


@cache
def mean_form(degree: int) -> PolyElement:
    """xᵀPx with P = E uuᵀ, the mean of the next Gram matrix."""
    return mean((), degree, legs=1)


def contract(form: PolyElement, degree: int, powers: Iterable[int] = ()) -> PolyElement:
    """A polynomial in the x_k with x averaged: over the law of u itself, times Π uᵀD^k u."""
    fixed = tuple(powers)
    total = RING.zero
    for forms, value in by_forms(form).items():
        total += value * mean((*fixed, *forms), degree)
    return truncated(total, degree)


def by_forms(form: PolyElement) -> dict[Powers, PolyElement]:
    """A polynomial's coefficients, in the traces, of each product of x_k."""
    first = len(_T)
    terms: dict[Powers, dict[Powers, FracElement]] = {}
    for exponents, value in form.terms():
        forms = tuple(k for k, e in enumerate(exponents[first:]) for _ in range(e))
        terms.setdefault(forms, {})[*exponents[:first], *(0,) * len(_X)] = value
    return {forms: RING.from_dict(value) for forms, value in terms.items()}


@cache
def trace_power(power: int, degree: int) -> PolyElement:
    """tr P^power."""
    mean_matrix = {forms[0]: value for forms, value in by_forms(mean_form(degree)).items()}
    powers = {0: RING.one}
    for _ in range(power):
        next_ = dict.fromkeys(range(degree + 1), RING.zero)
        for (a, left), (b, right) in product(powers.items(), mean_matrix.items()):
            if a + b <= degree:
                next_[a + b] += truncated(left * right, degree - a - b)
        powers = next_
    return sum((value * trace(k) for k, value in powers.items()), start=RING.zero)


@cache
def gram_moment(cycles: Powers, degrees: tuple[int, ...]) -> tuple[PolyElement, ...]:
    """E[Π_c tr C'^c | C] with C' = (1/d) Σ_k u_k u_kᵀ: the coefficients of 1, 1/d, 1/d², ….

    Arguments:
        degrees: through which power of D each coefficient; below 0 it is left out, as 0.

    Each trace is a cycle of inner products of rows; rows that coincide are summed apart, with
    falling factorials of d.
    """
    edges: list[tuple[int, int]] = []
    rows = 0
    for length in cycles:
        edges += [(rows + i, rows + (i + 1) % length) for i in range(length)]
        rows += length
    orders = [RING.zero] * len(degrees)
    for partition in set_partitions(tuple(range(rows))):
        place = {row: i for i, block in enumerate(partition) for row in block}
        joined = tuple(
            sorted(ordered(place[a], place[b]) for a, b in edges if place[a] != place[b])
        )
        for order, value in _falling(len(partition), rows).items():
            if order < len(degrees) and degrees[order] >= 0:
                orders[order] += _product_of_rows(joined, degrees[order]) * value
    return tuple(orders)


@cache
def _falling(blocks: int, rows: int) -> dict[int, int]:
    """d(d−1)…(d−blocks+1)/d^rows, by powers of 1/d."""
    coefficients = {rows - blocks: 1}
    for i in range(1, blocks):
        for order in sorted(coefficients, reverse=True):
            coefficients[order + 1] = coefficients.get(order + 1, 0) - i * coefficients[order]
    return coefficients


@cache
def _product_of_rows(edges: tuple[tuple[int, int], ...], degree: int) -> PolyElement:
    """E Π_{(a,b)} u_a·u_b over independent rows, for the graphs that two traces make."""
    if not edges:
        return RING.one
    degrees: dict[int, int] = {}
    for a, b in edges:
        degrees[a], degrees[b] = degrees.get(a, 0) + 1, degrees.get(b, 0) + 1
    components = _components(edges)
    if len(components) > 1:
        parts = (_product_of_rows(each, degree) for each in components)
        return truncated(prod(parts, start=RING.one), degree)
    if all(value == 2 for value in degrees.values()):
        return trace_power(len(edges), degree)
    if len(degrees) == 2 and len(edges) == 4:
        return contract(mean((), degree, legs=2), degree)
    if sorted(degrees.values()) == [2, 2, 4]:
        squared = truncated(mean_form(degree) ** 2, degree)
        return contract(squared, degree)
    raise NotImplementedError(f"inner products {edges}")


def _components(edges: tuple[tuple[int, int], ...]) -> list[tuple[tuple[int, int], ...]]:
    return [tuple(edge for edge in edges if edge[0] in nodes) for nodes in joined(edges)]
