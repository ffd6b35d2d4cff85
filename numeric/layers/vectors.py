"""The vectors that tables of recursions are evaluated on, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.gaussian.brackets import Bracket

from ..arrays import Array

Places = NDArray[np.int64]

Estimate: TypeAlias = tuple[list[Array], list[Array]]
"""Tensors, (copies, m, m, …) each, and the sizes of the first copy's, (m, m, …) each."""


class Descent(NamedTuple):
    """Hyperparameters and disturbances of all layers, and listeners.

    Attributes:
        parameters: (depth, copies, parameters).
        noise: what is added to each average, in units of its size: (copies, averages).
        rounding: what is added to each tensor, in units of its size: (copies, tensors).
        advance: is told of the layers that are done.
        unseen: is given the tensors of a layer that no row has.
    """

    parameters: Array
    noise: Array
    rounding: Array
    advance: Callable[[float], None]
    unseen: Callable[[list[Array]], None] = lambda tensors: None


def stacked(parameters: Array, *rest: Array) -> Array:
    """1, the hyperparameters and their inverses, and the rest, along the last axis."""
    ones = np.ones((*parameters.shape[:-1], 1))
    return np.concatenate([ones, parameters, 1.0 / parameters, *rest], axis=-1)


class Part(NamedTuple):
    """A stretch of the vectors that tables multiply.

    Attributes:
        size: how many places it has.
        at: what stands at some of them, numbers or a slice: (copies + 1, …).
    """

    size: int
    at: Callable[[Any], Array]

    @property
    def whole(self) -> Array:
        """All of it, (copies + 1, size)."""
        return self.at(slice(None))


class Parts:
    """Vectors, (copies + 1, places), as stretches one after another.

    With many inputs they are never laid out whole: tables take what an entry needs.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._ends = np.cumsum([part.size for part in parts])

    def __len__(self) -> int:
        return len(self._parts[0].whole)

    @property
    def whole(self) -> Array:
        """All places."""
        return np.concatenate([part.whole for part in self._parts], axis=-1)

    def __getitem__(self, at: tuple[EllipsisType, Places]) -> Array:
        """At places anywhere: (copies + 1, …), as an array has it."""
        places = at[1]
        number = np.searchsorted(self._ends, places, side="right")
        found = np.empty((len(self), *places.shape))
        for k in np.unique(number).tolist():
            own = number == k
            found[:, own] = self._from(k, places[own])
        return found

    def array(self, first: int, places: Places) -> Array:
        """At places of one array, counted from its first: (copies + 1, …)."""
        k = int(np.searchsorted(self._ends, first, side="right"))
        return self._from(k, first + places)

    def _from(self, k: int, places: Places) -> Array:
        part = self._parts[k]
        return part.at(places - (int(self._ends[k]) - part.size))


def given(values: Array) -> Part:
    """The stretch of an array, (copies + 1, places)."""
    return Part(values.shape[1], lambda at: values[:, at])


def of_tensor(values: Array, sizes: Array) -> Part:
    """The stretch of a tensor, (copies, m, m, …), and its sizes."""
    own, of_own = values.reshape(len(values), -1), sizes.reshape(1, -1)
    return Part(own.shape[1], lambda at: np.concatenate([own[:, at], of_own[:, at]]))


def with_sizes(values: Array) -> Array:
    """The copies (copies, …), and behind them the absolute values of the first."""
    return np.concatenate([values, np.abs(values[:1])])


def begun(start: Estimate, depth: int) -> Estimate:
    """Room for tensors and their sizes at so many layers, the first of them filled."""
    found, sizes = ([np.empty((depth, *each.shape)) for each in part] for part in start)
    for part, at_first in zip((found, sizes), start, strict=True):
        for values, each in zip(part, at_first, strict=True):
            values[0] = each
    return found, sizes


def at_one_layer(above: Estimate) -> Estimate:
    """Tensors and their sizes as `begun` has them, of one layer, in their own room."""
    tensors, sizes = ([each[None] for each in part] for part in above)
    return tensors, sizes


def joined(parts: Sequence[Estimate]) -> Estimate:
    """Tensors one after another."""
    tensors = [each for values, _ in parts for each in values]
    return tensors, [each for _, sizes in parts for each in sizes]


def put(both: Estimate, layer: int, above: Estimate, rounding: Array) -> None:
    """Write the tensors of a layer, each disturbed in units of its size, and the sizes.

    Arguments:
        both: as `begun` makes them.
        above: the layer's.
        rounding: (copies, tensors).
    """
    found, sizes = both
    for k, (tensor, size) in enumerate(zip(*above, strict=True)):
        found[k][layer] = tensor + rounding[:, k].reshape(-1, *(1,) * size.ndim) * size
        sizes[k][layer] = size


def disturbed(values: Array, sizes: Array, noise: Array, sums: Places) -> Part:
    """The stretch of the brackets of the copies, and behind them their sizes.

    Arguments:
        values: averages, (copies, averages).
        sizes: theirs, (averages,).
        noise: what is added to each, in units of its size: (copies, averages).
        sums: as `side_by_side` makes them.
    """
    averages = np.zeros((len(values) + 1, sizes.size + 1))
    averages[:-1, :-1] = values + noise * sizes
    averages[-1, :-1] = sizes

    def at(places: Any) -> Array:
        total = averages[:, sums[0][places]]
        for part in sums[1:]:
            total += averages[:, part[places]]
        return total

    return Part(sums.shape[1], at)


def side_by_side(places: Sequence[Places], nowhere: int) -> Places:
    """Which averages are added up for every entry of the brackets, one bracket after another.

    Arguments:
        places: of each bracket, (parts, …).
        nowhere: the place of a 0, for brackets with fewer parts.
    """
    flat = [each.reshape(len(each), -1) for each in places]
    most = max((len(each) for each in flat), default=1)
    padded = [
        np.pad(each, ((0, most - len(each)), (0, 0)), constant_values=nowhere) for each in flat
    ]
    return np.concatenate([np.zeros((most, 0), np.int32), *padded], axis=1)


def relabelled(bracket: Bracket) -> tuple[Bracket, tuple[int, ...]]:
    """The bracket with its samples called 0, 1, … in their order, and what they were."""
    labels = bracket.samples
    return bracket.relabelled(labels.index)._replace(kernel="K"), labels
