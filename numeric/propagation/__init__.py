"""Kernels and fixed points of wide networks to many digits, proved in balls."""

from __future__ import annotations

from .theory import fixed_points, kernels

__all__ = ["fixed_points", "kernels"]


def __dir__() -> list[str]:
    return sorted(__all__)
