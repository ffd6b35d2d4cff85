"""Lengths, correlations and gradients of wide networks: sampled, and derived to many digits."""

from __future__ import annotations

from .sampling import (
    BIASES,
    BLOCK,
    Backward,
    CrossEntropy,
    Layer,
    Loss,
    Sample,
    backward,
    given_biases,
    sample,
    simulate,
    squares,
)
from .theory import fixed_points, kernels

__all__ = [
    "BIASES",
    "BLOCK",
    "Backward",
    "CrossEntropy",
    "Layer",
    "Loss",
    "Sample",
    "backward",
    "fixed_points",
    "given_biases",
    "kernels",
    "sample",
    "simulate",
    "squares",
]


def __dir__() -> list[str]:
    return sorted(__all__)
