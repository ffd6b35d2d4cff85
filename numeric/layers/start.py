"""Tensors at layer 1 as functions of averages over the inputs' entries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from derive.engine.step import Step
from derive.engine.tensors import Name, Tensor, identify, named

from ..arrays import Array
from ..checks import Inputs
from .vectors import Estimate, joined


class Passes(Protocol):
    """The recursions through one stage, such as `stages.Stage`."""

    def passed(
        self, before: Estimate, parameters: Array, noise: Array, average: list[Any], /
    ) -> Estimate:
        """The tensors behind the stage, and their sizes."""


def input_means(X: Array, orders: Sequence[int], scale: float = 1.0) -> Array:
    """The means (1/n_0) Σ_k Π_a x_ak of inputs (m, n_0): the kernel XXᵀ/n_0, and higher orders.

    Arguments:
        orders: the number of factors of each mean; 2 is the kernel.
        scale: divides the kernel.
    """
    kernel = X @ X.T / X.shape[1]
    if scale != 1.0:
        kernel = kernel / scale
    if tuple(orders) == (2,):
        return np.asarray(kernel)
    parts = [kernel.reshape(-1)]
    for order in orders[1:]:
        operands: list[object] = []
        for axis in range(order):
            operands += [X, [axis, order]]
        mean = np.einsum(*operands, list(range(order))) / X.shape[1]  # type: ignore[call-overload]
        parts.append(mean.reshape(-1) / scale ** (order / 2))
    return np.concatenate(parts)


def means_at(data: Inputs, orders: Sequence[int], scale: float = 1.0) -> Array:
    """`input_means` of the inputs; of exchangeable ones q and p themselves, without rounding."""
    if data.exchangeable is None:
        return input_means(data.X, orders, scale)
    q, p = (float(each) / scale for each in data.exchangeable.numbers)
    return np.where(np.eye(len(data.X), dtype=bool), q, p)


def means_of(steps: Iterable[Step]) -> list[Name]:
    """The means over the inputs' entries in the equations of layer 1, and always the kernel."""
    found = {identify(atom)[0] for each in steps for atom in each.atoms(Tensor)}
    return sorted({named("K"), *found}, key=lambda name: len(name.subscripts))


def at_layer_1(
    passages: Iterable[Passes], below: Sequence[Name], m: int, means: Array, parameters: Array
) -> Estimate:
    """The tensors behind these passages from the inputs, one after another, and their sizes.

    Arguments:
        below: the means in front of the passages.
        m: the number of inputs.
        means: their `input_means`; those of higher orders may follow.
        parameters: at layer 1, (copies, parameters).
    """
    shapes = [(m,) * len(name.subscripts) if m > 1 else () for name in below]
    parts = np.split(means.ravel(), np.cumsum([math.prod(shape) for shape in shapes]))
    arrays = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)]
    copies = [np.broadcast_to(each, (len(parameters), *each.shape)) for each in arrays]
    before, none = (copies, [np.abs(each) for each in arrays]), np.zeros((len(parameters), 0))
    return joined([each.passed(before, parameters, none, []) for each in passages])
