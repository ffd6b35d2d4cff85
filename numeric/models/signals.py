"""The positions that the matrices of a model read: filters, windows, signals laid flat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from derive.engine.taps import ALONE, Row, Taps, matrices
from derive.layers import convolution, flattening, pooling
from derive.layers.convolutions import Padding

from ..arrays import Array


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


def selected(shape: tuple[int, ...], at: Sequence[Sequence[int]]) -> Taps:
    """These of the positions along each axis; none, where a boundary of zeros is, for −1."""
    places = np.full([P + 1 for P in shape], -1)
    places[tuple(slice(P) for P in shape)] = np.arange(math.prod(shape)).reshape(shape)
    return _reading(places[np.ix_(*at)], shape)


def side_by_side(parts: Sequence[Taps], axis: int) -> Taps:
    """Parts that read the same positions, one behind another along an axis.

    Each reads one position at most for each of its own, as `selected` does.
    """
    places = [
        np.array([row[0][0] if row else -1 for row in each.reads[0]]).reshape(each.into)
        for each in parts
    ]
    return _reading(np.concatenate(places, axis=axis), parts[0].shape)


def _reading(places: NDArray[np.int64], shape: tuple[int, ...]) -> Taps:
    reads = tuple(((int(p), 1.0),) if p >= 0 else () for p in places.ravel())
    return Taps((reads,), shape, places.shape)


def flat(shape: tuple[int, ...]) -> Taps:
    """Of a matrix whose columns have all positions side by side."""
    return dict(flattening(shape).tapped)["W"]


def composed(behind: Taps, before: Taps) -> Taps:
    """A^{(k)} B, one of them with one tap."""
    if ALONE in (behind, before):
        return before if behind == ALONE else behind
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
    return np.concatenate(taps.read(X, lambda by, body: [*(matrices(by)[:, None] @ body)]), axis=-1)
