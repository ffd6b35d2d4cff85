"""Products of the fields' equations: which of their terms have a δ of given pairs of indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import NamedTuple, Protocol

from ...errors import InputError
from ...groups.pairings import (
    Blocks,
    compositions,
    ordered,
    refinements,
    set_partitions,
)
from ..fields import forward
from ..stages import DENSE, STEM, Stage
from ..through import Summand, lines
from ..trees import AnyField, Field, Kind, Placed, Z, slots_of

Rows = dict[int, Blocks]
"""Of each matrix: which of its weights, counted from 0, have equal rows."""


def splittings(
    slots: list[tuple[int, ...]], pairing: Blocks
) -> Iterator[list[tuple[tuple[int, ...], Blocks]]]:
    """The set partitions of the fields that no pair straddles, each block with its pairs."""
    owner = {slot: f for f, own in enumerate(slots) for slot in own}
    for partition in set_partitions(tuple(range(len(slots)))):
        block_of = {f: block for block in partition for f in block}
        if all(block_of[owner[a]] == block_of[owner[b]] for a, *others in pairing for b in others):
            yield [
                (block, tuple(pair for pair in pairing if block_of[owner[pair[0]]] == block))
                for block in partition
            ]


class Expandable(Protocol):
    """A function of the collective variables: a `Line`, or an equation of one's own."""

    @property
    def tied(self) -> frozenset[int]:
        """The slots at which it has a matrix, or its derivative."""

    def degree(self, total: int) -> tuple[Summand, ...]:
        """Its terms of this degree in c − c*."""


class _Given(NamedTuple):
    """A term of a field's equation of one's own."""

    summand: Summand

    @property
    def tied(self) -> frozenset[int]:
        ends = (slot for pair in self.summand.deltas for slot in pair if self.summand.neurons)
        return frozenset((*ends, *(slot for _, slot, _ in self.summand.weights)))

    def degree(self, total: int) -> tuple[Summand, ...]:
        return () if total else (self.summand,)


def _equation(
    stage: Stage, field: AnyField, slots: tuple[int, ...], samples: tuple[int, ...]
) -> tuple[Expandable, ...]:
    if isinstance(field, Field):
        return lines(stage, field, slots, samples)
    if stage not in _GIVEN:
        wanted = "fields that are z or its derivatives by θ, in layers other than the dense one"
        raise InputError("fields", str(field), wanted)
    terms = forward(field, slots, samples)
    return tuple(_Given(each) for term in terms for each in _GIVEN[stage](term))


def _of_inputs(term: Summand) -> Iterator[Summand]:
    """A term at layer 1, where σ is the identity: its values are x, its slopes 1."""
    if all(order <= 1 for _, _, order, _ in term.factors):
        inputs = [Placed(Z, (j,), (sample,)) for j, sample, order, _ in term.factors if not order]
        yield term._replace(factors=(), fields=(*inputs, *term.fields))


_GIVEN: dict[Stage, Callable[[Summand], Iterable[Summand]]] = {
    DENSE: lambda term: (term,),
    STEM: _of_inputs,
}
"""A term of an equation in W, b and σ(z), through each stage that such equations are for."""


def products(
    stage: Stage,
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    block: tuple[int, ...],
    matrix_of: Mapping[int, int] | None = None,
) -> Iterator[tuple[Expandable, ...]]:
    """The products of the block's equations; with `matrix_of`, those with matrices at its slots."""
    slots = slots_of(fields)

    def equation(f: int) -> Iterator[Expandable]:
        own = slots[f]
        for each in _equation(stage, fields[f], own, tuple(samples[slot] for slot in own)):
            if matrix_of is None or each.tied == matrix_of.keys() & own:
                yield each

    return product(*map(equation, block))


def summands(
    parts: tuple[Expandable, ...],
    degree: int,
    pairs: Blocks,
    matrix_of: Mapping[int, int] | None = None,
) -> Iterator[Summand]:
    """The terms of a product of this degree in c − c* that have a δ of these pairs.

    `matrix_of` maps a slot to the shift of its matrix's number, if one matrix stands for several.
    """
    for split in compositions(degree, len(parts)):
        expanded = (part.degree(d) for part, d in zip(parts, split, strict=True))
        for terms in product(*expanded):
            whole = prod(terms, start=Summand())
            if matrix_of:
                weights = tuple((m + matrix_of[slot], slot, j) for m, slot, j in whole.weights)
                whole = whole._replace(weights=weights)
            if rows_of(whole, pairs) is not None:
                yield whole


