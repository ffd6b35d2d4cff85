"""Arithmetic for the equations of a layer: jets of some networks, side by side.

A jet's axes are (draws, jets, m, n), as in `jets`; n is 1 where there is no neural index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations import Activation
from derive.activations.batches import BatchFunction
from derive.arithmetic.parameters import Value
from derive.engine.scores import Scores
from derive.engine.stages import Stage
from derive.engine.taps import Taps
from derive.errors import InputError
from derive.work.caches import cache

from ..arrays import Array
from ..estimators.polynomials import Structure
from ..estimators.probes import Probes
from ..layers import batches
from ..layers.tapped import Reader
from ..random.lazy import Step
from . import jets
from .base import evaluated_once
from .ensemble import Ensemble, compiled_activation, masked
from .probing import kernels, weighted


class Arithmetic:
    """On this machine's processors.

    Arguments:
        ensemble: the networks.
        probes: the jets that are followed.
        draws: the networks' numbers.
    """

    def __init__(self, ensemble: Ensemble, probes: Probes, draws: NDArray[np.int64]) -> None:
        self.ensemble, self.probes, self.draws = ensemble, probes, draws

    def constant(self, x: Array) -> Array:
        """An array that is the same in all networks, (m, n), as a jet."""
        return jets.constant(self.probes, np.broadcast_to(x, (self.draws.size, *x.shape)))

    def added(self, terms: Sequence[Array]) -> Array:
        """Their sum; one alone is what comes back."""
        first, *others = terms
        return sum(others, start=first)

    def scaled(self, x: Array, factor: float) -> Array:
        """factor·x; x itself where that is 1."""
        return x if factor == 1.0 else factor * x

    def divided(self, x: Array, n: int) -> Array:
        """x/n."""
        return x / n

    def spread(self, x: Array, n: int) -> Array:
        """The same number for so many neurons."""
        return np.broadcast_to(x, (*x.shape[:-1], n))

    def times(self, x: Array, y: Array) -> Array:
        """The product, neuron by neuron; x alone may be without them."""
        return jets.times(self.probes, x, y)

    def total(self, x: Array) -> Array:
        """Σ_k x_k over neurons."""
        found: Array = x.sum(axis=-1, keepdims=True)
        return found

    def summed(self, x: Array, y: Array) -> Array:
        """Σ_k x_k y_k over neurons."""
        return jets.summed(self.probes, x, y)

    def in_sets(self, x: Array, sets: int) -> Array:
        """At each neuron the mean over its set; the sets are of equal size."""
        own = sets_of(x, sets)
        means = np.broadcast_to(own.mean(axis=-1, keepdims=True), own.shape)
        found: Array = means.reshape(x.shape)
        return found

    def activated(self, Z: Array, order: int, sigma: Activation, *, kept: bool) -> Array:
        """σ^{(order)} of a jet, in its place unless that is to be kept."""
        Z = np.array(Z, order="C") if kept else np.ascontiguousarray(Z)
        draws, count, m, n = Z.shape
        orders = self.probes.order + order + 1
        rows = Z.reshape(draws, count * m, n)
        if orders == 1:
            compiled_activation(sigma).activate(rows)
            return Z
        derivatives = np.empty((draws, orders, m, n))
        compiled_activation(sigma, orders).differentiate(rows, derivatives)
        if self.probes.order:
            kernels().chain(rows, derivatives[:, order:], self.probes.chain_rule)
        else:
            Z[:, 0] = derivatives[:, order]
        return Z

    def batched(self, Z: Array, function: BatchFunction, sigma: Activation) -> Array:
        """A function of all samples at a neuron, of a jet with first derivatives at most."""
        directions = Z.shape[2] - function.is_shift_invariant
        if self.probes.order and directions < 5 and function.is_scale_invariant(sigma):
            wanted = "an eps, or a larger batch: squares of derivatives, 1/r⁴ over a norm r of so "
            wanted += "few directions, have an infinite mean, and estimates no error"
            raise InputError("inputs", f"{directions} directions of a batch", wanted)
        *means, value = zip(*batches.expressions(function, sigma), strict=True)
        arguments = [Z]
        with np.errstate(all="ignore"):
            for mean in means:
                moved = jets.composed(self.probes, _derivative(mean, arguments), arguments)
                arguments.append(moved.mean(axis=2, keepdims=True))
            found = jets.composed(self.probes, _derivative(value, arguments), arguments)
        if not np.isfinite(found).all() and np.isfinite(Z).all():
            wanted = "an eps: at a neuron of a network all samples have one value"
            raise InputError("layer", str(function), wanted)
        return found

    def attended(self, parts: Sequence[Array], scores: Scores, positions: int) -> Array:
        """Σ_s A[t,s] v[s] of queries, keys and values, head by head."""
        heads = heads_of(parts, scores)
        query, key, value = (self._in_signals(each, positions) for each in parts)
        if self.probes.order:
            return self._attended_jets(query, key, value, scores)
        query, key, value = (_in_heads(each[:, 0], heads) for each in (query, key, value))
        size = query.shape[-1]
        products = query @ key.swapaxes(-1, -2) / float(size) ** float(scores.power)
        found = scores.weights(products) @ value
        return np.ascontiguousarray(found.swapaxes(2, 3)).reshape(parts[2].shape)

    def _in_signals(self, x: Array, positions: int) -> Array:
        """(draws, jets, signals, positions, n) of (draws, jets, samples, n)."""
        draws, count, samples, n = x.shape
        return x.reshape(draws, count, samples // positions, positions, n)

    def _attended_jets(self, query: Array, key: Array, value: Array, scores: Scores) -> Array:
        """The same of jets: A of each position s, times the values there."""
        draws, count, signals, T, n = value.shape
        products = self._score_jets(query, key, scores)
        found = []
        for A, s in zip(self.weight_jets(products, scores, signals), range(T), strict=True):
            own = np.broadcast_to(value[:, :, :, s, None], value.shape)
            spread = np.repeat(A, n // A.shape[-1], axis=-1)
            found.append(self.times(spread, own.reshape(draws, count, -1, n)))
        return self.added(found)

    def _score_jets(self, query: Array, key: Array, scores: Scores) -> Array:
        """q_t·k_s/d^a, (draws, jets, signals · t, s, heads)."""
        draws, count, signals, T, n = query.shape
        pairs = np.broadcast_arrays(query[:, :, :, :, None], key[:, :, :, None])
        products = self.times(*(each.reshape(draws, count, -1, n) for each in pairs))
        heads = scores.heads(n)
        found = products.reshape(draws, count, signals * T, T, heads, -1).sum(axis=-1)
        return np.asarray(found / float(n // heads) ** float(scores.power))

    def weight_jets(self, products: Array, scores: Scores, signals: int) -> Iterator[Array]:
        """A[t,s] for each s, (draws, jets, signals · t, heads)."""
        draws, _, rows, T, heads = products.shape
        at = np.moveaxis(products[:, 0].reshape(draws, signals, T, T, heads), -1, 2)
        known = [scores.weights(at, k) for k in range(self.probes.order + 1)]
        arguments = [products[:, :, :, r] for r in range(T)]
        for s in range(T):

            def derivative(orders: tuple[int, ...], s: int = s) -> Array:
                by = [r for r, order in enumerate(orders) for _ in range(order)]
                at_s: Any = (..., s, *by)  # (draws, signals, heads, t)
                own = np.moveaxis(known[len(by)][at_s], 2, 3)
                return np.asarray(own.reshape(draws, rows, heads))

            yield jets.composed(self.probes, derivative, arguments)

    def masked(self, body: Array, keep: Value, stream: int) -> Array:
        """A jet times μ/p, with μ = 1 with chance p, else 0, for each sample and neuron."""
        made = np.array(body)
        masked(made, keep, self.ensemble.generators(self.draws, stream))
        return made

    def function(
        self, stage: Stage, number: int, orders: tuple[int, ...], means: Sequence[Array]
    ) -> Array:
        """A derivative of a function of a stage's collective variables, given as jets."""
        values = [mean[:, 0] for mean in means]

        def derivative(more: tuple[int, ...]) -> Array:
            total = tuple(a + b for a, b in zip(orders, more, strict=True))
            value = function_of(stage, number, total, values, self.ensemble.width)
            found: Array = np.broadcast_to(value, values[0].shape)
            return found

        return jets.composed(self.probes, derivative, means)

    def read(self, taps: Taps, body: Array) -> list[Array]:
        """The array at the positions that the matrix of each tap reads."""
        reader = Reader(taps, body.shape[2] // taps.positions)
        return [reader.read(k, body, axis=2) for k in range(reader.count)]

    def joined(self, parts: Sequence[Array]) -> Array:
        """Jets of one width as one, samples after samples."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)

    def parted(self, x: Array, count: int) -> list[Array]:
        """So many jets of what was `joined`."""
        return np.split(x, count, axis=2)

    def rows(self, x: Array) -> Array:
        """The vectors of a jet, (draws, rows, n)."""
        return np.ascontiguousarray(x).reshape(x.shape[0], -1, x.shape[-1])

    def gram(self, rows: Array) -> Array:
        """Their inner products over n, (draws, rows, rows)."""
        S = np.empty((*rows.shape[:2], rows.shape[1]))
        kernels().grams(rows, S)
        return S

    def applied(
        self, steps: Sequence[Step], gram: Array, rows: Array, n: int, stream: int
    ) -> Array:
        """W on vectors with this `gram`, (draws, rows, n), of a matrix with these factors."""
        return weighted(gram, rows, self.draws, steps, (self.ensemble.key, stream))

    def vary(
        self,
        gram: Array,
        rows: Array,
        Z: Array,
        rates: tuple[float, float],
        samples: int,
        stream: int,
    ) -> None:
        """Add what directions in the matrix and in biases contribute to `applied`, at these
        learning rates."""
        source = self.ensemble.key, stream
        kernels().vary(gram, rows, Z, self.draws, rates, self.probes.raising, samples, source)

    def zeros(self, count: int) -> Array:
        """So many zeros for each network, (draws, count)."""
        return np.zeros((self.draws.size, count))

    def evaluated(self, polynomials: tuple[Structure, Array], grams: Sequence[Array]) -> Array:
        """Polynomials in the entries of Gram matrices, (draws, polynomials)."""
        factors = np.concatenate([each.reshape(self.draws.size, -1) for each in grams], axis=1)
        return evaluated_once(polynomials, factors)


def heads_of(parts: Sequence[Array], scores: Scores) -> int:
    """How many heads these queries, keys and values have; InputError where they do not fit."""
    if scores.is_normal:
        wanted = '"1/sqrt(d)", whose queries and keys have neurons: normal ones have no matrices'
        raise InputError("scores", "normal", wanted)
    query, _, value = parts
    heads = scores.heads(query.shape[3])
    if value.shape[3] % heads:
        raise InputError("width", value.shape[3], f"values of a multiple of {heads} neurons")
    return heads


def sets_of(x: Array, sets: int) -> Array:
    """An array with its last axis, the neurons, in so many sets; InputError if they differ."""
    *before, n = x.shape
    if n % sets:
        raise InputError("width", n, f"a multiple of {sets}, the number of groups of a norm")
    return x.reshape(*before, sets, -1)


def _derivative(made: Any, arguments: Sequence[Array]) -> jets.Derivative:
    """A function of jets at their values, and its first derivatives.

    Arguments:
        made: the function, its derivative by the first argument, and those by the others.
    """
    own, by_z, by_means = made
    values = [each[:, 0] for each in arguments]

    def derivative(orders: tuple[int, ...]) -> Array:
        if sum(orders) > 1:
            wanted = "tensors with first derivatives of a function of all samples at most"
            raise InputError("tensors", "higher derivatives", wanted)
        chosen = [by_z, *by_means][orders.index(1)] if any(orders) else own
        found: Array = chosen(*values)
        return found

    return derivative


@cache(entries=256)
def derivative_of(stage: Stage, function: int, orders: tuple[int, ...]) -> Any:
    """A derivative of a function of collective variables, of arrays."""
    symbols = [mean.symbol for mean in stage.means]
    expression = stage.functions[function]
    for symbol, k in zip(symbols, orders, strict=True):
        expression = sympy.diff(expression, symbol, k)
    return sympy.lambdify(symbols, expression, "numpy")


def function_of(
    stage: Stage, function: int, orders: tuple[int, ...], means: Sequence[Array], width: int
) -> Array:
    """A derivative of a function at these values of a stage's collective variables.

    Raises InputError where it is not finite and they are: where a norm divides by 0.
    """
    with np.errstate(all="ignore"):
        found = np.asarray(derivative_of(stage, function, orders)(*means), float)
    if np.isfinite(found).all() or not all(np.isfinite(mean).all() for mean in means):
        return found
    (place, *_) = np.argwhere(~np.isfinite(np.broadcast_to(found, means[0].shape)))
    at = ", ".join(
        f"{each.symbol} = {value[tuple(place)]:.6g}"
        for each, value in zip(stage.means, means, strict=True)
    )
    wanted = f"finite derivatives at {at} in a network of width {width}: more neurons, or an eps"
    raise InputError("layer", str(stage.functions[function]), wanted)


def _in_heads(x: Array, heads: int) -> Array:
    """(draws, signals, heads, positions, size) of (draws, signals, positions, n)."""
    *before, n = x.shape
    return x.reshape(*before, heads, n // heads).swapaxes(2, 3)
