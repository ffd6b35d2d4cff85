"""Inputs whose z is exactly zero, and the values of σ and its derivatives there.

Without biases an input of zeros has z = 0. So does every input behind weights of variance 0. The
average of a product of derivatives of σ is then its value at 0. On a kink it is undefined: σ'(0) of
ReLU is a convention. We represent it by nan, and define 0·nan = 0 (`program.product`). Tensors that
do not need the value are therefore exact; the others raise an error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import sympy

from derive.activations.functions import Activation, z
from derive.engine.tensors import Name, named
from derive.gaussian.distributions import distribution
from derive.gaussian.shapes import SingleShape
from derive.work.caches import cache

from ..arrays import Array


@cache(entries=4096)
def at_rest(activation: Activation, orders: tuple[int, ...], outer: int = 0) -> sympy.Expr:
    """(d/dz)^outer Π σ^{(order)} at z = 0, or nan if it jumps or is not a function there.

    With outer > 0 it is 0 instead of nan, because the factor that multiplies it is 0 at z = 0.
    """
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
    """The reason why a tensor is undefined.

    Attributes:
        sample: the sample with z = 0.
        order: the order of the derivative of σ that jumps at 0; None for a norm of zeros.
    """

    sample: int
    order: int | None


class UndefinedError(Exception):
    """Raised during a run by an undefined tensor; `at` adds the layer and the tensor."""

    layer, tensor = 0, named("K")

    def __init__(self, found: Degenerate) -> None:
        super().__init__(found)
        self.found = found

    def at(self, layer: int, tensor: Name | None = None) -> UndefinedError:
        """This error with the layer below and the tensor, K by default."""
        self.layer, self.tensor = layer, tensor or self.tensor
        return self


def on_kink(activation: Activation, K: Array) -> Degenerate | None:
    """The first sample with z = 0 at this kernel, (m, m) or (), where σ has a kink."""
    order = kink_at_zero(activation)
    resting = np.flatnonzero(np.atleast_2d(K).diagonal() == 0.0)
    return Degenerate(int(resting[0]), order) if order is not None and len(resting) else None
