"""Arrays as signatures name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)

Array: TypeAlias = NDArray[np.float64]
"""Doubles, in the shape that the docstring states."""


def at_samples(values: NDArray[T], chosen: Sequence[int]) -> NDArray[T]:
    """A tensor at these samples, (layers, p, …, p) from (layers, m, …, m)."""
    return values[np.ix_(range(len(values)), *[chosen] * (values.ndim - 1))]
