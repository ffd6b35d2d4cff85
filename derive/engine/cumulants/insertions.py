"""Averages over distinct neurons, expanded around the Gaussian of kernel K.

The joint cumulants of fields and of z are inserted into it: E[F] = exp(Σ_r κ_r·∂^r / r!) F, through
a power of 1/n, of which κ with 2m neural indices has m − 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import combinations, combinations_with_replacement
from math import factorial, prod

from ...arithmetic.polynomials import (
    UNIT,
    Expansion,
    Monomial,
    add,
    monomial,
    multiply,
    power,
    times,
)
from ...display.labels import SUMMED, later
from ...gaussian.brackets import Bracket, normal_form
from ...groups.pairings import Blocks, refining_pairings, refining_partitions
from ...work.caches import cache
from ..atoms import with_labels
from ..tensors import kernel_label, tensor
from ..trees import Field, Kind, Placed

Neuron = tuple[tuple[int, int, Kind], ...]
"""The factors σ^{(order)}(v_{sample}) at one neuron, as sorted triples (sample, order, v)."""
Target = tuple[int, int, Kind]
"""A variable that σ is taken of: its neuron and its sample, `SUMMED` if it is any of all."""
_Insertion = tuple[tuple[Target, ...], Monomial, int]
"""Outer derivatives, tensors, power of 1/n."""
Insertions = dict[_Insertion, Fraction]
"""The coefficients."""


@cache(entries=4096)
def around_gaussian(
    neurons: tuple[Neuron, ...],
    fields: tuple[Placed, ...],
    order: int,
    outward: bool,
    group: str,
    batched: bool = False,
) -> Expansion:
    """E[Π_j F_j(z_j) Π fields] over distinct neurons, up to n^{-order}, around z ~ N(0, K).

    Every set partition of the fields into joint cumulants, each with any number of variables that
    become derivatives of the F_j, times any number of cumulants of these variables alone. `outward`
    brings the brackets to their normal form; `group` keeps the layer's law. If the functions are
    `batched`, each depends on all samples at its neuron, and derivatives are summed over these.
    """
    targets = tuple(
        (j, sample, kind)
        for j, factors in enumerate(neurons)
        for sample, kind in sorted(
            {(SUMMED if batched else sample, kind) for sample, _, kind in factors}
        )
    )
    result: Expansion = {}
    for partition in _partitions(fields, {j for j, *_ in targets}, order):
        for insertions in _choices(partition, targets, order, group):
            for (outer, mono, n_power), value in insertions.items():
                averaged: Expansion = {(mono, n_power): value}
                for bracket in _brackets(neurons, outer):
                    if outward:
                        averaged = multiply(averaged, _normal_form(bracket), n_power)
                    else:
                        averaged = {
                            (times(mono, power(bracket, 1)), at): value
                            for (mono, at), value in averaged.items()
                        }
                add(result, averaged)
    return result


def _brackets(neurons: tuple[Neuron, ...], outer: tuple[Target, ...]) -> Iterator[Bracket]:
    """One for each variable that σ is taken of at a neuron."""
    for j, factors in enumerate(neurons):
        for kind in sorted({kind for *_, kind in factors}):
            yield Bracket(
                tuple((sample, order) for sample, order, of in factors if of == kind),
                tuple(sample for i, sample, of in outer if i == j and of == kind),
                kernel_label(kind),
            )


@cache
def _normal_form(bracket: Bracket) -> Expansion:
    return {(power(each, 1), 0): value for each, value in normal_form(bracket).items()}


def _partitions(
    fields: tuple[Placed, ...], live: set[int], order: int
) -> Iterator[tuple[tuple[Placed, ...], ...]]:
    """The set partitions into joint cumulants that can be of this order and are not odd.

    A cumulant of m pairs is of order n^{1−m}; a neuron without σ has no more than the fields' ends.
    """
    if not fields:
        yield ()
        return
    first, rest = fields[0], fields[1:]
    for size in range(len(rest) + 1):
        if (first.field.nodes + size + 1) // 2 - 1 > order:
            break
        for others in combinations(range(len(rest)), size):
            block = (first, *(rest[k] for k in others))
            cost = (sum(placed.field.nodes for placed in block) + 1) // 2 - 1
            if cost > order or not _odd_neurons(block) <= live:
                continue
            left = tuple(placed for k, placed in enumerate(rest) if k not in others)
            for tail in _partitions(left, live, order - cost):
                yield (block, *tail)


def _odd_neurons(block: tuple[Placed, ...]) -> set[int]:
    """The neurons at which a group has an odd number of indices."""
    found: set[tuple[int, str]] = set()
    for placed in block:
        for node, j in enumerate(placed.neurons):
            found ^= {(j, placed.field.kind(node).group)}
    return {j for j, _ in found}


def _choices(
    blocks: tuple[tuple[Placed, ...], ...], targets: tuple[Target, ...], order: int, group: str
) -> Iterator[Insertions]:
    """The joint cumulants of the blocks, then exp of the cumulants of z alone, to n^{-order}."""
    partial: Insertions = {((), UNIT, 0): Fraction(1)}
    for block in blocks:
        nodes = sum(placed.field.nodes for placed in block)
        joined: Insertions = {}
        for extra in range(nodes % 2, 2 * order + 3 - nodes, 2):
            pairs = (nodes + extra) // 2
            for relative in range(order - pairs + 2):
                insertion = _insert(block, extra, relative, targets, group)
                _convolve(joined, partial, insertion, order)
        partial = joined
    yield from _exponential(partial, targets, order, group)


def _exponential(
    partial: Insertions, targets: tuple[Target, ...], order: int, group: str
) -> Iterator[Insertions]:
    """partial · exp(Σ κ_{2m}(z)·∂^{2m}/(2m)!) without K itself, to n^{-order}."""
    kinds = [
        (2 * pairs, relative)
        for pairs in range(1, order + 2)
        for relative in range(order + 2 - pairs)
        if (pairs, relative) != (1, 0)
    ]
    cost = {kind: kind[0] // 2 - 1 + kind[1] for kind in kinds}
    for number in range(order + 1):
        for chosen in combinations_with_replacement(kinds, number):
            if sum(cost[kind] for kind in chosen) > order:
                continue
            repeats = prod(factorial(count) for count in Counter(chosen).values())
            current = {key: value / repeats for key, value in partial.items()}
            for extra, relative in chosen:
                joined: Insertions = {}
                _convolve(joined, current, _insert((), extra, relative, targets, group), order)
                current = joined
            yield current


def _convolve(total: Insertions, a: Insertions, b: Insertions, order: int) -> None:
    for (outer, mono, i), x in a.items():
        taken = sum(sample >= SUMMED for _, sample, _ in outer)
        for own, y in b.items():
            more, other, j = _renumbered(own, taken) if taken else own
            if i + j <= order:
                key = (tuple(sorted(outer + more)), times(mono, other), i + j)
                total[key] = total.get(key, Fraction(0)) + x * y


def _renumbered(insertion: _Insertion, by: int) -> _Insertion:
    """The insertion with its summed samples numbered behind so many others."""
    outer, mono, at = insertion
    atoms = with_labels(mono, partial(later, by=by))
    return tuple((j, later(sample, by), kind) for j, sample, kind in outer), atoms, at


@cache(entries=4096)
def _insert(
    block: tuple[Placed, ...],
    extra: int,
    relative: int,
    targets: tuple[Target, ...],
    group: str,
) -> Insertions:
    """κ(block, z^extra)·∂^extra/extra! at this relative order in 1/n, as insertions."""
    own = tuple(placed.field for placed in block)
    ends = [
        (j, placed.field.kind(node).group)
        for placed in block
        for node, j in enumerate(placed.neurons)
    ]
    samples = [sample for placed in block for sample in placed.samples]
    refining: Callable[[list[list[int]]], Iterator[Blocks]] = (
        refining_pairings if group == "O" else refining_partitions
    )
    result: Insertions = {}
    for outer in combinations_with_replacement(targets, extra):
        weight = Fraction(1, prod(factorial(count) for count in Counter(outer).values()))
        slots = ends + [(j, kind.group) for j, _, kind in outer]
        places = [[slot for slot, at in enumerate(slots) if at == one] for one in set(slots)]
        if any(len(place) % 2 for place in places):
            continue
        numbered = tuple(
            (j, sample + k if sample == SUMMED else sample, kind)
            for k, (j, sample, kind) in enumerate(outer)
        )
        fields = own + tuple(_variable(kind) for *_, kind in outer)
        labels = tuple(samples + [sample for _, sample, _ in numbered])
        for pairing in refining(places):
            atom = tensor(fields, relative, pairing, labels)
            key = (numbered, monomial([atom]), atom.n_power)
            result[key] = result.get(key, Fraction(0)) + weight
    return result


@cache
def _variable(kind: Kind) -> Field:
    return Field(1, (), (kind,))
