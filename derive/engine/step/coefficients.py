"""The coefficient of a tensor in its cumulant, derived: told of where it takes long, and once.

Samples that are numbered otherwise have one derivation, and so have stages that differ in the
variances of their matrices alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, permutations, product

from ...arithmetic.polynomials import UNIT, Atom, Expansion, Monomial, add, of_kind, times
from ...arithmetic.polynomials import power as power_of
from ...display.labels import POOLED, SUMMED
from ...errors import InputError
from ...groups.pairings import Blocks
from ...weights import WeightEnsemble
from ...work.caches import cache
from ...work.progress import telling
from ...work.resources import check_memory, check_time
from ..atoms import read, relabelled
from ..cumulants import layer_cumulant, work
from ..fields import AnyField, Field
from ..stages import DENSE, Stage
from ..taps import Ties
from ..tensors import Tensor, tensor
from ..through import Weighting
from ..variances import general, multiplied_out, unbound
from .summed import numbered_alike

_MOST_TERMS = 10**12
"""Where the count of terms ends: more would take longer than a day."""


@cache
def coefficient(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Blocks,
    weights: WeightEnsemble,
    power: int,
    equal_widths: bool,
    corrections: int,
    stage: Stage = DENSE,
    ties: Ties | None = None,
    group: str = "O",
) -> Expansion:
    """The terms of a joint cumulant before one pairing, each with its power of 1/n.

    Arguments:
        fields, samples, pairing, weights, equal_widths, corrections, stage, ties: as of
            `layer_cumulant`.
        power: the highest power of 1/n kept, the tensor's own.
        group: the group that keeps the law of the layer below.

    Raises:
        InputError: for cumulants of an order that they do not have, and for too large ones.
    """
    if stage.is_bound:
        open_stage, law = unbound(stage, weights)
        if (open_stage, law) != (stage, weights):
            unlike = equal_widths, corrections, open_stage, ties, group
            return coefficient(fields, samples, pairing, law, power, *unlike)
    rest = pairing, weights, power, equal_widths, corrections
    distinct = tuple(sorted(set(samples)))
    places = tuple(distinct.index(sample) + 1 for sample in samples)
    if places != samples:
        found = coefficient(fields, places, *rest, stage, ties, group)
        return {(_labelled(mono, distinct), at): value for (mono, at), value in found.items()}
    symbolic, variances = general(stage)
    if variances:
        found = coefficient(fields, samples, *rest, symbolic, ties, group)
        return multiplied_out(found, variances)
    return _derived(fields, samples, *rest, stage, ties, group)


def _derived(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Blocks,
    weights: WeightEnsemble,
    power: int,
    equal_widths: bool,
    corrections: int,
    stage: Stage,
    ties: Ties | None,
    group: str,
) -> Expansion:
    """The cumulant behind a stage, its numbers multiplied out.

    Where neurons fall into sets that are normalized apart, exchanges of sets keep the law, and so
    do rotations within each. What one pair of indices meets at order 1/n is in one set. A cumulant
    of two pairs is linear in what the sets fluctuate by, and enters sums over neurons as its mean
    over sets: there K K/n of two neurons of one set, of which each has n/sets, is as without sets.
    """
    if alone := stage.sets != 1 and power > 0:
        _check_sets(fields, power)
        kinds = (field.kind(node) for field in fields for node in range(field.nodes))
        alone = list(map(len, pairing)) == [2] or any(kind.alone for kind in kinds)
    if alone:
        fields = tuple(each.everywhere if isinstance(each, Field) else each for each in fields)
        stage = stage.of_one_set(equal_widths)
    what = f"kappa({', '.join(map(str, fields))})"
    if stage.scores and power > 1:
        raise InputError("fields", what, "tensors of order 1/n of layers with attention")
    if stage.has_centres and power > 1:
        wanted = (
            "tensors of order 1/n in a layer that takes a mean off: beyond it the law is invariant "
            "only under rotations that keep the mean's direction"
        )
        raise InputError("fields", f"{what} at order n^-{power}", wanted)
    needed = work(fields, samples, pairing, power, stage, most=_MOST_TERMS)
    count = f"{needed.averages} averages over the weights"
    whole = f"{count} or more, some {needed.terms:.0e} terms,"
    check_time("fields", what, needed.seconds, whole)
    check_memory("fields", what, needed.bytes, whole)
    with telling(f"deriving {what}: {count}", needed.seconds, needed.averages) as progress:
        cumulant = layer_cumulant(
            fields,
            samples,
            weights,
            power,
            equal_widths,
            pairing=pairing,
            corrections=corrections,
            progress=progress.advance,
            stage=stage,
            ties=ties,
            group=group,
        )[pairing]
    found = multiplied_out(cumulant, {})
    if stage.pools > 1 or stage.scores:
        found = _pooled(found)
    if stage.batch is not None:
        found = numbered_alike(found)
    _check_order(found, pairing, what)
    if alone:
        found = {(_in_one_set(mono), at): value for (mono, at), value in found.items()}
    return found


def _pooled(expansion: Expansion) -> Expansion:
    """With positions that are averaged or summed over numbered alike in products that are alike."""
    found: Expansion = {}
    for (mono, at), value in expansion.items():
        exponents = dict(mono)
        atoms: list[Tensor | Weighting] = [*of_kind(exponents, Tensor)]
        atoms += of_kind(exponents, Weighting)
        moving = {each: exponents[each] for each in atoms}
        labels = sorted({each for atom in moving for each in atom.samples if each >= POOLED})
        ways = (_numbered([*moving.items()], order) for order in _orders(labels))
        best = min(ways, key=lambda made: sorted(map(repr, made)))
        others = frozenset(each for each in mono if each[0] not in moving)
        add(found, {(times(others, best), at): value})
    return found


def _orders(labels: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The orders of the labels that differ in those of one sample."""
    signals = [list(own) for _, own in groupby(sorted(labels, key=_signal), key=_signal)]
    for parts in product(*map(permutations, signals)):
        yield tuple(label for part in parts for label in part)


