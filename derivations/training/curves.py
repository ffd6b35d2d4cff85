"""Learning curves: what each of several networks loses on images, epoch by epoch.

curves(net, split, width=30, depth=31, eta=10, epochs=[0, 10, 100], draws=10)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray

from derive.citations import rests_on
from derive.errors import InputError, as_integer
from derive.network import Network, dense_network
from derive.work.resources import number
from numeric import checks
from numeric.arrays import Array
from numeric.runs import chunks
from numeric.runs.work import Sharing
from numeric.samplers.ensemble import checked_ensemble
from numeric.training.arguments import checked_rate, checked_steps
from numeric.training.ensembles import Training
from numeric.training.losses import LOSSES, per_input
from numeric.training.networks import CompiledNetworks, Networks
from numeric.training.optimizers import Optimizer

from .data import Split

PARTS = ("training", "validation", "test")
KERNELS = ("class", "between")
_UNINTERRUPTED = 0.5
"""Seconds of epochs after which a run looks whether it was given up."""


@rests_on("day2025")
def curves(
    net: Network,
    split: Split,
    width: int,
    depth: int,
    eta: float,
    epochs: Iterable[float],
    draws: int = 10,
    seed: int = 0,
    *,
    optimizer: str = "tensorial",
    loss: str = "squared",
    batch: int | None = None,
    clip: float | None = None,
    probe: int | None = None,
    executor: Executor | None = None,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> xarray.Dataset:
    """Train networks from random weights and look at each at these epochs.

    A loss is a mean over inputs; the squared one (z − y)² also over outputs, as Keras has it: η
    multiplies its gradient (source 000, section 7.1).

    Arguments:
        net: Gaussian or orthogonal weights, of any activation; λ are those of (6.3).
        split: images in three parts.
        width, depth: n, and L, the layers of preactivations, counted from 1, the last one the
            readout.
        eta: η.
        epochs: at which networks are looked at; an epoch is once through the training images.
        draws: networks; number d is the same whatever `draws` is.
        seed: of their weights.
        optimizer, clip: those of `numeric.training.simulate`.
        loss: "squared", "cross-entropy" or "sigmoid cross-entropy".
        batch: images of each step; all of them by default.
        probe: a class whose tangent kernel is measured, as in section 7.3 of source 000.
        executor, run, progress: those of `numeric.simulate`.

    Returns:
        An xarray.Dataset with axes `network`, `epoch`: `training`, `validation`, `test`, infinite
        from where a network diverges. With a probe also `ntk_class`, Ĥ_{ii;αβ} with i the output of
        the class, α its first test image, averaged over its training images β; and `ntk_between`,
        Ĥ_{ij;αα} averaged over outputs i ≠ j, with α its first training image.

    Raises:
        InputError: for arguments that cannot be used.

    >>> from derive import Network
    >>> from derivations.training.data import digits
    >>> split = digits().standardised().split(training=20, validation=10, test=10)
    >>> table = curves(Network("tanh"), split, width=8, depth=2, eta=1, epochs=[0, 5], draws=2)
    >>> bool((table["training"].sel(epoch=5) < table["training"].sel(epoch=0)).all())
    True
    """
    net = dense_network("net", net)
    if not isinstance(split, Split):
        raise InputError("split", split, "a derivations.training.data.Split")
    ensemble = checked_ensemble(net, split.inputs, width, depth, seed)
    times = checked_steps(list(epochs), continuous=False)
    if list(times) != sorted(set(times)) or not np.isfinite(times).all():
        raise InputError("epochs", times, "finite numbers of epochs, each later than the last")
    if loss not in LOSSES:
        raise InputError("loss", loss, f"one of {', '.join(LOSSES)}")
    count = len(split.training)
    size = count if batch is None else as_integer("batch", batch, 1, count)
    rate = checked_rate(eta, flows=False)
    outputs = split.targets.shape[1]
    # of the mean's gradient, where kernels have that of the sum
    scale = (2 / outputs if loss == "squared" else 1.0) / size
    rule = Optimizer(optimizer, rate if optimizer == "adam" else rate * scale, clip)
    if probe is not None:
        probe = as_integer("probe", probe, 0, outputs - 1)
        for part in (split.test, split.training):
            if not len(part.of_class(probe)):
                raise InputError("probe", probe, "a class with images for training and for a test")
    draws = checks.draws(draws, 1)
    work = _Curves(
        ensemble, split.training.targets, rule, loss, size, tuple(map(int, times)), False, draws,
        split=split, probe=probe,
    )  # fmt: skip
    options = chunks.Options(executor, None, run, progress)
    what = f"training {number(draws)} networks of width {number(width)}"
    found = chunks.rows(work, options, what, draws * work.seconds)
    values = found.reshape(draws, len(times), -1)
    names = PARTS if probe is None else (*PARTS, *(f"ntk_{each}" for each in KERNELS))
    about = {
        "network": str(net), "data": split.training.name, "width": width, "depth": depth,
        "eta": rate, "optimizer": optimizer, "loss": loss, "batch": size, "seed": seed,
        "images": str([len(split.training), len(split.validation), len(split.test)]),
    }  # fmt: skip
    return xarray.Dataset(
        {name: (("network", "epoch"), values[..., k]) for k, name in enumerate(names)},
        {"epoch": list(map(int, times))},
        about,
    )


@dataclass(frozen=True, eq=False)
class _Curves(Training):
    """Networks, one a chunk: losses, and of a class the tangent kernel, at given epochs.

    Arguments:
        steps: the epochs.
    """

    split: Split = field(kw_only=True)
    probe: int | None = None

    @property
    def chunk(self) -> int:
        """One network."""
        return 1

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, numbers)."""
        each = len(PARTS) + (0 if self.probe is None else len(KERNELS))
        return draws, len(self.steps) * each

    def manifest(self) -> dict[str, Any]:
        """The networks, the images, and how they are trained."""
        parts = (self.split.training, self.split.validation, self.split.test)
        own = {"sampler": "curves", "images": [each.digest for each in parts], "probe": self.probe}
        return super().manifest() | own

    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The numbers of these networks, (draws, numbers)."""
        networks = CompiledNetworks(self, np.arange(start, stop))
        passes = -(-len(self.targets) // self.batch)
        pause = max(1, int(_UNINTERRUPTED / self.seconds * max(self.steps)))
        found, epoch = [], 0
        for until in self.steps:
            while epoch < until:
                if shared and shared.given_up.is_set():
                    raise CancelledError
                further = min(pause, until - epoch)
                networks.descend(further * passes)
                epoch += further
            found.append(self._observed(networks))
        return np.stack(found, axis=1).reshape(stop - start, -1)

    def _observed(self, networks: Networks) -> Array:
        """Losses and kernels now, (networks, numbers)."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = networks.outputs(self.ensemble.inputs)
            each = per_input(z, self.split.targets, self.loss)
        if self.loss == "squared":
            each = 2 / self.targets.shape[1] * each
        ends = self.split.ends
        parts = np.split(each, ends, axis=1)
        losses = [part.mean(axis=1) if part.shape[1] else np.zeros(len(z)) for part in parts]
        rows = np.stack([*losses, *self._kernels(networks)], axis=1)
        return np.where(np.isfinite(rows), rows, np.inf)

    def _kernels(self, networks: Networks) -> list[Array]:
        """Those of the probe: within the class, and between outputs."""
        if self.probe is None:
            return []
        own = self.split.training.of_class(self.probe).pixels
        x = np.concatenate([self.split.test.of_class(self.probe).pixels[:1], own])
        H = networks.kernel(x)
        outputs = H.shape[-1]
        within = H[:, 0, 1:, self.probe, self.probe].mean(axis=1)
        apart = H[:, 1, 1].sum(axis=(1, 2)) - np.trace(H[:, 1, 1], axis1=1, axis2=2)
        return [within, apart / (outputs * (outputs - 1))]
