"""Ensembles that are trained: what each network is at given steps, as work in chunks."""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numba
import numpy as np

from derive.activations import Activation
from derive.errors import InputError, Words

from ..arrays import Array
from ..runs.directory import digest
from ..runs.work import RowsWork, Sharing
from ..samplers.ensemble import Ensemble
from .networks import CompiledNetworks, Networks
from .optimizers import Optimizer
from .parts import Part, parts
from .stopping import Patience, Stopping

_NUMBER_SECONDS = 6e-10
"""Of a network's forward and backward pass, for each weight and each input."""
_STAGED = 1.3
"""How many times as long it takes where a layer's equations are evaluated one by one."""
_DRAWN_SECONDS = 3e-8
"""Of drawing a weight."""
_UNINTERRUPTED = 0.2
"""Seconds of steps after which a run looks whether it was given up."""


class Start(NamedTuple):
    """Networks at initialization, each with some last layers, its readouts.

    Attributes:
        outputs: z, (draws, readouts, samples, outputs).
        tangent: H, (draws, readouts, samples, samples, outputs, outputs).
        kernel: the covariance of an output over the last layer's parameters alone, given the
            layers below, C_b + C_W σσ/n, (draws, readouts, samples, samples).
    """

    outputs: Array
    tangent: Array
    kernel: Array


class Course(NamedTuple):
    """Networks at each step: outputs (draws, signs, steps, samples, outputs) and tangent kernels
    alike; the losses, and 1 where a network has stopped, (draws, signs, steps). No kernels if they
    are not wanted, and no stops without patience. The second sign, if there is one, is that of the
    network whose readout was the negative of the first one's."""

    outputs: Array
    tangent: Array | None
    loss: Array
    stopped: Array | None

    def of_sign(self, k: int) -> Course:
        """Those of one sign, without its axis."""
        tangent, stopped = (
            None if each is None else each[:, k] for each in (self.tangent, self.stopped)
        )
        return Course(self.outputs[:, k], tangent, self.loss[:, k], stopped)


