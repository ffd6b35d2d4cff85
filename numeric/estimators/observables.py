"""Observables: cumulants of fields as polynomials in the moments that one network estimates.

The coefficient of δ_p(i) in a joint cumulant of fields is

    κ_p = Σ_π (−1)^{|π|−1} (|π|−1)! Π_{B ∈ π} M_{p|B} ,        E[Π_{f ∈ B} φ_f] = Σ_p δ_p(i) M_p ,

over the set partitions π of the fields whose blocks p does not join. A sampler gives an estimate of
every M (a *statistic*) from each network; products of the means are estimated without bias from
sums over networks of products of statistics, which this module lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.engine.cumulants import splittings
from derive.engine.fields import AnyField, Field, Z, forward, slots_of
from derive.engine.tensors import Name, Tensor, spell, tensor
from derive.engine.through import Summand
from derive.errors import InputError
from derive.groups.pairings import Blocks, mobius, patterns
from derive.work.caches import cache

SAMPLED = 6
"""Exchangeable samples that are sampled, unless a function of all samples takes more."""

_STARTS = 64
"""Samples of a batch with which a measured entry begins, at most."""

Statistic: TypeAlias = Tensor
"""M_p of a product of fields with its samples, counted from 0, as `engine.tensors` orders them."""


@cache(entries=256)
def lower(name: Name) -> tuple[Name, ...]:
    """The tensors of the series to subtract, K and G1 for G2, with the subscripts of this.

    A tensor of relative order g > 0 in 1/n is measured as n^g times the one of order 0 at this
    width without its series up to n^{1−g}, so that G1 is n(metric − K).
    """
    slots = tuple(range(2 * name.pairs))
    return tuple(
        name._replace(order=order, label=spell(tensor(name.fields, order, name.pairing, slots))[0])
        for order in range(name.order)
    )


@cache(entries=256)
def components(
    name: Name, samples: int, chosen: tuple[int, ...] = ()
) -> dict[Statistic, list[tuple[int, ...]]]:
    """The sample indices up to the tensor's symmetries, each class with all its members.

    Arguments:
        name: the tensor.
        samples: m, the number of samples.
        chosen: the samples of the table, if not all; its members are counted from 0 among these.
    """
    table = chosen or range(samples)
    return _classes(name, table, product(range(len(table)), repeat=len(name.subscripts)))


@cache(entries=64)
def shifted(name: Name, samples: int) -> dict[Statistic, list[tuple[int, ...]]]:
    """The same of few entries that name all samples alike: a, a + 1, … modulo m, of equal shares.

    Different samples of a batch fluctuate apart, so that these tell more than all entries of a few.
    """
    starts = range(0, samples, -(-samples // _STARTS))
    own = (each for each in patterns(len(name.subscripts)) if max(each) < samples)
    places = (tuple((at + k) % samples for k in each) for each in own for at in starts)
    return _classes(name, range(samples), places)


def _classes(
    name: Name, table: Sequence[int], places: Iterable[tuple[int, ...]]
) -> dict[Statistic, list[tuple[int, ...]]]:
    found: dict[Statistic, list[tuple[int, ...]]] = {}
    for place in places:
        labels = {slot: table[at] for slot, at in zip(name.subscripts, place, strict=True)}
        ordered = tuple(labels[slot] for slot in range(len(labels)))
        component = tensor(name.fields, 0, name.pairing, ordered)
        found.setdefault(component, []).append(place)
    return found


@cache
def expanded(component: Statistic) -> tuple[tuple[int, tuple[Statistic, ...]], ...]:
    """The cumulant as terms (weight, factors M)."""
    fields, _, pairing, samples = component
    slots = slots_of(fields)
    terms = []
    for blocks in splittings(slots, pairing):
        factors = [_restricted(fields, samples, slots, *block) for block in blocks]
        terms.append((mobius(len(blocks)), tuple(sorted(factors, key=_rank))))
    return tuple(terms)


def _rank(statistic: Statistic) -> tuple[object, ...]:
    return tuple(field.rank for field in statistic.fields), statistic.pairing, statistic.samples


def _restricted(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    slots: Sequence[tuple[int, ...]],
    block: tuple[int, ...],
    pairing: Blocks,
) -> Statistic:
    """The moment of some of the fields, with the pairs that lie on them."""
    kept = [slot for f in block for slot in slots[f]]
    place = {slot: position for position, slot in enumerate(kept)}
    pairs = tuple(tuple(place[slot] for slot in block) for block in pairing)
    labels = tuple(samples[slot] for slot in kept)
    return tensor(tuple(fields[f] for f in block), 0, pairs, labels)


@dataclass(frozen=True)
class Plan:
    """All that a sampler has to know of the tensors that are asked for.

    Arguments:
        targets: the tensors.
        samples: m, the number of inputs.
        chosen: the samples that are measured; empty for all.
        exchangeable: True if entries that differ by a permutation of the samples are averaged.
    """

    targets: tuple[Name, ...]
    samples: int
    chosen: tuple[int, ...] = ()
    exchangeable: bool = False

    @property
    def measured(self) -> Sequence[int]:
        """The samples of the table."""
        return self.chosen or range(self.samples)

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        """The moments that every network estimates."""
        return tuple(sorted({f for _, factors in self._terms() for f in factors}, key=_rank))

    @cached_property
    def position(self) -> dict[Statistic, int]:
        """The place of each statistic."""
        return {statistic: place for place, statistic in enumerate(self.statistics)}

    @cached_property
    def products(self) -> dict[tuple[int, ...], int]:
        """The products of statistics whose sums are kept, as sorted positions, each with its place.

        With a product all that it is a multiple of are there: what unbiased estimates need.
        """
        kept: set[tuple[int, ...]] = set()
        for _, factors in self._terms():
            places = sorted(self.position[factor] for factor in factors)
            for size in range(1, len(places) + 1):
                kept.update(combinations(places, size))
        ordered = sorted(kept, key=lambda places: (len(places), places))
        return {places: place for place, places in enumerate(ordered)}

    @cached_property
    def chain(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(parent, factor): product i is product `parent` times statistic `factor`; −1 is 1."""
        parents = [self.products.get(places[:-1], -1) for places in self.products]
        return np.array(parents), np.array([places[-1] for places in self.products])

    @property
    def most_pairs(self) -> int:
        """The number of index pairs of the largest moment."""
        return max(target.pairs for target in self.targets)

    @cached_property
    def most_means(self) -> int:
        """The number of means in the longest product: as many networks as it takes to estimate."""
        return max(len(factors) for _, factors in self._terms())

    @property
    def fields(self) -> frozenset[AnyField]:
        """The fields of all statistics."""
        return frozenset(field for kinds, *_ in self.statistics for field in kinds)

    def trees(self) -> Iterator[tuple[Field, ...]]:
        """The fields of every statistic, which must be trees of derivatives of z."""
        for fields, *_ in self.statistics:
            trees = tuple(field for field in fields if isinstance(field, Field))
            if len(trees) < len(fields):
                raise InputError("tensors", list(map(str, fields)), "trees of derivatives of z")
            yield trees

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Of many names, and asked for at every call."""
        return hash((self.targets, self.samples, self.chosen, self.exchangeable))

    def components(self, target: Name) -> dict[Statistic, list[tuple[int, ...]]]:
        """The entries of a tensor that are measured, as `components` gives them."""
        if self.exchangeable and self.samples > SAMPLED:
            return shifted(target, self.samples)
        return components(target, self.samples, self.chosen)

    def _terms(self) -> Iterator[tuple[int, tuple[Statistic, ...]]]:
        for target in self.targets:
            for component in self.components(target):
                yield from expanded(component)


@cache(entries=64)
def plan_of(
    targets: tuple[Name, ...],
    samples: int,
    chosen: tuple[int, ...] = (),
    *,
    exchangeable: bool = False,
) -> Plan:
    """The plan of these tensors, which keeps what follows from them."""
    return Plan(targets, samples, chosen, exchangeable)


def followed(fields: Iterable[AnyField]) -> tuple[AnyField, ...]:
    """z, these fields, and all that their forward equations need, by rank."""
    pending, found = {Z, *fields}, set[AnyField]()
    while pending:
        field = pending.pop()
        found.add(field)
        pending |= {placed.field for term in terms_of(field) for placed in term.fields} - found
    return tuple(sorted(found, key=lambda field: field.rank))


def derivatives(fields: Iterable[AnyField]) -> int:
    """The highest derivative of σ in these fields' forward equations and in those they need."""
    terms = (term for field in followed(fields) for term in terms_of(field))
    return max((order for term in terms for *_, order, _ in term.factors), default=0)


@cache
def terms_of(field: AnyField) -> tuple[Summand, ...]:
    """The forward equation over the field's own slots and samples 0, 1, …"""
    slots = tuple(range(field.nodes))
    return forward(field, slots, slots)
