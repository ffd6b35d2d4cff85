"""Costs of computations: refused before they start, reported while they run."""

from .caches import cache
from .progress import quiet, telling
from .resources import check_memory, check_time, duration, size

__all__ = [
    "cache",
    "check_memory",
    "check_time",
    "duration",
    "quiet",
    "size",
    "telling",
]
