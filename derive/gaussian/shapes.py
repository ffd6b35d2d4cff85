"""Shapes of Gaussian brackets: what numerical code needs to know of them, without labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class SingleShape(NamedTuple):
    """⟨(d/dz)^{outer} Π_p σ^{(orders_p)}(z)⟩_K with z ~ N(0, K): every position at the same z."""

    orders: tuple[int, ...]
    outer: int = 0


class Shape(NamedTuple):
    """A bracket without its labels: position p carries σ^{(orders[p])} and outer[p] derivatives."""

    orders: tuple[int, ...]
    outer: tuple[int, ...]


def is_even(orders: Sequence[int], outer: int = 0) -> bool:
    """True if the integrand is even in z when σ is odd: σ^{(m)} has the parity (−1)^{m+1}."""
    return (sum(orders) + len(orders) + outer) % 2 == 0


Factors: TypeAlias = "tuple[tuple[int, int], ...]"
"""Sorted pairs (sample, order) of a product Π σ^{(order)}(z_sample)."""


def differentiated(products: Counter[Factors], sample: int) -> Counter[Factors]:
    """∂_sample of a sum of products, each with its count, by the product rule."""
    raised: Counter[Factors] = Counter()
    for factors, count in products.items():
        for k, (own, order) in enumerate(factors):
            if own == sample:
                moved = (*factors[:k], (own, order + 1), *factors[k + 1 :])
                raised[tuple(sorted(moved))] += count
    return raised


def leibniz(orders: Sequence[int], outer: int) -> Counter[tuple[int, ...]]:
    """(d/dz)^outer Π σ^{(order)} = Σ coefficient Π σ^{(order')}: {sorted orders': coefficient}."""
    terms = Counter({tuple((0, order) for order in sorted(orders)): 1})
    for _ in range(outer):
        terms = differentiated(terms, 0)
    return Counter({tuple(o for _, o in factors): count for factors, count in terms.items()})
