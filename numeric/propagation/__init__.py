"""Kernels and fixed points of wide networks to many digits, proved in balls."""

from __future__ import annotations

from derive.work.faces import public

from .theory import fixed_points, kernels

__all__ = ["fixed_points", "kernels"]

public(__name__)
