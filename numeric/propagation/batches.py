"""The layer that a network repeats, and its fixed point for exchangeable batches and tokens.

One layer takes K = (q, p) to F(K), and to leading order

    G1' = J G1 + g(V, K),     V' = A V + v(K),     Θ' = T Θ + t(K),

where J is the Jacobian of F, because K + G1/n moves as K does. T is the mean of the products of the
layer's Jacobians: gradients going back grow by its eigenvalues. The recursions at probes that are 1
at one orbit, and 0 elsewhere, give J, A and T. Derived here.

Of exchangeable tokens a layer takes (q, δ) to (q', δ'), δ = q − p. It keeps δ = 0, where tokens are
equal: their rank has collapsed. There the Jacobian has the eigenvalues

    ∂q'/∂q at δ = 0,     lim δ'/δ as δ → 0.

Behind a kink δ'/δ is a series in √δ, whose limit is extrapolated. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import xarray

from derive.citations import rests_on
from derive.engine.orbits import Exchangeable, orbits
from derive.engine.score_averages import is_averaged
from derive.engine.tensors import Name, named
from derive.errors import InputError, Words
from derive.network import Network

from ..arrays import Array, by_orbit, over_samples
from ..flows import repeated_layer
from ..layers.accuracy import CAUTION, EPS, NOISE, RUNS
from ..layers.vectors import Descent
from ..tables import layout

Tensors: TypeAlias = dict[Name, Array]
"""Tensors by their orbits, (copies, …)."""

NEWTON, ROUNDINGS, LEAST = 8, 1024, 1e-9
"""Steps of Newton's method; the roundings of q that it leaves; the 1 − eigenvalue that is taken for
0, as where every q is fixed."""

SMALLEST, LARGEST = 1e-30, 1e30
"""A q that goes on to fall, or to grow."""

_SEED = 2019

_MEANINGS = {
    "K": "K at the fixed point",
    "kernel_rate": "eigenvalues of the Jacobian of (q, p)",
    "difference_rate": "factor of q - p in a layer, close to equal tokens",
    "gradient_rate": "eigenvalues of the map of Theta; gradients grow by the largest",
    "V_rate": "the largest eigenvalue of the map of V",
    "G1": "limit of G1",
    "V": "limit of V",
}

_K, _G1, _V, _THETA = (named(name) for name in ("K", "G1", "V", "Theta"))

_ORBITS = "K", "G1", "V"
_BLOCK, _BLOCKS, _NEAR = 32, 32, 1e-6
"""Layers between two looks at K; how often it is looked at; the relative change of K from which
Newton's method goes on."""

_APART = " with q > p"
"""The condition on the fixed point, in a message."""

_SETTLES = 1 - 1e-7
"""The largest rate at which a tensor has a limit."""


@rests_on("yang2019")
def fixed_batch(net: Network, inputs: Exchangeable) -> xarray.Dataset:
    """`fixed_points` with a batch. Beside each number stands `<name>_error`, an estimate as in
    `flow`.

    Raises InputError for a network or a batch that can't be used, and where K comes to no rest.
    """
    if inputs.m == 1:
        raise InputError("inputs", str(inputs), "two samples or more")
    with np.errstate(all="ignore"):
        layer = RepeatedLayer(net, inputs, ("K", "G1", "V", "Theta"))
        around = _at_rest(net, inputs, layer)
    numbers = {"K": np.tile(around.K, (1 + RUNS, 1)), **around.numbers()}
    every = list(dict.fromkeys(label for name in (_K, _V) for label in layer.labels(name)))
    found: dict[str, tuple[tuple[str, ...], Array, Array]] = {}
    for name, copies in numbers.items():
        error = with_error(copies, around.error)
        dims: tuple[str, ...] = ("mode",) if error.ndim else ()
        values = copies[0]
        if name in _ORBITS:
            dims, at = ("orbit",), [every.index(label) for label in layer.labels(named(name))]
            values, error = (put(len(every), at, each) for each in (values, error))
        found[name] = dims, values, error
    return table(net, inputs, found, every)


def with_error(copies: Array, least: float) -> Array:
    """The estimated error of a number, (copies, …), of at least so much of it."""
    error = CAUTION * np.abs(copies[1:] - copies[0]).max(axis=0)
    return np.asarray(np.maximum(error, least * np.abs(copies[0]).max()))


def put(count: int, at: Sequence[int], values: Array) -> Array:
    """The values at these places, NaN at others."""
    found = np.full(count, np.nan)
    found[at] = values
    return found


