"""The layout of the one table that `flow` and `simulate` return."""

from __future__ import annotations

import numpy as np
import xarray
from numpy.typing import ArrayLike

from .weights import Array


def axes(rank: int, *, single: bool) -> list[str]:
    """`layer`, then an axis for each of the `rank` sample indices, none with a single vector."""
    return ["layer"] + ([] if single else [f"sample_{axis}" for axis in range(1, rank + 1)])


def layers(depth: int) -> dict[str, ArrayLike]:
    """The coordinate `layer`, 1 … depth."""
    return {"layer": np.arange(1, depth + 1)}


def variable(values: Array, rank: int, *, single: bool) -> xarray.DataArray:
    """A tensor with `rank` sample indices, from values (depth, m, …, m) or, for m = 1, (depth,)."""
    dims = axes(rank, single=single)
    shape = values.shape[:1] + ((1,) * rank if values.ndim == 1 else values.shape[1:])
    return xarray.DataArray(values.reshape(shape[: len(dims)]), dims=dims)
