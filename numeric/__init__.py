"""Numbers: compile what was derived, simulate the same network, compare the two."""

from . import batchnorm, spectra
from .codegen.c import write_c
from .codegen.python import write_module
from .flows import flow
from .simulations import simulate
from .tables.compare import Comparison, compare
from .tables.normalise import normalise
from .tables.plot import plot

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
