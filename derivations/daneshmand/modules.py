"""Networks layer by layer in NumPy, with batch normalization and convolutions, and their gradients.

A module takes x to y and, from ∂L/∂y, gives ∂L/∂x and the gradient of its own weights. What a
layer of `numeric.training` cannot be, one that ties the images of a batch, is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from derive.errors import InputError
from numeric.arrays import Array
from numeric.training.losses import log_softmax


class Module(ABC):
    """A map of a batch, with what of it is trained: `parameters`, changed in place."""

    parameters: tuple[Array, ...] = ()

    @abstractmethod
    def forward(self, x: Array) -> tuple[Array, Any]:
        """y, and what `backward` needs."""

    @abstractmethod
    def backward(self, back: Array, kept: Any) -> tuple[Array, tuple[Array, ...]]:
        """∂L/∂x from ∂L/∂y, and the gradient of each of the parameters."""


class Linear(Module):
    """y = x Wᵀ + b, x (images, n_in).

    Arguments:
        W: (n_out, n_in).
    """

    def __init__(self, W: Array) -> None:
        self.parameters = np.array(W, float), np.zeros(len(W))

    def forward(self, x: Array) -> tuple[Array, Any]:
        """y, (images, n_out)."""
        W, b = self.parameters
        return x @ W.T + b, x

    def backward(self, back: Array, kept: Any) -> tuple[Array, tuple[Array, ...]]:
        """∂L/∂x, and of W and b."""
        return back @ self.parameters[0], (back.T @ kept, back.sum(axis=0))


class Convolution(Module):
    """Two-dimensional, of odd size k with zero padding: (images, channels, side, side).

    y = fold(W unfold(x)) + b, (30) of source 003.

    Arguments:
        W: (channels out, channels in · k²).
        size: k.
    """

    def __init__(self, W: Array, size: int = 3) -> None:
        if size % 2 == 0:
            raise InputError("size", size, "an odd number")
        self.parameters, self.size = (np.array(W, float), np.zeros(len(W))), size

    def forward(self, x: Array) -> tuple[Array, Any]:
        """y, of the same sides."""
        W, b = self.parameters
        patches = unfold(x, self.size)
        y = W @ patches + b[:, None]
        return fold(y, x), (patches, x.shape)

    def backward(self, back: Array, kept: Any) -> tuple[Array, tuple[Array, ...]]:
        """∂L/∂x, and of W and b."""
        patches, shape = kept
        flat = back.transpose(1, 0, 2, 3).reshape(back.shape[1], -1)
        W = self.parameters[0]
        onto = (W.T @ flat).reshape(shape[1], self.size, self.size, shape[0], shape[2], shape[3])
        around = self.size // 2
        wide = np.zeros((shape[0], shape[1], shape[2] + 2 * around, shape[3] + 2 * around))
        for i in range(self.size):
            for j in range(self.size):
                part = onto[:, i, j].transpose(1, 0, 2, 3)
                wide[:, :, i : i + shape[2], j : j + shape[3]] += part
        inner = slice(around, around + shape[2]), slice(around, around + shape[3])
        return wide[:, :, inner[0], inner[1]], (flat @ patches.T, flat.sum(axis=1))


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


class BatchNorm(Module):
    """Each feature over its deviation in the batch, of images and positions, less its mean: (1) of
    source 003, with the mean correction that it leaves out, as it is commonly used.

    Arguments:
        eps: added to the variance.
    """

    def __init__(self, eps: float = 1e-5) -> None:
        self.eps = eps

    def forward(self, x: Array) -> tuple[Array, Any]:
        """y, of the shape of x."""
        over = tuple(axis for axis in range(x.ndim) if axis != 1)
        centred = x - x.mean(axis=over, keepdims=True)
        size = np.sqrt((centred**2).mean(axis=over, keepdims=True) + self.eps)
        return centred / size, (centred / size, size, over)

    def backward(self, back: Array, kept: Any) -> tuple[Array, tuple[Array, ...]]:
        """∂L/∂x."""
        y, size, over = kept
        along = (back * y).mean(axis=over, keepdims=True)
        return (back - back.mean(axis=over, keepdims=True) - y * along) / size, ()


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Array) -> tuple[Array, Any]:
        """y."""
        return np.maximum(x, 0), x > 0

    def backward(self, back: Array, kept: Any) -> tuple[Array, tuple[Array, ...]]:
        """∂L/∂x."""
        return back * kept, ()


class MaxPool(Module):
    """The largest of each 2 × 2 pixels."""

    def forward(self, x: Array) -> tuple[Array, Any]:
        """y, of half the sides; InputError for odd ones."""
        images, channels, rows, columns = x.shape
        if rows % 2 or columns % 2:
            raise InputError("images", f"{rows} × {columns} pixels", "even sides, to be pooled")
        cut = x.reshape(images, channels, rows // 2, 2, columns // 2, 2)
        y = cut.max(axis=(3, 5))
        chosen = cut == y[:, :, :, None, :, None]
        share = chosen / chosen.sum(axis=(3, 5), keepdims=True)
        return y, share

    def backward(self, back: Array, kept: Any) -> tuple[Array, tuple[Array, ...]]:
        """∂L/∂x, shared by pixels that are equal."""
        spread = back[:, :, :, None, :, None] * kept
        images, channels, rows, _, columns, _ = spread.shape
        return spread.reshape(images, channels, 2 * rows, 2 * columns), ()


class Flatten(Module):
    """All pixels of all channels in a row."""

    def forward(self, x: Array) -> tuple[Array, Any]:
        """y, (images, n)."""
        return x.reshape(len(x), -1), x.shape

    def backward(self, back: Array, kept: Any) -> tuple[Array, tuple[Array, ...]]:
        """∂L/∂x."""
        return back.reshape(kept), ()


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
    kept = []
    for each in modules:
        x, memory = each.forward(x)
        kept.append(memory)
    logs = log_softmax(x)
    lost = -float((targets * logs).sum(axis=1).mean())
    back = (np.exp(logs) - targets) / len(x)
    found: list[tuple[Array, ...]] = []
    for each, memory in zip(reversed(modules), reversed(kept), strict=True):
        back, own = each.backward(back, memory)
        found.append(own)
    return lost, found[::-1]
