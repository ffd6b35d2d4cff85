"""Python source of kernels: printed, written, loaded, and every option of numba."""

from . import fastmath, jit, modules, printer
from .interpolation import interpolated
from .stable import Sigmoid, stable
from .templates import sigma_source

__all__ = [
    "Sigmoid",
    "fastmath",
    "interpolated",
    "jit",
    "modules",
    "printer",
    "sigma_source",
    "stable",
]
