"""Averages over initializations of what descent has made of an observable, to order 1/n.

A history (`histories`) is a product of z − y and of fields at initialization. Its average is a sum
over the ways to split them into joint cumulants: pairs ⟨zz⟩ = K, single −y, and at order 1/n one
cumulant of four neural indices, or the 1/n part of one of two. Each is a sum over pairings of its
neural indices, and of laws that permutations alone keep over a block of all four; these, and the
sums over outputs, join into lines that end at free outputs or at y.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

from ..engine.tensors import Name, identify, tensor
from ..engine.trees import Field, Z
from ..groups.pairings import Blocks, joined, matchings, partitions
from .histories import History

_NODES = 4
"""Neural indices of the cumulants of order 1/n."""


class Line(NamedTuple):
    """Neural indices that are equal, by their ends: two, as many as a block joins, none of a loop.

    An end ("free", number) is an output of the observable, counted from 0; ("target", label) is a y
    of that label.
    """

    ends: tuple[tuple[str, int], ...]


class Factor(NamedTuple):
    """A tensor of the last layer at initialization, and the label of each of its subscripts."""

    name: Name
    labels: tuple[int, ...]

    @classmethod
    def of(
        cls, fields: tuple[Field, ...], relative: int, pairing: Blocks, labels: tuple[int, ...]
    ) -> Factor:
        """The tensor of a cumulant of these fields, with the labels of their nodes."""
        return cls(*identify(tensor(fields, relative, pairing, labels)))


@dataclass(frozen=True)
class Diagram:
    """A term of an average: weight · η^edges · Π functions of the step · Π tensors · Π lines.

    Attributes:
        histories: of each observable, with labels of their own, counted on from one to the next.
        order: of 1/n, 0 or 1.
    """

    histories: tuple[History, ...]
    weight: Fraction
    order: int
    tensors: tuple[Factor, ...]
    lines: tuple[Line, ...]

    @property
    def edges(self) -> int:
        """The power of η."""
        return sum(each.edges for each in self.histories)

    @property
    def labels(self) -> tuple[tuple[int, ...], ...]:
        """The labels of each history."""
        pairs = zip(self.histories, _offsets(self.histories), strict=True)
        return tuple(tuple(range(offset, offset + h.labels)) for h, offset in pairs)

    @property
    def free(self) -> tuple[int, ...]:
        """The labels of the observable."""
        return _free(self.histories)


class _Item(NamedTuple):
    """A z − y or a field: its labels, those of the whole product, and whose it is."""

    field: Field
    labels: tuple[int, ...]
    owner: int
    whole: bool = False


def diagrams(histories: Sequence[History], order: int, group: str) -> Iterator[Diagram]:
    """The average of a product of histories at this order, 0 or 1; of two, what connects them.

    Arguments:
        group: the group that keeps the law of the outputs, "O" or "B".
    """
    items = []
    for owner, (history, offset) in enumerate(zip(histories, _offsets(histories), strict=True)):
        items += [_Item(Z, (a + offset,), owner) for a in history.legs]
        items += [
            _Item(each.field, tuple(a + offset for a in each.labels), owner, each.whole)
            for each in history.insertions
        ]
    inserted = [k for k, item in enumerate(items) if item.field != Z]
    legs = [k for k, item in enumerate(items) if item.field == Z]
    for block, relative in _blocks(items, inserted, legs, order):
        others = [k for k in legs if k not in block]
        for pairs, single in matchings(others):
            cumulants = [block, *pairs]
            if len(histories) > 1 and all(len({items[k].owner for k in b}) < 2 for b in cumulants):
                continue
            yield from _with_pairings(
                tuple(histories), items, block, relative, pairs, single, group
            )


def _blocks(
    items: Sequence[_Item], inserted: Sequence[int], legs: Sequence[int], order: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """The cumulant with all fields in it: its items, and its order relative to its leading one."""
    nodes = sum(items[k].field.nodes for k in inserted)
    if order == 0:
        if not inserted:
            yield (), 0
        elif len(inserted) == 1 and nodes == 2 and items[inserted[0]].whole:
            yield tuple(inserted), 0
        return
    for size, relative in ((_NODES, 0), (2, 1)):
        for chosen in combinations(legs, size - nodes) if nodes <= size else ():
            yield (*chosen, *inserted), relative


def _with_pairings(
    histories: tuple[History, ...],
    items: Sequence[_Item],
    block: tuple[int, ...],
    relative: int,
    pairs: Sequence[tuple[int, int]],
    single: Sequence[int],
    group: str,
) -> Iterator[Diagram]:
    weight = Fraction((-1) ** len(single))
    for history in histories:
        weight *= history.weight
    ends = [(k, node) for k, item in enumerate(items) for node in range(item.field.nodes)]
    kernels = [_factor([items[a], items[b]], 0, ((0, 1),)) for a, b in pairs]
    slots = [(k, node) for k in block for node in range(items[k].field.nodes)]
    own = [items[k] for k in block]
    for pairing in partitions(len(slots), group):
        links: list[Sequence[_End]] = [[slots[a] for a in equal] for equal in pairing]
        links += [((a, 0), (b, 0)) for a, b in pairs]
        tensors = [*([_factor(own, relative, pairing)] if own else []), *kernels]
        lines = _lines(items, ends, links, single, histories)
        order = len(slots) // 2 - 1 + relative if own else 0
        yield Diagram(histories, weight, order, tuple(tensors), lines)


def _factor(items: Sequence[_Item], relative: int, pairing: Blocks) -> Factor:
    labels = tuple(a for item in items for a in item.labels)
    return Factor.of(tuple(item.field for item in items), relative, pairing, labels)


_End = tuple[int, int]


def _lines(
    items: Sequence[_Item],
    ends: Sequence[_End],
    links: Sequence[Sequence[_End]],
    single: Sequence[int],
    histories: Sequence[History],
) -> tuple[Line, ...]:
    """The lines of neural indices: a label is at two ends, or at one, where it is free."""
    by_label: dict[int, list[_End]] = {}
    for k, node in ends:
        by_label.setdefault(items[k].labels[node], []).append((k, node))
    loose = [(by_label[label][0], ("free", k)) for k, label in enumerate(_free(histories))]
    fixed = [((k, 0), ("target", items[k].labels[0])) for k in single]
    return lines_of([*links, *by_label.values()], [*loose, *fixed])


def lines_of(
    equal: Iterable[Iterable[Hashable]], ends: Sequence[tuple[Hashable, tuple[str, int]]]
) -> tuple[Line, ...]:
    """The lines of indices that are equal in these groups, in the order of their ends."""
    lines = joined(equal)
    found = ([k for k, (index, _) in enumerate(ends) if index in line] for line in lines)
    ordered = sorted(found, key=lambda own: own or [len(ends)])
    return tuple(Line(tuple(ends[k][1] for k in own)) for own in ordered)


def _free(histories: Sequence[History]) -> tuple[int, ...]:
    pairs = zip(histories, _offsets(histories), strict=True)
    return tuple(a + offset for history, offset in pairs for a in history.free)


def _offsets(histories: Sequence[History]) -> tuple[int, ...]:
    found = [0]
    for each in histories:
        found.append(found[-1] + each.labels)
    return tuple(found[:-1])
