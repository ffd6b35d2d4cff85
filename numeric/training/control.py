"""Control variates of trained networks: the same means, with less noise from the same networks.

Three levels. Descent by a network's own tangent kernel H(0) alone,

    z_lin(t) = y + (1 − ηH)^t (z(0) − y),

needs no training, and z(t) − z_lin(t) is smaller by n^{-1/2} than what either fluctuates by. So

    E f(z(t)) = E[f(z(t)) − f(z_lin(t))] + E f(z_lin(t)),

the first from the networks that are trained, the second from many that are not. A readout has the
law of its negative, which changes the signs of z(0) and of dH and leaves H(0) as it is: both are
antithetic variates of one mean, trained one after the other at the first level, and for nothing at
the second. There each network has several readouts besides, drawn one after the other on the same
layers below: each is a network of the ensemble, and most of the noise of z(0)z(0) and of H(0) is
the readout's.

At both levels what is left is regressed on features whose means over the readout are 0 exactly,
given all layers below: z(0), where it has one sign, and z(0)z(0) less its covariance there. At the
second level it is also regressed on that covariance and on H(0), whose means come from more
networks yet, of which no matrix is built (`means`). The coefficients of a network come from the
other networks, so that no mean is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..tables.layout import averaged
from .ensembles import Course, Start
from .losses import per_input
from .means import Known

_FOLDS = 5
"""The parts whose coefficients of regression come from the other parts."""
_PER_FEATURE = 20
"""So many networks for each feature, or it is left out."""
_ROUNDING = 1e-12
"""Of the largest value: what is left below it of a regression is rounding."""
_SEEN = 1e-9
"""Of the largest feature: what is smaller may be rounding, and is left out."""
_LEAST, _MOST = 1, 32
"""Untrained networks for each that is trained."""
_NOISIER = 2.0
"""How much larger the variance of what they measure is, roughly."""
READOUTS = 8
"""Of an untrained network."""
_LOOSER, _MOST_LAZY = 4.0, 64
"""How much larger the variance of E H(0) from one network is, roughly, and the networks for it, for
each that is trained, at most."""
_SIGNS = (1.0, -1.0)
_COPIES = 3
"""Arrays as large as those that are regressed, at a time."""


def more(seconds: float) -> int:
    """Untrained networks for each trained one, if that takes so many times as long: N₁/N₀ =
    √(v₁c₀/v₀c₁) has the least variance for its time."""
    return int(np.clip(round(np.sqrt(_NOISIER * seconds)), _LEAST, _MOST))


def lazy(seconds: float) -> int:
    """Networks for E H(0) for each that is trained, if that takes so many times as long: as
    `more`."""
    return int(np.clip(round(np.sqrt(_LOOSER * seconds)), _LEAST, _MOST_LAZY))


def numbers(outputs: int, steps: int) -> int:
    """The memory of `controlled` for an untrained network, roughly, in numbers.

    Arguments:
        outputs: of all samples together.
    """
    return _COPIES * steps * outputs * (READOUTS * len(_SIGNS) + outputs)


def plain(course: Course) -> dict[str, Array]:
    """Means over networks, covariances, and standard errors, without controls."""
    z, tangent, loss, stopped = course.of_sign(0)
    values = {"prediction": z, "covariance": _products(z[:, None], z.mean(axis=0)), "loss": loss}
    if tangent is not None:
        values["ntk"] = tangent
    if stopped is not None:
        values["stopped"] = stopped
    found = {}
    for name, each in values.items():
        found[name], found[f"{name}_se"] = averaged(each)
    return found


def controlled(
    course: Course,
    start: Start,
    untrained: Start,
    means: Known,
    targets: Array,
    eta: float,
    steps: Sequence[int],
    *,
    mirrored: bool,
) -> dict[str, Array]:
    """The same from three levels.

    Arguments:
        course, start: of the networks that are trained by full-batch tensorial descent, of one sign
            or of both.
        untrained: of others.
        means: of what is to be known of the start.
        targets: (training, outputs).
        mirrored: whether a readout has the law of its negative.
    """
    outputs = targets.shape[1]
    signs, both = _SIGNS[: course.outputs.shape[1]], _SIGNS[: 1 + mirrored]
    rows, columns = np.triu_indices(untrained.outputs[0, 0].size)
    samples = np.triu_indices(untrained.kernel.shape[-1])
    kernels = means.tangent[..., None, None] * np.eye(outputs)
    of_start = _joined(
        _matrices(untrained.tangent).mean(axis=1)[:, rows, columns],
        untrained.kernel.mean(axis=1)[:, *samples],
    )
    estimates = _joined(_matrices(kernels)[:, rows, columns], means.kernel[:, *samples])
    middle = estimates.mean(axis=0)
    first = _features(start, signs)
    second = [of_start - middle, *_features(untrained, both)]
    lines = [
        linear(each, targets, eta, steps, own) for each, own in ((start, signs), (untrained, both))
    ]
    found: dict[str, Array] = {}

    def put(name: str, differences: Array, base: Array) -> None:
        trained, other = regressed(differences, first), regressed(base, second)
        (off, off_se), (mean, mean_se) = (averaged(each.left) for each in (trained, other))
        found[name], errors = off + mean, [off_se, mean_se]
        if other.slopes:
            moved = (estimates - middle) @ other.slopes[0]
            errors.append(averaged(moved)[1].reshape(mean.shape))
        found[f"{name}_se"] = np.sqrt(sum(np.square(error) for error in errors))

    put("prediction", (course.outputs - lines[0]).mean(axis=1), lines[1].mean(axis=1))
    trained, *products = (_products(z, found["prediction"]) for z in (course.outputs, *lines))
    put("covariance", trained - products[0], products[1])
    losses = [
        per_input(z[..., : len(targets), :], targets, "squared").sum(axis=-1).mean(axis=1)
        for z in lines
    ]
    put("loss", course.loss.mean(axis=1) - losses[0], losses[1])
    if course.tangent is not None:
        moved = (course.tangent - start.tangent[:, :, None]).mean(axis=1)
        (off, off_se), (mean, mean_se) = averaged(regressed(moved, first).left), averaged(kernels)
        found["ntk"], found["ntk_se"] = off + mean, np.hypot(off_se, mean_se)
    return found


def linear(
    start: Start, targets: Array, eta: float, steps: Sequence[int], signs: Sequence[float] = (1.0,)
) -> Array:
    """z_lin at these steps for each readout and for its negative, (draws, readouts · signs, steps,
    samples, outputs).

    Where a network's own H is too large for η, 1 − ηH is taken as −1: any function of the start
    will do, if it stays finite.
    """
    draws, readouts, m, outputs = start.outputs.shape
    size = targets.size
    U, pulls, summed = _descent(_matrices(start.tangent), size, eta, steps)
    own = start.outputs.reshape(draws, readouts, -1)
    z = own[:, :, None] * np.array(signs)[:, None]  # (draws, readouts, signs, samples of outputs)
    off = np.einsum("drij,drsi->drsj", U, z[..., :size] - targets.reshape(-1))
    found = [
        z - eta * np.einsum("drij,drsj->drsi", pulls, each[:, :, None] * off) for each in summed
    ]
    return np.stack(found, axis=3).reshape(draws, -1, len(steps), m, outputs)


def _descent(
    H: Array, size: int, eta: float, steps: Sequence[int]
) -> tuple[Array, Array, list[Array]]:
    """The eigenvectors U of H on the training set, H U, and Σ_{s<t} (1 − ηλ)^s at each step; with
    ηλ at most 2: H is made smaller where it is too large."""
    values, U = np.linalg.eigh(H[..., :size, :size])
    rates, found = np.clip(1 - eta * values, -1.0, 1.0), []
    for step in steps:
        summed = np.full_like(rates, float(step))
        np.divide(1 - rates**step, 1 - rates, out=summed, where=1 - rates > _ROUNDING)
        found.append(summed)
    slower = 2 / np.maximum(eta * values, 2)
    return U, (H[..., :size] @ U) * slower[..., None, :], found


class Regression(NamedTuple):
    """The residual of values, (draws, …), after features of mean 0; and the slopes of those used,
    (features, values), on the average of the folds."""

    left: Array
    slopes: list[Array]


def regressed(values: Array, features: Sequence[Array]) -> Regression:
    """Values, (draws, …), less what features of mean 0 say of them, as many as the draws bear."""
    draws, ends = len(values), np.cumsum([each.shape[1] for each in features])
    used = int((_PER_FEATURE * ends <= draws).sum())
    if not used:
        return Regression(values, [])
    flat = values.reshape(draws, -1)
    F = np.concatenate([np.ones((draws, 1)), *features[:used]], axis=1)
    folds = np.array_split(np.arange(draws), _FOLDS)
    moments = [(F[fold].T @ F[fold], F[fold].T @ flat[fold]) for fold in folds]
    squares, products = (np.sum(each, axis=0) for each in zip(*moments, strict=True))
    left, slopes = np.empty_like(flat), np.zeros((F.shape[1] - 1, flat.shape[1]))
    for fold, (own, own_products) in zip(folds, moments, strict=True):
        fit = np.linalg.lstsq(squares - own, products - own_products, rcond=None)[0][1:]
        left[fold] = flat[fold] - F[fold, 1:] @ fit
        slopes += fit / _FOLDS
    left[abs(left) <= _ROUNDING * abs(flat).max(axis=0, initial=0)] = 0
    return Regression(left.reshape(values.shape), np.split(slopes, ends[: used - 1]))


def _features(start: Start, signs: Sequence[float]) -> list[Array]:
    """Of mean 0 over the last layer's parameters, given those below, (draws, …), in units of their
    own size."""
    z, draws = start.outputs, len(start.outputs)
    products = np.einsum("drai,drbj->draibj", z, z)
    for i in range(z.shape[3]):
        products[:, :, :, i, :, i] -= start.kernel
    size = z.shape[2] * z.shape[3]
    rows, columns = np.triu_indices(size)
    squares = products.reshape(draws, -1, size, size)[:, :, rows, columns]
    odd = [z.reshape(draws, -1, size)] if len(signs) == 1 else []
    return [_scaled(each.mean(axis=1)) for each in (*odd, squares)]


def _scaled(values: Array) -> Array:
    """In units of their own size, (draws, features)."""
    sizes = np.sqrt((values**2).mean(axis=0))
    seen = sizes > _SEEN * sizes.max(initial=0.0)
    return np.asarray(np.where(seen, values, 0.0) / np.where(seen, sizes, 1.0))


def _joined(*parts: Array) -> Array:
    return np.concatenate(parts, axis=1)


def _matrices(H: Array) -> Array:
    """(…, samples, samples, outputs, outputs) by pairs of sample and output, a matrix for each."""
    size = H.shape[-3] * H.shape[-1]
    return np.moveaxis(H, -2, -3).reshape(*H.shape[:-4], size, size)


def _products(z: Array, mean: Array) -> Array:
    """(z − mean)(z − mean), (draws, steps, samples, samples, outputs, outputs), a mean over a
    network's readouts."""
    centred = z - mean
    return np.asarray(np.einsum("drsai,drsbj->dsabij", centred, centred) / z.shape[1])
