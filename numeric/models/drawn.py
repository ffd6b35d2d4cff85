"""The network that a model was read as, drawn by the laws of its matrices, in NumPy.

It has every order in 1/n of what was read, few inputs and biases of any law among it: beside the
series it says what that leaves out. A parameter's part of the tangent kernel is (δ·δ)(u·u) of a
matrix W u and δ·δ of a bias, δ what the output changes by with W u; constant factors beside both
enter as their squares. Of a signal δ and u have positions, and pairs of these are summed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from derive.activations.functions import Activation
from derive.engine.taps import Taps, matrices

from ..arrays import Array
from ..layers import sigma
from .frameworks.base import Initialized
from .graph import Applied, Attention, Given, Graph, Linear, Node, Norm, Pooled, Product, Sum
from .laws import Law

_STREAM = int.from_bytes(b"drawn")
"""Beside the seed: a stream that no other part of a measurement takes."""


class Drawn(Initialized):
    """Initializations of a graph, as dictionaries of arrays (count, …).

    Arguments:
        graph: of a model.
        laws: of its matrices and biases, by their paths.
    """

    precision = 1e-12
    has_free_rows = True
    """`Law.draw` takes every entry of such laws from a stream without another."""

    def __init__(self, graph: Graph, laws: Mapping[str, Law]) -> None:
        self.graph, self._laws = graph, laws
        self._taps: dict[Taps, sparse.csr_array] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        live = (graph.nodes[at] for at in graph.between(0, graph.output))
        for node in (each for each in live if isinstance(each, Linear)):
            self._shapes[node.weight] = node.fan_out, node.fan_in
            if node.bias is not None:
                self._shapes[node.bias] = (node.fan_out,)

    @property
    def is_known(self) -> bool:
        """True if all of it can be drawn."""
        return all(self._laws[path].is_drawn for path in self._shapes)

    def initialize(self, seeds: Sequence[int]) -> dict[str, Array]:
        """Matrices (count, out, in) and biases (count, out), by their paths."""
        found: dict[str, list[Array]] = {path: [] for path in self._shapes}
        for seed in seeds:
            random = np.random.default_rng((seed, _STREAM))
            for path, shape in self._shapes.items():
                found[path].append(self._laws[path].draw(shape, random))
        return {path: np.stack(each) for path, each in found.items()}

    def values(self, made: Any) -> Mapping[str, Array]:
        """The same, as they are."""
        own: Mapping[str, Array] = made
        return own

    def propagate(self, made: Any, source: int, states: Array, node: int) -> Array:
        """See `Initialized`."""
        given = states.reshape(*states.shape[:2], *self.graph.axes(source))
        values = self._forward(made, source, given, node)[node]
        count = len(next(iter(made.values())))
        flat = values.reshape(*values.shape[:2], -1)
        return np.broadcast_to(flat, (count, *flat.shape[1:]))

    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """See `Initialized`.

        Behind batch normalization z_a depends on all rows: each a has a batch of its own.
        """
        count, m, batch = len(next(iter(made.values()))), len(X), self.graph.batch
        rows = np.concatenate([X] * m) if batch else X
        values = self._forward(made, 0, rows[None], max(nodes))
        grams = np.zeros((count, len(nodes), m, m))
        for at, node in enumerate(nodes):
            first = np.zeros((count, len(rows), *self.graph.axes(node)))
            first.reshape(count, len(rows), -1)[:, :: m + 1 if batch else 1, 0] = 1.0
            back = {node: first}
            for number in reversed(self.graph.between(0, node)):
                change, inner = back.pop(number), self.graph.nodes[number]
                if isinstance(inner, Linear):
                    h = self.columns(inner, values[inner.source])
                    of_each = change.reshape(count, m, -1, change.shape[-1]) if batch else change
                    grams[:, at] += _gram(inner, h, of_each)
                for source, part in self._back(inner, change, values, made):
                    back[source] = back[source] + part if source in back else part
        return grams

    def _forward(self, made: Any, source: int, states: Array, node: int) -> dict[int, Array]:
        values = {source: states}
        for number in self.graph.between(source, node):
            inner = self.graph.nodes[number]
            if isinstance(inner, Linear):
                found = self._product(inner, values[inner.source], made)
                axes = self.graph.axes(number)
                values[number] = found.reshape(len(found), states.shape[1], *axes)
            elif isinstance(inner, Given):
                values[number] = np.broadcast_to(
                    np.array(inner.table), (1, states.shape[1], *self.graph.axes(number))
                )
            else:
                values[number] = _value(inner, values, self.graph.batch)
        return values

    def _product(self, node: Linear, u: Array, made: Mapping[str, Array]) -> Array:
        """d b + c W u, (count, rows · positions, out)."""
        W = _by_taps(node, made[node.weight])
        found = float(node.scale) * self.columns(node, u) @ W.swapaxes(1, 2)
        if node.bias is not None:
            found = found + float(node.bias_scale) * made[node.bias][:, None]
        return np.asarray(found)

    def columns(self, node: Linear, u: Array) -> Array:
        """The arrays that a matrix multiplies, (count, rows · results, columns), tap by tap, of
        values at its source, (count, rows, …)."""
        at_positions = u.reshape(*u.shape[:2], *self.graph.axes(node.source))
        (columns,) = node.taps.read(at_positions, self._read)
        return _rows(columns)

    def _read(self, taps: Taps, u: Array) -> list[Array]:
        """A^{(k)} u of all taps side by side, (count, rows, results, columns)."""
        count, rows, positions, channels = u.shape
        read = self._of(taps) @ u.transpose(2, 0, 1, 3).reshape(positions, -1)
        read = read.reshape(taps.count, -1, count, rows, channels).transpose(2, 3, 1, 0, 4)
        return [read.reshape(count, rows, -1, channels * taps.count)]

    def _read_back(self, taps: Taps, u: Array) -> list[Array]:
        """The transposed sums of `_read`, (count, rows, positions, channels)."""
        count, rows, results, _ = u.shape
        own = u.reshape(count, rows, results, taps.count, -1).transpose(3, 2, 0, 1, 4)
        back = self._of(taps).T @ own.reshape(taps.count * results, -1)
        return [back.reshape(taps.positions, count, rows, -1).transpose(1, 2, 0, 3)]

    def _of(self, taps: Taps) -> sparse.csr_array:
        """The matrices of all taps, (taps · results, positions)."""
        if taps not in self._taps:
            self._taps[taps] = sparse.csr_array(matrices(taps).reshape(-1, taps.positions))
        return self._taps[taps]

    def _back(
        self, node: Node, change: Array, values: Mapping[int, Array], made: Mapping[str, Array]
    ) -> list[tuple[int, Array]]:
        """A change with a node's values, with those that it is computed from."""
        if not isinstance(node, Linear):
            return _back(node, change, values, self.graph.batch)
        found = float(node.scale) * _rows(change) @ _by_taps(node, made[node.weight])
        count, rows = len(found), change.shape[1]
        (found,) = node.taps.read(found.reshape(count, rows, -1, found.shape[-1]), self._read_back)
        return [(node.source, found.reshape(count, rows, *self.graph.axes(node.source)))]


