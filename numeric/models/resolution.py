"""What a weak verdict is limited by: the draws, or the terms that theory leaves out."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import xarray

from ..tables.compare import WEAK, Comparison, Row, percent


class Limits(NamedTuple):
    """How a comparison's resolution comes about, as shares of a tensor.

    Attributes:
        draws, theory: the worst that the standard errors, and that the terms left out by theory,
            make of it by themselves.
        needed: by how much more draws would resolve `WEAK`; infinite where none would.
        at_most, off_by: of V, the largest |V|/(nK²) by theory, and the largest difference in it
            that would not have been noticed; NaN of others.
    """

    draws: float
    theory: float
    needed: float
    at_most: float = math.nan
    off_by: float = math.nan

    def __str__(self) -> str:
        told = f"by the draws alone {percent(self.draws)}, by what theory leaves out alone "
        told += percent(self.theory)
        if math.isinf(self.needed):
            told += f": more draws do not resolve {percent(WEAK)}"
        else:
            told += f": {percent(WEAK)} takes some {self.needed:.2g} times the draws"
        if math.isnan(self.off_by):
            return told
        return (
            f"{told}; V/(nK²) is {self.at_most:.2g} at most, and off by {self.off_by:.2g} at most"
        )


def limits(comparison: Comparison, sampled: xarray.Dataset) -> Limits:
    """Of a comparison with this table of samples, at one width.

    A row resolves w + √(s² + d²), s of the samples, d what theory may leave out, and w what it is
    known to; s falls as 1/√draws, and so does d where an ensemble of as many draws says what is
    left out (`row.within`). Derived here.
    """
    draws, theory, needed = 0.0, 0.0, 0.0
    for row in (each for each in comparison.rows if each.se):
        noticed = comparison.bound * row.se + abs(row.within)
        unit = row.share / noticed
        own = min(_error(row, sampled), row.se)
        s, d = (comparison.bound * each * unit for each in (own, math.sqrt(row.se**2 - own**2)))
        known = abs(row.within) * unit
        draws, theory = max(draws, s), max(theory, d + known)
        falling, fixed = (s**2 + d**2, 0.0) if row.within else (s**2, d**2)
        rest = max(WEAK - known, 0.0) ** 2 - fixed
        needed = max(needed, falling / rest if rest > 0 else math.inf)
    return Limits(draws, theory, needed)


def of_fluctuations(
    found: Limits, comparison: Comparison, derived: xarray.Dataset, n: int
) -> Limits:
    """The same with V/(nK²), K of these layers by theory: V_(ab)(cd) over n √(K_aa K_bb K_cc K_dd).

    V may be small beside 2K², which a layer's length fluctuates by with n independent neurons.
    """
    K = derived["K"].to_numpy()
    variances = np.einsum("laa->la", K) if K.ndim == 3 else K[:, None]
    at = {int(layer): place for place, layer in enumerate(derived["layer"].to_numpy())}
    at_most, off_by = 0.0, 0.0
    for row in comparison.rows:
        indices = list(row.indices) or [0] * 4
        size = n * math.sqrt(float(np.prod(variances[at[int(row.layer)]][indices])))
        at_most = max(at_most, abs(row.theory) / size)
        off_by = max(off_by, (comparison.bound * row.se + abs(row.within)) / size)
    return found._replace(at_most=at_most, off_by=off_by)


def _error(row: Row, sampled: xarray.Dataset) -> float:
    """The standard error of a row's samples."""
    values = sampled[f"{row.tensor}_se"].sel(layer=row.layer).to_numpy()
    return float(values[row.indices])
