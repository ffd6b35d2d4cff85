"""The network that a model was read as, drawn by the laws of its matrices, in NumPy.

It has every order in 1/n of what was read, few inputs and biases of any law among it: beside the
series it says what that leaves out. A parameter's part of the tangent kernel is (δ·δ)(u·u) of a
matrix W u and δ·δ of a bias, δ what the output changes by with W u; constant factors beside both
enter as their squares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from derive.activations.functions import Activation

from ..arrays import Array
from ..layers import sigma
from .graph import Applied, Graph, Linear, Node, Norm, Product, Sum
from .laws import Law

_STREAM = int.from_bytes(b"drawn")
"""Beside the seed: a stream that no other part of a measurement takes."""


class Drawn:
    """Initializations of a graph, for `measurement.measure`.

    Arguments:
        graph: of a model.
        laws: of its matrices and biases, by their paths.
    """

    precision = 1e-12
    overhead = 100_000
    has_free_rows = True
    """`Law.draw` takes every entry of such laws from a stream without another."""

    def __init__(self, graph: Graph, laws: Mapping[str, Law]) -> None:
        self.graph, self._laws = graph, laws
        self._shapes: dict[str, tuple[int, ...]] = {}
        for node in (each for each in graph.nodes if isinstance(each, Linear)):
            self._shapes[node.weight] = node.fan_out, node.fan_in
            if node.bias is not None:
                self._shapes[node.bias] = (node.fan_out,)

    @property
    def is_known(self) -> bool:
        """Whether all of it can be drawn."""
        known = all(self._laws[path].is_drawn for path in self._shapes)
        return known and not self.graph.shapes[0]

    def initialize(self, seeds: Sequence[int]) -> dict[str, Array]:
        """Matrices (count, out, in) and biases (count, out), by their paths."""
        found: dict[str, list[Array]] = {path: [] for path in self._shapes}
        for seed in seeds:
            random = np.random.default_rng((seed, _STREAM))
            for path, shape in self._shapes.items():
                found[path].append(self._laws[path].draw(shape, random))
        return {path: np.stack(each) for path, each in found.items()}

    def first(self, made: Any, count: int) -> Any:
        """The first of the initializations."""
        return {path: each[:count] for path, each in made.items()}

    def values(self, made: Any) -> Mapping[str, Array]:
        """The same, as they are."""
        own: Mapping[str, Array] = made
        return own

    def propagate(self, made: Any, source: int, states: Array, node: int) -> Array:
        """A node's values, (count, rows, width), from states of a node below it."""
        values = self._forward(made, source, states, node)[node]
        count = len(next(iter(made.values())))
        return np.broadcast_to(values, (count, *values.shape[1:]))

    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """Σ_μ ∂_μ z_a ∂_μ z_b for the first neuron of each node: (count, nodes, m, m)."""
        count, m = len(next(iter(made.values()))), len(X)
        values = self._forward(made, 0, X[None], max(nodes))
        grams = np.zeros((count, len(nodes), m, m))
        for at, node in enumerate(nodes):
            first = np.zeros((count, m, self.graph.widths[node]))
            first[:, :, 0] = 1.0
            back = {node: first}
            for number in reversed(self.graph.between(0, node)):
                change, inner = back.pop(number), self.graph.nodes[number]
                if isinstance(inner, Linear):
                    h = values[inner.source]
                    own = float(inner.scale) ** 2 * (h @ h.swapaxes(1, 2))
                    if inner.bias is not None:
                        own = own + float(inner.bias_scale) ** 2
                    grams[:, at] += (change @ change.swapaxes(1, 2)) * own
                for source, part in _back(inner, change, values, made):
                    back[source] = back[source] + part if source in back else part
        return grams

    def _forward(self, made: Any, source: int, states: Array, node: int) -> dict[int, Array]:
        values = {source: states}
        for number in self.graph.between(source, node):
            values[number] = _value(self.graph.nodes[number], values, made)
        return values


def _value(node: Node, values: Mapping[int, Array], made: Mapping[str, Array]) -> Array:
    match node:
        case Linear(source, weight, bias):
            found = float(node.scale) * values[source] @ made[weight].swapaxes(1, 2)
            if bias is not None:
                found = found + float(node.bias_scale) * made[bias][:, None]
            return np.asarray(found)
        case Applied(source, function):
            return _function(function, 0)(values[source])
        case Norm(source):
            centred, root = _normalized(node, values[source])
            return centred / root
        case Sum(terms):
            return np.asarray(sum(float(factor) * values[source] for factor, source in terms))
        case Product(left, right):
            return values[left] * values[right]
    raise TypeError(node)


def _back(
    node: Node, change: Array, values: Mapping[int, Array], made: Mapping[str, Array]
) -> list[tuple[int, Array]]:
    """What a change with a node's values is with those that it is computed from."""
    match node:
        case Linear(source, weight):
            return [(source, float(node.scale) * change @ made[weight])]
        case Applied(source, function):
            return [(source, change * _function(function, 1)(values[source]))]
        case Norm(source, kind):
            centred, root = _normalized(node, values[source])
            along = _mean(node, change * centred) / root**2
            found = (change - along * centred) / root
            if kind == "layer":
                found = found - _mean(node, found)
            return [(source, found)]
        case Sum(terms):
            return [(source, float(factor) * change) for factor, source in terms]
        case Product(left, right):
            return [(left, change * values[right]), (right, change * values[left])]
    raise TypeError(node)


def _normalized(node: Norm, u: Array) -> tuple[Array, Array]:
    centred = u - _mean(node, u) if node.kind == "layer" else u
    return centred, np.sqrt(_mean(node, centred**2) + float(node.eps))


def _mean(node: Norm, u: Array) -> Array:
    """At each neuron the mean over its group."""
    own = u.reshape(*u.shape[:-1], node.sets, -1)
    return np.broadcast_to(own.mean(axis=-1, keepdims=True), own.shape).reshape(u.shape)


def _function(activation: Activation, order: int) -> Callable[[Array], Array]:
    found = sigma.derivatives(activation, (order,))
    return lambda at: found(at)[0]
