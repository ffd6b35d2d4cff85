"""Lengths and correlations of wide networks: sampled, and derived to many digits."""

from __future__ import annotations

from .drawing import BIASES, BLOCK
from .sampling import Sample, sample, simulate
from .theory import fixed_points, kernels

__all__ = [
    "BIASES",
    "BLOCK",
    "Sample",
    "fixed_points",
    "kernels",
    "sample",
    "simulate",
]


def __dir__() -> list[str]:
    return sorted(__all__)
