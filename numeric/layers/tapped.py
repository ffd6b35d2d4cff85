"""Sums over the taps of a convolution, of arrays over samples (`derive.engine.taps`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from derive.engine.step import Step
from derive.engine.taps import Taps, matrices
from derive.work.caches import cache

from ..arrays import Array
from .resting import Degenerate
from .stages import Average, Stage
from .vectors import Estimate


class Reader:
    """The windows that matrices of a convolution read from arrays over signals' positions.

    Arguments:
        taps: the positions that they read.
        signals: how many signals there are; a sample is α·positions + p.

    Attributes:
        samples: of what is read, and of the result.
        matrices: A of each tap, between all samples.
    """

    def __init__(self, taps: Taps, signals: int) -> None:
        self.samples = signals * taps.positions, signals * taps.results
        self._scale = taps.count**-0.5
        self.matrices = _between_samples(taps, signals)

    @property
    def count(self) -> int:
        """How many taps there are."""
        return len(self.matrices)

    def read(self, tap: int, values: Array, axis: int) -> Array:
        """Σ A values of a tap, times s^{-1/2}, along an axis of samples."""
        read: Array = self.summed(tap, values, axis) * self._scale
        return read

    def summed(self, tap: int, values: Array, axis: int) -> Array:
        """Σ A values of a tap, along an axis of samples."""
        A, moved = self.matrices[tap], np.moveaxis(values, axis, 0)
        found = A @ moved.reshape(len(moved), -1)
        return np.moveaxis(found.reshape(-1, *moved.shape[1:]), 0, axis)

    def over_taps(self, values: Array, blocks: Sequence[Sequence[int]]) -> Array:
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


@cache(entries=64)
def _between_samples(taps: Taps, signals: int) -> list[sparse.csr_array]:
    """A of each tap, between the samples of so many signals; every layer has its own reader."""
    every = sparse.eye_array(signals)
    return [sparse.csr_array(sparse.kron(every, each)) for each in matrices(taps)]


class Tapped:
    """The recursions through a convolution: of the dense layer, and then sums over taps.

    Arguments:
        inner: of the parts of these recursions, without taps.
        steps: the recursions.
        taps: the positions that the stage's matrices read.
        m: inputs.
    """

    def __init__(self, inner: Stage, steps: Sequence[Step], taps: Taps, m: int) -> None:
        self._inner, self._reader = inner, Reader(taps, m // taps.positions)
        parts = [(k, part) for k, step in enumerate(steps) for part in step.parts]
        self._owners = [k for k, _ in parts]
        self._blocks = [part.blocks for _, part in parts]
        self._ranks = [len(part.target.subscripts) for _, part in parts]
        signals = m // taps.positions
        self._past = None if taps.past is None else Reader(taps.past, signals)
        self._sizes = Reader(taps.absolute, signals)
        self.names, self.noises = tuple(step.target for step in steps), inner.noises

    def averages(self) -> list[Average]:
        """Of the brackets at each kernel, layer after layer."""
        return self._inner.averages()

    def degenerate(self, tensors: Sequence[Array]) -> Degenerate | None:
        """See `Stage.degenerate`."""
        return self._inner.degenerate(tensors)

    def passed(
        self, before: Estimate, parameters: Array, noise: Array, average: Sequence[Average]
    ) -> Estimate:
        """The tensors behind the stage, and their sizes; arguments as of `Stage.passed`."""
        parts = self._inner.passed(before, parameters, noise, average)
        found: list[Array] = [np.zeros(())] * len(self.names)
        sizes = list(found)
        how = self._owners, self._blocks, self._ranks
        for k, blocks, rank, values, size in zip(*how, *parts, strict=True):
            found[k] = found[k] + self._behind(values, blocks, rank, self._reader)
            sizes[k] = sizes[k] + self._behind(size, blocks, rank, self._sizes)
        return found, sizes

    def _behind(
        self, values: Array, blocks: Sequence[Sequence[int]], rank: int, reader: Reader
    ) -> Array:
        """Over the taps, along the last axes, those of samples; along axes that no tap moves, what
        the skip reads, or a constant, such as of biases. No axes are there of one sample."""
        before, behind = reader.samples
        lead = values.shape[: values.ndim - (rank if before > 1 else 0)]
        values = values.reshape(*lead, *(before,) * rank)
        tied = {axis for block in blocks for axis in block}
        for axis in range(len(lead), values.ndim):
            if axis - len(lead) in tied:
                continue
            if self._past is not None:
                values = self._past.summed(0, values, axis)
            elif before != behind:
                values = np.repeat(np.take(values, [0], axis), behind, axis)
        moved = [[axis + len(lead) for axis in block] for block in blocks]
        values = reader.over_taps(values, moved)
        return values if behind > 1 else values.reshape(lead)
