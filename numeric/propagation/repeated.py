"""The layer that a network repeats, and tables of the fixed point of its kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import xarray

from derive.engine.orbits import Exchangeable, orbits
from derive.engine.tensors import Name, named
from derive.errors import InputError, Words
from derive.network import Network

from ..arrays import Array, by_orbit, over_samples
from ..flows import repeated_layer
from ..layers.accuracy import EPS, NOISE, RUNS
from ..layers.vectors import Descent
from ..tables import layout

Tensors: TypeAlias = dict[Name, Array]
"""Tensors by their orbits, (copies, …)."""

NEWTON, ROUNDINGS, LEAST = 8, 1024, 1e-9
"""Steps of Newton's method; the roundings of q that it leaves; the 1 − eigenvalue that is taken for
0, as where every q is fixed."""

SMALLEST, LARGEST = 1e-30, 1e30
"""A q that goes on to fall, or to grow."""

_K = named("K")
_SEED = 2019

_MEANINGS = {
    "K": "K at the fixed point",
    "kernel_rate": "eigenvalues of the Jacobian of (q, p)",
    "difference_rate": "factor of q - p in a layer, close to equal tokens",
    "gradient_rate": "eigenvalues of the map of Theta; gradients grow by the largest",
    "V_rate": "the largest eigenvalue of the map of V",
    "G1": "limit of G1",
    "V": "limit of V",
}


class RepeatedLayer:
    """The layer that a network repeats, on tensors given by their orbits.

    Attributes:
        names: the tensors, and those that they need.
    """

    def __init__(self, net: Network, inputs: Exchangeable, names: Sequence[str]) -> None:
        self._layers, self._parameters, self._samples = repeated_layer(net, inputs, names)
        self.names = self._layers.names

    def labels(self, name: Name) -> list[str]:
        """The orbits of a tensor."""
        return list(orbits(name, self._samples))

    def __call__(
        self, given: Tensors, depth: int = 2, noise: Callable[[int], Array] | None = None
    ) -> Tensors:
        """The tensors that so many layers, less one, make of these.

        Arguments:
            given: (copies, orbits) each.
            depth: layers, the given one among them.
            noise: disturbances of so many averages, (copies, averages), in units of their sizes.
        """
        copies = len(given[_K])
        arrays = [over_samples(given[name], name, self._samples) for name in self.names]
        averages = self._layers.noises
        descent = Descent(
            np.tile(self._parameters, (depth, copies, 1)),
            np.zeros((copies, averages)) if noise is None else noise(averages),
            np.zeros((copies, len(arrays))),
            lambda layers: None,
        )
        rows, _ = self._layers.descend((arrays, [np.abs(each[0]) for each in arrays]), descent)
        return {
            name: by_orbit(row[-1], name, self._samples)
            for name, row in zip(self.names, rows, strict=True)
        }


def disturbances(averages: int) -> Array:
    """Of so many averages, as `RepeatedLayer` takes them: none, and then `RUNS` that are random."""
    rng = np.random.default_rng(_SEED)
    found = NOISE * EPS * rng.uniform(-1.0, 1.0, (1 + RUNS, averages))
    found[0] = 0.0
    return found


def restless(
    net: Network, inputs: Exchangeable, kernel: Sequence[float], wanted: str, more: str = ""
) -> InputError:
    """The error of a kernel that does not come to rest: where it is in the end, and more."""
    q, p = kernel
    got = f"{net} at {inputs}, which leads to q = {q:.6g} and p = {p:.6g}{more}"
    return InputError("net, inputs", Words(got), f"a fixed point of the kernel{wanted}")


def table(
    net: Network,
    inputs: Exchangeable,
    numbers: Mapping[str, tuple[tuple[str, ...], Array, Array]],
    labels: Sequence[str],
) -> xarray.Dataset:
    """The table of `fixed_points` with a batch.

    Arguments:
        numbers: of each its axes, its values, and their errors.
        labels: the orbits.
    """
    arrays: dict[str, xarray.Variable] = {}
    for name, (dims, values, errors) in numbers.items():
        arrays[name] = xarray.Variable(dims, values, {"long_name": _MEANINGS[name]})
        arrays[f"{name}_error"] = xarray.Variable(dims, errors)
    attributes = {"network": str(net), **layout.about_inputs(inputs)}
    return xarray.Dataset(arrays, {"orbit": list(labels)}, attributes)
