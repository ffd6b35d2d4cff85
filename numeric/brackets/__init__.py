"""Gaussian brackets by quadrature or in closed form: the rules, and source of kernels."""

from . import one_input, quadrature
from .functions import select
from .pieces import SLACK, table

__all__ = [
    "SLACK",
    "one_input",
    "quadrature",
    "select",
    "table",
]
