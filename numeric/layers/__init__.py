"""Recursions run down the layers in NumPy: no compiler to wait for."""

from . import (
    accuracy,
    averages,
    kinked,
    large_variance,
    one_sample,
    positions,
    several_samples,
    sigma,
)
from .run import Layers
from .several_samples import Sums
from .staged import StagedLayers
from .tapped import Reader

__all__ = [
    "Layers",
    "Reader",
    "StagedLayers",
    "Sums",
    "accuracy",
    "averages",
    "kinked",
    "large_variance",
    "one_sample",
    "positions",
    "several_samples",
    "sigma",
]