def _signal(label: int) -> int:
    return label % POOLED


def _numbered(atoms: Sequence[tuple[Tensor | Weighting, int]], labels: Sequence[int]) -> Monomial:
    """The product with these labels numbered from 1 on for each sample."""
    taken: Counter[int] = Counter()
    to: dict[int, int] = {}
    for each in labels:
        taken[each % POOLED] += 1
        to[each] = each % POOLED + POOLED * taken[each % POOLED]

    def of_tensor(own: Tensor) -> Atom:
        at = tuple(to.get(each, each) for each in own.samples)
        return tensor(own.fields, own.order, own.pairing, at)

    def of_weighting(own: Weighting) -> Atom:
        return own.at(tuple(to.get(each, each) for each in own.samples))

    made = UNIT
    for own, exponent in atoms:
        made = times(made, power_of(read(own, tensor=of_tensor, weighting=of_weighting), exponent))
    return made


def _check_sets(fields: tuple[AnyField, ...], power: int) -> None:
    if power > 1:
        wanted = "tensors of order 1/n in a layer that normalizes sets of neurons apart: beyond it "
        wanted += "cumulants of one set and of several differ"
        raise InputError("fields", ", ".join(map(str, fields)), wanted)


def _in_one_set(mono: Monomial) -> Monomial:
    """With tensors that fluctuate by 1/n, each of the neurons of one set."""

    def placed(own: Tensor) -> Tensor:
        if not own.n_power:
            return own
        inside = (each.in_one_set if isinstance(each, Field) else each for each in own.fields)
        return tensor(tuple(inside), own.order, own.pairing, own.samples)

    return frozenset(
        (read(atom, tensor=placed, other=lambda other: other), exponent) for atom, exponent in mono
    )


def _check_order(cumulant: Expansion, pairing: Blocks, what: str) -> None:
    leading = sum(map(len, pairing)) // 2 - 1
    early = min((at for _, at in cumulant), default=leading)
    if early < leading:
        scaling = f"fields whose cumulants with 2m neural indices are of order n^(1-m): {what}"
        raise InputError("fields", f"a term of order n^{-early}", scaling)


def _labelled(mono: Monomial, samples: tuple[int, ...]) -> Monomial:
    """With these samples, in ascending order, for 1, 2, …: representatives stay what they are."""
    return frozenset((_relabelled(atom, samples), exponent) for atom, exponent in mono)


@cache(entries=1 << 14)
def _relabelled(atom: Atom, samples: tuple[int, ...]) -> Atom:
    def label(sample: int) -> int:
        return sample if sample >= SUMMED else samples[sample - 1]

    return relabelled(atom, label)  # type: ignore[no-any-return]
