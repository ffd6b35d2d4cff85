"""The Gram chain of batch normalization: its map, its noise, its stationary law."""

from ..symbols import batch as n
from ..symbols import theta
from ..symbols import width as d
from .chain import (
    contraction_rate,
    fourth_moments,
    mean_eigenvalue,
    mean_eigenvalue_two,
    mean_series,
    mean_spectrum,
    noise_covariance,
    stationary_gap,
)

__all__ = [
    "contraction_rate",
    "d",
    "fourth_moments",
    "mean_eigenvalue",
    "mean_eigenvalue_two",
    "mean_series",
    "mean_spectrum",
    "n",
    "noise_covariance",
    "stationary_gap",
    "theta",
]


def __dir__() -> list[str]:
    return sorted(__all__)
