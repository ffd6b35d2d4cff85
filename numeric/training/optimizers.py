"""How a step follows from the gradients: descent, tensorial or not, momentum, Adam, clipping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from derive.errors import InputError

from ..arrays import Array

KINDS = ("tensorial", "ordinary", "momentum", "adam")
MOMENTUM = 0.9
"""Of "momentum", and of the first moments of "adam"."""
_SECOND, _TINY = 0.999, 1e-8
"""Of Adam's second moments, and what keeps its steps finite (Kingma and Ba, 2015)."""


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
        if self.clip is not None and not (isinstance(self.clip, int | float) and self.clip > 0):
            raise InputError("clip", self.clip, "a number above 0, or None")

    def started(self, parameters: Sequence[Array], rates: Sequence[float], matrices: int) -> Steps:
        """The rule for these parameters, each (networks, …), and their λ; the matrices first."""
        return Steps(self, list(parameters), list(rates), matrices)


@dataclass
class Steps:
    """An optimizer at work; the parameters are changed in place."""

    rule: Optimizer
    parameters: list[Array]
    rates: list[float]
    matrices: int
    count: int = 0
    first: list[Array] = field(default_factory=list)
    second: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.rule.kind in {"momentum", "adam"}:
            self.first = [np.zeros_like(each) for each in self.parameters]
        if self.rule.kind == "adam":
            self.second = [np.zeros_like(each) for each in self.parameters]

    def take(self, gradients: Sequence[Array]) -> None:
        """One step down these gradients."""
        self.count += 1
        for k, gradient in enumerate(gradients):
            parameter, down = self.parameters[k], gradient
            if self.rule.clip is not None and k < self.matrices:
                down = self._clipped(parameter, gradient)
            parameter -= self._change(k, down)

    def _change(self, k: int, gradient: Array) -> Array:
        kind, eta = self.rule.kind, self.rule.eta
        if kind == "tensorial":
            return eta * self.rates[k] * gradient
        if kind == "ordinary":
            return eta * gradient
        if kind == "momentum":
            self.first[k] = MOMENTUM * self.first[k] + gradient
            return eta * self.first[k]
        self.first[k] = MOMENTUM * self.first[k] + (1 - MOMENTUM) * gradient
        self.second[k] = _SECOND * self.second[k] + (1 - _SECOND) * gradient**2
        mean = self.first[k] / (1 - MOMENTUM**self.count)
        size = np.sqrt(self.second[k] / (1 - _SECOND**self.count))
        return np.asarray(eta * mean / (size + _TINY))

    def _clipped(self, parameter: Array, gradient: Array) -> Array:
        """No larger than `clip` times the parameter, a small one taken as 10⁻³."""
        assert self.rule.clip is not None
        own, limit = (
            np.sqrt((x**2).sum(axis=(1, 2), keepdims=True)) for x in (gradient, parameter)
        )
        limit = self.rule.clip * np.maximum(limit, 1e-3)
        scale = np.divide(limit, own, out=np.ones_like(own), where=own > limit)
        return np.asarray(gradient * scale)
