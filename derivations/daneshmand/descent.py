"""Networks of source 003 as they are trained: their losses and orthogonality gaps by epoch."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray
from numpy.typing import ArrayLike, NDArray

from derivations.moments.blocks import Blocks
from derive.citations import rests_on
from derive.errors import InputError, as_integer, flag
from derive.work.resources import number
from numeric import checks
from numeric.arrays import Array
from numeric.runs import chunks
from numeric.training.arguments import checked_rate
from numeric.training.losses import per_input

from .modules import (
    FLATTEN,
    MAX_POOL,
    RELU,
    Module,
    batch_norm,
    convolution,
    gradients,
    linear,
    outputs,
    unfold,
)
from .orthogonalization import orthogonality_gap, orthogonalizing_weights

STARTS = ("xavier", "orthogonal", "iterative")
KINDS = ("dense", "convolutional")
LEAST_NORM = 1e-2
"""Of a matrix, in (29)."""
LOOKED_AT = 300
"""Images that are taken through a network at once, where they are only looked at."""
RANGE = 1e-9
"""Singular values below this part of the largest are those of no direction in the data."""


@rests_on("daneshmand2021")
def train(
    images: ArrayLike,
    labels: ArrayLike,
    width: int,
    depth: int,
    *,
    kind: str = "dense",
    start: str = "xavier",
    normalised: bool = False,
    clip: float | None = None,
    eta: float = 0.01,
    batch: int = 500,
    epochs: int = 30,
    draws: int = 4,
    seed: int = 0,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> xarray.Dataset:
    """Train ReLU networks by stochastic gradient descent on the cross-entropy of classes.

    Arguments:
        images: (images, n_0), or (images, channels, side, side).
        labels: (images,), 0, 1, …
        width: of the hidden layers, or their channels.
        depth: hidden layers, those of a readout apart; convolutions of size 3, after the first two
            of which 2 × 2 pixels are pooled (Table 3).
        kind: "dense" or "convolutional".
        start: "xavier", normal entries of variance 2/(n_in + n_out); "orthogonal", its polar factor
            times its mean singular value (appendix H); "iterative", (6) by a batch of all images,
            on the range of its representations: dead neurons and pixels have no inverse.
        normalised: whether batch normalization stands before each ReLU.
        clip: λ of (29); None is none.
        eta, batch, epochs: the step, the images of each, and how often all are gone through.
        draws: networks; number d is the same whatever `draws` is.
        seed, run, progress: those of `numeric.simulate`.

    Returns:
        An xarray.Dataset with axes `network`, `epoch` = 0 … epochs: `loss`, of all images, infinite
        where it diverged, and `gap`, the orthogonality gap V of the last hidden layer, the mean
        over batches.

    Raises:
        InputError: for arguments that cannot be used.

    >>> table = train(np.eye(6), np.arange(6), width=8, depth=2, batch=6, epochs=3, draws=2)
    >>> sorted(table), table["gap"].shape
    (['gap', 'loss'], (2, 4))
    """
    try:
        x = np.asarray(images, float)
    except (TypeError, ValueError, OverflowError):
        raise InputError("images", images, "finite real numbers") from None
    try:
        y = np.asarray(labels)
    except (TypeError, ValueError):
        raise InputError("labels", labels, "a class, 0 or more, for each image") from None
    rank = {"dense": 2, "convolutional": 4}.get(kind) if isinstance(kind, str) else None
    if rank is None:
        raise InputError("kind", kind, f"one of {', '.join(KINDS)}")
    if x.ndim != rank or not len(x) or not np.isfinite(x).all():
        raise InputError("images", f"shape {x.shape}", f"finite numbers with {rank} axes")
    if y.shape != (len(x),) or y.dtype.kind not in "iu" or y.min() < 0:
        raise InputError("labels", f"shape {y.shape}", "a class, 0 or more, for each image")
    if not isinstance(start, str) or start not in STARTS:
        raise InputError("start", start, f"one of {', '.join(STARTS)}")
    if clip is not None:
        clip = checks.positive("clip", clip, "a number above 0, or None")
    normalised = flag("normalised", normalised)
    eta = checked_rate(eta, flows=False)
    given = {
        "images": x, "labels": y, "width": as_integer("width", width, 1),
        "depth": as_integer("depth", depth, 2), "start": start, "normalised": normalised,
        "clip": clip, "eta": eta, "batch": as_integer("batch", batch, 2, len(x)),
        "epochs": as_integer("epochs", epochs, 0),
    }  # fmt: skip
    draws, seed = checks.draws(draws, 1), checks.seed(seed)
    work = Blocks(_trained, given, (2, epochs + 1), draws, seed)
    options = chunks.Options(None, None, run, progress)
    what = f"training {number(draws)} networks of width {number(width)}"
    rows = chunks.rows(work, options, what)
    about = {
        "kind": kind, "width": width, "depth": depth, "start": start, "clip": clip or 0.0,
        "normalised": int(normalised), "eta": float(eta), "batch": batch, "seed": seed,
    }  # fmt: skip
    axes = ("network", "epoch")
    table = {"loss": (axes, rows[:, 0]), "gap": (axes, rows[:, 1])}
    return xarray.Dataset(table, {"epoch": np.arange(epochs + 1)}, about)


def _trained(
    numbers: NDArray[np.int64],
    rng: np.random.Generator,
    images: Array,
    labels: NDArray[np.int64],
    epochs: int,
    eta: float,
    clip: float | None,
    batch: int,
    normalised: bool,
    **shape: Any,
) -> Array:
    """Losses and gaps of a network by epoch, (1, 2, epochs + 1)."""
    targets = np.eye(int(labels.max()) + 1)[labels]
    modules = made(images, classes=targets.shape[1], normalised=normalised, rng=rng, **shape)
    together = 1 if normalised else max(1, LOOKED_AT // batch)
    found = [_observed(modules, images, targets, batch, together)]
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for at in range(0, len(order) - batch + 1, batch):
            chosen = order[at : at + batch]
            with np.errstate(over="ignore", invalid="ignore"):
                descend(modules, images[chosen], targets[chosen], eta, clip)
        found.append(_observed(modules, images, targets, batch, together))
    return np.array(found).T[None]


def _observed(
    modules: Sequence[Module], images: Array, targets: Array, batch: int, together: int
) -> tuple[float, float]:
    """The mean loss and gap of batches, so many of which are taken through the network at once."""
    losses, gaps = [], []
    whole, step = len(images) - len(images) % batch, batch * together
    for at in range(0, whole, step):
        part = slice(at, min(at + step, whole))
        with np.errstate(over="ignore", invalid="ignore"):
            *_, below, last = outputs(modules, images[part])
            losses.append(per_input(last, targets[part], "cross-entropy"))
        for own in below.reshape(-1, batch, below[0].size):
            good = np.isfinite(own).all() and (own != 0).any()
            gaps.append(orthogonality_gap(own.T) if good else np.nan)
    lost = float(np.concatenate(losses).mean())
    return lost if math.isfinite(lost) else math.inf, float(np.mean(gaps))


def made(
    images: Array,
    width: int,
    depth: int,
    classes: int,
    start: str,
    normalised: bool,
    rng: np.random.Generator,
) -> list[Module]:
    """A network at initialization; (6) is by these images."""
    modules: list[Module] = []
    x, convolved = images, images.ndim == 4
    for layer in range(depth):
        seen = unfold(x, 3) if convolved else x.T
        shape = width, len(seen)
        fans = (9 * width, 9 * x.shape[1]) if convolved else shape
        W = math.sqrt(2 / sum(fans)) * rng.standard_normal(shape)
        if start == "orthogonal":
            U, sigma, Vt = np.linalg.svd(W, full_matrices=False)
            W = sigma.mean() * U @ Vt
        elif start == "iterative":
            W = on_range(seen, width)
        added: list[Module] = [convolution(W) if convolved else linear(W)]
        if normalised:
            added.append(batch_norm())
        added.append(RELU)
        if convolved and layer < 2:
            added.append(MAX_POOL)
        x = outputs(added, x)[-1]
        modules += added
    if convolved:
        modules.append(FLATTEN)
        x = x.reshape(len(x), -1)
    readout = math.sqrt(2 / (classes + x.shape[1]))
    return [*modules, linear(readout * rng.standard_normal((classes, x.shape[1])))]


def on_range(H: Array, width: int) -> Array:
    """W of (6) on the range of H, n_in × n, whose neurons need not all be alive; 0 beyond it."""
    U, sigma, _ = np.linalg.svd(H, full_matrices=False)
    basis = U[:, sigma > RANGE * sigma[0]]
    return np.asarray(orthogonalizing_weights(basis.T @ H, width) @ basis.T)


def descend(
    modules: Sequence[Module], x: Array, targets: Array, eta: float, clip: float | None
) -> float:
    """A step, with (29) for each matrix where λ is given; the loss before it."""
    lost, found = gradients(modules, x, targets)
    for module, own in zip(modules, found, strict=True):
        for parameter, gradient in zip(module.parameters, own, strict=True):
            factor = 1.0
            if clip is not None and parameter.ndim == 2:
                limit = clip * max(float(np.linalg.norm(parameter)), LEAST_NORM)
                size = float(np.linalg.norm(gradient))
                factor = min(1.0, limit / size) if size else 1.0
            np.subtract(parameter, eta * factor * gradient, out=parameter)
    return lost
