"""What the series in 1/n leaves out at a model's width, by an ensemble of what was read.

The ensemble is `Drawn`, with the laws of the model's matrices and biases at its widths, measured as
the model is. Its difference to the series is what the series leaves out, known to the ensemble's
standard error; nothing of it is on the measured side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray

from ..arrays import Array
from ..tables.compare import VANISHES, WEAK
from .measurement import Sample
from .theory import Theory

_BOUND = 6.0
"""Standard errors that verdicts here allow for, about."""


_TENSORS = ("K", "Theta", "spread", "V")


def is_coarse(derived: Theory, tensors: Sequence[str] = _TENSORS) -> bool:
    """Whether the estimate of what is left out of these keeps a verdict from resolving a quarter of
    `WEAK`."""
    K = np.square(_largest(derived.second["K"]))
    for table, names in ((derived.first, _TENSORS[:-1]), (derived.second, _TENSORS[-1:])):
        for name in (each for each in names if each in tensors and each in table):
            errors, sizes = (_largest(table[each]) for each in (f"{name}_error", name))
            sizes = np.maximum(sizes, VANISHES * K) if name == "V" else sizes
            if (_BOUND * errors > WEAK / 4 * sizes).any():
                return True
    return False


def bounded(derived: Theory, ensemble: Sample) -> Theory:
    """Theory with what it leaves out as the ensemble has it, where that is less than the estimate:
    `…_within` is the difference, `…_error` the ensemble's standard error."""
    second = derived.second
    if ensemble.second is not None:
        second = _bounded(second, ensemble.second, ("V",))
    first = _bounded(derived.first, ensemble.first, ("K", "Theta", "spread"))
    return derived._replace(first=first, second=second)


def _bounded(
    table: xarray.Dataset, sampled: xarray.Dataset, names: tuple[str, ...]
) -> xarray.Dataset:
    changed: dict[str, xarray.DataArray] = {}
    layers = sampled["layer"]
    for name in (each for each in names if each in table and each in sampled):
        error = table[f"{name}_error"].copy()
        within = xarray.zeros_like(table[name])
        estimate = error.sel(layer=layers).to_numpy()
        se = sampled[f"{name}_se"].to_numpy()
        gap = abs(sampled[name] - table[name].sel(layer=layers)).to_numpy()
        closer = gap + _BOUND * se < _BOUND * estimate
        within.loc[{"layer": layers}] = np.where(closer, gap, 0.0)
        error.loc[{"layer": layers}] = np.where(closer, se, estimate)
        changed |= {f"{name}_within": within, f"{name}_error": error}
    return table.assign(changed)


def _largest(values: xarray.DataArray) -> Array:
    """By layer."""
    return np.asarray(abs(values).to_numpy().reshape(len(values), -1).max(axis=1))
