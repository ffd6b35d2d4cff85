"""Numbers: compile what was derived, simulate the same network, compare the two."""

from . import batchnorm, spectra
from .c_source import write_c
from .codegen import write_module
from .compare import Comparison, compare
from .flow import flow
from .normalise import normalise
from .plots import plot
from .simulate import simulate

__all__ = [
    "Comparison",
    "batchnorm",
    "compare",
    "flow",
    "normalise",
    "plot",
    "simulate",
    "spectra",
    "write_c",
    "write_module",
]


def __dir__() -> list[str]:
    return sorted(__all__)
