"""Python source of kernels: printed, written, loaded, and every option of numba."""

from . import fastmath, jit, modules, printer
from .stable import Sigmoid, stable
from .templates import sigma_source

__all__ = [
    "Sigmoid",
    "fastmath",
    "jit",
    "modules",
    "printer",
    "sigma_source",
    "stable",
]
