"""The Gram chain of batch normalization: its map, its noise, its stationary law."""

from ..symbols import batch as n
from ..symbols import theta
from ..symbols import width as d
from ..work.faces import public
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

public(__name__)
