"""Sums over the taps of a convolution, of arrays over samples (`derive.engine.taps`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from derive.engine.step import Step
from derive.engine.taps import Taps

from ..arrays import Array
from .merged import Merged
from .resting import Degenerate
from .stages import Average, Stage
from .vectors import Both


class Reader:
    """What the matrices of a convolution read of arrays over signals' positions.

    Arguments:
        taps: the positions that they read.
        signals: how many signals there are; a sample is α·positions + p.

    Attributes:
        samples: of what is read, and of the result.
    """

    def __init__(self, taps: Taps, signals: int) -> None:
        self.samples = signals * taps.positions, signals * taps.results
        self._scale = taps.count**-0.5
        self._index = [_index(tap, taps.positions, signals) for tap in taps.reads]
        self._shares = [
            np.tile([1.0 / max(1, len(read)) for read in tap], signals) for tap in taps.reads
        ]

    @property
    def count(self) -> int:
        """How many taps there are."""
        return len(self._index)

    def read(self, tap: int, values: Array, axis: int) -> Array:
        """The mean over what a tap reads, times s^{-1/2}, along an axis of samples."""
        read: Array = self.mean(tap, values, axis) * self._scale
        return read

    def mean(self, tap: int, values: Array, axis: int) -> Array:
        """The mean over what a tap reads along an axis of samples."""
        index, axis = self._index[tap], axis % values.ndim
        moved = np.moveaxis(values, axis, 0)
        padded = np.concatenate([moved, np.zeros_like(moved[:1])])
        found = padded[index[0]]
        for row in index[1:]:
            found += padded[row]
        found *= self._shares[tap].reshape(-1, *(1,) * (moved.ndim - 1))
        return np.moveaxis(found, 0, axis)

    def summed(self, values: Array, blocks: Sequence[Sequence[int]]) -> Array:
        """Σ over a tap for each block of axes, read along all axes of the block."""
        for block in blocks:
            total: Array | None = None
            for tap in range(self.count):
                read = values
                for axis in block:
                    read = self.read(tap, read, axis)
                total = read if total is None else total + read
            assert total is not None
            values = total
        return values


def _index(tap: Sequence[Sequence[int]], positions: int, signals: int) -> list[NDArray[np.int64]]:
    """The samples that are added up for each sample of the result, one row for each summand; where
    there is none, the one past the last."""
    nowhere = signals * positions
    longest = max(1, *map(len, tap))
    return [
        np.array(
            [
                alpha * positions + read[k] if k < len(read) else nowhere
                for alpha in range(signals)
                for read in tap
            ]
        )
        for k in range(longest)
    ]


class Tapped:
    """The recursions through a convolution: of the dense layer, and then sums over taps.

    Arguments:
        inner: of the parts of these recursions, without taps.
        steps: the recursions.
        taps: the positions that the stage's matrices read.
        m: inputs.
    """

    def __init__(self, inner: Stage | Merged, steps: Sequence[Step], taps: Taps, m: int) -> None:
        self._inner, self._reader = inner, Reader(taps, m // taps.positions)
        parts = [(k, part) for k, step in enumerate(steps) for part in step.parts]
        self._owners = [k for k, _ in parts]
        self._blocks = [part.blocks for _, part in parts]
        self.names, self.noises = tuple(step.target for step in steps), inner.noises

    def averages(self) -> list[Average]:
        """Of the brackets at each kernel, layer after layer."""
        return self._inner.averages()

    def degenerate(self, tensors: Sequence[Array]) -> Degenerate | None:
        """See `Stage.degenerate`."""
        return self._inner.degenerate(tensors)

    def passed(
        self, before: Both, parameters: Array, noise: Array, average: Sequence[Average]
    ) -> Both:
        """The tensors behind the stage, and their sizes; arguments as of `Stage.passed`."""
        parts = self._inner.passed(before, parameters, noise, average)
        found: list[Array] = [np.zeros(())] * len(self.names)
        sizes = list(found)
        for k, blocks, values, size in zip(self._owners, self._blocks, *parts, strict=True):
            found[k] = found[k] + self._summed(values, blocks, 1)
            sizes[k] = sizes[k] + self._summed(size, blocks, 0)
        return found, sizes

    def _summed(self, values: Array, blocks: Sequence[Sequence[int]], first: int) -> Array:
        """Over the taps, its samples' axes from `first` on; of a constant at all samples behind."""
        before, behind = self._reader.samples
        if not blocks and before != behind:
            shape = (behind,) * (values.ndim - first)
            corner = values.reshape(*values.shape[:first], -1)[..., :1]
            return np.broadcast_to(
                corner.reshape(*values.shape[:first], *(1,) * len(shape)),
                (*values.shape[:first], *shape),
            )
        moved = [[axis + first for axis in block] for block in blocks]
        return self._reader.summed(values, moved)
