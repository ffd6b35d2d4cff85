"""One input and preactivations alone: the forward pass of dense networks, side by side.

V, G1 and K need no more of a layer than |σ|²/n, and a layer is as many normals as it has neurons
(`weights`). A group of networks goes down all layers in a core's own cache: the same streams and
the same networks as `probing.layers` draws one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.engine.fields import Z
from derive.work.caches import cache

from ..arrays import Array, aligned
from ..emit.kernels import load_kernels
from ..emit.templates import activate_source, sigma_source
from ..estimators.observables import Plan
from ..estimators.probes import Probes
from ..random.lazy import BIAS, COLUMN, DIAGONAL, FACTOR, HAAR
from .base import evaluated
from .ensemble import Ensemble, Layers
from .forward_kernels import LANES, room_of_words
from .probing import polynomials_of
from .stage_kernels import PARTS

_FORWARD = '''\
{sigma}

{activate}

@entry
def forward(networks, key, steps, scales, rooms, squares):
    """|σ|² of networks (groups, lanes) at the layers of steps: squares (depth, groups, lanes).

    Entry 0 is |x|². Steps, rows (layer, kind, big, size, stream, last), are the factors of the
    weights of some layers and their biases, each layer's last one marked; the entry below the first
    of them is there. Rooms are for (widest, lanes) neurons and for as many normals, for Philox's
    words, and for two numbers of each network.
    """
    wide_vectors()
    Z, G, words, S, length = rooms
    before = steps[0, 0] - 1
    for g in range(networks.shape[0]):
        for s in range({lanes}):
            S[s] = squares[before, g, s]
        for t in range(steps.shape[0]):
            layer, kind, size, last = steps[t, 0], steps[t, 1], steps[t, 3], steps[t, 5]
            drawn = steps[t, 2] if kind == {HAAR} else size
            fill_normals(G, drawn, words, key, networks[g], layer, steps[t, 4])
            if kind == {BIASED}:
                for i in range({lanes} * size):
                    G[i] = Z[i] + scales[t] * G[i]
            else:
                for s in range({lanes}):
                    length[s] = 0.0 if kind == {HAAR} else 1.0
                if kind == {HAAR}:
                    add_squares(G, drawn, length)
                put_lengths(length, S, length, scales[t])
                scale(G, size, length)
            for s in range({lanes}):
                S[s] = 0.0
            if last:
                activate_0(G, {lanes} * size)
            elif steps[t + 1, 1] == {BIASED}:
                for i in range({lanes} * size):
                    Z[i] = G[i]
            add_squares(G, size, S)
            if last:
                for s in range({lanes}):
                    squares[layer, g, s] = S[s]
'''

BIASED = 1 << 8
"""The kind of a step that adds biases, beside those of weights."""

WIDEST = 1 << 11
"""Neurons of a layer, up to which a group of networks stays in a core's own cache."""

_PIECE = 1 << 24
"""Neurons of all networks in one call of compiled code, some 0.1 s: Ctrl-C comes in between."""


def fits(ensemble: Ensemble, plan: Plan) -> bool:
    """True for one input and preactivations alone, in dense layers not too wide."""
    return fit(ensemble.layers, plan)


@cache(entries=64)
def fit(layers: Layers, plan: Plan) -> bool:
    """The same of layers."""
    if layers.needs:
        return False
    steps = [step for steps in layers.steps for step in steps]
    widest = max(*layers.widths, *(max(step.big, step.size) for step in steps))
    return (
        plan.samples == 1
        and plan.fields == {Z}
        and isinstance(layers.net.activation, Activation)
        and widest <= WIDEST
        and all(step.kind != DIAGONAL for step in steps)
    )