def _by_taps(node: Linear, W: Array) -> Array:
    """Matrices with the columns of each tap side by side, in place of those of each channel."""
    if node.count == 1:
        return W
    return W.reshape(*W.shape[:2], -1, node.count).swapaxes(2, 3).reshape(W.shape)


def _gram(node: Linear, h: Array, change: Array) -> Array:
    """The part of a matrix and its biases, (count, m, m), from what the matrix multiplies."""
    if change.ndim == 3:
        own = float(node.scale) ** 2 * (h @ h.swapaxes(1, 2))
        own = own if node.bias is None else own + float(node.bias_scale) ** 2
        return np.asarray((change @ change.swapaxes(1, 2)) * own)
    h = h.reshape(len(h), *change.shape[1:3], -1)
    gradients = float(node.scale) * change.swapaxes(2, 3) @ h
    found = _products(gradients)
    if node.bias is not None:
        found = found + float(node.bias_scale) ** 2 * _products(change.sum(axis=2))
    return found


def _products(gradients: Array) -> Array:
    """Of all pairs of inputs, (count, m, m)."""
    flat = gradients.reshape(*gradients.shape[:2], -1)
    return np.asarray(flat @ flat.swapaxes(1, 2))


def _rows(u: Array) -> Array:
    """(count, rows · positions, width)."""
    return u.reshape(len(u), -1, u.shape[-1])


