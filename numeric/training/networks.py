"""Networks side by side: drawn, taken down their losses, looked at on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from derive.weights import Gaussian, IndependentEntries, Orthogonal, WeightEnsemble

from ..arrays import Array
from ..random.matrices import frame, weight_matrix
from ..samplers.ensemble import PERMUTATIONS, Ensemble
from . import kernels
from .changes import changes
from .losses import per_input
from .optimizers import Optimizer


class Trained(Protocol):
    """What is trained, on what, and how."""

    @property
    def ensemble(self) -> Ensemble:
        """The networks at initialization; its inputs are the training set's, then others."""

    @property
    def targets(self) -> Array:
        """(training, outputs)."""

    @property
    def widths(self) -> tuple[int, ...]:
        """n_0, …, and the outputs."""

    @property
    def rule(self) -> Optimizer:
        """The optimizer."""

    @property
    def loss(self) -> str:
        """One of `losses.LOSSES`."""

    @property
    def batch(self) -> int:
        """Inputs of a step."""

    @property
    def ntk(self) -> bool:
        """Whether the tangent kernel is observed."""


class Networks:
    """Networks side by side: parameters (networks, …), activations (networks, inputs, n).

    A network's parameters are one row, as `kernels` wants them: of each layer the matrix
    (n_in, n_out), then the biases.
    """

    supports: ClassVar[frozenset[str]] = frozenset({PERMUTATIONS})
    """What networks may need (`samplers.ensemble.Layers.needs`)."""

    def __init__(self, work: Trained, draws: NDArray[np.int64]) -> None:
        self.work, ensemble = work, work.ensemble
        self.streams = work.ensemble.generators(draws)
        shapes = list(zip(work.widths, work.widths[1:], strict=False))
        ends = np.cumsum([(n_in + 1) * n_out for n_in, n_out in shapes])
        self.parameters = np.empty((len(draws), ends[-1]))
        self.weights, self.biases = [], []
        for layer, (n_in, n_out) in enumerate(shapes, 1):
            own = self.parameters[:, ends[layer - 1] - (n_in + 1) * n_out : ends[layer - 1]]
            W = own[:, :-n_out].reshape(-1, n_in, n_out).transpose(0, 2, 1)
            assert np.shares_memory(W, self.parameters)
            self.weights.append(W)
            self.biases.append(own[:, None, -n_out:])
            self._draw(layer, first_rows)
        fan_in = np.array(work.widths[:-1])
        self.rates = ensemble.lambda_W / fan_in, ensemble.lambda_b
        self.begin(self.parameters)

    def begin(self, parameters: Array) -> None:
        """At these parameters, before the first step."""
        self.parameters[:] = parameters
        self.descent = self.work.rule.started(self.parameters, np.array(self.rates))
        self.waiting = np.empty((len(self.parameters), 0), np.int64)

    def _draw(self, layer: int, matrix: Callable[..., Array]) -> None:
        """A layer's parameters anew, its matrices from a law, a shape, a generator and the rows of
        the whole matrix."""
        W, b, ensemble = self.weights[layer - 1], self.biases[layer - 1], self.work.ensemble
        law, size = ensemble.weights_at(layer), np.sqrt(ensemble.C_b[layer - 1])
        rows = ensemble.widths[layer]
        for k, rng in enumerate(self.streams):
            W[k] = matrix(law, W[k].shape, rng, rows)
        for k, rng in enumerate(self.streams):
            b[k] = size * rng.standard_normal(b[k].shape)

    def mirror(self) -> None:
        """The outputs change their signs: the last layer's parameters do."""
        self.weights[-1] *= -1
        self.biases[-1] *= -1

    def forward(self, x: Array) -> tuple[list[Array], list[Array]]:
        """The outputs last: what enters each layer, (networks, inputs, n), and σ' behind it."""
        entering, slopes = [x], []
        last = len(self.weights) - 1
        for layer, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            z = entering[-1] @ W.transpose(0, 2, 1) + b
            if layer < last:
                values = np.empty((len(z), 2, *z.shape[1:]))
                self.work.ensemble.activation(layer + 1, 2).differentiate(z, values)
                slopes.append(values[:, 1])
                z = values[:, 0]
            entering.append(z)
        return entering, slopes

    def outputs(self, x: Array) -> Array:
        """What comes out for these inputs, (networks, inputs, outputs)."""
        work = self.work
        found = np.empty((len(self.parameters), len(x), work.targets.shape[1]))
        sigma = kernels.sigma_and_slope(work.ensemble.net.one_activation("compiled training"))
        kernels.descent().outputs(self.parameters, np.array(work.widths), x, sigma, found)
        return found

    def at(self, x: Array) -> Array:
        """The same, of a few inputs."""
        return self.forward(np.broadcast_to(x, (len(self.parameters), *x.shape)))[0][-1]

    def descend(self, steps: int) -> None:
        """So many steps of the optimizer."""
        work = self.work
        self.descent.take(
            work.widths, work.ensemble.inputs, work.targets, self._batches(steps), work.loss,
            work.ensemble.net.one_activation("compiled training"),
        )  # fmt: skip

    def _batches(self, steps: int) -> NDArray[np.int64]:
        """The training inputs of each step, (networks, steps, batch): each set is gone through in
        turn."""
        count, size = self.training, self.work.batch
        if size == count:
            return np.tile(np.arange(count), (len(self.streams), steps, 1))
        chosen = []
        for _ in range(steps):
            if self.waiting.shape[1] < size:
                orders = np.array([rng.permutation(count) for rng in self.streams])
                self.waiting = np.concatenate([self.waiting, orders], axis=1)
            chosen.append(self.waiting[:, :size])
            self.waiting = self.waiting[:, size:]
        return np.stack(chosen, axis=1)

    @property
    def training(self) -> int:
        """Training inputs."""
        return len(self.work.targets)

    @property
    def tests(self) -> Array:
        """The inputs behind them."""
        return self.work.ensemble.inputs[self.training :]

    def started(self, readouts: int = 1) -> Array:
        """What `Start` is, (networks, numbers), with so many last layers one after the other on
        the same layers below."""
        entering, slopes = self._passed()
        hidden, ensemble = entering[-2], self.work.ensemble
        own = hidden @ hidden.transpose(0, 2, 1) / hidden.shape[2]
        kernel = ensemble.C_b[-1] + ensemble.C_W[-1] * own
        parts = [entering[-1], self.kernel(entering, slopes), kernel]
        for _ in range(1, readouts):
            self._draw(len(self.weights), readout)
            entering[-1] = hidden @ self.weights[-1].transpose(0, 2, 1) + self.biases[-1]
            parts += [entering[-1], self.kernel(entering, slopes), kernel]
        return self._joined(parts)

    def changes(self) -> Array:
        """`changes.changes` of each network, (networks, numbers)."""
        entering, slopes = self._passed()
        variance = self.work.ensemble.C_W[-1] / entering[-2].shape[2]
        given = entering, slopes, self.weights, self.rates, variance, len(self.work.targets)
        return self._joined([changes(*given)])

    def observed(self) -> Array:
        """Outputs, tangent kernel and loss, (networks, numbers)."""
        work = self.work
        entering, slopes = self._passed()
        z = entering[-1]
        training = z[:, : len(work.targets)]
        loss = per_input(training, work.targets, work.loss).sum(axis=1)
        kernel = [self.kernel(entering, slopes)] if work.ntk else []
        return self._joined([z, *kernel, loss])

    def _joined(self, parts: Sequence[Array]) -> Array:
        return np.concatenate([part.reshape(len(self.streams), -1) for part in parts], axis=1)

    def _passed(self) -> tuple[list[Array], list[Array]]:
        """Forward with all inputs."""
        inputs = self.work.ensemble.inputs
        return self.forward(np.broadcast_to(inputs, (len(self.streams), *inputs.shape)))

    def kernel(self, entering: list[Array], slopes: list[Array]) -> Array:
        """The tangent kernel H, (networks, inputs, inputs, outputs, outputs), from ∂z_i/∂z^(ℓ) of
        every output i."""
        count, m, outputs = entering[-1].shape
        back = np.broadcast_to(np.eye(outputs)[:, None], (count, outputs, m, outputs))
        found = np.zeros((count, m, m, outputs, outputs))
        for layer in reversed(range(len(self.weights))):
            flat = np.ascontiguousarray(back).reshape(count, outputs * m, -1)
            paths = (flat @ flat.transpose(0, 2, 1)).reshape(count, outputs, m, outputs, m)
            inner = entering[layer] @ entering[layer].transpose(0, 2, 1)
            rate = self.rates[0][layer] * inner + self.rates[1][layer]
            found += paths.transpose(0, 2, 4, 1, 3) * rate[..., None, None]
            if layer:
                flat = flat @ self.weights[layer]
                back = flat.reshape(count, outputs, m, -1) * slopes[layer - 1][:, None]
        return found


def first_rows(
    law: WeightEnsemble, shape: tuple[int, int], rng: np.random.Generator, rows: int
) -> Array:
    """The first rows, (n_out, n_in), of a matrix of so many rows, or of n_out if these are more:
    its rank is a part of all of them."""
    n_out, n_in = shape
    if isinstance(law, Gaussian | IndependentEntries):
        return weight_matrix(law, shape, rng)
    return weight_matrix(law, (max(rows, n_out), n_in), rng)[:n_out]


def readout(
    law: WeightEnsemble, shape: tuple[int, int], rng: np.random.Generator, rows: int
) -> Array:
    """As `first_rows`, but of a Haar matrix the few that are wanted alone, where its rows are
    orthogonal: those of a block with more rows than columns are not."""
    n_out, n_in = shape
    if isinstance(law, Orthogonal) and n_out < n_in and rows <= n_in:
        found = frame(n_in, n_out, rng.standard_normal).T
        return np.asarray(np.sqrt(float(law.C_W)) * found)
    return first_rows(law, shape, rng, rows)
