"""The limit of a weak verdict: the draws, or the terms that theory leaves out.

An engineer needs the digits of V where networks differ by it, and else that it is small: V/(nK²) is
known where it is known to 20 % or to ±0.005, a twentieth of what makes initializations differ
visibly. So V is resolved as a share of itself, or of 0.025 nK² where it is less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import xarray

from ..tables.compare import WEAK, Comparison, Row, percent

_SMALL = 0.025
"""The V/(nK²) whose `WEAK` is ±0.005; smaller ones are resolved as shares of it."""


class Limits(NamedTuple):
    """How a comparison's resolution comes about, as shares of a tensor.

    Attributes:
        draws, theory: the worst that the standard errors, and that the terms left out by theory,
            make of it by themselves.
        needed: by how much more draws would resolve `WEAK`; infinite where none would.
        at_most, off_by: of V, the largest |V|/(nK²) by theory, and the largest difference in it
            that would not have been noticed; NaN of others.
        made: how many draws there were.
    """

    draws: float
    theory: float
    needed: float
    at_most: float = math.nan
    off_by: float = math.nan
    made: int = 0

    @property
    def is_of_theory(self) -> bool:
        """True if what theory leaves out keeps a verdict weak, more than the draws."""
        return self.theory > max(WEAK, self.draws)

    def __str__(self) -> str:
        told = f"by the draws alone {percent(self.draws)}, by what theory leaves out alone "
        told += percent(self.theory)
        if math.isinf(self.needed):
            told += f": more draws do not resolve {percent(WEAK)}"
        else:
            wanted = float(f"{self.needed * self.made:.2g}")
            told += f": {percent(WEAK)} takes some {self.needed:.2g} times the draws, "
            told += f"draws={wanted:.0f} (--draws {wanted:.0f})"
        if math.isnan(self.off_by):
            return told
        return (
            f"{told}; V/(nK²) is {self.at_most:.2g} at most, and off by {self.off_by:.2g} at most; "
            f"where it is below {_SMALL} these are shares of {_SMALL}"
        )


def limits(comparison: Comparison, sampled: xarray.Dataset, falls: bool = False) -> Limits:
    """Of a comparison with this table of samples, at one width.

    Arguments:
        falls: whether an ensemble of as many draws, with errors as those of the samples, takes the
            place of what theory estimates that it leaves out where it says more.

    A row resolves w + √(s² + d²), s of the samples, d what theory may leave out, and w what it is
    known to; s falls as 1/√draws, and so does d where an ensemble of as many draws says what is
    left out (`row.within`), and w, too, where that is no more than d. Derived here.
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
        times = falling / rest if rest > 0 else math.inf
        if row.within and abs(row.within) <= comparison.bound * math.sqrt(row.se**2 - own**2):
            times = (row.share / WEAK) ** 2
        elif falls and not row.within:
            times = min(times, 2 * s**2 / WEAK**2)
        needed = max(needed, times)
    return Limits(draws, theory, needed, made=int(sampled.attrs["draws"]))


def absolute(comparison: Comparison, derived: xarray.Dataset, n: int) -> Comparison:
    """Of V, with the resolutions as shares of `_SMALL` nK² where V is smaller than that."""
    rows = []
    for row, size in _sizes(comparison, derived, n):
        largest, noticed = max(row.largest, _SMALL * size), row.share * row.largest
        rows.append(replace(row, largest=largest, share=noticed / largest) if size else row)
    return replace(comparison, rows=tuple(rows))


def of_fluctuations(
    found: Limits, comparison: Comparison, derived: xarray.Dataset, n: int
) -> Limits:
    """The same with V/(nK²): V may be small beside 2K², which a layer's length fluctuates by with n
    independent neurons."""
    at_most, off_by = fluctuations(comparison, derived, n)
    return found._replace(at_most=at_most, off_by=off_by)


def fluctuations(comparison: Comparison, derived: xarray.Dataset, n: int) -> tuple[float, float]:
    """The largest |V|/(nK²) by theory, and the largest error of it that draws would not have shown:
    of V_(ab)(cd) over n √(K_aa K_bb K_cc K_dd), K of these layers by theory."""
    at_most, off_by = 0.0, 0.0
    for row, size in _sizes(comparison, derived, n):
        if not size:
            continue
        at_most = max(at_most, abs(row.theory) / size)
        off_by = max(off_by, (comparison.bound * row.se + abs(row.within)) / size)
    return at_most, off_by


def _sizes(comparison: Comparison, derived: xarray.Dataset, n: int) -> Iterator[tuple[Row, float]]:
    """Each row of V with n √(K_aa K_bb K_cc K_dd)."""
    K = derived["K"].to_numpy()
    variances = np.einsum("laa->la", K) if K.ndim == 3 else K[:, None]
    at = {int(layer): place for place, layer in enumerate(derived["layer"].to_numpy())}
    for row in comparison.rows:
        indices = list(row.indices) or [0] * 4
        own = variances[at[int(row.layer)]][indices]
        yield row, n * math.sqrt(float(np.prod(own)))


def _error(row: Row, sampled: xarray.Dataset) -> float:
    """The standard error of a row's samples."""
    values = sampled[f"{row.tensor}_se"].sel(layer=row.layer).to_numpy()
    return float(values[row.indices])
