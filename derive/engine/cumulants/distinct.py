"""Sums over neurons split into sums over distinct neurons, and how many of those there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ...arithmetic.polynomials import UNIT, Atom, Expansion, constant, multiply, power
from ...work.caches import cache


def coincidences(
    spaces: Sequence[str], own: Sequence[Sequence[int]], outside: int, least: int
) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Which neuron each summed one is: one outside the sums, of its `own`, or one that is free.

    Those outside have the numbers 0 … outside−1, and the free ones, whose spaces come too, those
    behind; there are `least` free ones or more.
    """

    def extended(
        homes: tuple[int, ...], free: tuple[str, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
        j = len(homes)
        if j == len(spaces):
            yield homes, free
            return
        if len(free) + len(spaces) - j > least:
            for k in own[j]:
                yield from extended((*homes, k), free)
            for k, space in enumerate(free):
                if space == spaces[j]:
                    yield from extended((*homes, outside + k), free)
        yield from extended((*homes, outside + len(free)), (*free, spaces[j]))

    if len(spaces) >= least:
        yield from extended((), ())


@cache
def ways_of(ratio: Atom | None, count: int, taken: int) -> Expansion:
    """How many ways to choose distinct neurons, in order, among rn of which some are taken."""
    width = UNIT if ratio is None else power(ratio, 1)
    result = constant(1)
    for k in range(taken, taken + count):
        result = multiply(result, {(width, -1): Fraction(1), (UNIT, 0): Fraction(-k)}, 0)
    return result
