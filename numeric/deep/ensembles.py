"""Ensembles of networks at depth in proportion to width: K of each network, not its moments."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
import sympy
from numpy.typing import ArrayLike

from derive.errors import InputError, as_integer
from derive.network import Network
from derive.recursions import wanted
from derive.work.defaults import DRAWS

from ..arrays import Array
from ..checks import draws as checked_draws
from ..estimators.observables import plan_of
from ..samplers.ensemble import checked_ensemble
from ..simulations import check_size, make_sampler
from .laws import checked_ratio, first_kernel


@dataclass(frozen=True, eq=False)
class Samples:
    """K of the last layer of networks, given all matrices but the last one.

    Attributes:
        values: (draws,) for one input, or a signal that is the same at all positions; (draws, m, m)
            for several.
        width, depth: n and L.
        start: K of layer 1 at the same inputs.
        seed: of the ensemble.
    """

    values: Array = field(repr=False)
    width: int
    depth: int
    start: Array
    seed: int

    @property
    def ratio(self) -> sympy.Expr:
        """(L − 1)/n."""
        return sympy.Rational(self.depth - 1, self.width)


def simulate(
    net: Network,
    inputs: ArrayLike,
    ratio: sympy.Expr | float | str,
    width: int,
    draws: int = DRAWS,
    *,
    depth: int | None = None,
    seed: int = 0,
) -> Samples:
    """Sample K at L = 1 + ratio · width, network by network.

    K is averaged over the last matrix of each network, so that one Gaussian layer has no
    fluctuation: K_L/K_1 is a product of L − 1 steps.

    Arguments:
        net: any network that `numeric.simulate` samples.
        inputs: as in `numeric.simulate`.
        ratio: (L − 1)/n, rounded to whole layers.
        width: n.
        draws: networks.
        depth: L, in place of the ratio.
        seed: as in `numeric.simulate`; the networks are the same.

    The networks are those of `numeric.simulate`, by definition. Raises InputError as that does.

    >>> made = simulate(Network("linear", "orthogonal"), [1.0, 1.0], 1, width=8, draws=2)
    >>> made.depth, made.values.round(12).tolist()
    (9, [1.0, 1.0])
    """
    width = as_integer("width", width, 1)
    layers = 1 + round(checked_ratio(ratio) * width) if depth is None else depth
    layers = as_integer("depth", layers, 2, wanted="2 layers or more, so that K moves")
    count = checked_draws(draws, 1)
    ensemble = checked_ensemble(net, inputs, width, layers, seed)
    plan = plan_of(wanted(("K",), net, layers), ensemble.data.measured)
    sampler = make_sampler(ensemble, plan)
    check_size(sampler, count, kept=False)
    found, first = np.empty((count, len(plan.statistics))), None
    for start in range(0, count, sampler.chunk):
        some = np.arange(start, min(count, start + sampler.chunk))
        for number, values in enumerate(sampler.layers(some)):
            first = values[0] if not number else first
            last = values
        found[some] = last
    assert first is not None
    if not first.any():  # layer 1 has positions of its own
        first = first_kernel(net, inputs).ravel()
        if np.ptp(first) > _ROUNDING * np.max(first):
            alike = "the same at all positions, where a layer pools them"
            raise InputError("inputs", f"an array of shape {np.shape(inputs)}", alike)
    same = np.ptp(first) <= _ROUNDING * np.max(first)
    size = 1 if same else ensemble.data.measured
    return Samples(_square(found, size), width, layers, _square(first[None], size)[0], seed)


_ROUNDING = 1e-12
"""Entries of K of layer 1 this close, relatively, are of equal inputs, whose K stays one number."""


def _square(entries: Array, size: int) -> Array:
    """Rows of K_ab with a ≤ b as symmetric matrices; as numbers where there is one input."""
    if size == 1:
        return entries[:, 0]
    found = np.empty((len(entries), size, size))
    for place, (a, b) in enumerate(combinations_with_replacement(range(size), 2)):
        found[:, a, b] = found[:, b, a] = entries[:, place]
    return found