def _value(node: Node, values: Mapping[int, Array], batch: int) -> Array:
    match node:
        case Applied(source, function):
            return _function(function, 0)(values[source])
        case Pooled(source, taps):
            found = np.einsum("tp,crpn->crtn", matrices(taps)[0], values[source])
            return np.asarray(found if taps.into else found[:, :, 0])
        case Norm(source):
            centred, root = _normalized(node, values[source], batch)
            return centred / root
        case Sum(terms):
            return np.asarray(sum(float(factor) * values[source] for factor, source in terms))
        case Product(left, right):
            return values[left] * values[right]
        case Attention():
            _, _, v, A = _heads(node, values)
            return _joined(A @ v)
    raise TypeError(node)


def _heads(node: Attention, values: Mapping[int, Array]) -> tuple[Array, Array, Array, Array]:
    """q, k and v, (…, H, T, d), the first over √d or d, and the weights of attention."""
    q = _apart(values[node.query], node.heads)
    k, v = (
        np.repeat(_apart(values[at], node.heads // node.groups), node.groups, axis=-3)
        for at in (node.key, node.value)
    )
    q = q / node.divisor(q.shape[-1])
    scores = q @ k.swapaxes(-1, -2) + (np.array(node.table) if node.table else 0.0)
    A = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return q, k, v, A / A.sum(axis=-1, keepdims=True)


def _apart(u: Array, heads: int) -> Array:
    return u.reshape(*u.shape[:-1], heads, -1).swapaxes(-2, -3)


def _joined(u: Array) -> Array:
    u = u.swapaxes(-2, -3)
    return u.reshape(*u.shape[:-2], -1)


def _by_group(u: Array, groups: int) -> Array:
    """Sums over heads that share keys, of (…, H, T, d)."""
    return np.asarray(u.reshape(*u.shape[:-3], -1, groups, *u.shape[-2:]).sum(axis=-3))


def _back_from_heads(
    node: Attention, change: Array, values: Mapping[int, Array]
) -> list[tuple[int, Array]]:
    q, k, v, A = _heads(node, values)
    own = _apart(change, node.heads)
    of_scores = A * (of_A := own @ v.swapaxes(-1, -2)) - A * (A * of_A).sum(axis=-1, keepdims=True)
    found = (
        of_scores @ k / node.divisor(k.shape[-1]),
        of_scores.swapaxes(-1, -2) @ q,
        A.swapaxes(-1, -2) @ own,
    )
    if node.groups > 1:
        q, *shared = found
        found = (q, *(_by_group(each, node.groups) for each in shared))
    return [(at, _joined(each)) for at, each in zip(node.sources, found, strict=True)]


def _back(
    node: Node, change: Array, values: Mapping[int, Array], batch: int
) -> list[tuple[int, Array]]:
    match node:
        case Applied(source, function):
            return [(source, change * _function(function, 1)(values[source]))]
        case Norm(source, kind):
            centred, root = _normalized(node, values[source], batch)
            along = _mean(node, change * centred, batch) / root**2
            found = (change - along * centred) / root
            if kind != "rms":
                found = found - _mean(node, found, batch)
            return [(source, found)]
        case Pooled(source, taps):
            change = change if taps.into else change[:, :, None]
            return [(source, np.einsum("tp,crtn->crpn", matrices(taps)[0], change))]
        case Given():
            return []
        case Sum(terms):
            return [(source, float(factor) * change) for factor, source in terms]
        case Product(left, right):
            return [(left, change * values[right]), (right, change * values[left])]
        case Attention():
            return _back_from_heads(node, change, values)
    raise TypeError(node)


def _normalized(node: Norm, u: Array, batch: int) -> tuple[Array, Array]:
    centred = u if node.kind == "rms" else u - _mean(node, u, batch)
    return centred, np.sqrt(_mean(node, centred**2, batch) + float(node.eps))


def _mean(node: Norm, u: Array, batch: int) -> Array:
    """At each neuron the mean over its group, over positions too if the norm is; or over so many
    samples of a batch, of which rows are whole ones, and over positions."""
    if node.kind == "batch":
        own = u.reshape(len(u), -1, math.prod(u.shape[2:-1], start=batch), u.shape[-1])
        return np.broadcast_to(own.mean(axis=2, keepdims=True), own.shape).reshape(u.shape)
    own = u.reshape(*u.shape[:-1], node.sets, -1)
    axes = (2, -1) if node.over else -1
    return np.broadcast_to(own.mean(axis=axes, keepdims=True), own.shape).reshape(u.shape)


def _function(activation: Activation, order: int) -> Callable[[Array], Array]:
    found = sigma.derivatives(activation, (order,))
    return lambda at: found(at)[0]
