"""Tensors at layer 1 as functions of averages over the inputs' entries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from derive.arithmetic.parameters import Parameter
from derive.arithmetic.polynomials import Atom
from derive.engine.atoms import read
from derive.engine.step import Step
from derive.engine.tensors import Tensor

from ..arrays import Array
from .program import Tables
from .vectors import Both, stacked, with_sizes


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


class Start:
    """The tensors at layer 1.

    Arguments:
        steps: the equation of each tensor at layer 1.
        parameters: the names of the hyperparameters.
        m: the number of inputs.

    Attributes:
        orders: the orders of the means (`input_means`) that the tensors depend on.
    """

    def __init__(self, steps: Sequence[Step], parameters: Sequence[str], m: int) -> None:
        self._parameters, self._m = list(parameters), m
        of_inputs = set().union(*(each.atoms(Tensor) for each in steps))
        self.orders = tuple(sorted({2, *(len(each.samples) for each in of_inputs)}))
        self._tables = Tables(steps, m, self._find)

    def _find(self, atom: Atom, inverse: bool) -> tuple[int, Sequence[int]]:
        """The column of an atom: after 1, the hyperparameters and their inverses."""
        count = len(self._parameters)

        def parameter(own: Parameter) -> tuple[int, Sequence[int]]:
            return 1 + self._parameters.index(own.name) + inverse * count, ()

        def tensor(own: Tensor) -> tuple[int, Sequence[int]]:
            before = sum(self._m**order for order in self.orders if order < len(own.samples))
            return 1 + 2 * count + before, own.samples

        return read(atom, parameter=parameter, tensor=tensor)

    def __call__(self, means: Array, parameters: Array) -> Both:
        """The tensors, (copies, m, m, …) each, and the sizes of those of the first copy.

        A size is the sum of the absolute values of a tensor's terms, (m, m, …).

        Arguments:
            means: `input_means` of `orders`.
            parameters: at layer 1, (copies, parameters).
        """
        inputs = np.broadcast_to(means.ravel(), (len(parameters), means.size))
        return self._tables(stacked(with_sizes(parameters), with_sizes(inputs)))