def rows_of(whole: Summand, pairs: Blocks) -> Rows | None:
    """The rows of each matrix; None where there is no δ of these pairs."""
    place: dict[int, tuple[object, int]] = {}
    count: Counter[int] = Counter()
    for matrix, slot, _ in whole.weights:
        place[slot] = matrix, count[matrix]
        count[matrix] += 1
    for slot, kind in whole.biases:
        place[slot] = kind, -1
    for placed in whole.fields:
        for node, j in enumerate(placed.neurons):
            if j < 0:
                place[-1 - j] = placed.field.kind(node).group, -1
    fixed = {ordered(a, b) for a, b in whole.deltas}
    if not fixed <= set(pairs):
        return None
    rows: dict[int, list[tuple[int, ...]]] = {}
    for pair in pairs:
        if pair in fixed:
            continue
        (one, i), *others = (place.get(slot, (None, slot)) for slot in pair)
        if one is None or any(other != one for other, _ in others):
            return None
        if isinstance(one, int):
            rows.setdefault(one, []).append(tuple(sorted((i, *(j for _, j in others)))))
        elif isinstance(one, Kind) and len(pair) > 2:  # biases are Gaussian
            return None
    return {matrix: tuple(sorted(found)) for matrix, found in rows.items()}


def renumbered(whole: Summand) -> Summand:
    """The same, its neurons numbered by where they stand: equal for many that are alike."""

    def key(placed: Placed) -> tuple[object, ...]:
        return placed.field.rank, placed.samples, [min(j, 0) for j in placed.neurons]

    fields = sorted(whole.fields, key=key)
    factors = sorted(whole.factors, key=lambda factor: factor[1:])
    met = [j for *_, j in sorted(whole.weights)]
    met += [j for placed in fields for j in placed.neurons if j >= 0]
    met += [j for j, *_ in factors]
    number = {j: k for k, j in enumerate(dict.fromkeys([*met, *range(len(whole.neurons))]))}
    placed_again = (placed.at(number.get(j, j) for j in placed.neurons) for placed in fields)
    return whole._replace(
        fields=tuple(sorted(placed_again, key=lambda p: (p.field.rank, p.samples, p.neurons))),
        factors=tuple(sorted((number[j], sample, order, of) for j, sample, order, of in factors)),
        weights=tuple(sorted((m, slot, number[j]) for m, slot, j in whole.weights)),
        neurons=tuple(whole.neurons[j] for j in number),
        atoms=tuple(sorted(whole.atoms, key=hash)),
        means=tuple(sorted(whole.means)),
    )


def carried_past(whole: Summand, blocks: Blocks) -> Iterator[tuple[int, Summand]]:
    """The coefficient of δ of these blocks, as averages over distinct neurons, each with its sign.

    If two indices are equal if and only if a block has both, the product is the sum of its
    coefficients for all partitions within the blocks. Möbius' inversion subtracts the others.
    The neuron −1 − k of a carried field stands for part k of such a partition.
    """
    carried = {-1 - j for placed in whole.fields for j in placed.neurons if j < 0}
    own = [block for block in blocks if block[0] in carried]
    for finer, weight in refinements(own):
        home = {-1 - slot: -1 - k for k, block in enumerate(finer) for slot in block}
        fields = tuple(placed.at(home.get(j, j) for j in placed.neurons) for placed in whole.fields)
        yield weight, whole._replace(fields=fields)


def identified(whole: Summand, columns: Rows) -> Summand:
    """The product with the neurons that the pairings identify made one, and numbered from 0."""
    name = list(range(len(whole.neurons)))
    for matrix, q in columns.items():
        ends = [j for m, _, j in whole.weights if m == matrix]
        for a, *others in q:
            for b in others:
                i, j = name[ends[a]], name[ends[b]]
                name = [i if other == j else other for other in name]
    kept = sorted(set(name))
    number = {j: kept.index(name[j]) for j in range(len(name))}
    return whole._replace(
        weights=(),
        factors=tuple((number[j], sample, order, of) for j, sample, order, of in whole.factors),
        fields=tuple(
            placed.at(number.get(j, j) for j in placed.neurons) for placed in whole.fields
        ),
        neurons=tuple(whole.neurons[j] for j in kept),
    )
