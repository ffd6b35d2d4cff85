"""Brackets of piecewise analytic σ over several samples: the compiled panels of `brackets`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType

import numpy as np

from derive.activations.functions import Activation
from derive.gaussian.shapes import Shape

from ..arrays import Array
from ..brackets import module, several_inputs
from ..emit import modules


def averages(activation: Activation, shapes: Sequence[Shape], K: Array) -> tuple[Array, Array]:
    """Values and sizes, (shapes, t), at t covariances of the positions, (t, d, d)."""
    compiled = _module(activation, tuple(shapes))
    kernels = [getattr(compiled, several_inputs.kernel(activation, each)[0]) for each in shapes]
    found = np.array([[kernel(each) for each in K] for kernel in kernels])
    return found[..., 0], found[..., 1]


@cache
def _module(activation: Activation, shapes: tuple[Shape, ...]) -> ModuleType:
    return modules.load(module.module_source(activation, (), shapes), "brackets")
