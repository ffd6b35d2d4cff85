"""What a weak verdict is limited by: the draws, or the terms that theory leaves out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ..tables.compare import WEAK, Row, percent

if TYPE_CHECKING:
    import xarray

    from ..tables.compare import Comparison


class Limits(NamedTuple):
    """How a comparison's resolution comes about, as shares of a tensor.

    Attributes:
        draws, theory: the worst that the standard errors, and that the terms left out by theory,
            make of it by themselves.
        needed: by how much more draws would resolve `WEAK`; infinite where none would.
    """

    draws: float
    theory: float
    needed: float

    def __str__(self) -> str:
        told = f"by the draws alone {percent(self.draws)}, by what theory leaves out alone "
        told += percent(self.theory)
        if math.isinf(self.needed):
            return f"{told}: more draws do not resolve {percent(WEAK)}"
        return f"{told}: {percent(WEAK)} takes some {self.needed:.2g} times the draws"


def limits(comparison: Comparison, sampled: xarray.Dataset) -> Limits:
    """Of a comparison with this table of samples, at one width.

    A row resolves w + √(s² + d²), s of the samples, d what theory may leave out, and w what it is
    known to; s falls as 1/√draws. Derived here.
    """
    draws, theory, needed = 0.0, 0.0, 0.0
    for row in (each for each in comparison.rows if each.se):
        noticed = comparison.bound * row.se + row.within
        unit = row.share / noticed
        own = min(_error(row, sampled), row.se)
        s, d = (
            comparison.bound * each * unit for each in (own, math.sqrt(row.se**2 - own**2))
        )
        known = row.within * unit
        draws, theory = max(draws, s), max(theory, d + known)
        rest = max(WEAK - known, 0.0) ** 2 - d**2
        needed = max(needed, s**2 / rest if rest > 0 else math.inf)
    return Limits(draws, theory, needed)


def _error(row: Row, sampled: xarray.Dataset) -> float:
    """The standard error of a row's samples."""
    values = sampled[f"{row.tensor}_se"].sel(layer=row.layer).to_numpy()
    return float(values[row.indices])
