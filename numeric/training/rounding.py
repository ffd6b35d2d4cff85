"""Errors of trained networks from those of tensors at initialization, and from rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..arrays import Array

_PROBES, _SAFETY = 2, 4.0
"""How often the tensors are moved, and what the largest change is multiplied by."""


def with_errors(
    values: Mapping[str, Array],
    errors: Mapping[str, Array],
    averages: Callable[[dict[str, Array]], dict[str, Array]],
) -> dict[str, tuple[Array, Array]]:
    """Results from the tensors, and how far they move with the tensors.

    Each probe moves every tensor by a smooth multiple of its errors, with the symmetries kept.
    """
    found = averages(dict(values))
    moved = {name: np.zeros_like(each) for name, each in found.items()}
    for probe in range(1, _PROBES + 1):
        changed = {}
        for name, each in values.items():
            size = np.abs(each) / max(np.abs(each).max(), np.finfo(float).tiny)
            sign = np.sign(np.cos(7 * probe * size))  # equal entries move alike
            changed[name] = each + sign * (errors[name] + np.finfo(float).eps * np.abs(each))
        for name, each in averages(changed).items():
            moved[name] = np.maximum(moved[name], np.abs(each - found[name]))
    return {name: (each, _SAFETY * moved[name]) for name, each in found.items()}
