"""Brackets over positions, each with one factor and its own derivatives outside, for any σ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from derive.activations.functions import Activation
from derive.gaussian.shapes import Shape

from ..arrays import Array
from ..brackets import pieces
from . import kinked, piecewise_linear, several_samples


def averages(activation: Activation, shapes: Sequence[Shape], K: Array) -> Array:
    """⟨∂^outer Π_p σ^{(orders_p)}(z_p)⟩ over z ~ N(0, K).

    Arguments:
        shapes: all of the same number d of positions.
        K: (t, d, d), the positions' covariances, singular or not.

    Returns:
        An array (len(shapes), t). nan where K is no covariance, and where there is no average.

    Raises:
        InputError: where more than four positions are independent.
    """
    if not activation.is_smooth:
        straight = pieces.table(activation) is not None
        rule = piecewise_linear.averages if straight else kinked.averages
        return rule(activation, shapes, K)[0]
    orders = [tuple((a + b,) for a, b in zip(*shape, strict=True)) for shape in shapes]
    sums = several_samples.Sums(activation, orders)
    return np.array([sums(each)[0] for each in K]).T
