"""Arithmetic of jets: numbers with their derivatives along random probes (`estimators.probes`).

A jet's axes are (draws, O, m, n), O over `Probes.jets`; n is 1 where there is no neural index. With
ε_e for probe e, ε_e² = 0, it is the polynomial Σ_O x_{;O} Π_{e ∈ O} ε_e, so a product is a sum over
splits of O, and a function of jets is Faà di Bruno's sum over partitions of O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from derive.groups.pairings import set_partitions
from derive.work.caches import cache

from ..arrays import Array
from ..emit.kernels import load_kernels
from ..estimators.probes import Jet, Probes
from . import jet_kernels

Derivative = Callable[[tuple[int, ...]], Array]
"""A function's derivative of these orders by its arguments, at the arguments' values."""


def times(probes: Probes, x: Array, y: Array) -> Array:
    """The product, neuron by neuron; x alone may be without them."""
    if not probes.order:
        return x * y
    return np.asarray(kernels().multiply(_whole(x), _whole(y), splits(probes)))


def summed(probes: Probes, x: Array, y: Array) -> Array:
    """Σ_k x_k y_k over neurons, (draws, jets, m, 1)."""
    return np.asarray(kernels().contract(_whole(x), _whole(y), splits(probes)))


@cache
def kernels() -> ModuleType:
    """`multiply` and `contract`, compiled."""
    entries = jet_kernels.multiply, jet_kernels.contract
    return load_kernels("jets", "Products of jets.", entries)


def _whole(x: Array) -> Array:
    """As the kernels take it: writeable, one number after another."""
    return np.require(x, requirements=["C", "W"])


def constant(probes: Probes, x: Array) -> Array:
    """A constant, which does not depend on θ, (draws, m, n), as a jet."""
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


@cache(entries=64)
def splits(probes: Probes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each jet O, the places of A and O∖A for all A ⊆ O, one after another."""
    place = {jet: number for number, jet in enumerate(probes.jets)}
    start, left, right = [0], [], []
    for jet in probes.jets:
        for part in _subsets(jet):
            left.append(place[part])
            right.append(place[_without(jet, part)])
        start.append(len(left))
    return np.array(start), np.array(left), np.array(right)


def _subsets(jet: Jet) -> list[Jet]:
    chosen = product((False, True), repeat=len(jet))
    return [tuple(e for e, kept in zip(jet, each, strict=True) if kept) for each in chosen]


def _without(jet: Jet, part: Jet) -> Jet:
    return tuple(e for e in jet if e not in part)