def _at_rest(net: Network, inputs: Exchangeable, whole: RepeatedLayer) -> Around:
    """The fixed point: many layers, and then Newton's method with the slope where they end."""
    layer = RepeatedLayer(net, inputs, ("K",))
    K = np.array([[float(each) for each in inputs.numbers]])
    for _ in range(_BLOCKS):
        before = layer({_K: K}, _BLOCK)[_K]
        K = layer({_K: before})[_K]
        if not SMALLEST < K[0, 0] < LARGEST:
            raise restless(net, inputs, K[0], _APART)
        if not np.abs(K - before).max() > _NEAR * np.abs(K).max():
            break
    around, start = Around.of(whole, K[0]), K
    rest = np.eye(2) - around.maps[_G1][0]
    inverse = np.linalg.pinv(rest, rcond=LEAST) if np.isfinite(rest).all() else rest
    error = ROUNDINGS * EPS * float(np.linalg.norm(inverse, 2))
    for _ in range(NEWTON):
        step = (layer({_K: K})[_K] - K) @ inverse.T
        K = K + step
        if not np.abs(step).max() > error * np.abs(K).max():
            break
    if not (np.abs(step).max() <= error * np.abs(K).max() and K[0, 0] > K[0, 1]):
        raise restless(net, inputs, K[0], _APART)
    near = np.abs(K - start).max() <= error * np.abs(K).max()
    return (around if near else Around.of(whole, K[0]))._replace(error=error)


class Around(NamedTuple):
    """The recursions around a fixed point: `maps` are (copies, orbits, orbits), of copies whose
    averages are disturbed, but for the first; `sources` what does not depend on the tensor; `mixed`
    what G1' takes from V; `error` that of K, relative to q."""

    K: Array
    maps: Tensors
    sources: Tensors
    mixed: Array
    error: float = 0.0

    @classmethod
    def of(cls, layer: RepeatedLayer, K: Array) -> Around:
        """By probes: none, one at each orbit of G1 and of Θ, one at each orbit of V; of those of
        the three that the layer has."""
        pairs, fours = (np.eye(len(layer.labels(name))) for name in (_G1, _V))
        probes, sets = 1 + len(pairs) + len(fours), 1 + RUNS
        given = {_K: np.tile(K, (probes, 1))}
        none = np.zeros((probes, len(pairs)))
        none[1 : 1 + len(pairs)] = pairs
        given |= {_G1: none, _THETA: none, _V: np.zeros((probes, len(fours)))}
        given[_V][1 + len(pairs) :] = fours

        def noise(averages: int) -> Array:
            return np.repeat(disturbances(averages), probes, axis=0)

        found = layer({name: np.tile(each, (sets, 1)) for name, each in given.items()}, 2, noise)
        parts = {name: each.reshape(sets, probes, -1) for name, each in found.items()}
        moved = {name: each[:, 1:] - each[:, :1] for name, each in parts.items()}
        first = len(pairs)
        maps = {name: each[:, :first].transpose(0, 2, 1) for name, each in moved.items()}
        maps[_V] = moved[_V][:, first:].transpose(0, 2, 1)
        sources = {name: each[:, 0] for name, each in parts.items()}
        mixed = moved[_G1][:, first:].transpose(0, 2, 1) if _G1 in moved else np.zeros(0)
        return cls(K, maps, sources, mixed)

    def of_V(self) -> dict[str, Array]:
        """The largest rate of V, and its limit if there is one, (copies, …) each."""
        found = {"V_rate": _rates(self.maps[_V])[:, 0]}
        if found["V_rate"].max() < _SETTLES:
            found["V"] = _limit(self.maps[_V], self.sources[_V])
        return found

    def numbers(self) -> dict[str, Array]:
        """The numbers of `fixed_batch`, (copies, …) each."""
        rates = {"kernel_rate": _rates(self.maps[_G1]), "gradient_rate": _rates(self.maps[_THETA])}
        found = rates | self.of_V()
        if "V" in found:
            V = found["V"]
            if np.abs(found["kernel_rate"]).max() < _SETTLES:
                source = self.sources[_G1] + np.einsum("caf,cf->ca", self.mixed, V)
                found["G1"] = _limit(self.maps[_G1], source)
        return found


