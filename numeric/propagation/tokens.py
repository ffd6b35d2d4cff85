"""The fixed point of exchangeable tokens, and how fast attention makes them alike.

A layer takes (q, δ) to (q', δ'), δ = q − p. It keeps δ = 0, where tokens are equal: their rank has
collapsed. There the Jacobian has the eigenvalues

    ∂q'/∂q at δ = 0,     lim δ'/δ as δ → 0.

Behind a kink δ'/δ is a series in √δ, whose limit is extrapolated. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import xarray

from derive.citations import rests_on
from derive.engine.orbits import Exchangeable
from derive.engine.score_averages import is_averaged
from derive.engine.tensors import Name, named
from derive.errors import InputError
from derive.network import Network

from ..arrays import Array
from ..layers.accuracy import CAUTION, EPS, RUNS
from .batches import (
    LARGEST,
    LEAST,
    NEWTON,
    ROUNDINGS,
    SMALLEST,
    Around,
    RepeatedLayer,
    disturbances,
    put,
    restless,
    table,
    with_error,
)

_K, _V = named("K"), named("V")

Numbers: TypeAlias = dict[str, tuple[tuple[str, ...], Array, Array]]
_LAYERS, _SETTLED = 512, 1e-5
"""Most layers; the change of K, relative to q, from which Newton's method goes on."""

_PATIENCE = 128
"""Layers from which on a change of order q/layer is taken for a power law."""

_ALIKE = 1e-4
"""The δ/q below which tokens that approach each other are taken to be equal."""

_WIDEST, _HALVINGS = 0.1, 5
"""Steps of √(δ/q), or relative steps of q and δ: the largest, and how often it is halved."""


@rests_on("yang2019")
def fixed_tokens(net: Network, inputs: Exchangeable) -> xarray.Dataset:
    """`fixed_points` with the tokens of one sequence.

    Raises InputError for inputs that are no such tokens, and where K comes to no rest.
    """
    if inputs.m == 1:
        raise InputError("inputs", str(inputs), "two tokens or more")
    with np.errstate(all="ignore"):
        tokens = _Tokens(RepeatedLayer(net, inputs, ("K",)))
        q, p = map(float, inputs.numbers)
        start = tokens.settled(np.array([q, q - p]))
        if start is None:
            raise _restless(net, inputs, tokens)
        slopes, errors = tokens.slopes(start)
        inverse = np.asarray(np.linalg.pinv(np.eye(2) - slopes, rcond=LEAST), dtype=float)
        at, change = _newton(tokens, start, inverse)
        error = float(np.linalg.norm(inverse, 2)) * (tokens.error(at) + ROUNDINGS * EPS * at[0])
        if not change <= error:
            raise _restless(net, inputs, tokens)
        if np.abs(at - start).max() > error:
            slopes, errors = tokens.slopes(at)
    rates = np.asarray(np.linalg.eigvals(slopes).real, dtype=float)
    numbers: Numbers = {
        "K": (("orbit",), np.array([at[0], at[0] - at[1]]), np.full(2, error)),
        "kernel_rate": (("mode",), rates[np.argsort(-np.abs(rates))], np.full(2, errors.max())),
    }
    labels = ["(11)", "(12)"]
    if at[1] == 0.0:
        numbers["difference_rate"] = ((), slopes[1, 1, ...], errors[1, 1, ...])
    elif not any(is_averaged(stage) for stage in net.stages_at(2, 3)):
        with np.errstate(all="ignore"):
            layer = RepeatedLayer(net, inputs, ("K", "V"))
            labels = _add_V(numbers, layer, at, error)
    return table(net, inputs, numbers, labels)


def _add_V(numbers: Numbers, layer: RepeatedLayer, at: Array, error: float) -> list[str]:
    """Add V's rate and limit to those of K, and tell the orbits of all."""
    labels = {name: layer.labels(name) for name in (_K, _V)}
    every = list(dict.fromkeys([*labels[_K], *labels[_V]]))

    def placed(name: Name, values: Array) -> Array:
        return put(len(every), [every.index(label) for label in labels[name]], values)

    dims, K, errors = numbers["K"]
    numbers["K"] = dims, placed(_K, K), placed(_K, errors)
    around = Around.of(layer, np.array([at[0], at[0] - at[1]]))
    for name, copies in around.of_V().items():
        values, errors = copies[0], with_error(copies, error / at[0])
        if name == "V":
            numbers[name] = dims, placed(_V, values), placed(_V, errors)
        else:
            numbers[name] = (), values, errors
    return every


