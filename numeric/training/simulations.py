"""Ensembles of networks that are really trained, each from its own initialization.

simulate(net, inputs, targets, test, width=64, depth=4, eta=0.1, steps=[0, 10], draws=1000)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any, Protocol

import numba
import numpy as np
import xarray
from numpy.typing import ArrayLike, NDArray

from derive.citations import rests_on
from derive.errors import InputError, flag, whole
from derive.network import Network, dense_network
from derive.work.resources import check_memory, check_time, number

from .. import checks
from ..arrays import Array
from ..random.matrices import weight_matrix
from ..runs import chunks
from ..runs.directory import digest
from ..runs.totals import Rows
from ..runs.work import Work
from ..samplers.ensemble import Ensemble, checked_ensemble
from ..tables.layout import averaged
from . import layout
from .arguments import checked_rate, checked_steps, given
from .control import Line, line
from .losses import LOSSES, per_input
from .optimizers import Optimizer

_NUMBER_SECONDS = 6e-10
"""Of a network's forward and backward pass, for each weight and each input."""
_UNINTERRUPTED = 0.2
"""Seconds of steps after which a run looks whether it was given up."""


@rests_on("day2025")
def simulate(
    net: Network,
    inputs: ArrayLike,
    targets: ArrayLike,
    test: ArrayLike | None = None,
    width: int | None = None,
    depth: int | None = None,
    eta: float = 0.1,
    steps: float | Iterable[float] = 100,
    draws: int = 100,
    seed: int = 0,
    outputs: int | None = None,
    *,
    optimizer: str = "tensorial",
    loss: str = "squared",
    batch: int | None = None,
    clip: float | None = None,
    half: bool = True,
    ntk: bool = True,
    executor: Executor | None = None,
    window: int | None = None,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> xarray.Dataset:
    """Train networks of one width on the same data, and measure what `flow` derives.

    Arguments:
        net, inputs, targets, test, depth, outputs, half: as those of `flow`; any σ.
        width: n; by default the network's own.
        eta: η, above 0.
        steps: at which numbers of steps the networks are looked at.
        draws: networks, 2 or more.
        seed: draw number d is the same whatever `draws` is.
        optimizer: "tensorial" descent with λ (source 000, eq. 6.3), "ordinary" descent without,
            "momentum" or "adam".
        loss: "squared", "cross-entropy" of the outputs' softmax, or "sigmoid cross-entropy" of
            their sigmoids over the sum of these; targets are probabilities.
        batch: training inputs of each step, drawn without repetition till all have been; all of
            them by default.
        clip: the largest gradient of a matrix as a part of the matrix (source 003, eq. 29).
        ntk: whether the tangent kernel is measured.
        executor, window, run, progress: those of `numeric.simulate`.

    Returns:
        The table of `flow` without coefficients of 1/n: prediction, covariance, ntk and loss at
        this width, and `…_se`, their standard errors. Where Θ says how z descends at infinite
        width, with tensorial descent of all inputs on the squared loss, they are measured by what
        differs from that (`control`), with much less noise.

    Raises:
        InputError: for arguments that cannot be used, and where training diverges.

    >>> from derive import Network
    >>> table = simulate(Network("tanh"), [1.0, 0.5], 1.0, width=8, depth=2, steps=5, draws=20)
    >>> sorted(map(str, table.data_vars))[:4]
    ['covariance', 'covariance_se', 'loss', 'loss_se']
    """
    net = dense_network("net", net)
    data = given(inputs, targets, test, outputs)
    width = net.width if width is None else width
    depth = net.depth if depth is None else depth
    if width is None or depth is None:
        raise InputError("width, depth", (width, depth), "both, or a network with widths")
    ensemble = checked_ensemble(net, data.X, width, depth, seed)
    times = checked_steps(steps, continuous=False)
    if not all(map(np.isfinite, times)):
        raise InputError("steps", steps, "finite numbers of steps, to be taken one by one")
    rule = Optimizer(optimizer, checked_rate(eta, flows=False) * (1 if half else 2), clip)
    _check_loss(loss, data.targets)
    training = len(data.targets)
    size = training if batch is None else whole("batch", batch, 1, training)
    draws = checks.draws(draws, 2)
    options = chunks.Options(executor, window, run, progress)
    counts = tuple(int(t) for t in times)
    straight = optimizer == "tensorial" and loss == "squared" and size == training and clip is None
    counts = (0, *counts) if straight else counts
    work = _Training(ensemble, data.targets, rule, loss, size, counts, flag("ntk", ntk), draws)
    what = f"training {number(draws)} networks of width {number(width)}"
    check_memory("draws", draws, 8 * draws * work.row, what)
    seconds = draws * work.seconds
    if not options.kept:
        check_time("draws, steps", (draws, max(times)), seconds, what)
    rows = chunks.total(work, draws, options, what, seconds)[0].arrays()["rows"]
    started = (
        line(net, data.X, data.targets, rule.eta, counts, width, depth, draws, seed)
        if straight
        else None
    )
    found = _measured(work, rows, started)
    if straight:
        found = {name: each[1:] for name, each in found.items()}
    if loss == "squared" and not half:
        found |= {name: 2 * found[name] for name in ("loss", "loss_se")}
    about: dict[str, int | float | str] = {
        "width": width, "depth": depth, "draws": draws, "blocks": draws, "seed": seed,
        "eta": float(eta), "optimizer": optimizer, "loss": f"{loss} {'½Σ' if half else 'Σ'}",
        "batch": size,
    }  # fmt: skip
    return layout.dataset(net, data.X, data.targets, times, found, about)


def _check_loss(loss: object, targets: Array) -> None:
    if loss not in LOSSES:
        raise InputError("loss", loss, f"one of {', '.join(LOSSES)}")
    if loss != "squared":
        sums = targets.sum(axis=1)
        if targets.shape[1] < 2 or (targets < 0).any() or not np.allclose(sums, 1):
            raise InputError(
                "targets", "these", "probabilities of two outputs or more, that add to 1"
            )


@dataclass(frozen=True, eq=False)
class _Training(Work):
    """Networks as they are trained: their outputs, tangent kernels and losses at given steps."""

    ensemble: Ensemble
    targets: Array
    rule: Optimizer
    loss: str
    batch: int
    steps: tuple[int, ...]
    ntk: bool
    draws: int

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
        passes = (max(self.steps) + 1) * len(self.ensemble.inputs)
        return 1e-3 + passes * self._entries * _NUMBER_SECONDS

    @property
    def chunk(self) -> int:
        """A power of two: networks whose weights are a few megabytes together."""
        return 1 << max(0, min(8, (2**19 // self._entries).bit_length() - 1))

    @property
    def threads(self) -> int:
        """How many threads share the work on this machine."""
        return int(numba.get_num_threads())

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Of outputs, tangent kernel and loss at a step."""
        outputs = len(self.ensemble.inputs) * self.targets.shape[1]
        return outputs, outputs**2 if self.ntk else 0, 1

    @property
    def row(self) -> int:
        """Numbers that a network comes to."""
        return len(self.steps) * sum(self.sizes)

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
        networks = Networks(self, np.arange(start, stop))
        found = {}
        step, most = (
            0,
            max(1, int(_UNINTERRUPTED / (self.seconds * (stop - start)) * max(self.steps))),
        )
        for until in sorted(set(self.steps)):
            while step < until:
                if given_up is not None and given_up.is_set():
                    raise CancelledError
                networks.descend(min(most, until - step))
                step += min(most, until - step)
            found[until] = networks.observed()
        rows = np.concatenate([found[step] for step in self.steps], axis=1)
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

    def observed(self) -> Array:
        """Outputs, tangent kernel and loss, (networks, numbers)."""
        work, count = self.work, len(self.streams)
        x = np.broadcast_to(work.ensemble.inputs, (count, *work.ensemble.inputs.shape))
        entering, slopes = self.forward(x)
        z = entering[-1]
        training = z[:, : len(work.targets)]
        loss = per_input(training, work.targets, work.loss).sum(axis=1)
        parts = [z.reshape(count, -1), loss[:, None]]
        if work.ntk:
            parts.insert(1, self.kernel(entering, slopes).reshape(count, -1))
        return np.concatenate(parts, axis=1)

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


def _measured(work: _Training, rows: Array, line: Line | None) -> dict[str, Array]:
    """Means over networks, covariances, and standard errors; with a line, by what differs from it.

    The first of the steps is then 0, and is what the line starts from.
    """
    draws, m, outputs = len(rows), len(work.ensemble.inputs), work.targets.shape[1]
    ends = np.cumsum(work.sizes)[:-1]
    z, kernel, loss = np.split(rows.reshape(draws, len(work.steps), -1), ends, axis=2)
    z = z.reshape(draws, -1, m, outputs)
    found = {"prediction": z, "covariance": _products(z, z.mean(axis=0)), "loss": loss[..., 0]}
    if work.ntk:
        found["ntk"] = kernel.reshape(draws, -1, m, m, outputs, outputs)
    known: dict[str, tuple[Array | float, Array | float]] = dict.fromkeys(found, (0.0, 0.0))
    if line is not None:
        known |= _of_line(work, line, found, z[:, 0])
    result = {}
    for name, values in found.items():
        mean, error = averaged(values)
        result[name] = known[name][0] + mean
        result[f"{name}_se"] = np.hypot(error, known[name][1])
    return result


def _of_line(
    work: _Training, line: Line, found: dict[str, Array], start: Array
) -> dict[str, tuple[Array | float, Array | float]]:
    """Take off what the line says of each network; its means, and their standard errors."""
    training, outputs = slice(len(work.targets)), work.targets.shape[1]
    straight = line.fixed + np.einsum("sab,dbi->dsai", line.maps, start)
    off = straight[:, :, training] - work.targets
    still = line.fixed[:, training] - work.targets
    moved, doubt = line.covariance
    spread, spread_se = (
        np.einsum("saa->s", each[:, training, training]) for each in (moved, doubt)
    )
    found["prediction"] = found["prediction"] - straight
    found["covariance"] = found["covariance"] - _products(straight, line.fixed)
    found["loss"] = found["loss"] - (off**2).sum(axis=(2, 3)) / 2
    if work.ntk:
        found["ntk"] = found["ntk"] - found["ntk"][:, :1]

    def each_output(values: Array) -> Array:
        return np.asarray(values[..., None, None] * np.eye(outputs))

    loss = (outputs * spread + (still**2).sum(axis=(1, 2))) / 2
    known: dict[str, tuple[Array | float, Array | float]] = {
        "prediction": (line.fixed, 0.0),
        "covariance": (each_output(moved), each_output(doubt)),
        "loss": (loss, outputs * spread_se / 2),
    }
    if work.ntk:
        known["ntk"] = each_output(line.tangent), each_output(line.tangent_se)
    return known


def _products(z: Array, mean: Array) -> Array:
    """(z − mean)(z − mean), (draws, steps, samples, samples, outputs, outputs)."""
    centred = z - mean
    return np.asarray(np.einsum("dsai,dsbj->dsabij", centred, centred))
