"""One input and preactivations alone: the forward pass of the lazy sampler, networks side by side.

V, G1 and K need no more of a layer than |σ|²/n, and a layer is as many normals as it has neurons
(`weights`). A group of networks goes down all layers in a core's own cache: the same streams and
the same networks as `lazy.ProbeSampler` draws one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation

from ..arrays import Array
from ..emit import fastmath
from ..emit.templates import load_template, sigma_source
from ..estimators.observables import Plan
from ..estimators.probes import Probes
from ..random import lazy, philox
from ..random.lazy import COLUMN, DIAGONAL, FACTOR
from . import forward_kernels
from .base import common_kernels
from .ensemble import Ensemble
from .forward_kernels import LANES
from .probing import ProbeSampler

_FORWARD = '''\
"""The forward pass of networks side by side: {name}.

{fingerprint}
"""

{prelude}
from numeric.emit import fastmath
from numeric.samplers import forward_kernels

{entry}

{sigma}

@entry
def forward(networks, key, steps, scales, C_b, squares):
    """|σ|² of networks (groups, lanes) at the layers of steps: squares (depth, groups, lanes).

    Entry 0 is |x|². Steps, rows (layer, kind, big, size, stream), are the factors of the weights of
    some layers; the entry below the first of them is there.
    """
    widest = 4
    for t in range(steps.shape[0]):
        widest = max(widest, steps[t, 2] + 4, steps[t, 3])
    Z, G, S = np.empty((widest, {lanes})), np.empty((widest, {lanes})), np.empty({lanes})
    for g in range(networks.shape[0]):
        S[:] = squares[steps[0, 0] - 1, g]
        for t in range(steps.shape[0]):
            layer, kind, big, size, stream = steps[t]
            z, factor = Z[:size], (kind, big, scales[t])
            forward_kernels.apply(S, z, G, networks[g], factor, (key, layer, stream))
            last = t + 1 == steps.shape[0] or steps[t + 1, 0] > layer
            if last and C_b[layer - 1] > 0.0:
                forward_kernels.add_bias(C_b[layer - 1], z, G, networks[g], (key, layer))
            if last:
                flat = z.reshape(-1)
                for i in range(flat.size):
                    flat[i] = sigma(flat[i])[0]
            S.fill(0.0)
            forward_kernels.add_squares(z, S)
            if last:
                squares[layer, g] = S
'''

WIDEST = 1 << 11
"""Neurons of a layer, up to which a group of networks stays in a core's own cache."""

_PIECE = 1 << 24
"""Neurons of all networks in one call of compiled code, some 0.1 s: Ctrl-C comes in between."""


def applies(ensemble: Ensemble, plan: Plan, probes: Probes) -> bool:
    """Whether there is one input and nothing but preactivations, in layers not too wide."""
    steps = [step for steps in ensemble.steps for step in steps]
    widest = max(*ensemble.widths, *(max(step.big, step.size) for step in steps))
    return (
        plan.samples == 1
        and not probes.order
        and widest <= WIDEST
        and all(step.kind != DIAGONAL for step in steps)
    )


@dataclass(frozen=True, eq=False)
class ForwardSampler(ProbeSampler):
    """Networks followed on one input, `LANES` of them at a time."""

    @property
    def batch(self) -> int:
        """Whole groups of networks."""
        return -(-super().batch // LANES) * LANES

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """Take networks down the layers; their statistics, (draws, statistics), at each."""
        ensemble, count = self.ensemble, draws.size
        networks = np.resize(draws, (-(-count // LANES), LANES)).astype(np.uint64)
        squares = np.empty((ensemble.depth, *networks.shape))
        squares[0] = ensemble.inputs[0] @ ensemble.inputs[0]
        forward = _kernels(ensemble.net.activation).forward
        steps, scales = self._steps
        structure, coefficients = self._polynomials
        values = np.empty((count, len(self.plan.statistics)))
        known = 0
        for layer, square in enumerate(squares):
            if layer > known:
                start, stop, known = self._piece(layer, networks.size)
                part = steps[start:stop], scales[start:stop]
                forward(networks, ensemble.key, *part, ensemble.C_b, squares)
            vectors = square.reshape(-1, 1)[:count] / ensemble.widths[layer]
            common_kernels().evaluate(vectors, structure, coefficients[layer], values)
            yield values

    def _piece(self, layer: int, networks: int) -> tuple[int, int, int]:
        """The steps, from and to, that go on from this layer in one call, and the last layer."""
        layers, neurons = self._steps[0][:, 0], self._neurons
        start = int(np.searchsorted(layers, layer))
        before = neurons[start - 1] if start else 0
        reach = int(np.searchsorted(neurons, before + _PIECE // networks, side="right"))
        last = max(layer, int(layers[reach]) - 1 if reach < layers.size else int(layers[-1]))
        return start, int(np.searchsorted(layers, last, side="right")), last

    @cached_property
    def _neurons(self) -> NDArray[np.int64]:
        """The neurons of one network in all steps so far."""
        return np.cumsum(self._steps[0][:, 2:4].max(axis=1, initial=1))

    @cached_property
    def _steps(self) -> tuple[NDArray[np.int64], Array]:
        """The factors of all layers but the last, which is averaged."""
        rows = [
            ((layer, step.kind, step.big, step.size, COLUMN + FACTOR * number), step.scale)
            for layer, steps in enumerate(self.ensemble.steps[:-1], start=1)
            for number, step in enumerate(steps)
        ]
        steps = np.array([row for row, _ in rows], np.int64).reshape(-1, 5)
        return steps, np.array([scale for _, scale in rows], float)


@cache
def _kernels(activation: Activation) -> ModuleType:
    """`forward`, compiled for this activation."""
    return load_template(
        _FORWARD,
        "forward",
        (fastmath, forward_kernels, philox, lazy),
        name=activation.name,
        sigma=sigma_source(activation, 1),
        lanes=str(LANES),
    )
