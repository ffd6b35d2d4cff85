"""K, V and Θ of a model, measured over initializations of it in its own framework.

Over the neurons i ≠ j of a layer of N, S_ab = Σ_i z_ia z_ib,

    E S_ab/N = G_ab
    E (S_ab S_cd − Σ_i z_ia z_ib z_ic z_id)/(N(N−1)) = G_ab G_cd + V_(ab)(cd)/n

whatever the law of the weights, so long as permutations keep it; products of means are taken over
different initializations, so that the estimates have no bias. Θ is that of the first neuron.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray
from numpy.typing import NDArray

from ..arrays import Array
from ..tables import layout
from .description import Description

_BLOCKS = 40
"""Groups of initializations, whose means give the standard errors."""


class Sample(NamedTuple):
    """What was measured.

    Attributes:
        first: K and Theta by layer, `spread` of H_11 among initializations.
        second: V, of the layers with two neurons or more; None without one.
    """

    first: xarray.Dataset
    second: xarray.Dataset | None


def measure(
    description: Description,
    X: Array,
    draws: int,
    seed: int,
    advance: Callable[[], object] = lambda: None,
) -> Sample:
    """Initialize the model so many times and measure it at these inputs, (m, n_0)."""
    blocks = description.structure.blocks
    nodes, depth = [block.node for block in blocks], len(blocks)
    widths = np.array([block.width for block in blocks])
    m = len(X)
    K, H = np.empty((draws, depth, m, m)), np.empty((draws, depth, m, m))
    P = np.zeros((draws, depth, m, m, m, m))
    for draw in range(draws):
        found = description.reading.measure(seed + draw, X, nodes, True)
        for at, (z, gram) in enumerate(zip(found.values, found.tangents, strict=True)):
            N = widths[at]
            S = z @ z.T
            K[draw, at], H[draw, at] = S / N, gram
            if N > 1:
                alone = np.einsum("ai,bi,ci,di->abcd", z, z, z, z)
                P[draw, at] = (np.multiply.outer(S, S) - alone) / (N * (N - 1))
        advance()
    n = int(widths[0])
    groups = max(2, min(_BLOCKS, draws // 2))
    about: dict[str, int | float | str] = {
        "width": n,
        "draws": draws,
        "blocks": groups,
        "network": str(description.network),
    }
    layers = range(1, depth + 1)
    single, precision = m == 1, description.reading.precision
    parts = np.array_split(np.arange(draws), groups)
    V = _left_out(lambda kept: n * _covariance(P[kept], K[kept]), parts)
    spread = _left_out(
        lambda kept: np.asarray(np.einsum("klaa->kla", H[kept]).std(axis=0, ddof=1)), parts
    )
    means, tangents = (_means(each, groups) for each in (K, H))
    first = layout.table(
        layers,
        about,
        K=_shaped(means, single),
        Theta=_shaped(tangents, single),
        spread=_shaped(spread, single),
        K_floor=precision * _largest(means[0]),
        Theta_floor=precision * _largest(tangents[0]),
        spread_floor=precision * _largest(tangents[0]),
    )
    wide = np.flatnonzero(widths > 1)
    if not len(wide):
        return Sample(first, None)
    values, errors = _shaped(V, single)
    second = layout.table(
        [int(at) + 1 for at in wide],
        about,
        V=(values[wide], errors[wide]),
        V_floor=n * precision * _largest(means[0] ** 2)[wide],
    )
    return Sample(first, second)


def _largest(values: Array) -> Array:
    """By layer."""
    return np.asarray(abs(values).reshape(len(values), -1).max(axis=1))


def _shaped(pair: tuple[Array, Array], single: bool) -> tuple[Array, Array]:
    """(depth, m, …), or (depth,) of one input."""
    values, errors = pair
    if not single:
        return values, errors
    return values.reshape(len(values)), errors.reshape(len(errors))


def _means(draws: Array, groups: int) -> tuple[Array, Array]:
    return layout.averaged(_grouped(draws, groups))


def _grouped(draws: Array, groups: int) -> Array:
    """The means of groups of as many draws each, those left over in the last."""
    return np.array([part.mean(axis=0) for part in np.array_split(draws, groups)])


def _covariance(P: Array, K: Array) -> Array:
    """E P − E K E K, the product over different draws."""
    count, total = len(K), K.sum(axis=0)
    own = np.einsum("klab,klcd->labcd", K, K)
    both = (np.einsum("lab,lcd->labcd", total, total) - own) / (count * (count - 1))
    return np.asarray(P.mean(axis=0) - both)


def _left_out(
    estimate: Callable[[NDArray[np.int64]], Array], parts: list[NDArray[np.int64]]
) -> tuple[Array, Array]:
    """An estimate from all draws, and its standard error by leaving one part out after another."""
    every = np.concatenate(parts)
    left = np.array([estimate(np.setdiff1d(every, part)) for part in parts])
    return estimate(every), np.sqrt((len(parts) - 1) * left.var(axis=0))
