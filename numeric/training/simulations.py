"""Ensembles of networks that are really trained, each from its own initialization.

simulate(net, inputs, targets, test, width=64, depth=4, eta=0.1, steps=[0, 10], draws=1000)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.citations import rests_on
from derive.errors import InputError, Words, as_integer, flag
from derive.network import Network

from .. import checks
from ..arrays import Array
from ..random.lazy import steps as steps_of
from ..runs import chunks
from ..samplers.ensemble import Ensemble, checked_ensemble
from . import layout
from .arguments import (
    Data,
    check_readout,
    checked_rate,
    checked_steps,
    checked_targets,
    depth_of,
    given,
)
from .ensembles import Training
from .losses import LOSSES
from .multilevel import Levels
from .networks import reads_alone
from .optimizers import Optimizer
from .parts import parts
from .stopping import Patience

_LARGE = 1e70
"""Targets whose fourth powers add up to no number beyond doubles."""


class Descent(chunks.Running, total=False):
    """The keyword arguments of `simulate`: how networks are trained, and `Running`."""

    optimizer: str
    loss: str
    batch: int | None
    clip: float | None
    patience: int | None
    test_targets: ArrayLike | None
    half: bool
    ntk: bool
    antithetic: bool


DEFAULTS = Descent(
    optimizer="tensorial",
    loss="squared",
    batch=None,
    clip=None,
    patience=None,
    test_targets=None,
    half=True,
    ntk=True,
    antithetic=True,
)


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
    **descent: Unpack[Descent],
) -> xarray.Dataset:
    """Train networks of one width on the same data, and measure what `flow` derives.

    Arguments:
        net, inputs, targets, test, depth, outputs, half: as those of `flow`; any σ. Behind a layer
            that carries z to its end, as a skip does, the outputs are the first of its n neurons.
            The parameters of a convolution are its filters, of s matrices with λ_W/(s n_in).
            Dropout has other masks in each step, for each input and neuron; where networks are
            looked at, there are none.
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
            them by default. A signal comes with all its positions.
        clip: the largest gradient of a matrix as a part of the matrix (source 003, eq. 29).
        patience: of early stopping: a network whose loss on the test inputs has not fallen in so
            many steps is taken back to where it was least, and trained no further.
        test_targets: for patience: those of the test inputs, as `targets`.
        ntk: whether the tangent kernel is measured.
        antithetic: whether each network is trained a second time, from the negative of its readout
            (its last layer's parameters), for means with less variance; where controls apply,
            rotations keep the weights' law, and nothing is carried past the last matrix.
        executor, window, run, progress: those of `numeric.simulate`.

    Returns:
        The table of `flow` without coefficients of 1/n: prediction, covariance, ntk and loss at
        this width, and `…_se`, their standard errors. With patience also `stopped`, the share of
        the networks that have, which are then what they were at their best. With tensorial descent
        of all inputs on the squared loss, without patience, they are measured by what differs from
        descent by each network's own H(0), and that by more networks, which are not trained
        (`control`): with much less noise where η is stable for nearly every network's H(0).
        `antithetic` is then an attribute.

    Raises:
        InputError: for arguments that cannot be used, and where training diverges.

    >>> from derive import Network
    >>> table = simulate(Network("tanh"), [1.0, 0.5], 1.0, width=8, depth=2, steps=5, draws=20)
    >>> sorted(map(str, table.data_vars))[:4]
    ['covariance', 'covariance_se', 'loss', 'loss_se']
    """
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    options, how = chunks.options(descent, DEFAULTS), DEFAULTS | descent
    half, ntk, signs = (flag(each, how[each]) for each in ("half", "ntk", "antithetic"))
    loss, clip, batch = how["loss"], how["clip"], how["batch"]
    data = given(net, inputs, targets, test, outputs)
    check_readout(net, data.targets.shape[1], depth)
    ensemble = _ensemble(net, data, width, depth, seed)
    for scheme in net.schemes(depth_of(net, ensemble.depth), 2).distinct:
        scheme.check_without_batch("functions of one sample, in training; training.flow has others")
    times = _times(steps)
    rule = Optimizer(how["optimizer"], checked_rate(eta, flows=False) * (1 if half else 2), clip)
    _check_loss("targets", loss, data.targets)
    stop = _patience(how["patience"], how["test_targets"], net, data, loss)
    size = data.training if batch is None else as_integer("batch", batch, 1, data.training)
    draws = checks.draws(draws, 2)
    work = Training(ensemble, data.targets, rule, loss, size, times, ntk, draws, patience=stop)
    levels = Levels.of(work, antithetic=signs)
    levels.check(kept=options.kept)
    found = levels.measured(options)
    _check_finite(found, data.targets, eta)
    if loss == "squared" and not half:
        found |= {name: 2 * found[name] for name in ("loss", "loss_se")}
    own = levels.controls
    about: dict[str, int | float | str] = {
        "width": ensemble.width, "depth": ensemble.depth, "draws": draws, "blocks": levels.blocks,
        "seed": seed, "eta": float(eta), "optimizer": how["optimizer"],
        "loss": f"{loss} {'½Σ' if half else 'Σ'}", "batch": size,
        **({"antithetic": int(own.antithetic)} if own.linear else {}),
        **({} if clip is None else {"clip": float(clip)}),
        **({} if stop is None else {"patience": stop.steps}),
    }  # fmt: skip
    return layout.dataset(net, data.X, data.targets, times, found, about)


def _ensemble(
    net: Network, data: Data, width: int | None, depth: int | None, seed: int
) -> Ensemble:
    """The networks at initialization, if they can be trained to these targets."""
    width = net.width if width is None else width
    depth = net.depth if depth is None else depth
    if width is None or depth is None:
        raise InputError("width, depth", (width, depth), "both, or a network with widths")
    ensemble = checked_ensemble(net, data.X, width, depth, seed)
    _check_outputs(ensemble, data.targets.shape[1])
    return ensemble


def _check_outputs(ensemble: Ensemble, outputs: int) -> None:
    """InputError for more outputs than neurons, where they are neurons, or where no weights of the
    last layer's law have so many rows: ranks are a part of all rows, and whole."""
    n = ensemble.widths[-1]
    if outputs <= n:
        return
    if not reads_alone(ensemble):
        wanted = f"{n} or fewer outputs, as many as the last layer's neurons"
        raise InputError("targets", outputs, wanted)
    for part in parts(ensemble, outputs):
        if part.law is not None and part.shape[1] > part.rows:
            try:
                steps_of(part.law, *part.shape)
            except InputError as refused:
                wanted = f"{n} or fewer outputs, or as many as the weights' law has rows: {refused}"
                raise InputError("targets", Words(f"{outputs} outputs"), wanted) from None


def _times(steps: float | Iterable[float]) -> tuple[int, ...]:
    """Numbers of steps."""
    times = checked_steps(steps, continuous=False)
    if not all(map(np.isfinite, times)):
        raise InputError("steps", steps, "finite numbers of steps, to be taken one by one")
    return tuple(int(t) for t in times)


def _check_finite(found: dict[str, Array], targets: Array, eta: float) -> None:
    """InputError where training diverges."""
    if all(np.isfinite(each).all() for each in found.values()):
        return
    if (largest := float(abs(targets).max())) > _LARGE:
        wanted = f"below {_LARGE:g}: the squares of the losses overflow"
        raise InputError("targets", largest, wanted)
    raise InputError("eta", eta, "a learning rate at which training converges")


def _patience(
    steps: int | None, targets: ArrayLike | None, net: Network, data: Data, loss: str
) -> Patience | None:
    """When networks stop, if they do."""
    tests = len(data.X) - data.training
    if steps is None and targets is None:
        return None
    if steps is None or targets is None or not tests:
        wanted = "test inputs with targets and a patience, or neither targets nor patience"
        raise InputError("patience", steps, wanted)
    y = checked_targets("test_targets", targets, tests, net.layer.output_axes, single=tests == 1)
    if y.shape[1] != data.targets.shape[1]:
        raise InputError("test_targets", y.shape[1], f"{data.targets.shape[1]} outputs, as trained")
    _check_loss("test_targets", loss, y)
    return Patience(y, as_integer("patience", steps, 1))


def _check_loss(name: str, loss: object, targets: Array) -> None:
    if loss not in LOSSES:
        raise InputError("loss", loss, f"one of {', '.join(LOSSES)}")
    with np.errstate(over="ignore"):
        if loss == "squared" and not np.isfinite((targets**2).sum()):
            largest = float(abs(targets).max())
            raise InputError(name, largest, "smaller ones: their squares overflow")
    if loss != "squared":
        sums = targets.sum(axis=1)
        if targets.shape[1] < 2 or (targets < 0).any() or not np.allclose(sums, 1):
            raise InputError(
                name, Words("these"), "probabilities of two outputs or more, that add to 1"
            )
