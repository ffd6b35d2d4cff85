"""Shapes of Gaussian brackets: what numerical code needs to know of them, without labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


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


def leibniz(orders: Sequence[int], outer: int) -> Counter[tuple[int, ...]]:
    """(d/dz)^outer Π σ^{(order)} = Σ coefficient Π σ^{(order')}: {sorted orders': coefficient}."""
    terms = Counter({tuple(sorted(orders)): 1})
    for _ in range(outer):
        derived: Counter[tuple[int, ...]] = Counter()
        for factors, coefficient in terms.items():
            for place, order in enumerate(factors):
                derived[_sorted_with(factors, place, order + 1)] += coefficient
        terms = derived
    return terms


def _sorted_with(factors: tuple[int, ...], place: int, order: int) -> tuple[int, ...]:
    return tuple(sorted((*factors[:place], order, *factors[place + 1 :])))
