"""Criticality and large depth: fixed points, closed systems, their asymptotics."""

from .asymptotics import asymptotics, counterterm, ell, together
from .fixed_points import fixed_points
from .information import mutual_information, v

__all__ = [
    "asymptotics",
    "counterterm",
    "ell",
    "fixed_points",
    "mutual_information",
    "together",
    "v",
]
