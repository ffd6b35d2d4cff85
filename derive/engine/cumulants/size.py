"""How large a cumulant is, told before it is derived."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, inf, prod
from typing import NamedTuple

from ...arithmetic import powerseries
from ...groups.pairings import MOST_POINTS, Blocks, double_factorial_pairings, pairings
from ...work.caches import cache
from ..stages import DENSE, Stage
from ..trees import AnyField, slots_of
from .products import identified, products, rows_of, splittings, summands


class Work(NamedTuple):
    """How large a cumulant is: averages over the weights, about how many terms they add up, and
    whether some field is more than a variable. Fitted to derivations of 0.1 s to 5 min."""

    averages: int
    terms: int
    trees: bool = False

    @property
    def seconds(self) -> float:
        """About how many processor seconds it takes, to a factor of five."""
        return float(1.3e-4 * self._alike * self.terms**0.8)

    @property
    def bytes(self) -> int:
        """About how much memory it holds, to a factor of five: most is intermediate averages."""
        return int(6e3 * self._alike * self.terms**0.75)

    @property
    def _alike(self) -> int:
        """The more terms there are, the more are alike; fewer where some field is a derivative."""
        return 2 if self.trees else 1


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
    and of the fields on its factors (`_insertions`). Then moments are multiplied, term by term.
    """
    slots = slots_of(fields)
    whole = tuple(range(len(fields))), pairing
    splits = list(splittings(slots, pairing)) if len(fields) <= MOST_POINTS else [[whole]]
    sizes: dict[tuple[tuple[int, ...], Blocks], list[int]] = {}
    averages = terms = 0
    trees = any(field.nodes > 1 for field in fields)
    for block, pairs in (whole, *(block for split in splits for block in split)):
        if (block, pairs) in sizes:
            continue
        size = sizes[block, pairs] = [0] * (order + 1)
        for parts in products(stage, fields, samples, block):
            for term in summands(parts, 0, pairs):
                rows = rows_of(term, pairs) or {}
                counts = [sum(map(len, blocks)) for blocks in rows.values()]
                half = sum(counts) // 2
                for columns in product(*map(pairings, counts)):
                    joined = identified(term, dict(zip(rows, columns, strict=True)))
                    places = Counter(j for j, _ in {(j, s) for j, s, *_ in joined.factors})
                    ends = sorted(tuple(sorted(placed.neurons)) for placed in joined.fields)
                    power = max(0, order - half - len(term.means) + len(joined.neurons))
                    found = _insertions(tuple(sorted(places.items())), tuple(ends), power)
                    averages += 1
                    terms += sum(found)
                    for at, count in enumerate(found):
                        size[max(0, at + order - power)] += count
                    if terms > most:
                        return Work(averages, terms, trees)
    for first, *others in splits:
        moments = sizes[first]
        for other in others:
            moments = powerseries.multiply(moments, sizes[other])
        terms += sum(moments) if others else 0
    return Work(averages, terms, trees)


@cache
def _insertions(
    places: tuple[tuple[int, int], ...], fields: tuple[tuple[int, ...], ...], order: int
) -> list[int]:
    """The terms of Π κ(fields, z^{2m} ∂^{2m}) exp(Σ κ_{2m}^g(z) ∂^{2m}) by their order in 1/n,
    summed over the set partitions of the fields, all neurons distinct.

    `places` has the number of samples that σ is taken at, by neuron, and `fields` the neurons of
    each field's ends. A neuron with t samples and e ends takes l legs, e + l even, in
    C(t+l−1, l) (e+l−1)!! ways; a cumulant of m pairs is of order m − 1 + g.
    """
    t = dict(places)
    ends = Counter(j for own in fields for j in own)
    if any(count % 2 and j not in t for j, count in ends.items()):
        return [0] * (order + 1)  # a neuron's ends are in pairs

    @cache
    def cumulants(block: tuple[tuple[int, ...], ...]) -> list[int]:
        here = Counter(j for own in block for j in own)
        ways = [1] + [0] * (order + 1)
        for j in t | here:
            taken = [max(0, 2 * pairs - here[j]) for pairs in range(order + 2)]
            own = [
                comb(t.get(j, 0) + legs - 1, legs) * double_factorial_pairings(2 * pairs)
                if legs
                else int(2 * pairs == here[j]) * double_factorial_pairings(2 * pairs)
                for pairs, legs in enumerate(taken)
            ]
            ways = powerseries.multiply(ways, own)
        return [sum(ways[1 : c + 2]) for c in range(order + 1)]

    alone = powerseries.exponential([Fraction(0), *cumulants(())[1:]])

    @cache
    def partitioned(left: tuple[tuple[int, ...], ...]) -> list[int]:
        if not left:
            return list(map(round, alone))
        kinds = Counter(left[1:])
        total = [0] * (order + 1)
        for taken in product(*(range(count + 1) for count in kinds.values())):
            chosen = dict(zip(kinds, taken, strict=True))
            block = (left[0], *Counter(chosen).elements())
            if not any(cumulants(block)):
                continue
            rest = tuple((kinds - Counter(chosen)).elements())
            ways = prod(comb(kinds[each], count) for each, count in chosen.items())
            series = powerseries.multiply(cumulants(block), partitioned(rest))
            total = [a + ways * b for a, b in zip(total, series, strict=True)]
        return total

    return partitioned(fields)
