"""What theory and ensembles of trained networks ask of their arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from derive.errors import InputError, whole
from derive.layers import Layer
from derive.network import Network

from ..arrays import Array
from ..checks import checked_inputs, real


class Data(NamedTuple):
    """Training inputs, then tests; and targets (training, outputs)."""

    X: Array
    targets: Array


def checked_network(net: object, depth: int | None) -> Network:
    """The network, if what follows from pairings of neurons is all of its law; or InputError."""
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    if not net.keeps_rotations:
        wanted = "weights whose law rotations keep: pairings of neurons alone are averaged"
        raise InputError("weights", str(net.weights), wanted)
    deep = net.depth or depth
    if isinstance(deep, int):
        for layer in layers(net, deep):
            if layer.reason is not None:
                raise InputError("layer", str(layer), layer.reason)
    return net


def layers(net: Network, depth: int) -> set[Layer]:
    """What the network's layers are; InputError for those that cannot be trained here."""
    found = {net.layer_at(at, depth) for at in range(2, depth + 1)}
    for layer in found:
        if layer.keep is not None:
            raise InputError("layer", str(layer), "none with masks, drawn anew each time")
    return found


def given(
    inputs: ArrayLike, targets: ArrayLike, test: ArrayLike | None, outputs: int | None
) -> Data:
    """The inputs, training set first, and the targets as (training, outputs); or InputError."""
    X = checked_inputs(inputs)
    y = checked_targets("targets", targets, len(X.X), X.single)
    if outputs is not None and whole("outputs", outputs, 1) != y.shape[1]:
        raise InputError("outputs", outputs, f"{y.shape[1]}, as the targets have")
    if test is None:
        return Data(X.X, y)
    try:
        T = checked_inputs(test).X
    except InputError as refused:
        raise InputError("test", refused.got, refused.wanted) from None
    if T.shape[1] != X.X.shape[1]:
        raise InputError("test", f"{T.shape[1]} numbers each", f"{X.X.shape[1]}, as the inputs")
    return Data(np.concatenate([X.X, T]), y)


def checked_targets(name: str, targets: ArrayLike, count: int, single: bool = False) -> Array:
    """(inputs, outputs), from numbers for so many inputs, or one; or InputError."""
    wanted = f"{count} finite real numbers, one for each input, or a row of outputs"
    try:
        y = np.asarray(targets)
    except (TypeError, ValueError):
        raise InputError(name, targets, wanted) from None
    if y.dtype.kind not in "biuf":
        raise InputError(name, f"{y.dtype} values", wanted)
    y = y.reshape(1, -1) if single and y.ndim < 2 else y[:, None] if y.ndim == 1 else y
    if y.ndim != 2 or len(y) != count or not y.size:
        raise InputError(name, f"shape {np.shape(targets)}", wanted)
    if not np.isfinite(y).all():
        raise InputError(name, "NaN or infinity", wanted)
    return y.astype(float)


def checked_rate(eta: object, *, flows: bool = True) -> float:
    """η, a number; 0 is allowed where it stands for gradient flow."""
    wanted = "a finite learning rate above 0" + (", or 0 for gradient flow" if flows else "")
    rate = real("eta", eta, wanted)
    if rate < 0 or not (rate or flows):
        raise InputError("eta", eta, wanted)
    return rate


def checked_steps(steps: float | Iterable[float], *, continuous: bool) -> tuple[float, ...]:
    """Numbers of steps, or times, as they were given; or InputError."""
    wanted = "numbers of steps, 0 or more, whole unless eta is 0, or math.inf"
    try:
        found = tuple(float(t) for t in np.atleast_1d(np.asarray(steps, float)))
    except (TypeError, ValueError):
        raise InputError("steps", steps, wanted) from None
    for t in found:
        good = t >= 0 and (continuous or math.isinf(t) or t == int(t))
        if not good or (not continuous and math.isfinite(t) and t > 2.0**53):
            raise InputError("steps", steps, wanted)
    if not found:
        raise InputError("steps", steps, wanted)
    return found
