"""Networks that are trained: drawn, taken down their losses side by side, looked at on the way."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass
from functools import cached_property
from math import prod
from threading import Event
from typing import Any, NamedTuple, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from derive.errors import InputError

from ..arrays import Array
from ..random.matrices import weight_matrix
from ..runs.directory import digest
from ..runs.totals import Rows
from ..runs.work import Work
from ..samplers.ensemble import Ensemble
from . import kernels
from .losses import per_input
from .optimizers import Optimizer

_NUMBER_SECONDS = 6e-10
"""Of a network's forward and backward pass, for each weight and each input."""
_DRAWN_SECONDS = 3e-8
"""Of drawing a weight."""
_UNINTERRUPTED = 0.2
"""Seconds of steps after which a run looks whether it was given up."""


class Start(NamedTuple):
    """Networks at initialization.

    Attributes:
        outputs: z, (draws, samples, outputs).
        tangent: H, (draws, samples, samples, outputs, outputs).
        kernel: the covariance of an output over the last layer's parameters alone, given the
            layers below, C_b + C_W σσ/n, (draws, samples, samples).
    """

    outputs: Array
    tangent: Array
    kernel: Array


class Course(NamedTuple):
    """Networks at each step: outputs and tangent kernels as those of `Start`, with an axis of steps
    behind that of the draws, and the losses, (draws, steps); no kernels if they are not wanted."""

    outputs: Array
    tangent: Array | None
    loss: Array


