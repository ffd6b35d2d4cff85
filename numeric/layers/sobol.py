"""Scrambled Sobol sequences: the means over several of them differ by the error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array

_LEAST = 2.0**-50
"""The distance of each number from 0 and 1 at least, whose quantiles need not be finite."""


def scrambled(dimension: int, log_points: int, seed: int | Sequence[int]) -> Array:
    """Points of (0, 1)^dimension, (2^log_points, dimension), in a scrambling of this seed."""
    from scipy.stats import qmc  # noqa: PLC0415  (half a second to import)

    sobol = qmc.Sobol(dimension, rng=np.random.default_rng(seed))
    return np.clip(sobol.random_base2(log_points), _LEAST, 1.0 - _LEAST)
