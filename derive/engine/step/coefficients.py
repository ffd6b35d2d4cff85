"""The coefficient of a tensor in its cumulant, derived: told of where it takes long, and once.

Samples that are numbered otherwise have one derivation, and so have stages that differ in the
variances of their matrices alone.
"""

from __future__ import annotations

from ...arithmetic.polynomials import Atom, Expansion, Monomial
from ...display.labels import SUMMED
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
        stage, weights = unbound(stage, weights)
    stage, variances = general(stage)
    distinct = tuple(sorted(set(samples)))
    places = tuple(distinct.index(sample) + 1 for sample in samples)
    widths = equal_widths, corrections
    found = _derived(fields, places, pairing, weights, power, *widths, stage, ties, group)
    if variances:
        found = multiplied_out(found, variances)
    if places != samples:
        found = {(_labelled(mono, distinct), at): value for (mono, at), value in found.items()}
    return found


@cache
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
        if power > 1:
            wanted = (
                "tensors of order 1/n in a layer that normalizes sets of neurons apart: beyond "
            )
            wanted += "it cumulants of one set and of several differ"
            raise InputError("fields", ", ".join(map(str, fields)), wanted)
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
    if stage.pools > 1 or stage.scores or stage.batch is not None:
        found = numbered_alike(found)
    _check_order(found, pairing, what)
    if alone:
        found = {(_in_one_set(mono), at): value for (mono, at), value in found.items()}
    return found


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
