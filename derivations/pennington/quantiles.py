"""Quantiles of the logarithms of singular values: laws and sampled Jacobians on one scale.

Traces of powers of JJᵀ belong to its few largest eigenvalues, and fluctuate with them. The
eigenvalues themselves are rigid: a quantile of log s moves by O(1/n) from network to network. It is
compared in units of 1, so that the resolution of a comparison is the relative change of scale of
the singular values that would have been noticed; or, of a law broader than a factor e, in units of
the distance between the quartiles of log s. The mass of an atom is a share of 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray

from derivations.claims.registry import Sampling
from derive import Network
from derive.work.caches import cache
from numeric import spectra as compiled
from numeric.arrays import Array
from numeric.estimators.controls import controlled
from numeric.spectra import innovations
from numeric.tables import layout

SHARES = (0.25, 0.375, 0.5, 0.625, 0.75, 0.875)
"""Of the continuous part of a law, what lies below each quantile. Below the first, next to a hard
edge at 0, the expansion in 1/n begins late."""

_COARSE, _POINTS = 400, 1600
_LOWEST, _UNSEEN = 1e-30, 1e-6
"""An eigenvalue below all quantiles, and a density in log λ that has no mass."""


def name(share: float) -> str:
    """The name of the quantile in a table, such as log_s_50."""
    return f"log_s_{round(1000 * share) / 10:g}".replace(".", "_")


def theory(
    spectra: Mapping[int, compiled.Spectrum], shares: Sequence[float] = SHARES
) -> xarray.Dataset:
    """The quantiles of log s by depth, and of an atom at the largest s its mass, as `atom`."""
    rows = np.array([quantiles(law, shares) for law in spectra.values()])
    columns = {name(share): each for share, each in zip(shares, rows.T, strict=True)}
    low, high = np.array([quantiles(law, (0.25, 0.75)) for law in spectra.values()]).T
    sizes = dict.fromkeys((f"{each}_size" for each in columns), np.maximum(1, high - low))
    masses = [_top(law) for law in spectra.values()]
    if all(mass for _, mass in masses):
        columns["atom"], sizes["atom_size"] = np.array([mass for _, mass in masses]), np.array(1.0)
    return layout.table(spectra, **columns, **sizes)


def quantiles(spectrum: compiled.Spectrum, shares: Sequence[float]) -> Array:
    """log s at these shares of the continuous part of the law."""
    heights, above = _mass_above(spectrum)
    bulk = 1 - spectrum.atoms.get(0.0, 0.0) - _top(spectrum)[1]
    return np.asarray(np.interp(1 - np.array(shares), above / bulk, heights) / 2)


def distance(one: compiled.Spectrum, other: compiled.Spectrum) -> float:
    """The largest difference of log s between two laws, at nine levels of what lies above."""
    levels = np.arange(1, 10) / 10
    return float(np.abs(_from_the_top(one, levels) - _from_the_top(other, levels)).max())


def between(spectrum: compiled.Spectrum, low: float, high: float) -> float:
    """log s at the share `high` of all eigenvalues less that at `low`, atoms at the top counted."""
    upper, lower = _from_the_top(spectrum, np.array([1 - high, 1 - low]))
    return float(upper - lower)


def _from_the_top(spectrum: compiled.Spectrum, levels: Array) -> Array:
    """log s that the share `levels` of all eigenvalues lies above, atoms counted."""
    at, top = _top(spectrum)
    heights, above = _mass_above(spectrum)
    within = np.interp(levels, top + above, heights) / 2
    return np.where(levels <= top, np.log(at) / 2 if top else 0.0, within)


@cache
def _mass_above(spectrum: compiled.Spectrum) -> tuple[Array, Array]:
    """log λ, falling, and the mass of the density above it: the trapezoidal rule, with points
    t − R u³ that crowd where the density ends, or is first seen if its edge is far above that."""
    lowest, highest = (
        np.log(max(end, _LOWEST)) for end in (spectrum.edges[0][0], spectrum.edges[-1][1])
    )
    coarse = np.linspace(lowest, highest, _COARSE)[1:-1]
    seen = coarse[spectrum.log_density(coarse) > _UNSEEN]
    top = min(highest, seen[-1] + 2 * (coarse[1] - coarse[0]))
    heights = top - (top - lowest) * np.linspace(1e-3, 1, _POINTS) ** 3
    density = spectrum.log_density(heights)
    steps = (density[1:] + density[:-1]) / 2 * (heights[:-1] - heights[1:])
    return heights, np.concatenate([[0.0], np.cumsum(steps)])


def drawn(
    sampling: Sampling,
    book: Sequence[tuple[int, int]],
    printed: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Widths and networks of the book, or of the figure at its printed size."""
    return [(n, sampling.networks(count)) for n, count in sampling.sizes(book, printed)]


