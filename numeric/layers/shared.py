"""Averages over exchangeable samples of an analytic σ: given what they share they are independent.

With variances q and covariances 0 ≤ p ≤ q, z_s = √p y + √(q − p) x_s for independent normal y and
x_s, so that over any number of samples

    ⟨Π_s f_s(z_s)⟩ = ∫ Dy Π_s g_s(y),        g_s(y) = ∫ Dx f_s(√p y + √(q − p) x).

These are sums over a plane, by the trapezoid rule of `several_samples`. (Derived here.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import mul

import numpy as np

from derive.activations.functions import Activation

from ..arrays import Array
from ..brackets.quadrature import accuracy
from . import sigma
from .one_sample import product
from .several_samples import Orders, Suffix, Sums
from .sigma import orders_of

_HELD, _MOST = 1 << 15, 1 << 24
"""Nodes that are held at a time, more or less; and the most that a plane has."""


class SharedSums:
    """Sums for exchangeable samples, two or more in each bracket.

    Arguments:
        activation: an analytic σ.
        products: for each bracket the orders at each of its samples.
    """

    def __init__(self, activation: Activation, products: Sequence[Suffix]) -> None:
        self._activation, self._products = activation, list(products)
        self._rule = Sums(activation, self._products)
        self._heads = sorted({head for each in self._products for head in each})
        self._most = max(map(len, self._products))

    def __call__(self, q: float, p: float) -> Array | None:
        """The brackets and their sizes, (2, brackets); None where this rule has no step."""
        scale = np.sqrt([p, q - p])
        digits = accuracy(2)
        h = self._rule.step(scale, 2, digits)
        reach = float(self._rule.reach(2, scale.sum() * self._most, digits))
        if np.isnan(h).any() or (2.0 * reach) ** 2 / h.prod() > _MOST:
            return None
        (y, of_y), (x, of_x) = (_nodes(step, reach) for step in h.tolist())
        found = np.zeros((2, len(self._products)))
        step = max(1, _HELD // len(x))
        for begin in range(0, len(y), step):
            part = slice(begin, begin + step)
            found += self._part(scale[0] * y[part, None] + scale[1] * x, of_x) @ of_y[part]
        found[1] *= 1.0 + math.exp(accuracy(1) - digits)  # the rule's own error
        return found

    def _part(self, z: Array, weights: Array) -> Array:
        """The products given y, and those of absolute values: (2, brackets, nodes)."""
        orders = orders_of(self._heads)
        values = dict(zip(orders, sigma.derivatives(self._activation, orders)(z), strict=True))
        known: dict[Orders, Array] = {(): np.ones_like(z)}
        given: dict[Orders, Array] = {}
        for head in self._heads:
            factor = product(known, values, head)
            given[head] = np.array([factor @ weights, np.abs(factor) @ weights])
        each = [reduce(mul, (given[head] for head in heads)) for heads in self._products]
        return np.array(each).swapaxes(0, 1)


def _nodes(step: float, reach: float) -> tuple[Array, Array]:
    """The trapezoid rule of a normal variable."""
    most = math.ceil(reach / step)
    at = step * np.arange(-most, most + 1)
    weights = np.exp(-0.5 * at * at) * (step / math.sqrt(2.0 * math.pi))
    return np.asarray(at), np.asarray(weights)
