"""The vectors that tables of recursions are evaluated on, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

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


def disturbed(values: Array, sizes: Array, noise: Array, sums: Places) -> Array:
    """The brackets of the copies, and behind them their sizes, (copies + 1, entries).

    Arguments:
        values: averages, (copies, averages).
        sizes: theirs, (averages,).
        noise: what is added to each, in units of its size: (copies, averages).
        sums: as `side_by_side` makes them.
    """
    averages = np.zeros((len(values) + 1, sizes.size + 1))
    averages[:-1, :-1] = values + noise * sizes
    averages[-1, :-1] = sizes
    total = averages[:, sums[0]]
    for part in sums[1:]:
        total += averages[:, part]
    return total


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
    return np.concatenate([np.zeros((most, 0), np.int64), *padded], axis=1)


def relabelled(bracket: Bracket) -> tuple[Bracket, tuple[int, ...]]:
    """The bracket with its samples called 0, 1, … in their order, and what they were."""
    labels = bracket.samples
    return bracket.relabelled(labels.index)._replace(kernel="K"), labels