def whole_groups(count: int) -> int:
    """So many networks, or as many more as fill the lanes of the last group."""
    return -(-count // LANES) * LANES


def grouped(draws: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Networks (groups, lanes), those of the first group repeated where there are too few."""
    return np.resize(draws, (whole_groups(draws.size) // LANES, LANES)).astype(np.uint64)


def blocks(ensemble: Ensemble, plan: Plan, draws: NDArray[np.int64]) -> Iterator[tuple[int, Array]]:
    """The statistics of the layers of one call of compiled code, then those of the next."""
    count, networks = draws.size, grouped(draws)
    squares = np.empty((ensemble.depth, *networks.shape))
    squares[0] = ensemble.inputs[0] @ ensemble.inputs[0]
    forward = kernels(ensemble.net.one_activation("the forward sampler")).forward
    program = program_of(ensemble.layers)
    structure, coefficients = polynomials_of(ensemble.layers, plan, Probes())
    n = np.array(ensemble.widths[:-1], float)[:, None]
    first, last, rooms = 0, 0, program.rooms()
    while first < ensemble.depth:
        if last + 1 < ensemble.depth:
            start, stop, last = program.piece(last + 1, _PIECE // networks.size)
            part = program.steps[start:stop], program.scales[start:stop]
            forward(networks, ensemble.key, *part, rooms, squares)
        these = slice(first, last + 1)
        vectors = squares[these].reshape(last + 1 - first, -1)[:, :count] / n[these]
        yield first, evaluated((structure, coefficients[these]), vectors[:, :, None])
        first = last + 1


@dataclass(frozen=True, eq=False)
class Program:
    """The arguments of the kernel that describe the layers.

    Arguments:
        steps, scales: the factors and biases of all layers but the last, which is averaged.
    """

    steps: NDArray[np.int64]
    scales: Array

    def piece(self, layer: int, most: int) -> tuple[int, int, int]:
        """The steps, from and to, that go on from this layer in one call, and the last layer: of
        so many neurons of one network at most, unless a layer has more."""
        layers, neurons = self.steps[:, 0], self._neurons
        start = int(np.searchsorted(layers, layer))
        before = neurons[start - 1] if start else 0
        reach = int(np.searchsorted(neurons, before + most, side="right"))
        last = max(layer, int(layers[reach]) - 1 if reach < layers.size else int(layers[-1]))
        return start, int(np.searchsorted(layers, last, side="right")), last

    @cached_property
    def _neurons(self) -> NDArray[np.int64]:
        """The neurons of one network in all steps so far."""
        return np.cumsum(self.steps[:, 2:4].max(axis=1, initial=1))

    @cached_property
    def _widest(self) -> int:
        return 4 + int(self.steps[:, 2:4].max(initial=1))

    def rooms(self) -> tuple[Array, Array, NDArray[np.uint64], Array, Array]:
        """Room for a group's neurons, their normals, words of those, and numbers by network."""
        Z, G = aligned(2, self._widest * LANES)
        return Z, G, room_of_words(), *aligned(2, LANES)


@cache(entries=64)
def program_of(layers: Layers) -> Program:
    """The program of dense layers."""
    rows, scales = list[tuple[int, ...]](), list[float]()
    for layer, steps in enumerate(layers.steps[:-1], start=1):
        for number, step in enumerate(steps):
            stream, last = COLUMN + FACTOR * number, number + 1 == len(steps)
            rows.append((layer, step.kind, step.big, step.size, stream, last))
            scales.append(step.scale)
        if layers.C_b[layer - 1] > 0.0:
            *_, last_step = steps
            rows[-1] = (*rows[-1][:-1], False)
            rows.append((layer, BIASED, last_step.size, last_step.size, BIAS, True))
            scales.append(math.sqrt(layers.C_b[layer - 1]))
    return Program(np.array(rows, np.int64).reshape(-1, 6), np.array(scales))


@cache
def kernels(activation: Activation) -> ModuleType:
    """`forward`, compiled for this activation."""
    sigma = sigma_source(activation, 1)
    source = _FORWARD.format(
        sigma=sigma, activate=activate_source(), lanes=LANES, HAAR=HAAR, BIASED=BIASED
    )
    doc = f"The forward pass of networks side by side: {activation.name}."
    return load_kernels("forward", doc, (), source, PARTS)