def _rates(maps: Array) -> Array:
    """Eigenvalues, the largest first, (copies, orbits)."""
    found = np.linalg.eigvals(maps)
    if np.iscomplexobj(found):
        found = np.where(np.abs(found.imag) < 1e-9, found.real, np.abs(found))
    order = np.argsort(-np.abs(found), axis=1)
    return np.asarray(np.take_along_axis(found, order, axis=1).real)


def _limit(maps: Array, source: Array) -> Array:
    """x = map x + source."""
    rest = np.eye(maps.shape[-1]) - maps
    return np.asarray(np.linalg.solve(rest, source[..., None])[..., 0])


class RepeatedLayer:
    """The layer that a network repeats, on tensors given by their orbits.

    Attributes:
        names: the tensors, and those that they need.
    """

    def __init__(self, net: Network, inputs: Exchangeable, names: Sequence[str]) -> None:
        self._layers, self._parameters, self._samples = repeated_layer(net, inputs, names)
        self.names = self._layers.names

    def labels(self, name: Name) -> list[str]:
        """The orbits of a tensor."""
        return list(orbits(name, self._samples))

    def __call__(
        self, given: Tensors, depth: int = 2, noise: Callable[[int], Array] | None = None
    ) -> Tensors:
        """The tensors that so many layers, less one, make of these.

        Arguments:
            given: (copies, orbits) each.
            depth: layers, the given one among them.
            noise: disturbances of so many averages, (copies, averages), in units of their sizes.
        """
        copies = len(given[_K])
        arrays = [over_samples(given[name], name, self._samples) for name in self.names]
        averages = self._layers.noises
        descent = Descent(
            np.tile(self._parameters, (depth, copies, 1)),
            np.zeros((copies, averages)) if noise is None else noise(averages),
            np.zeros((copies, len(arrays))),
            lambda layers: None,
        )
        rows, _ = self._layers.descend((arrays, [np.abs(each[0]) for each in arrays]), descent)
        return {
            name: by_orbit(row[-1], name, self._samples)
            for name, row in zip(self.names, rows, strict=True)
        }


def disturbances(averages: int) -> Array:
    """Of so many averages, as `RepeatedLayer` takes them: none, and then `RUNS` that are random."""
    rng = np.random.default_rng(_SEED)
    found = NOISE * EPS * rng.uniform(-1.0, 1.0, (1 + RUNS, averages))
    found[0] = 0.0
    return found


def restless(
    net: Network, inputs: Exchangeable, kernel: Sequence[float], wanted: str, more: str = ""
) -> InputError:
    """The error of a kernel that does not come to rest: where it is in the end, and more."""
    q, p = kernel
    got = f"{net} at {inputs}, which leads to q = {q:.6g} and p = {p:.6g}{more}"
    return InputError("net, inputs", Words(got), f"a fixed point of the kernel{wanted}")


def table(
    net: Network,
    inputs: Exchangeable,
    numbers: Mapping[str, tuple[tuple[str, ...], Array, Array]],
    labels: Sequence[str],
) -> xarray.Dataset:
    """The table of `fixed_points` with a batch.

    Arguments:
        numbers: of each its axes, its values, and their errors.
        labels: the orbits.
    """
    arrays: dict[str, xarray.Variable] = {}
    for name, (dims, values, errors) in numbers.items():
        arrays[name] = xarray.Variable(dims, values, {"long_name": _MEANINGS[name]})
        arrays[f"{name}_error"] = xarray.Variable(dims, errors)
    attributes = {"network": str(net), **layout.about_inputs(inputs)}
    return xarray.Dataset(arrays, {"orbit": list(labels)}, attributes)


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
            moved.append(_extrapolated(lambda step: self._shrunk(at[0], step), 1))
        slopes, errors = (np.stack(each, axis=1) for each in zip(*moved, strict=True))
        least = (_WIDEST / 2**_HALVINGS) ** (1 if at[1] else 2)
        return slopes, errors + ROUNDINGS * EPS / least

    def _slope(self, at: Array, towards: Array) -> tuple[Array, Array]:
        """The derivative along an axis."""

        def central(step: float) -> Array:
            rise = self(at + step * towards) - self(at - step * towards)
            return np.asarray(rise / (2.0 * step * towards.sum()))

        return _extrapolated(central, 2)

    def _shrunk(self, q: float, step: float) -> Array:
        """(0, δ'/δ) at √(δ/q) = step."""
        apart = step**2 * q
        return np.array([0.0, self(np.array([q, apart]))[1] / apart])


def _extrapolated(of: Callable[[float], Array], power: int) -> tuple[Array, Array]:
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
