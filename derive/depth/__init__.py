"""Criticality and large depth: fixed points, closed systems, their asymptotics."""

from .asymptotics import asymptotics, counterterm, ell, together
from .information import entropy_deficit, mutual_information, v
from .logarithmic import logarithmic_kernel

__all__ = [
    "asymptotics",
    "counterterm",
    "ell",
    "entropy_deficit",
    "logarithmic_kernel",
    "mutual_information",
    "together",
    "v",
]
