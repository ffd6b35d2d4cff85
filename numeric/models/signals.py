"""The positions that the matrices of a model read: filters, windows, signals laid flat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from derive.engine.taps import Row, Taps
from derive.layers import convolution, flattening, pooling
from derive.layers.convolutions import Padding

from ..arrays import Array
from ..layers.tapped import matrices


def filters(
    shape: tuple[int, ...],
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[Padding],
    dilation: Sequence[int],
    *,
    circular: bool = False,
) -> Taps:
    """Of a convolution; see `layers.convolution`."""
    made = convolution(
        tuple(size),
        shape,
        boundary="circular" if circular else "zero",
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
    )
    return replace(dict(made.tapped)["W"], past=None)


def windows(shape: tuple[int, ...], size: Sequence[int], stride: Sequence[int]) -> Taps:
    """Of average pooling; see `layers.pooling`."""
    made = pooling(shape, tuple(size), tuple(stride))
    return replace(dict(made.tapped)["W"], past=None)


def everywhere(shape: tuple[int, ...]) -> Taps:
    """Of the mean over all positions."""
    return replace(dict(pooling(shape).tapped)["W"], past=None)


def flat(shape: tuple[int, ...]) -> Taps:
    """Of a matrix whose columns have all positions side by side."""
    return dict(flattening(shape).tapped)["W"]


def composed(behind: Taps | None, before: Taps) -> Taps:
    """A^{(k)} B, one of them with one tap."""
    if behind is None:
        return before
    reads = tuple(
        tuple(_composed(row, inner) for row in outer)
        for outer in behind.reads
        for inner in before.reads
    )
    return Taps(reads, before.shape, behind.into)


def _composed(row: Row, inner: tuple[Row, ...]) -> Row:
    found: dict[int, float] = {}
    for p, a in row:
        for q, b in inner[p]:
            found[q] = found.get(q, 0.0) + a * b
    return tuple(sorted(found.items()))


def chosen(taps: Taps, kept: Sequence[bool]) -> Taps:
    """The taps that are kept."""
    reads = (each for each, is_kept in zip(taps.reads, kept, strict=True) if is_kept)
    return replace(taps, reads=tuple(reads))


def patches(X: Array, taps: Taps) -> Array:
    """Signals (m, positions, channels) as a matrix meets them, (m, results, taps·channels)."""
    found: Array = np.einsum("ktp,mpc->mtkc", matrices(taps), X)
    return found.reshape(len(X), taps.results, -1)
