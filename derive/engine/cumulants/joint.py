"""Joint cumulants of fields behind a stage, from moments, by pairing of neural indices.

Also how many collective variables c − c* matter beside those of a product of equations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from ...arithmetic.polynomials import Expansion, add, multiply_all
from ...display.labels import MOST_SUMMED, later
from ...groups.pairings import Blocks, mobius, pair_partitions
from ...weights import WeightEnsemble
from ...work.caches import cache
from ..atoms import with_labels
from ..stages import DENSE, Stage
from ..taps import Ties
from ..through import Summand
from ..trees import AnyField, slots_of
from .averages import SUMS, Average, Sums
from .products import carried_past, products, renumbered, rows_of, splittings, summands

Moment = dict[Blocks, Expansion]


def layer_cumulant(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    weights: WeightEnsemble,
    order: int,
    equal_widths: bool = True,
    below: Sums | None = None,
    *,
    pairing: Blocks | None = None,
    corrections: int = 0,
    progress: Callable[[], None] | None = None,
    stage: Stage = DENSE,
    ties: Ties | None = None,
    group: str | None = None,
) -> Moment:
    """The joint cumulant of fields behind a stage, up to n^{-order}, by pairing of neural indices.

    Arguments:
        fields, samples: the fields, and the sample of each of their nodes in turn.
        weights: the ensemble of the stage's matrices.
        order: the highest power of 1/n kept.
        equal_widths: n_ℓ = n_{ℓ+1} = n; otherwise their ratios to n stay symbols.
        below: how to average what is below the stage; by default as the stage says.
        pairing: the one pairing that is wanted; all of them by default.
        corrections: C_W + C_W1/n + … and C_b + C_b1/n + … up to this power (source 000, eq. 5.28).
        progress: called after every average over the weights (`work`).
        stage: of the layer; by default the only one of the dense layer.
        ties: blocks of pairs of the given pairing. The stage has its matrices once for each block,
            and the pairs of a block share them; other pairs have no matrix.
        group: the group that keeps the law of the layer below; by default that of the weights.
    """
    slots = slots_of(fields)
    group = group or weights.group
    sums = below or SUMS[stage.below]
    average = Average(stage, weights, order, equal_widths, corrections, group, sums)
    matrix_of: dict[int, int] | None = None
    if ties is not None:
        assert pairing is not None
        count = len(stage.matrices)
        matrices = stage.matrices * max(1, len(ties))
        average = average._replace(stage=replace(stage, matrices=matrices))
        matrix_of = {
            slot: k * count for k, block in enumerate(ties) for p in block for slot in pairing[p]
        }

    def evaluate(whole: Summand, pairs: Blocks, count: int, result: Expansion) -> None:
        rows = rows_of(whole, pairs)
        assert rows is not None
        for averaged in average(whole, rows, pairs):
            add(result, averaged, count)
            if progress:
                progress()

    @cache(entries=2**16)
    def moment(block: tuple[int, ...], pairs: Blocks) -> Expansion:
        result: Expansion = {}
        alike: Counter[Summand] = Counter()  # behind norms, 1.4 times fewer averages
        for parts in products(stage, fields, samples, block, matrix_of):
            found: Expansion = {}
            terms = partial(summands, parts, pairs=pairs, matrix_of=matrix_of)
            plain = tuple(terms(0))
            for whole in plain:
                evaluate(whole, pairs, 1, found)
            add(result, found)
            for degree in degrees(stage, terms, plain, pairs, found, order):
                alike.update(map(renumbered, terms(degree)))
        for whole, count in alike.items():
            evaluate(whole, pairs, count, result)
        return result

    result: Moment = {}
    for wanted in [pairing] if pairing else pair_partitions(sum(map(len, slots))):
        total: Expansion = {}
        for blocks in splittings(slots, wanted):
            own = [_apart(moment(*block), k, stage) for k, block in enumerate(blocks)]
            moments = multiply_all(own, order)
            add(total, moments, mobius(len(blocks)))
        result[wanted] = total
    return result


def _apart(moment: Expansion, number: int, stage: Stage) -> Expansion:
    """A moment whose summed samples are not those of other moments that it is multiplied by."""
    if not number or stage.batch is None:
        return moment
    label = partial(later, by=number * MOST_SUMMED)
    return {(with_labels(mono, label), at): value for (mono, at), value in moment.items()}


def degrees(
    stage: Stage,
    terms: Callable[[int], Iterable[Summand]],
    plain: Sequence[Summand],
    pairs: Blocks,
    found: Expansion,
    order: int,
) -> range:
    """The degrees in c − c*, beyond 0, that matter to this order in 1/n.

    Arguments:
        stage: whose collective variables they are.
        terms: those of a product of equations, of a degree in c − c*.
        plain: those of degree 0.
        pairs: of the neural indices.
        found: the average of `plain`.
        order: the highest power of 1/n kept.
    """
    first = 0
    while stage.has_centres and not plain and first < 2 * order:
        first += 1  # what a mean multiplies is 0 in the limit
        plain = tuple(terms(first))
    carried = [each for whole in plain for _, each in carried_past(whole, pairs)]
    last = first + _more(stage, carried, found, order, first)
    return range(max(1, first), last + 1)


def _more(stage: Stage, plain: Sequence[Summand], found: Expansion, order: int, first: int) -> int:
    """How many c − c* matter beside those of X, a product of equations to the degree `first`.

    E[X δc] and E[X δc δc] are of order 1/n relative to E[X], and so on. E[X] may also vanish for
    its parity, which means, odd themselves, make up for; −1 where nothing matters, X included.
    """
    if not (stage.means or stage.scores) or not plain:
        return -1
    if found:
        return 2 * (order - min(at for _, at in found))
    if not stage.has_centres:
        return -1
    return max(_repairs(whole, order, first > 0) for whole in plain)


def _repairs(whole: Summand, order: int, even: bool) -> int:
    """How many c − c* matter where E[X] vanishes, or, if `even`, where it may not; −1 for none.

    A sum over a neuron brings n, and 1/n or a weight makes up for it; two neurons where a variable
    stands alone bring one n between them, or none where one of them is carried. A mean Σ_a z_a/n
    is such a neuron more: at a carried one it costs 1/n, at a summed one n^{-1/2}.
    """
    ends = Counter(j for placed in whole.fields for j in placed.neurons)
    live = {j for j, *_ in whole.factors}
    weighted = {j for *_, j in whole.weights}
    free = set(range(len(whole.neurons))) - weighted
    alone = [j for j, count in ends.items() if count % 2 and j not in live | weighted]
    summed = sum(j >= 0 for j in alone)
    carried = len(alone) - summed
    missing = max(0, carried - summed)
    power = Fraction(len(whole.means) - len(free) + missing)
    power += Fraction(summed + min(summed, carried), 2)
    if power > order:
        return -1
    if live or weighted:  # σ has no parity, nor has a neuron before it is paired
        return int(2 * (order - power))
    if len(alone) % 2 and not missing:
        missing, power = 1, power + Fraction(1, 2)
    return missing + 2 * int(order - power) if power <= order and (missing or even) else -1
