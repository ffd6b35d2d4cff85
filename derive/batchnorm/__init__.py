"""The Gram chain of batch normalization: its map, its noise, its stationary law."""

from ..symbols import batch as n
from ..symbols import theta
from ..symbols import width as d
from .chain import (
    contraction_rate,
    stationary_gap,
)

__all__ = [
    "contraction_rate",
    "d",
    "n",
    "stationary_gap",
    "theta",
]


def __dir__() -> list[str]:
    return sorted(__all__)
