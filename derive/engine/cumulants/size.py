"""How large a cumulant is, told before it is derived."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, inf
from typing import NamedTuple

from ...groups.pairings import MOST_POINTS, Blocks, double_factorial_pairings, pairings
from ...work.caches import cache
from ..stages import DENSE, Stage
from ..trees import AnyField, slots_of
from .products import identified, products, rows_of, splittings, summands


class Work(NamedTuple):
    """How large a cumulant is: averages over the weights, and about how many terms they add up."""

    averages: int
    terms: int


RATE = 200_000
"""Terms that are added up in a second, where few of them are alike."""


def work(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Blocks,
    order: int,
    stage: Stage = DENSE,
    most: float = inf,
) -> Work:
    """The work of `layer_cumulant` for this pairing; the count ends beyond `most` terms.

    The terms in c − c* of a stage with collective variables come on top.

    An average adds up about as many terms as there are ways to put the legs of the cumulants of z
    on its factors (`_insertions`).
    """
    slots = slots_of(fields)
    whole = tuple(range(len(fields))), pairing
    blocks = {whole: None}
    if len(fields) <= MOST_POINTS:
        blocks |= {block: None for split in splittings(slots, pairing) for block in split}
    averages = terms = 0
    for block, pairs in blocks:
        for parts in products(stage, fields, samples, block):
            for term in summands(parts, 0, pairs):
                rows = rows_of(term, pairs) or {}
                counts = [sum(map(len, blocks)) for blocks in rows.values()]
                half = sum(counts) // 2
                for columns in product(*map(pairings, counts)):
                    joined = identified(term, dict(zip(rows, columns, strict=True)))
                    places = Counter(j for j, _ in {(j, s) for j, s, *_ in joined.factors})
                    power = max(0, order - half - len(term.means) + len(joined.neurons))
                    averages += 1
                    terms += _insertions(tuple(sorted(places.values())), power)
                    if terms > most:
                        return Work(averages, terms)
    return Work(averages, terms)


@cache
def _insertions(places: tuple[int, ...], order: int) -> int:
    """The terms of exp(Σ κ_{2m}^g(z) ∂^{2m}) at this order in 1/n, all neurons distinct.

    `places` has the number of samples that σ is taken at, neuron by neuron. Of the 2m legs an even
    number, 2k, goes to a neuron with t of them, in C(t+2k−1, 2k) (2k−1)!! ways; κ_{2m}^g is of
    order m − 1 + g.
    """
    legs = [1] + [0] * (order + 1)
    for t in places:
        own = [
            comb(t + 2 * k - 1, 2 * k) * double_factorial_pairings(2 * k) for k in range(len(legs))
        ]
        legs = [sum(legs[i] * own[m - i] for i in range(m + 1)) for m in range(len(legs))]
    exponential = [Fraction(1)]
    for c in range(1, order + 1):
        parts = (k * sum(legs[1 : k + 2]) * exponential[c - k] for k in range(1, c + 1))
        exponential.append(sum(parts, start=Fraction(0)) / c)
    return round(exponential[order])
