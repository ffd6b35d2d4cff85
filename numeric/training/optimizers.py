"""How a step follows from the gradients: descent, tensorial or not, momentum, Adam, clipping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from derive.activations import Activation
from derive.errors import InputError

from ..arrays import Array
from ..checks import positive
from . import kernels
from .losses import LOSSES

KINDS = ("tensorial", "ordinary", "momentum", "adam")
MOMENTUM = 0.9
"""Of "momentum", and of the first moments of "adam"."""
_SECOND, _TINY = 0.999, 1e-8
"""Of Adam's second moments, and what keeps its steps finite (Kingma and Ba, 2015)."""

_SMALL = 1e-2
"""The least norm of a matrix for clipping."""


@dataclass(frozen=True)
class Optimizer:
    """The rule of a step.

    Arguments:
        kind: "tensorial", θ_μ moves by −η λ_μ ∂L/∂θ_μ (source 000, eqs. 6.2, 6.3); "ordinary", by
            −η ∂L/∂θ_μ; "momentum" by heavy-ball momentum 0.9; "adam" with its usual constants.
        eta: η.
        clip: gradients of each matrix are no larger than this part of it in the Frobenius norm
            (source 003, eq. 29); None is no bound.
    """

    kind: str
    eta: float
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError("optimizer", self.kind, f"one of {', '.join(KINDS)}")
        if self.clip is not None:
            positive("clip", self.clip, "a number above 0, or None")

    @property
    def moments(self) -> int:
        """Numbers that are kept for each parameter from step to step."""
        return {"momentum": 1, "adam": 2}.get(self.kind, 0)


def take_steps(
    rule: Optimizer,
    parameters: Array,
    moments: Array,
    rates: Array,
    count: int,
    widths: Sequence[int],
    inputs: Array,
    targets: Array,
    order: NDArray[np.int64],
    loss: str,
    activation: Activation,
) -> None:
    """Steps behind the first `count` ones of dense networks, in compiled code, in place.

    Arguments:
        parameters: (networks, size), and their `moments`, (`Optimizer.moments`, networks, size).
        rates: λ of the matrices and of the biases by layer, (2, layers).
        order: the training inputs of each step, (networks, steps, batch).
    """
    first, second = [*moments, *[np.empty((len(parameters), 0))] * 2][:2]
    tensorial = rule.kind == "tensorial"
    kernels.descent().descend(
        parameters, first, second, np.array(widths), inputs, targets, order,
        rule.eta * (rates if tensorial else np.ones_like(rates)),
        np.array([rule.eta, rule.clip or 0.0, MOMENTUM, _SECOND, _TINY]),
        KINDS.index(rule.kind), LOSSES.index(loss), count, kernels.sigma_and_slope(activation),
    )  # fmt: skip


def stepped(
    rule: Optimizer,
    part: Array,
    gradient: Array,
    moments: Array,
    room: Array,
    rate: float,
    count: int,
    *,
    clips: bool,
) -> None:
    """Step number `count` of one matrix or biases of many networks, (networks, size), in place.

    What `kernels.take` is for one network.

    Arguments:
        gradient: whose memory is used.
        moments: of `Optimizer.moments`, (moments, networks, size), which change too.
        room: memory to use, (networks, size).
        rate: λ, of tensorial descent.
        clips: whether the rule's clip is heeded, as for a matrix.
    """
    if clips and rule.clip:
        own, largest = (np.sqrt((each**2).sum(axis=1)) for each in (gradient, part))
        limit = rule.clip * np.maximum(largest, _SMALL)
        gradient *= np.where(own > limit, limit / np.maximum(own, limit), 1.0)[:, None]
    if rule.kind == "momentum":
        moments[0] *= MOMENTUM
        moments[0] += gradient
        part -= np.multiply(moments[0], rule.eta, room)
    elif rule.kind == "adam":
        first, second = moments
        first *= MOMENTUM
        first += np.multiply(gradient, 1 - MOMENTUM, room)
        second *= _SECOND
        second += np.multiply(np.square(gradient, room), 1 - _SECOND, room)
        root = np.sqrt(np.divide(second, 1 - _SECOND**count, gradient), gradient)
        root += _TINY
        mean = np.divide(first, 1 - MOMENTUM**count, room)
        mean *= rule.eta
        part -= np.divide(mean, root, room)
    else:
        gradient *= rule.eta * (rate if rule.kind == "tensorial" else 1.0)
        part -= gradient
