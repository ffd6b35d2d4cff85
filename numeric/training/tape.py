"""Reverse differentiation of a layer's equations: numbers that know what they were made of.

The stages' evaluator (`samplers.staged.Evaluated`) calls on a `Tape` as on `samplers.arithmetic`.
Values are (draws, 1, samples, neurons), neurons 1 where there is no neural index; what comes back,
∂/∂value of some outputs, is (draws, outputs, samples, neurons).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from derive.engine.stages import Stage
from derive.engine.taps import Taps

from ..arrays import Array
from ..layers.tapped import Reader
from ..samplers.arithmetic import function_of
from ..samplers.ensemble import Ensemble

Pull = Callable[[Array], Array]
"""∂/∂(what a number was made of) from ∂/∂(the number)."""


class Node:
    """A value, and what is differentiated by it."""

    __slots__ = ("back", "fixed", "pulls", "value")

    def __init__(self, value: Array, pulls: Sequence[tuple[Node, Pull]], *, fixed: bool) -> None:
        self.value, self.pulls, self.fixed = value, pulls, fixed
        self.back: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(draws, 1, samples, neurons)."""
        return self.value.shape


class Tape:
    """Nodes in the order in which they were made."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._activation, self._width = ensemble.activation(2), ensemble.width
        self._nodes: list[Node] = []

    def constant(self, x: Array) -> Node:
        """Inputs, (draws or 1, samples, n): nothing is differentiated by them."""
        return Node(x[:, None], (), fixed=True)

    def put(self, value: Array, *pulls: tuple[Node, Pull], moves: bool = False) -> Node:
        """A number made of others; without `moves`, it is fixed where all of these are."""
        own = [each for each in pulls if not each[0].fixed]
        node = Node(value, own, fixed=not (own or moves))
        self._nodes.append(node)
        return node

    def differentiate(self, node: Node, back: Array) -> None:
        """Fill in every number's `back`, from that of one."""
        for each in self._nodes:
            each.back = None
        node.back = back
        for each in reversed(self._nodes):
            if each.back is not None:
                for below, pull in each.pulls:
                    part = pull(each.back)
                    below.back = part if below.back is None else below.back + part

    # what the equations of a stage call on

    def added(self, terms: Sequence[Node]) -> Node:
        """Their sum; one alone is what comes back."""
        first, *others = terms
        if not others:
            return first
        value = sum((each.value for each in others), start=first.value)
        return self.put(value, *((each, _to(each)) for each in terms))

    def scaled(self, x: Node, factor: float) -> Node:
        """factor·x."""
        return self.put(factor * x.value, (x, lambda back: factor * back))

    def divided(self, x: Node, n: int) -> Node:
        """x/n."""
        return self.scaled(x, 1 / n)

    def spread(self, x: Node, n: int) -> Node:
        """The same number for so many neurons."""
        return self.put(np.broadcast_to(x.value, (*x.shape[:-1], n)), (x, _to(x)))

    def times(self, x: Node, y: Node) -> Node:
        """The product, neuron by neuron."""
        to_x, to_y = _to(x), _to(y)
        return self.put(
            x.value * y.value,
            (x, lambda back: to_x(back * y.value)),
            (y, lambda back: to_y(back * x.value)),
        )

    def total(self, x: Node) -> Node:
        """Σ_k x_k over neurons."""
        n = x.shape[3]
        value = x.value.sum(axis=3, keepdims=True)
        return self.put(value, (x, lambda back: np.broadcast_to(back, (*back.shape[:3], n))))

    def summed(self, x: Node, y: Node) -> Node:
        """Σ_k x_k y_k over neurons."""
        value = np.einsum("dsmk,dsmk->dsm", x.value, y.value)[..., None]
        return self.put(value, (x, lambda back: back * y.value), (y, lambda back: back * x.value))

    def activated(self, z: Node, order: int, *, kept: bool) -> Node:
        """σ; a forward equation has no derivative of it."""
        assert order == 0
        draws, _, m, n = z.shape
        found = np.empty((draws, 2, m, n))
        self._activation.differentiate(np.ascontiguousarray(z.value[:, 0]), found)
        slope = found[:, 1:]
        return self.put(found[:, :1], (z, lambda back: back * slope))

    def function(
        self, stage: Stage, number: int, orders: tuple[int, ...], means: Sequence[Node]
    ) -> Node:
        """A function of a stage's collective variables."""
        values = [mean.value for mean in means]

        def derivative(more: Sequence[int]) -> Array:
            total = tuple(a + b for a, b in zip(orders, more, strict=True))
            return function_of(stage, number, total, values, self._width)

        def pull(slope: Array) -> Pull:
            return lambda back: back * slope

        value = np.broadcast_to(derivative([0] * len(means)), values[0].shape)
        units = np.eye(len(means), dtype=int).tolist()
        slopes = (pull(derivative(unit)) for unit in units)
        return self.put(value, *zip(means, slopes, strict=True))

    def read(self, taps: Taps, body: Node) -> dict[int, Node]:
        """What the matrix of each tap meets: a filter's are by s^{-1/2} smaller than the W^{(k)}
        (`engine.taps`), as `staged.parts` draws them, and here is no such factor."""
        return {k: self._moved(matrix, body) for k, matrix in enumerate(_reads(taps))}

    def _moved(self, matrix: Array, x: Node) -> Node:
        """Sums over a signal's positions, by a matrix (results, positions)."""

        def at(values: Array, by: Array) -> Array:
            draws, outputs, _, n = values.shape
            signals = by @ values.reshape(draws, outputs, -1, by.shape[1], n)
            return np.asarray(signals.reshape(draws, outputs, -1, n))

        return self.put(at(x.value, matrix), (x, lambda back: at(back, matrix.T)))

    # what a network does with parameters

    def applied(self, W: Array, body: Node) -> Node:
        """The body's vectors times W, (draws, n_in, n_out)."""
        return self.put(
            _product(body.value, W),
            (body, lambda back: _product(back, W.transpose(0, 2, 1))),
            moves=True,
        )

    def first(self, x: Node, count: int) -> Node:
        """The first neurons."""

        def pull(back: Array) -> Array:
            found = np.zeros((*back.shape[:3], x.shape[3]))
            found[..., :count] = back
            return found

        return self.put(x.value[..., :count], (x, pull))


@lru_cache(maxsize=16)
def _reads(taps: Taps) -> tuple[Array, ...]:
    """By tap the mean over the positions that it reads, (results, positions)."""
    reader, unit = Reader(taps, 1), np.eye(taps.positions)
    return tuple(np.sqrt(reader.count) * reader.read(k, unit, 0) for k in range(reader.count))


def _to(x: Node) -> Pull:
    """The sum over neurons where x is one number for all of them."""
    if x.shape[3] != 1:
        return lambda back: back
    return lambda back: back.sum(axis=3, keepdims=True) if back.shape[3] > 1 else back


def _product(x: Array, W: Array) -> Array:
    """(draws, outputs, samples, n) times (draws, n, n'): one product for each network."""
    count, m, n = x.shape[1:]
    return (x.reshape(-1, count * m, n) @ W).reshape(len(W), count, m, W.shape[2])
