"""Inputs whose z is zero with certainty, and what σ and its derivatives are there.

Without biases an input of zeros has z = 0, and so has every input behind weights of variance 0. A
product of derivatives of σ is then its value at 0. On a kink it has none: σ'(0) of ReLU is a
convention. Such a value is *unknown*, nan, and 0 times what is unknown is 0 (`program.product`), so
that tensors which do not need it are what they are, and the others are refused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import sympy

from derive.activations.functions import Activation, z
from derive.engine.tensors import Name, named
from derive.gaussian.shapes import SingleShape
from derive.work.caches import cache

from ..arrays import Array
from ..brackets.one_input import distribution


@cache(entries=4096)
def at_rest(activation: Activation, orders: tuple[int, ...], outer: int = 0) -> sympy.Expr:
    """(d/dz)^outer Π σ^{(order)} at z = 0; nan where it jumps there or is no function, but 0 with
    derivatives outside, for what they multiply has a factor z."""
    found = distribution(activation, SingleShape(orders, outer))
    unknown = sympy.Integer(0) if outer else sympy.nan
    if any(kink == 0 for kink, _ in found.deltas):
        return unknown
    near = {
        part.subs(z, 0)
        for part, piece in zip(found.pieces, activation.pieces, strict=True)
        if piece.lower <= 0 <= piece.upper
    }
    return near.pop() if len(near) == 1 else unknown


def kink_at_zero(activation: Activation) -> int | None:
    """The order of the first derivative of σ that jumps at 0; None without a kink there."""
    if 0 not in activation.kinks:
        return None
    return next((order for order in (0, 1) if 0 in activation.jumps(order)), 2)


class Degenerate(NamedTuple):
    """Why a tensor has no value: what is 0, and what has no value there.

    Attributes:
        sample: of which z is 0.
        order: of the derivative of σ that jumps at 0; None for the norm of a vector of zeros.
    """

    sample: int
    order: int | None


class UndefinedError(Exception):
    """A tensor without a value, where a run comes to it: behind this layer, once that is known."""

    layer, tensor = 0, named("K")

    def __init__(self, found: Degenerate) -> None:
        super().__init__(found)
        self.found = found

    def at(self, layer: int, tensor: Name | None = None) -> UndefinedError:
        """The same with the number of the layer below, and the tensor; K by default."""
        self.layer, self.tensor = layer, tensor or self.tensor
        return self


def on_kink(activation: Activation, K: Array) -> Degenerate | None:
    """The first sample with z = 0 at this kernel, (m, m) or (), where σ has a kink."""
    order = kink_at_zero(activation)
    resting = np.flatnonzero(np.atleast_2d(K).diagonal() == 0.0)
    return Degenerate(int(resting[0]), order) if order is not None and len(resting) else None
