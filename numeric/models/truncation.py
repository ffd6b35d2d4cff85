"""The rest of the series in 1/n at a model's width, by an ensemble of what was read.

The ensemble is `Drawn`, with the laws of the model's matrices and biases at its widths, measured as
the model is. Its difference to the series is what the series leaves out, known to the ensemble's
standard error; nothing of it is on the measured side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray

from ..tables.compare import VANISHES, WEAK, percent
from .measurement import Sample
from .theory import Theory, largest

_BOUND = 6.0
"""Standard errors that verdicts here allow for, about."""


TENSORS = ("K", "Theta", "spread", "V")
TABLES = ("first", "second", "below")


def is_coarse(derived: Theory, tensors: Sequence[str] = TENSORS) -> bool:
    """True if the estimate of what is left out of these keeps a verdict from resolving a quarter of
    `WEAK`."""
    K = np.square(largest(derived.second["K"]))  # of the layers that have V
    tables = [(derived.first, TENSORS[:-1]), (derived.second, TENSORS[-1:])]
    tables += [] if derived.below is None else [(derived.below, TENSORS[:1])]
    for table, names in tables:
        for name in (each for each in names if each in tensors and each in table):
            errors, sizes = (largest(table[each]) for each in (f"{name}_error", name))
            sizes = np.maximum(sizes, VANISHES * K) if name == "V" else sizes
            if (_BOUND * errors > WEAK / 4 * sizes).any():
                return True
    return False


def tightened(derived: Theory, tensors: Sequence[str]) -> Theory:
    """Theory whose estimates of what it leaves out are the most that verdicts allow for.

    An estimate is ten times the last term, more than ensembles mostly show. As a standard error it
    would allow for six times as much.
    """

    errors = [f"{name}_error" for name in tensors]
    tables = {name: own for name in TABLES if (own := getattr(derived, name)) is not None}
    closer: dict[str, Any] = {
        name: table.assign({each: table[each] / _BOUND for each in errors if each in table})
        for name, table in tables.items()
    }
    return derived._replace(**closer)


def bounded(derived: Theory, ensemble: Sample) -> Theory:
    """Theory with what it leaves out as the ensemble has it, where that is less than the estimate:
    `…_within` is the difference, ensemble less series, `…_error` the ensemble's standard error."""
    pairs = {name: (getattr(derived, name), getattr(ensemble, name)) for name in TABLES}
    known: dict[str, Any] = {
        name: _bounded(own, sampled)
        for name, (own, sampled) in pairs.items()
        if own is not None and sampled is not None
    }
    return derived._replace(**known)


class Omission(NamedTuple):
    """The truncation error of a tensor by the ensemble, where that replaced the estimate.

    Attributes:
        tensor: its name.
        share, layer: the largest difference of series and ensemble, over the tensor's largest
            component in its layer, and that layer.
        z: the largest difference over its standard error.
        times, layer_beyond: the largest over the estimate made beforehand, of those beyond 6
            standard errors, and its layer; 0 where none is.
    """

    tensor: str
    share: float
    layer: int
    z: float
    times: float = 0.0
    layer_beyond: int = 0

    @property
    def is_beyond(self) -> bool:
        """True if a significant difference is more than was estimated beforehand."""
        return self.times > 1

    def __str__(self) -> str:
        told = "theory differs from the ensemble of the network as it was read by "
        told += f"{percent(self.share)} of {self.tensor} at most (layer {self.layer}), by "
        told += f"{self.z:.2g} standard errors at most"
        if not self.is_beyond:
            return told
        return (
            f"{told}; at layer {self.layer_beyond} by {self.times:.2g} times what was estimated "
            "beforehand"
        )


def omitted(before: Theory, after: Theory) -> Iterator[Omission]:
    """Of each tensor, from theory without and with what `bounded` adds."""
    tables = ((before.first, after.first), (before.second, after.second))
    for estimated, known in tables:
        for name in (each for each in TENSORS if f"{each}_within" in known):
            gap, se = (abs(known[f"{name}{end}"].to_numpy()) for end in ("_within", "_error"))
            if not gap.any():
                continue
            sizes = largest(known[name]).reshape(-1, *[1] * (gap.ndim - 1))
            with np.errstate(all="ignore"):
                shares, scores = (np.where(gap, gap / each, 0.0) for each in (sizes, se))
                times = gap / abs(estimated[f"{name}_error"].to_numpy())
            times = np.where(gap > _BOUND * se, times, 0.0)
            layers = known["layer"].to_numpy()
            at, beyond = (int(layers[each.argmax() // gap[0].size]) for each in (shares, times))
            most = float(times.max())
            own = float(shares.max()), at, float(scores.max())
            yield Omission(name, *own, most, beyond if most else 0)


def _bounded(table: xarray.Dataset, sampled: xarray.Dataset) -> xarray.Dataset:
    changed: dict[str, xarray.DataArray] = {}
    layers = sampled["layer"]
    for name in (each for each in TENSORS if each in table and each in sampled):
        error = table[f"{name}_error"].copy()
        within = xarray.zeros_like(table[name])
        estimate = error.sel(layer=layers).to_numpy()
        se = sampled[f"{name}_se"].to_numpy()
        gap = (sampled[name] - table[name].sel(layer=layers)).to_numpy()
        closer = abs(gap) + _BOUND * se < _BOUND * estimate
        within.loc[{"layer": layers}] = np.where(closer, gap, 0.0)
        error.loc[{"layer": layers}] = np.where(closer, se, estimate)
        changed |= {f"{name}_within": within, f"{name}_error": error}
    return table.assign(changed)
