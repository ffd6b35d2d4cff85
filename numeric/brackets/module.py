"""Gaussian brackets ⟨∂^{outer} Π_p σ^{(order_p)}(z_p)⟩_K as source of numba kernels.

The functions return pieces of a module's source, to put after `modules.PRELUDE` in this order:
`support_source`, then `single_source` (all positions at one z) and `multi_source` (1 to 8
positions, each at its own). Such a module needs numpy and numba alone; `evaluate` makes one.

What bounds the error is told in `quadrature`. For analytic σ it is 2e^{−36} ≈ 5e-16 of the
integrand's size with one latent variable, and 3e-15, 3e-14 and 2e-13 with two, three and four; for
piecewise linear ones near 1e-15, and for other piecewise ones near 1e-14, 1e-13, 1e-10 and 1e-9.
Cancellation within the integrand comes on top.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.gaussian.shapes import Shape, SingleShape
from derive.work.caches import cache

from ..emit import modules
from . import one_input, pieces, quadrature, several_inputs
from .several_inputs import bracket_name
from .shapes import MAX_INPUTS, check, describe


def evaluate(activation: Activation, shape: SingleShape | Shape, K: ArrayLike) -> float:
    """The bracket of this shape at K.

    Arguments:
        K: the variance, 0 or more, for a `SingleShape`; the positions' covariance (d, d) for a
            `Shape`: symmetric, positive semidefinite to rounding, singular or not.

    Raises:
        InputError: for another K, and where the bracket is not finite, as for ⟨σ''⟩_0 of ReLU.
    """
    if isinstance(shape, SingleShape):
        (value,) = _module(activation, (shape,), ()).brackets(_variance(K))
    else:
        function = getattr(_module(activation, (), (shape,)), bracket_name(shape))
        value = function(_covariance(K, len(shape.orders)))
    if not math.isfinite(value):
        rank = int(np.linalg.matrix_rank(np.asarray(K, float))) if isinstance(shape, Shape) else 1
        if rank > MAX_INPUTS:
            raise InputError(
                "K", f"one of rank {rank}", f"a covariance of rank {MAX_INPUTS} at most"
            )
        raise InputError(
            "K", K, f"a kernel at which {describe(shape)} of {activation.name} is finite"
        )
    return float(value)


def module_source(
    activation: Activation, single: Sequence[SingleShape] = (), multi: Sequence[Shape] = ()
) -> str:
    """A whole module with the brackets of these shapes."""
    parts = [modules.PRELUDE, support_source(activation)]
    parts += [single_source(activation, single)] if single else []
    parts += [multi_source(activation, multi)] if multi else []
    return "\n\n".join(parts)


def support_source(activation: Activation) -> str:
    """The source of functions that the other pieces call, once per module."""
    return quadrature.support_source(activation)


def single_source(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets(K)`: a tuple of the brackets of these shapes, summed in one loop.

    K = 0 gives the limit, ±inf where there is none; K outside [0, ∞) gives nan.
    """
    _check(shapes)
    emit = one_input.smooth_source if activation.is_smooth else one_input.kinked_source
    return emit(activation, shapes)


def multi_source(activation: Activation, shapes: Sequence[Shape]) -> str:
    """For each shape a function `bracket_name(shape)` of K, the (d, d) covariance of its positions.

    Positions may coincide, be collinear or vanish. A K with no finite bracket gives nan, one of a
    rank above 4 included.

    Raises:
        InputError: for more than 8 positions.
    """
    _check(shapes)
    emit = several_inputs.smooth_source if activation.is_smooth else several_inputs.kinked_source
    if pieces.table(activation) is not None:
        emit = several_inputs.linear_source
    return emit(activation, list(dict.fromkeys(shapes)))


def _check(shapes: Sequence[SingleShape | Shape]) -> None:
    if not shapes:
        raise InputError("shapes", shapes, "one shape or more")
    for shape in shapes:
        check(shape)


def _variance(K: ArrayLike) -> float:
    value = np.asarray(K, float)
    if value.ndim != 0 or not 0 <= value < math.inf:
        raise InputError("K", K, "a finite variance, 0 or more")
    return float(value)


def _covariance(K: ArrayLike, d: int) -> NDArray[np.float64]:
    value = np.array(K, float)
    if value.shape != (d, d) or not np.isfinite(value).all():
        raise InputError("K", K, f"a finite covariance of shape ({d}, {d})")
    rounding = 1e-10 * max(np.abs(value).max(), np.finfo(float).tiny)
    if np.abs(value - value.T).max() > rounding or np.linalg.eigvalsh(value)[0] < -rounding:
        raise InputError("K", K, "a symmetric, positive semidefinite covariance")
    symmetric: NDArray[np.float64] = 0.5 * (value + value.T)
    return symmetric


@cache
def _module(
    activation: Activation, single: tuple[SingleShape, ...], multi: tuple[Shape, ...]
) -> ModuleType:
    return modules.load(module_source(activation, single, multi), "brackets")
