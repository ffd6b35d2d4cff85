"""Arithmetic of jets: numbers with their derivatives along random probes (`estimators.probes`).

A jet's axes are (draws, O, m, n), O over `Probes.jets`; n is 1 where there is no neural index. With
ε_e for probe e, ε_e² = 0, it is the polynomial Σ_O x_{;O} Π_{e ∈ O} ε_e, so a product is a sum over
splits of O, and a function of jets is Faà di Bruno's sum over partitions of O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from derive.groups.pairings import set_partitions

from ..arrays import Array
from ..estimators.probes import Jet, Probes

Derivative = Callable[[tuple[int, ...]], Array]
"""A function's derivative of these orders by its arguments, at the arguments' values."""


def times(probes: Probes, x: Array, y: Array) -> Array:
    """The product, neuron by neuron."""
    if not probes.order:
        return x * y
    parts = [sum(x[:, a] * y[:, b] for a, b in splits) for splits in _splits(probes)]
    return np.stack(parts, axis=1)


def summed(probes: Probes, x: Array, y: Array) -> Array:
    """Σ_k x_k y_k over neurons, (draws, jets, m, 1)."""
    parts = [
        sum(np.einsum("dmn,dmn->dm", x[:, a], y[:, b]) for a, b in splits)
        for splits in _splits(probes)
    ]
    return np.stack(parts, axis=1)[..., None]


def constant(probes: Probes, x: Array) -> Array:
    """What does not depend on θ, (draws, m, n), as a jet."""
    jets = np.zeros((x.shape[0], len(probes.jets), *x.shape[1:]))
    jets[:, 0] = x
    return jets


def composed(probes: Probes, derivative: Derivative, arguments: Sequence[Array]) -> Array:
    """f(x, y, …) of jets."""
    place = {jet: number for number, jet in enumerate(probes.jets)}
    plain = derivative((0,) * len(arguments))
    found = np.zeros((plain.shape[0], len(place), *plain.shape[1:]))
    found[:, 0] = plain
    for number, jet in enumerate(probes.jets[1:], start=1):
        for blocks in set_partitions(jet):
            for chosen in product(range(len(arguments)), repeat=len(blocks)):
                orders = tuple(chosen.count(v) for v in range(len(arguments)))
                term = derivative(orders)
                for block, v in zip(blocks, chosen, strict=True):
                    term = term * arguments[v][:, place[tuple(sorted(block))]]
                found[:, number] += term
    return found


@lru_cache(maxsize=64)
def _splits(probes: Probes) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each jet O, the places of A and O∖A for all A ⊆ O."""
    place = {jet: number for number, jet in enumerate(probes.jets)}
    return tuple(
        tuple((place[part], place[_without(jet, part)]) for part in _subsets(jet))
        for jet in probes.jets
    )


def _subsets(jet: Jet) -> list[Jet]:
    chosen = product((False, True), repeat=len(jet))
    return [tuple(e for e, kept in zip(jet, each, strict=True) if kept) for each in chosen]


def _without(jet: Jet, part: Jet) -> Jet:
    return tuple(e for e in jet if e not in part)
