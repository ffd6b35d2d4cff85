"""Lengths, correlations and gradients of wide networks: sampled, and derived to many digits."""

from __future__ import annotations

from .drawing import BIASES, BLOCK
from .gradients import Backward, CrossEntropy, Layer, Loss, backward, squares
from .sampling import Sample, given_biases, sample, simulate
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
