"""Python source of kernels: printed, written, loaded, and every option of numba."""

from typing import TYPE_CHECKING

from derive.work.faces import face

from .stable import Sigmoid, stable

if TYPE_CHECKING:
    from . import fastmath, jit, modules, printer
    from .fastmath import interpolated
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

__getattr__ = face(
    __name__,
    {"interpolated": "fastmath", "sigma_source": "templates"},
    ("fastmath", "jit", "modules", "printer"),
)
"""Some are made with numba, which takes a fifth of a second to import, and few need it."""
