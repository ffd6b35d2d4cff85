"""Activations and their derivatives on a GPU."""

from __future__ import annotations

from types import ModuleType

from derive.activations.functions import Activation, z
from derive.work.caches import cache

from ..emit import modules, printer

_ACTIVATION = '''\
"""An activation and its derivatives on a GPU: {name}."""

import math

from numba import cuda

scalar = cuda.jit(device=True)

{sigma}

@cuda.jit
def differentiate(Z, out):
    """The derivatives of σ at the first rows of Z (networks, rows, n): (networks, orders, m, n)."""
    s = cuda.blockIdx.x
    if s < Z.shape[0]:
        m, n = out.shape[2], out.shape[3]
        for at in range(cuda.threadIdx.x, m * n, cuda.blockDim.x):
            values = sigma(Z[s, at // n, at % n])
{stores}
'''


@cache
def activation_kernels(activation: Activation, orders: int) -> ModuleType:
    """`differentiate`, for σ and its derivatives below this order."""
    derivatives = [activation.derivative(order) for order in range(orders)]
    sigma = printer.function("sigma", [z], derivatives, decorator="@scalar")
    places = (f"out[s, {k}, at // n, at % n] = values[{k}]" for k in range(orders))
    stores = "\n".join(" " * 12 + place for place in places)
    source = _ACTIVATION.format(name=activation.name, sigma=sigma, stores=stores)
    return modules.load(source, "cuda_activation")
