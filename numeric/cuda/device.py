"""The device of the kernels, a GPU or numba's simulator; and CPU kernels taken over to it.

A block of `THREADS` threads takes one network through a layer: they share its neurons, its inner
products, its columns of normals. What is small, such as a Cholesky factor of a few vectors, is
left to the block's first thread, which runs the CPU's own kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import cuda
from numba.core import config
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

SIMULATED = bool(config.ENABLE_CUDASIM)

THREADS = 4 if SIMULATED else 128
"""Threads of a block, a power of two."""

FEWEST_LANES = 2 if SIMULATED else 8
"""Threads that share an inner product, at least."""

Function = TypeVar("Function", bound=Callable[..., Any])
Key: TypeAlias = NDArray[np.uint64]
Words: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]
Shared: TypeAlias = NDArray[np.int64]


def kernel(function: Callable[..., None]) -> Any:
    """The kernel that the CPU launches, as `function[blocks, threads](…)`."""
    return cuda.jit(function)


def device(function: Function) -> Function:
    """The function that kernels call."""
    return cast(Function, cuda.jit(device=True)(function))


def taken_over(function: Function) -> Function:
    """A kernel of `numeric.emit.jit` as a device function: numba compiles its source for the GPU.

    The simulator, which runs Python, gets the source with every kernel that it calls taken over.
    """
    if not SIMULATED or not isinstance(function, Dispatcher):
        return function
    source = function.py_func
    scope = {
        name: taken_over(value) if isinstance(value, Dispatcher) else value
        for name, value in source.__globals__.items()
        if name in source.__code__.co_names
    }
    copied = FunctionType(source.__code__, scope, source.__name__, source.__defaults__)
    return device(cast(Function, copied))


def sent(arrays: Any) -> Any:
    """An array, or a tuple of some, on the device."""
    if isinstance(arrays, tuple):
        return tuple(sent(array) for array in arrays)
    return cuda.to_device(np.ascontiguousarray(arrays))


def blocks(networks: int) -> int:
    """Blocks to launch: one for each network, but enough that numba finds the GPU occupied; in the
    simulator one more, which has to leave all networks alone."""
    return networks + 1 if SIMULATED else max(networks, 128)


class Rooms:
    """Arrays on the device, made once for each use and shape.

    Arguments:
        precision: "f8" or "f4", of what has a number for each neuron; inner products and sums are
            of double precision.
    """

    def __init__(self, precision: str = "f8") -> None:
        self.precision = precision
        self._held: dict[str, Any] = {}

    def neurons(self, use: str, shape: tuple[int, ...]) -> Any:
        """An array with a number for each neuron."""
        return self(use, shape, self.precision)

    def __call__(self, use: str, shape: tuple[int, ...], dtype: str = "f8") -> Any:
        """The array of this use, with whatever is in it."""
        held = self._held.get(use)
        if held is None or held.shape != shape:
            held = self._held[use] = cuda.device_array(shape, dtype)
        return held
