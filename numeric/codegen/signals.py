"""Positions of signals: a module of several inputs has copies of what is here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array


class Reader(NamedTuple):
    """The positions that a stage reads.

    Attributes:
        taps: by tap the matrix from the positions that are read to those of the result, s^{-1/2} A.
        past: the same matrix of a skip past them, of rows with sum 1. It also keeps constants.
    """

    taps: Array
    past: Array

    def over_taps(self, values: Array, blocks: Sequence[Sequence[int]]) -> Array:
        """The sum over one tap for each block of axes; a skip reads along all other axes."""
        signals = np.eye(len(values) // self.past.shape[1])

        def read(matrix: Array, values: Array, axis: int) -> Array:
            found = np.tensordot(np.kron(signals, matrix), values, (1, axis))
            return np.moveaxis(found, 0, axis)

        for axis in set(range(values.ndim)) - {axis for block in blocks for axis in block}:
            values = read(self.past, values, axis)
        for block in blocks:
            found = [values] * len(self.taps)
            for axis in block:
                found = [read(tap, each, axis) for tap, each in zip(self.taps, found, strict=True)]
            values = np.sum(found, axis=0)
        return values


def check_positions(read: Sequence[tuple[int, int]], samples: int) -> None:
    """Raise ValueError unless each layer reads as many positions as the layers before it give.

    Arguments:
        read: of layers 2, 3, … the positions that are read, and those of the result; (0, 0) for a
            layer that keeps any positions.
        samples: at layer 1.
    """
    known = 0
    for layer, (positions, results) in enumerate(read, start=2):
        if positions:
            if known != positions if known else samples % positions:
                got = f"{known} positions" if known else f"{samples} samples"
                raise ValueError(f"layer {layer} reads signals of {positions} positions, not {got}")
            known = results
