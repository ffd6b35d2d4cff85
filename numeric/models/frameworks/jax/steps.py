"""Steps of an optimizer on a model of flax or equinox, with the values of every layer before each.

An optimizer has `init(parameters)` and `update(gradients, state, parameters)`, which returns
updates to be added and the next state, as those of optax have; all by the parameters' paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ....arrays import Array
from .reading import JaxReading

Parameters = dict[str, Any]
Values = Callable[[Parameters, Any], list[Array]]

_DECAYS, _EPS = (0.9, 0.999), 1e-8
"""Of Adam, as torch and optax have them."""


class Optimizer(NamedTuple):
    """As optax has it."""

    init: Callable[[Parameters], Any]
    update: Callable[..., tuple[Parameters, Any]]


class Steps:
    """The same as the functions of `frameworks.torch.steps`, of a model that is read."""

    def __init__(self, reading: JaxReading) -> None:
        self._reading = reading
        self._gradients = jax.jit(jax.grad(self._loss))

    def made(self, make: Any, width: int, seed: int) -> Parameters:
        """The parameters of one initialization."""
        del make, width
        return self._reading.parameters(self._reading.initialize([seed]))

    def descend(
        self,
        model: Parameters,
        optimizer: Any,
        X: Array,
        Y: Array,
        steps: int,
        values: Values,
    ) -> Iterator[list[Array]]:
        """The layers' values after 0, 1, … steps on ½ Σ (z − y)² over all inputs."""
        own, state = dict(model), optimizer.init(model)
        for step in range(steps + 1):
            yield values(own, X)
            if step < steps:
                slopes = self._gradients(own, self.tensor(X), self.tensor(Y))
                changes, state = optimizer.update(slopes, state, own)
                own = {path: own[path] + changes[path] for path in own}

    def _loss(self, own: Parameters, X: Any, Y: Any) -> Any:
        outputs = self._reading.outputs(own, X)
        return ((outputs.reshape(len(Y), -1) - Y) ** 2).sum() / 2

    def of_nodes(self, reading: JaxReading, nodes: Sequence[int]) -> Values:
        """The preactivations of a model that is read, (m, n) each."""

        def values(model: Parameters, x: Any) -> list[Array]:
            given = reading.of_parameters(model)
            return [reading.propagate(given, 0, np.asarray(x)[None], node)[0] for node in nodes]

        return values

    def outputs(self, model: Parameters, x: Any) -> int:
        """How many numbers the model gives for one input."""
        return int(np.size(self._reading.outputs(model, self.tensor(x)))) // len(x)

    @staticmethod
    def optimizers(rates: Mapping[str, float]) -> dict[str, Callable[[Parameters], Optimizer]]:
        """SGD and Adam as functions of a model, with one rate for all parameters."""
        kinds = {"SGD": _sgd, "Adam": _adam}
        return {name: lambda _, at=name: kinds[at](rates[at]) for name in rates}  # type: ignore[misc]

    @staticmethod
    def rates_of(model: Parameters, optimizer: Any) -> dict[str, float]:
        """The learning rate of each parameter, by its path: its first step where gradients are
        1, without what a decay of weights adds."""
        first, _ = _responses(model, optimizer, (1.0,))[0]
        return {path: -float(np.mean(each)) for path, each in first.items()}

    @staticmethod
    def kind_of(optimizer: Any, model: Parameters) -> str:
        """ "SGD" if steps are multiples of the gradient, "Adam" if they do not depend on its size,
        else the class."""
        (one, again), (two, _) = _responses(model, optimizer, (1.0, 2.0))

        def same(left: Parameters, right: Parameters, factor: float) -> bool:
            return all(np.allclose(factor * left[path], right[path], rtol=1e-4) for path in left)

        if same(one, two, 2.0):
            return "SGD" if same(one, again, 1.0) else "SGD with momentum or decay"
        return "Adam" if same(one, two, 1.0) else type(optimizer).__name__

    @staticmethod
    def tensor(values: Any) -> Any:
        """As JAX has it."""
        return jax.numpy.asarray(values)


def _responses(
    model: Parameters, optimizer: Any, sizes: Sequence[float]
) -> list[tuple[Parameters, Parameters]]:
    """Two steps of parameters at 0, where all gradients are of this size."""
    found, zeros = [], jax.tree_util.tree_map(jax.numpy.zeros_like, model)
    for size in sizes:
        slopes = jax.tree_util.tree_map(lambda each, own=size: own + each, zeros)
        first, state = optimizer.update(slopes, optimizer.init(zeros), zeros)
        found.append((first, optimizer.update(slopes, state, zeros)[0]))
    return found


def _sgd(rate: float) -> Optimizer:
    def update(slopes: Parameters, state: Any, own: Any = None) -> tuple[Parameters, Any]:
        return {path: -rate * each for path, each in slopes.items()}, state

    return Optimizer(lambda own: None, update)


def _adam(rate: float) -> Optimizer:
    def update(slopes: Parameters, state: Any, own: Any = None) -> tuple[Parameters, Any]:
        step, *old = state
        step += 1
        powers = zip(old, _DECAYS, (1, 2), strict=True)
        new = [
            {path: beta * each[path] + (1 - beta) * slopes[path] ** k for path in slopes}
            for each, beta, k in powers
        ]
        m, v = (
            {path: each[path] / (1 - beta**step) for path in slopes}
            for each, beta in zip(new, _DECAYS, strict=True)
        )
        found = {path: -rate * m[path] / (v[path] ** 0.5 + _EPS) for path in slopes}
        return found, (step, *new)

    def init(own: Parameters) -> Any:
        return 0, *({path: 0 * each for path, each in own.items()} for _ in _DECAYS)

    return Optimizer(init, update)