def sampled(
    net: Network,
    q: float,
    spectra: Mapping[int, compiled.Spectrum],
    sizes: Sequence[tuple[int, int]],
    seed: int,
    shares: Sequence[float] = SHARES,
) -> list[xarray.Dataset]:
    """The mean over networks of each quantile by depth, a table for each width and number of
    networks.

    Networks of every depth are their own. What the lengths, traces and slopes of their layers add
    to chance is taken out (`numeric.spectra.innovations`). Where the law has an atom at the largest
    singular value, the quantiles of a network are those of what lies below it, zeros counted: how
    many do differs from network to network more than where they are. Zeros alone would not do:
    there are as many as the layer with fewest slopes leaves, whose mean has a term in n^{-1/2}.
    """
    tables = []
    for n, draws in sizes:
        columns: dict[str, list[tuple[float, float]]] = {}
        fitted = 0
        for depth, spectrum in spectra.items():
            run = compiled.simulate(
                net, q, n, depth, draws, innovations=True, seed=seed_of(seed, n, depth)
            )
            chance = innovations.columns(run["innovations"].to_numpy())
            fitted = max(fitted, chance.shape[1])
            logs, atoms = _seen(run["singular_values"].to_numpy(), spectrum, shares)
            drawn = {name(share): each for share, each in zip(shares, logs.T, strict=True)}
            if _top(spectrum)[1]:
                drawn["atom"] = atoms
            for key, each in drawn.items():
                mean, error = controlled(each, chance)
                columns.setdefault(key, []).append((float(mean), float(error)))
        about: dict[str, int | float | str] = {
            "width": n,
            "blocks": draws - fitted,
            "network": str(net),
        }
        arrays = {key: tuple(np.array(rows).T) for key, rows in columns.items()}
        tables.append(layout.table(spectra, about, **arrays))
    return tables


def seed_of(seed: int, width: int, depth: int) -> int:
    """Of the networks of this size that `sampled` draws."""
    return seed + width + depth


def _seen(
    values: Array, spectrum: compiled.Spectrum, shares: Sequence[float]
) -> tuple[Array, Array]:
    """log s at the shares, (draws, shares), and the mass of the atom at the top, of each draw."""
    draws, n = values.shape
    at, top = _top(spectrum)
    highest = (values**2 > at * (1 - 1e-9)).sum(axis=1) if top else np.zeros(draws, int)
    zero = spectrum.atoms.get(0.0, 0.0)
    levels = (zero + np.array(shares) * (1 - top - zero)) / (1 - top)
    rows = []
    for row, above in zip(values, highest, strict=True):
        rows.append(np.log(np.quantile(row[above:], levels, method="hazen")) if shares else [])
    return np.array(rows), highest / n


def _top(spectrum: compiled.Spectrum) -> tuple[float, float]:
    """The atom above the density and its mass; 0 where there is none."""
    atoms = [(at, mass) for at, mass in spectrum.atoms.items() if at > 0]
    return atoms[-1] if atoms else (0.0, 0.0)
