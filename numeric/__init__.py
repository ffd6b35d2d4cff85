"""Numbers: compile what was derived, simulate the same network, compare the two."""

from . import batchnorm, spectra
from .codegen import write_module
from .compare import Comparison, compare
from .flow import flow
from .normalise import normalise
from .simulate import simulate

__all__ = [
    "Comparison",
    "batchnorm",
    "compare",
    "flow",
    "normalise",
    "simulate",
    "spectra",
    "write_module",
]