@dataclass(frozen=True, eq=False)
class Training(Work):
    """Networks as they are trained: their outputs, tangent kernels and losses at given steps.

    Arguments:
        steps: none for networks at initialization.
        origin: whether a row has what `Start` is, before the steps.
        first: the number of the first draw.
    """

    ensemble: Ensemble
    targets: Array
    rule: Optimizer
    loss: str
    batch: int
    steps: tuple[int, ...]
    ntk: bool
    draws: int
    origin: bool = False
    first: int = 0

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """n_0, …, and the outputs."""
        return *self.ensemble.widths[:-1], self.targets.shape[1]

    @property
    def _entries(self) -> int:
        return sum(a * b for a, b in zip(self.widths, self.widths[1:], strict=False))

    @property
    def seconds(self) -> float:
        """Of a network, roughly."""
        passes = (max(self.steps, default=0) + 1) * len(self.ensemble.inputs)
        return 1e-4 + self._entries * (_DRAWN_SECONDS + passes * _NUMBER_SECONDS)

    @property
    def chunk(self) -> int:
        """A power of two: networks whose weights are a few megabytes together."""
        return 1 << max(0, min(8, (2**19 // self._entries).bit_length() - 1))

    @property
    def threads(self) -> int:
        """How many threads share the work on this machine."""
        return int(numba.get_num_threads())

    @property
    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of a network's outputs and tangent kernel."""
        m, outputs = len(self.ensemble.inputs), self.targets.shape[1]
        return (m, outputs), (m, m, outputs, outputs)

    @property
    def _sizes(self) -> tuple[list[int], list[int]]:
        """How many numbers each part of `Start` and of `Course` is."""
        z, kernel = map(prod, self._shapes)
        start = [z, kernel, len(self.ensemble.inputs) ** 2] if self.origin else []
        return start, [z, *([kernel] if self.ntk else []), 1]

    @property
    def row(self) -> int:
        """Numbers that a network comes to."""
        start, course = self._sizes
        return sum(start) + len(self.steps) * sum(course)

    def start(self, rows: Array) -> Start:
        """Of these rows, which have it."""
        z, kernel = self._shapes
        m, (*ends, _) = len(self.ensemble.inputs), np.cumsum(self._sizes[0] + [0])
        parts = np.split(rows[:, : ends[-1]], ends[:-1], axis=1)
        shapes = z, kernel, (m, m)
        return Start(*(p.reshape(-1, *own) for p, own in zip(parts, shapes, strict=True)))

    def course(self, rows: Array) -> Course:
        """Of these rows."""
        begin, course = self._sizes
        by_step = rows[:, sum(begin) :].reshape(len(rows), len(self.steps), -1)
        z, *kernel, loss = np.split(by_step, np.cumsum(course)[:-1], axis=2)
        shape, own = by_step.shape[:2], self._shapes
        tangent = kernel[0].reshape(*shape, *own[1]) if kernel else None
        return Course(z.reshape(*shape, *own[0]), tangent, loss[..., 0])

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, numbers)."""
        return draws, self.row

    def total(self) -> Rows:
        """All networks, one below the other."""
        return Rows(np.empty(self.shape(self.draws)))

    def manifest(self) -> dict[str, Any]:
        """The networks, what they are trained on, and how."""
        return {
            "sampler": "training",
            **self.ensemble.manifest(),
            "targets": f"{self.targets.shape} {digest(self.targets)}",
            "optimizer": [self.rule.kind, self.rule.eta, self.rule.clip],
            "loss": self.loss,
            "batch": self.batch,
            "steps": list(self.steps),
            "ntk": self.ntk,
            "chunk": self.chunk,
            "origin": self.origin,
            "first": self.first,
        }

    def sums(
        self,
        start: int,
        stop: int,
        reference: Array,
        pool: Executor | None = None,
        threads: int = 1,
        given_up: Event | None = None,
    ) -> Array:
        """What these networks come to, (draws, numbers)."""
        networks = Networks(self, self.first + np.arange(start, stop))
        parts = [networks.started()] if self.origin else []
        found, step, last = {}, 0, max(self.steps, default=0)
        most = max(1, int(_UNINTERRUPTED / (self.seconds * (stop - start)) * last))
        for until in sorted(set(self.steps)):
            while step < until:
                if given_up is not None and given_up.is_set():
                    raise CancelledError
                networks.descend(min(most, until - step))
                step += min(most, until - step)
            found[until] = networks.observed()
        rows = np.concatenate([*parts, *(found[step] for step in self.steps)], axis=1)
        if not np.isfinite(rows).all():
            raise InputError("eta", self.rule.eta, "a learning rate at which training converges")
        return rows


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

    def __init__(self, work: Trained, draws: NDArray[np.int64]) -> None:
        self.work, ensemble = work, work.ensemble
        k0, k1 = (int(word) for word in ensemble.key)
        key = k0 + (k1 << 32)
        self.streams = [
            np.random.Generator(np.random.Philox(key=key, counter=int(draw) << 128))
            for draw in draws
        ]
        shapes = list(zip(work.widths, work.widths[1:], strict=False))
        ends = np.cumsum([(n_in + 1) * n_out for n_in, n_out in shapes])
        self.parameters = np.empty((len(draws), ends[-1]))
        self.weights, self.biases = [], []
        for layer, (n_in, n_out) in enumerate(shapes, 1):
            own = self.parameters[:, ends[layer - 1] - (n_in + 1) * n_out : ends[layer - 1]]
            W = own[:, :-n_out].reshape(-1, n_in, n_out).transpose(0, 2, 1)
            b = own[:, None, -n_out:]
            assert np.shares_memory(W, self.parameters)
            law, size = ensemble.weights_at(layer), np.sqrt(ensemble.C_b[layer - 1])
            for k, rng in enumerate(self.streams):
                W[k] = weight_matrix(law, (n_out, n_in), rng)
            for k, rng in enumerate(self.streams):
                b[k] = size * rng.standard_normal((1, n_out))
            self.weights.append(W)
            self.biases.append(b)
        fan_in = np.array(work.widths[:-1])
        self.rates = ensemble.lambda_W / fan_in, ensemble.lambda_b
        self.descent = work.rule.started(self.parameters, np.array(self.rates))
        self.waiting = np.empty((len(draws), 0), np.int64)

    def forward(self, x: Array) -> tuple[list[Array], list[Array]]:
        """The outputs last: what enters each layer, (networks, inputs, n), and σ' behind it."""
        entering, slopes = [x], []
        last = len(self.weights) - 1
        for layer, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            z = entering[-1] @ W.transpose(0, 2, 1) + b
            if layer < last:
                values = np.empty((len(z), 2, *z.shape[1:]))
                self.work.ensemble.activation(2).differentiate(z, values)
                slopes.append(values[:, 1])
                z = values[:, 0]
            entering.append(z)
        return entering, slopes

    def outputs(self, x: Array) -> Array:
        """What comes out for these inputs, (networks, inputs, outputs)."""
        work = self.work
        found = np.empty((len(self.parameters), len(x), work.targets.shape[1]))
        sigma = kernels.sigma_and_slope(work.ensemble.net.activation)
        kernels.descent().outputs(self.parameters, np.array(work.widths), x, sigma, found)
        return found

    def descend(self, steps: int) -> None:
        """So many steps of the optimizer."""
        work = self.work
        self.descent.take(
            work.widths, work.ensemble.inputs, work.targets, self._batches(steps), work.loss,
            work.ensemble.net.activation,
        )  # fmt: skip

    def _batches(self, steps: int) -> NDArray[np.int64]:
        """The training inputs of each step, (networks, steps, batch): each set is gone through in
        turn."""
        count, size = len(self.work.targets), self.work.batch
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

    def started(self) -> Array:
        """What `Start` is, (networks, numbers)."""
        entering, slopes = self._passed()
        hidden, ensemble = entering[-2], self.work.ensemble
        own = hidden @ hidden.transpose(0, 2, 1) / hidden.shape[2]
        kernel = ensemble.C_b[-1] + ensemble.C_W[-1] * own
        return self._joined([entering[-1], self.kernel(entering, slopes), kernel])

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
