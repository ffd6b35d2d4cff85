"""Networks layer by layer in NumPy, with batch normalization and convolutions, and their gradients.

A module takes x to y and to a function that takes ∂L/∂y to ∂L/∂x and to the gradients of its
parameters. What a layer of `numeric.training` cannot be, one that ties the images of a batch, is
here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from derive.errors import InputError
from numeric.arrays import Array
from numeric.training.losses import log_softmax

Back = Callable[[Array], tuple[Array, tuple[Array, ...]]]


class Module(NamedTuple):
    """A map of a batch, with what of it is trained: `parameters`, changed in place."""

    forward: Callable[[Array], tuple[Array, Back]]
    parameters: tuple[Array, ...] = ()


def linear(W: Array) -> Module:
    """y = x Wᵀ + b with W (n_out, n_in), of x (images, n_in)."""
    W, b = np.array(W, float), np.zeros(len(W))

    def forward(x: Array) -> tuple[Array, Back]:
        return x @ W.T + b, lambda back: (back @ W, (back.T @ x, back.sum(axis=0)))

    return Module(forward, (W, b))


def convolution(W: Array, size: int = 3) -> Module:
    """Two-dimensional, of odd size k with zero padding: (images, channels, side, side).

    y = fold(W unfold(x)) + b, (30) of source 003, with W (channels out, channels in · k²).
    """
    if size % 2 == 0:
        raise InputError("size", size, "an odd number")
    W, b = np.array(W, float), np.zeros(len(W))

    def forward(x: Array) -> tuple[Array, Back]:
        patches = unfold(x, size)

        def backward(back: Array) -> tuple[Array, tuple[Array, ...]]:
            flat = back.transpose(1, 0, 2, 3).reshape(back.shape[1], -1)
            images, channels, rows, columns = x.shape
            onto = (W.T @ flat).reshape(channels, size, size, images, rows, columns)
            around = size // 2
            wide = np.zeros((images, channels, rows + 2 * around, columns + 2 * around))
            for i in range(size):
                for j in range(size):
                    part = onto[:, i, j].transpose(1, 0, 2, 3)
                    wide[:, :, i : i + rows, j : j + columns] += part
            inner = wide[:, :, around : around + rows, around : around + columns]
            return inner, (flat @ patches.T, flat.sum(axis=1))

        return fold(W @ patches + b[:, None], x), backward

    return Module(forward, (W, b))


def unfold(x: Array, size: int) -> Array:
    """The patches of size × size around each pixel, zeros beyond the border: (channels · size²,
    images · pixels)."""
    images, channels, rows, columns = x.shape
    around = size // 2
    wide = np.zeros((channels, images, rows + 2 * around, columns + 2 * around))
    wide[:, :, around : around + rows, around : around + columns] = x.transpose(1, 0, 2, 3)
    seen = np.empty((channels, size, size, images, rows, columns))
    for i in range(size):
        for j in range(size):
            seen[:, i, j] = wide[:, :, i : i + rows, j : j + columns]
    return seen.reshape(channels * size * size, -1)


def fold(y: Array, like: Array) -> Array:
    """(channels, images · pixels) as (images, channels, side, side)."""
    shape = len(y), like.shape[0], like.shape[2], like.shape[3]
    return np.ascontiguousarray(y.reshape(shape).transpose(1, 0, 2, 3))


def batch_norm(eps: float = 1e-5) -> Module:
    """Each feature over its deviation in the batch, of images and positions, less its mean: (1) of
    source 003, with the mean correction that it leaves out, as it is commonly used.

    `eps` is added to the variance.
    """

    def forward(x: Array) -> tuple[Array, Back]:
        over = tuple(axis for axis in range(x.ndim) if axis != 1)
        centred = x - x.mean(axis=over, keepdims=True)
        size = np.sqrt((centred**2).mean(axis=over, keepdims=True) + eps)
        y = centred / size

        def backward(back: Array) -> tuple[Array, tuple[Array, ...]]:
            along = (back * y).mean(axis=over, keepdims=True)
            return (back - back.mean(axis=over, keepdims=True) - y * along) / size, ()

        return y, backward

    return Module(forward)


RELU = Module(lambda x: (np.maximum(x, 0), lambda back: (back * (x > 0), ())))
"""max(x, 0)."""
FLATTEN = Module(lambda x: (x.reshape(len(x), -1), lambda back: (back.reshape(x.shape), ())))
"""All pixels of all channels in a row: (images, n)."""


def _pooled(x: Array) -> tuple[Array, Back]:
    images, channels, rows, columns = x.shape
    if rows % 2 or columns % 2:
        raise InputError("images", f"{rows} × {columns} pixels", "even sides, to be pooled")
    cut = x.reshape(images, channels, rows // 2, 2, columns // 2, 2)
    y = cut.max(axis=(3, 5))
    chosen = cut == y[:, :, :, None, :, None]
    share = chosen / chosen.sum(axis=(3, 5), keepdims=True)
    return y, lambda back: ((back[:, :, :, None, :, None] * share).reshape(x.shape), ())


MAX_POOL = Module(_pooled)
"""The largest of each 2 × 2 pixels; the gradient is shared by those that are equal."""


def outputs(modules: Sequence[Module], x: Array) -> list[Array]:
    """The outputs of each module."""
    found = []
    for each in modules:
        x = each.forward(x)[0]
        found.append(x)
    return found


def gradients(
    modules: Sequence[Module], x: Array, targets: Array
) -> tuple[float, list[tuple[Array, ...]]]:
    """The mean cross-entropy of a batch, and its gradient by each module's parameters."""
    backs = []
    for each in modules:
        x, back = each.forward(x)
        backs.append(back)
    logs = log_softmax(x)
    lost = -float((targets * logs).sum(axis=1).mean())
    slope = (np.exp(logs) - targets) / len(x)
    found: list[tuple[Array, ...]] = []
    for back in reversed(backs):
        slope, own = back(slope)
        found.append(own)
    return lost, found[::-1]
