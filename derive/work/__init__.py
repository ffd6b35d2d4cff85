"""What a computation costs: refused before it starts, told while it runs."""

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