@dataclass(frozen=True, eq=False)
class Training(RowsWork):
    """Networks as they are trained: their outputs, tangent kernels and losses at given steps.

    Arguments:
        steps: none for networks at initialization.
        origin: whether a row has what `Start` is, before the steps.
        first: the number of the first draw.
        readouts: last layers that an untrained network has, one after the other.
        antithetic: whether each is trained again from the negative of its readout.
        patience: when a network stops; None is never.
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
    patience: Patience | None = None
    readouts: int = 1
    antithetic: bool = False

    @property
    def compiled(self) -> bool:
        """True if the layers are dense with one σ, and so trained by `kernels`."""
        net, needs = self.ensemble.net, self.ensemble.layers.needs
        plain = needs.keys() <= CompiledNetworks.supports and not net.layer.input_axes
        return plain and isinstance(net.activation, Activation)

    @property
    def samples(self) -> int:
        """Of all inputs: as many, or their positions where signals are not read out."""
        return self.ensemble.data.measured

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """n_0, …, and the outputs."""
        return *self.ensemble.widths[:-1], self.targets.shape[1]

    @cached_property
    def parts(self) -> list[Part]:
        """The parameters, layer by layer."""
        return parts(self.ensemble, self.targets.shape[1])

    @cached_property
    def _entries(self) -> int:
        """Of all parameters."""
        return sum(part.size for part in self.parts)

    @property
    def seconds(self) -> float:
        """Of a network, roughly."""
        looks = 1 if self.patience is None else 2
        passes = looks * self._signs * max(self.steps, default=0) * len(self.ensemble.inputs)
        passes += self.readouts * self.samples * self.targets.shape[1]
        each = _NUMBER_SECONDS * (1 if self.compiled else _STAGED)
        return float(1e-4 + self._entries * (_DRAWN_SECONDS + passes * each))

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
        m, outputs = self.samples, self.targets.shape[1]
        return (m, outputs), (m, m, outputs, outputs)

    @property
    def _sizes(self) -> tuple[list[int], list[int]]:
        """How many numbers each part of `Start` and of `Course` is."""
        z, kernel = map(prod, self._shapes)
        start = [z, kernel, self.samples**2] if self.origin else []
        return start, [z, *([kernel] if self.ntk else []), 1, *([1] if self.patience else [])]

    @property
    def _signs(self) -> int:
        return 2 if self.antithetic else 1

    @property
    def row(self) -> int:
        """Numbers that a network comes to."""
        start, course = self._sizes
        return self.readouts * sum(start) + self._signs * len(self.steps) * sum(course)

    def start(self, rows: Array) -> Start:
        """Of these rows, which have it."""
        z, kernel = self._shapes
        m, sizes = self.samples, self._sizes[0]
        own = rows[:, : self.readouts * sum(sizes)].reshape(len(rows), self.readouts, -1)
        parts = np.split(own, np.cumsum(sizes)[:-1], axis=2)
        shapes = z, kernel, (m, m)
        return Start(
            *(p.reshape(*own.shape[:2], *shape) for p, shape in zip(parts, shapes, strict=True))
        )

    def course(self, rows: Array) -> Course:
        """Of these rows."""
        start, course = self._sizes
        begin = self.readouts * sum(start)
        by_step = rows[:, begin:].reshape(len(rows), self._signs, len(self.steps), -1)
        parts = iter(np.split(by_step, np.cumsum(course)[:-1], axis=3))
        shape, (outputs, kernel) = by_step.shape[:3], self._shapes
        z = next(parts).reshape(*shape, *outputs)
        tangent = next(parts).reshape(*shape, *kernel) if self.ntk else None
        loss = next(parts)[..., 0]
        return Course(z, tangent, loss, next(parts)[..., 0] if self.patience else None)

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, numbers)."""
        return draws, self.row

    def manifest(self) -> dict[str, Any]:
        """The networks, what they are trained on, and how."""
        return {
            "sampler": "training",
            **self.ensemble.manifest(),
            "targets": f"{self.targets.shape} {digest(self.targets)}",
            "optimizer": self.rule.kind,
            "eta": self.rule.eta,
            "clip": self.rule.clip,
            "loss": self.loss,
            "batch": self.batch,
            "steps": list(self.steps),
            "ntk": self.ntk,
            "chunk": self.chunk,
            "origin": self.origin,
            "first": self.first,
            "readouts": self.readouts,
            "antithetic": self.antithetic,
            "patience": self.patience and [digest(self.patience.targets), self.patience.steps],
        }

    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The numbers of these networks, (draws, numbers)."""
        made = CompiledNetworks if self.compiled else Networks
        networks = made(self, self.first + np.arange(start, stop))
        initial = networks.parameters.copy()
        parts = [networks.started(self.readouts)] if self.origin else []
        for sign in range(self._signs if self.steps else 0):
            if sign:
                networks.begin(initial)
                networks.mirror()
            parts += self._descended(networks, shared or Sharing())
        rows = np.concatenate(parts, axis=1)
        if not np.isfinite(rows).all():
            networks.begin(initial)
            if not np.isfinite(networks.started(self.readouts)).all():
                got = Words(f"{self.ensemble.net}, not finite before the first step")
                raise InputError("net", got, "networks whose outputs and Θ are finite")
            raise InputError("eta", self.rule.eta, "a learning rate at which training converges")
        return rows

    def _descended(self, networks: Networks, shared: Sharing) -> list[Array]:
        """The networks at each step."""
        stopping = None if self.patience is None else Stopping(networks, self.patience)
        found, step, last = {}, 0, max(self.steps)
        most = max(1, int(_UNINTERRUPTED / (self.seconds * len(networks.parameters)) * last))
        for until in sorted(set(self.steps)):
            while step < until:
                if shared.given_up.is_set():
                    raise CancelledError
                further = min(most, until - step)
                if stopping is None:
                    networks.descend(further)
                else:
                    stopping.descend(further)
                step += further
            found[until] = networks.observed()
            if stopping is not None:
                found[until] = np.concatenate([found[until], stopping.stopped], axis=1)
        return [found[step] for step in self.steps]
