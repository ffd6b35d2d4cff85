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
from ...work.resources import DAY, check_time
from ..atoms import relabelled
from ..cumulants import RATE, layer_cumulant, work
from ..fields import AnyField
from ..stages import DENSE, Stage
from ..taps import Ties
from ..trees import H
from ..variances import general, multiplied_out, unbound


@cache
def coefficient(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Blocks,
    weights: WeightEnsemble,
    power: int,
    square: bool,
    corrections: int,
    stage: Stage = DENSE,
    ties: Ties | None = None,
    group: str = "O",
) -> Expansion:
    """The terms of a joint cumulant before one pairing, each with its power of 1/n.

    Arguments:
        fields, samples, pairing, weights, square, corrections, stage, ties: as of `layer_cumulant`.
        power: the highest power of 1/n kept, the tensor's own.
        group: the group that keeps the law of the layer below.

    Raises:
        InputError: for cumulants of an order that they do not have, and for too large ones.
    """
    if stage.is_bound:
        open_stage, law = unbound(stage, weights)
        if (open_stage, law) != (stage, weights):
            unlike = square, corrections, open_stage, ties, group
            return coefficient(fields, samples, pairing, law, power, *unlike)
    rest = pairing, weights, power, square, corrections
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
    square: bool,
    corrections: int,
    stage: Stage,
    ties: Ties | None,
    group: str,
) -> Expansion:
    """The cumulant behind a stage, its numbers multiplied out."""
    what = f"kappa({', '.join(map(str, fields))})"
    if stage.has_centres and power > 1:
        wanted = (
            "tensors of order 1/n in a layer that takes a mean off: beyond it the law is invariant "
            "only under rotations that keep the mean's direction"
        )
        raise InputError("fields", f"{what} at order n^-{power}", wanted)
    if stage.batch and power > 1:
        raise InputError("fields", what, "tensors of order 1/n of functions of all samples")
    if stage.batch and any(field.nodes > 1 for field in fields) and fields != (H,):
        wanted = (
            "cumulants of z alone, such as K, G1 and V, or Theta: others of derivatives are not "
            "derived for functions of all samples"
        )
        raise InputError("fields", what, wanted)
    averages, terms = work(fields, samples, pairing, power, stage, most=DAY * RATE)
    count = f"{averages} averages over the weights"
    check_time("fields", what, terms // RATE, f"{count} or more, some {terms:.0e} terms,")
    with telling(f"deriving {what}: {count}", terms / RATE, averages) as progress:
        cumulant = layer_cumulant(
            fields,
            samples,
            weights,
            power,
            square,
            pairing=pairing,
            corrections=corrections,
            progress=progress.advance,
            stage=stage,
            ties=ties,
            group=group,
        )[pairing]
    found = multiplied_out(cumulant, {})
    _check_order(found, pairing, what)
    return found


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