def _newton(tokens: _Tokens, at: Array, inverse: Array) -> tuple[Array, float]:
    """The fixed point, and the last step to it."""
    change = np.inf
    for _ in range(NEWTON):
        step = inverse @ (tokens(at) - at)
        at, change = at + step, float(np.abs(step).max())
        if not change > ROUNDINGS * EPS * at[0]:
            break
    return at, change


def _restless(net: Network, inputs: Exchangeable, tokens: _Tokens) -> InputError:
    """The error of a kernel that does not come to rest: how it moves in the end."""
    (q, apart), (before, _) = tokens.last, tokens.before
    more = f"; in the last layer q changed by {q - before:.6g}"
    return restless(net, inputs, (q, q - apart), ", such as a skip below 1 has with a norm", more)


class _Tokens:
    """The map of (q, δ).

    Attributes:
        last, before: the last two kernels of `settled`.
    """

    def __init__(self, layer: RepeatedLayer) -> None:
        self._layer = layer
        self.last = self.before = np.zeros(2)

    def __call__(self, at: Array) -> Array:
        """(q', δ'); equal tokens stay equal."""
        q, p = self._layer({_K: np.array([[at[0], at[0] - at[1]]])})[_K][0]
        return np.array([q, q - p if at[1] else 0.0])

    def error(self, at: Array) -> float:
        """The estimated error of K behind one layer, as `flow` has it."""
        given = np.tile([at[0], at[0] - at[1]], (1 + RUNS, 1))
        found = self._layer({_K: given}, 2, disturbances)[_K]
        return float(CAUTION * np.abs(found - found[0]).max())

    def settled(self, at: Array) -> Array | None:
        """Where the kernel almost rests, after many layers; None if it does not."""
        self.last = at
        for layer in range(_LAYERS):
            self.before, self.last = self.last, self(self.last)
            change = float(np.abs(self.last - self.before).max())
            q, apart = self.last
            drifts = layer >= _PATIENCE and change * layer > q / 2.0
            if drifts or not SMALLEST < q < LARGEST:
                return None
            if apart < min(_ALIKE * q, self.before[1]):
                self.last = np.array([q, 0.0])
            elif change < _SETTLED * q:
                return self.last
        return None

    def slopes(self, at: Array) -> tuple[Array, Array]:
        """The Jacobian, and its estimated errors; δ is not moved where it is 0."""
        moved = [self._slope(at, np.array([at[0], 0.0]))]
        if at[1]:
            moved.append(self._slope(at, np.array([0.0, at[1]])))
        else:
            moved.append(_limit(lambda step: self._shrunk(at[0], step), 1))
        slopes, errors = (np.stack(each, axis=1) for each in zip(*moved, strict=True))
        least = (_WIDEST / 2**_HALVINGS) ** (1 if at[1] else 2)
        return slopes, errors + ROUNDINGS * EPS / least

    def _slope(self, at: Array, towards: Array) -> tuple[Array, Array]:
        """The derivative along an axis."""

        def central(step: float) -> Array:
            rise = self(at + step * towards) - self(at - step * towards)
            return np.asarray(rise / (2.0 * step * towards.sum()))

        return _limit(central, 2)

    def _shrunk(self, q: float, step: float) -> Array:
        """(0, δ'/δ) at √(δ/q) = step."""
        apart = step**2 * q
        return np.array([0.0, self(np.array([q, apart]))[1] / apart])


def _limit(of: Callable[[float], Array], power: int) -> tuple[Array, Array]:
    """The limit at step 0, and its estimated error: Richardson's, of a series in step^power."""
    rows = [of(_WIDEST / 2**k) for k in range(1 + _HALVINGS)]
    before = rows
    for order in range(1, len(rows)):
        factor = 2.0 ** (power * order)
        before, rows = (
            rows,
            [(factor * b - a) / (factor - 1.0) for a, b in pairwise(rows)],
        )
    return rows[0], np.abs(before[0] - before[1]) + np.abs(rows[0] - before[1])
