"""Sums over the samples of a batch whose permutations change nothing.

An array over sample labels then has one value for each *pattern*, which says what labels are the
same sample. A label that is summed over is one of the samples that other labels are, or one of the
m − e others. A product of arrays is summed label by label, each time over the arrays that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.engine.orbits import Pattern
from derive.groups.pairings import pattern_of, patterns
from derive.work.caches import cache

from ..arrays import Array
from .program import multiplied

Labels: TypeAlias = tuple[int, ...]
Places: TypeAlias = NDArray[np.int64]


class Source(NamedTuple):
    """An array that a vector holds: its labels, and of each pattern of them its place, and the
    power of a number that it is multiplied by."""

    labels: Labels
    places: Places
    powers: Places


@cache(entries=64)
def known(rank: int, size: int) -> tuple[Pattern, ...]:
    """The patterns of so many labels of `size` samples, in order."""
    return tuple(each for each in sorted(patterns(rank)) if max(each, default=0) < size)


@cache(entries=512)
def among(rank: int, axes: Labels, size: int) -> Places:
    """Of each pattern of so many labels the pattern that some of them have."""
    number = {pattern: k for k, pattern in enumerate(known(len(axes), size))}
    every = (tuple(pattern[axis] for axis in axes) for pattern in known(rank, size))
    return np.array([number[pattern_of(each)] for each in every], np.int64)


@cache(entries=64)
def _last(rank: int, size: int) -> tuple[Places, Array]:
    """Where the patterns begin that differ in the last label alone, and how many samples each of
    these labels may be."""
    every = known(rank, size)
    begins = [k for k, each in enumerate(every) if not k or each[:-1] != every[k - 1][:-1]]
    taken = [(each[-1], max(each[:-1], default=-1) + 1) for each in every]
    counts = [float(size - others if own == others else 1) for own, others in taken]
    return np.array(begins, np.int64), np.array(counts)


class _Step(NamedTuple):
    """A sum over one label: of arrays, by their numbers and at patterns of all their labels."""

    factors: tuple[tuple[int, Places], ...]
    begins: Places
    counts: Array


class Sum:
    """A product of arrays, summed over all labels but those of the result.

    Arguments:
        sources: the arrays.
        kept: the labels of the result.
        at: the patterns of these that are wanted.
        size: m.
    """

    def __init__(
        self, sources: Sequence[Source], kept: Labels, at: Sequence[Pattern], size: int
    ) -> None:
        self._sources, self._steps = tuple(sources), list[_Step]()
        alive = {number: source.labels for number, source in enumerate(sources)}
        summed = {label for labels in alive.values() for label in labels} - {*kept}
        while summed:
            label = min(summed, key=lambda each: (len(_joined(alive.values(), each)), each))
            summed.remove(label)
            joint = (*sorted(_joined(alive.values(), label) - {label}), label)
            own = [number for number, labels in alive.items() if label in labels]
            factors = tuple((number, _at(joint, alive.pop(number), size)) for number in own)
            self._steps.append(_Step(factors, *_last(len(joint), size)))
            alive[len(sources) + len(self._steps) - 1] = joint[:-1]
        number = {pattern: k for k, pattern in enumerate(known(len(kept), size))}
        rows = np.array([number[each] for each in at], np.int64)
        self._left = [(k, _at(kept, labels, size)[rows]) for k, labels in alive.items()]
        self._shape = len(rows)

    def __call__(self, vectors: Array, keep: float) -> Array:
        """The sum, (copies, wanted), of vectors (copies, places); `keep` to the powers."""
        arrays = [
            vectors[:, places] * keep**powers if powers.any() else vectors[:, places]
            for _, places, powers in self._sources
        ]
        for factors, begins, counts in self._steps:
            terms = multiplied([arrays[number][:, at] for number, at in factors])
            arrays.append(np.add.reduceat(terms * counts, begins, axis=1))
        ones = np.ones((len(vectors), self._shape))
        return multiplied([ones, *(arrays[number][:, at] for number, at in self._left)])


def _joined(alive: Iterable[Labels], label: int) -> set[int]:
    """All labels of the arrays that have one."""
    return {each for labels in alive if label in labels for each in labels}


def _at(joint: Labels, labels: Labels, size: int) -> Places:
    return among(len(joint), tuple(map(joint.index, labels)), size)


def source(
    labels: Labels, place: Callable[[Pattern], int], power: Callable[[Pattern], int], size: int
) -> Source:
    """An array of these labels, by the place and the power of each pattern."""
    every = known(len(labels), size)
    places = np.fromiter(map(place, every), np.int64, len(every))
    return Source(labels, places, np.fromiter(map(power, every), np.int64, len(every)))
