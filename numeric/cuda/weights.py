"""Matrices of a layer on a GPU: `probing.weighted` and `jet_kernels.vary`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda

from ..random.lazy import COLUMN, DIAGONAL, FACTOR, HAAR, Step
from ..random.philox import padded
from . import kernels
from .device import THREADS, Rooms, blocks

Source = tuple[Any, Any, int]
"""The key of the random numbers and the networks, on the device, and the stream of a matrix."""


def weighted(S: Any, X: Any, steps: Sequence[Step], source: Source, room: Rooms, out: Any) -> Any:
    """W X of each network, through the factors of W, the first to act first.

    Arguments:
        S: X Xᵀ/n_in of each.
        out: for the result, (networks, vectors, n).
    """
    count, vectors, _ = X.shape
    grid, (key, draws, stream) = (blocks(count), THREADS), source
    for t, step in enumerate(steps):
        last = t == len(steps) - 1
        Z = out if last else room.neurons(f"step{t}", (count, vectors, step.size))
        if step.kind == DIAGONAL:
            roots = cuda.to_device(np.sqrt(step.values))
            kernels.multiply_rows[grid](X, Z, roots, step.scale)
        else:
            n_in, drawn = X.shape[2], drawn_of(step)
            kernels.apply[grid](
                S,
                X,
                Z,
                room.neurons("G", (count, vectors, padded(drawn))),
                room("matrices", (count, 3, vectors, vectors)),
                room("spare", (count, 2, vectors, n_in)),
                room("squares", (count, 2, vectors)),
                key,
                draws,
                (step.kind, drawn, stream, COLUMN + FACTOR * t),
                float(step.scale * np.sqrt(n_in)),
            )
        X = Z
        if not last:
            S = room("inner", S.shape)
            kernels.gram[grid](X, S)
    return X


def vary(
    S: Any,
    X: Any,
    Z: Any,
    rates: tuple[float, float],
    raising: Any,
    samples: int,
    source: Source,
    room: Rooms,
) -> None:
    """Add to W X the terms of the layer's own parameters."""
    count, vectors, n_in = X.shape
    key, draws, stream = source
    kernels.vary[blocks(count), THREADS](
        S,
        X,
        Z,
        room("T", (count, vectors, vectors)),
        room("factors", (count, 2, vectors + 1, vectors)),
        room("spare", (count, 2, vectors, n_in)),
        room("squares", (count, 2, vectors)),
        room("words", (count, vectors + 1, 4 * -(-Z.shape[2] // 128)), "u8"),
        key,
        draws,
        stream,
        rates,
        raising,
        samples,
    )


def drawn_of(step: Step) -> int:
    """Normals of a column."""
    return step.big if step.kind == HAAR else step.size
