"""Joint cumulants of fields behind a stage, from moments, by pairing of neural indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
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
from .degrees import degrees
from .products import products, renumbered, rows_of, splittings, summands

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
        alike: Counter[Summand] = Counter()
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
