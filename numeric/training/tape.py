"""Reverse differentiation of a layer's equations: numbers that know what they were made of.

The stages' evaluator (`samplers.staged.Evaluated`) calls on a `Tape` as on `samplers.arithmetic`.
Values are (draws, 1, samples, neurons), neurons 1 where there is no neural index; what comes back,
∂/∂value of some outputs, is (draws, outputs, samples, neurons). Every number has its place in
memory, and all that was done can be done again there, with other inputs and parameters, forward and
back, without asking the equations: a step of descent allocates nothing of a layer's size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from derive.activations import Activation
from derive.engine.stages import Stage
from derive.engine.taps import Taps, matrices

from ..arrays import Array
from ..samplers.arithmetic import function_of, sets_of
from ..samplers.ensemble import Ensemble, compiled_activation

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
    """Nodes in the order in which they were made, and what made them, to be done again."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._width = ensemble.width
        self._nodes: list[Node] = []
        self._forward: list[Callable[[], object]] = []
        self._reverse: list[Callable[[], object]] = []
        self._done = self._forward

    @property
    def length(self) -> int:
        """How much was done forward so far."""
        return len(self._forward)

    def forward(self, start: int = 0) -> None:
        """Every value again, from what inputs and parameters are now; from a `length` on."""
        for do in self._forward[start:]:
            do()

    def reverse(self) -> None:
        """Every `back` again, from what that of the outputs is now."""
        for do in self._reverse:
            do()

    def do(self, function: Callable[..., object], *arguments: Any, **more: Any) -> None:
        """Call it, now and again."""
        done = partial(function, *arguments, **more)
        done()
        self._done.append(done)

    def made(self, ufunc: np.ufunc, x: Array, y: Array | float, into: Array | None = None) -> Array:
        """ufunc(x, y), in a place of its own by default."""
        out = np.empty(np.broadcast_shapes(x.shape, np.shape(y))) if into is None else into
        self.do(ufunc, x, y, out)
        return out

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
        self._done = self._reverse = []
        for each in reversed(self._nodes):
            if each.back is not None:
                for below, pull in each.pulls:
                    part = pull(each.back)
                    if below.back is None:
                        below.back = part
                    else:
                        own = None if np.may_share_memory(part, each.back) else part
                        below.back = self.made(np.add, below.back, part, own)

    # what the equations of a stage call on

    def added(self, terms: Sequence[Node]) -> Node:
        """Their sum; one alone is what comes back."""
        first, *others = terms
        if not others:
            return first
        value = self.made(np.add, first.value, others[0].value)
        for each in others[1:]:
            fits = np.broadcast_shapes(value.shape, each.shape) == value.shape
            value = self.made(np.add, value, each.value, value if fits else None)
        return self.put(value, *((each, self._to(each)) for each in terms))

    def scaled(self, x: Node, factor: float) -> Node:
        """factor·x."""
        value = self.made(np.multiply, x.value, factor)
        return self.put(value, (x, lambda back: self.made(np.multiply, back, factor)))

    def divided(self, x: Node, n: int) -> Node:
        """x/n."""
        return self.scaled(x, 1 / n)

    def spread(self, x: Node, n: int) -> Node:
        """The same number for so many neurons."""
        return self.put(np.broadcast_to(x.value, (*x.shape[:-1], n)), (x, self._to(x)))

    def times(self, x: Node, y: Node) -> Node:
        """The product, neuron by neuron."""
        value = self.made(np.multiply, x.value, y.value)
        return self.put(value, (x, self._times(x, y)), (y, self._times(y, x)))

    def total(self, x: Node) -> Node:
        """Σ_k x_k over neurons."""
        n = x.shape[3]
        value = self._total(x.value)
        return self.put(value, (x, lambda back: np.broadcast_to(back, (*back.shape[:3], n))))

    def summed(self, x: Node, y: Node) -> Node:
        """Σ_k x_k y_k over neurons."""
        value = self._inner(x.value, y.value)
        if x is y:
            return self.put(value, (x, lambda back: self._twice(back, x.value)))
        return self.put(
            value,
            (x, lambda back: self.made(np.multiply, back, y.value)),
            (y, lambda back: self.made(np.multiply, back, x.value)),
        )

    def in_sets(self, x: Node, sets: int) -> Node:
        """At each neuron the mean over its set."""
        return self.put(self._in_sets(x.value, sets), (x, lambda back: self._in_sets(back, sets)))

    def activated(self, z: Node, order: int, sigma: Activation, *, kept: bool) -> Node:
        """σ; a forward equation has no derivative of it."""
        assert order == 0
        draws, _, m, n = z.shape
        found = np.empty((2, draws, 1, m, n))
        rows = self._contiguous(z.value).reshape(1, draws * m, n)
        self.do(
            compiled_activation(sigma, 2).differentiate, rows, found.reshape(1, 2, draws * m, n)
        )
        value, slope = found
        return self.put(value, (z, lambda back: self.made(np.multiply, back, slope)))

    def function(
        self, stage: Stage, number: int, orders: tuple[int, ...], means: Sequence[Node]
    ) -> Node:
        """A function of a stage's collective variables."""
        values = [mean.value for mean in means]
        shape = np.broadcast_shapes(*(each.shape for each in values))

        def derivative(more: Sequence[int]) -> Array:
            total = tuple(a + b for a, b in zip(orders, more, strict=True))
            found = np.empty(shape)
            self.do(
                lambda: np.copyto(found, function_of(stage, number, total, values, self._width))
            )
            return found

        def pull(slope: Array) -> Pull:
            return lambda back: self.made(np.multiply, back, slope)

        units = np.eye(len(means), dtype=int).tolist()
        value = derivative([0] * len(means))
        return self.put(
            value, *((m, pull(derivative(u))) for m, u in zip(means, units, strict=True))
        )

    def read(self, taps: Taps, body: Node) -> list[Node]:
        """The inputs of each tap's matrix: a filter's are by s^{-1/2} smaller than the W^{(k)}
        (`engine.taps`), as `parts.parts` draws them, and here is no such factor."""
        return [self._moved(matrix, body) for matrix in matrices(taps)]

    def _moved(self, matrix: Array, x: Node) -> Node:
        """Sums over a signal's positions, by a matrix (results, positions)."""
        value = self._summed(matrix, x.value)
        return self.put(value, (x, lambda back: self._summed(matrix.T, back)))

    # what a network does with parameters

    def applied(self, W: Array, body: Node) -> Node:
        """The body's vectors times W, (draws, n_in, n_out)."""
        return self.put(
            self._product(body.value, W),
            (body, lambda back: self._product(back, W.transpose(0, 2, 1))),
            moves=True,
        )

    def first(self, x: Node, count: int) -> Node:
        """The first neurons."""

        def pull(back: Array) -> Array:
            found = np.zeros((*back.shape[:3], x.shape[3]))
            self.do(np.copyto, found[..., :count], back)
            return found

        return self.put(x.value[..., :count], (x, pull))

    # how

    def _to(self, x: Node) -> Pull:
        """The sum over neurons where x is one number for all of them."""
        if x.shape[3] != 1:
            return lambda back: back
        return lambda back: self._total(back) if back.shape[3] > 1 else back

    def _times(self, x: Node, y: Node) -> Pull:
        """∂/∂x of x y."""
        if x.shape[3] == 1 and y.shape[3] > 1:
            return lambda back: self._inner(back, y.value)
        return lambda back: self.made(np.multiply, back, y.value)

    def _twice(self, back: Array, x: Array) -> Array:
        return self.made(np.multiply, self.made(np.multiply, back, 2.0), x)

    def _total(self, x: Array) -> Array:
        found = np.empty((*x.shape[:3], 1))
        self.do(np.add.reduce, x, 3, None, found, True)
        return found

    def _in_sets(self, x: Array, sets: int) -> Array:
        own = sets_of(self._contiguous(x), sets)
        found, means = np.empty(own.shape), np.empty((*own.shape[:-1], 1))
        self.do(np.mean, own, -1, None, means, True)
        self.do(np.copyto, found, means)
        return found.reshape(x.shape)

    def _inner(self, x: Array, y: Array) -> Array:
        """Over neurons, in a last axis of one."""
        found = np.empty((*np.broadcast_shapes(x.shape, y.shape)[:3], 1))
        self.do(np.einsum, "dsmk,dsmk->dsm", x, y, out=found[..., 0])
        return found

    def _summed(self, by: Array, x: Array) -> Array:
        """Over positions, which samples are so many for each signal."""
        draws, outputs, _, n = x.shape
        signals = self._contiguous(x).reshape(draws, outputs, -1, by.shape[1], n)
        found = np.empty((*signals.shape[:3], len(by), n))
        self.do(np.matmul, by, signals, found)
        return found.reshape(draws, outputs, -1, n)

    def _contiguous(self, x: Array) -> Array:
        if x.flags.c_contiguous:
            return x
        found = np.empty(x.shape)
        self.do(np.copyto, found, x)
        return found

    def _product(self, x: Array, W: Array) -> Array:
        """(draws, outputs, samples, n) times (draws, n, n'): one product for each network."""
        count, m, n = x.shape[1:]
        found = np.empty((len(W), count, m, W.shape[2]))
        rows = x[:, 0] if count == 1 else self._contiguous(x).reshape(-1, count * m, n)
        product = np.multiply if n == 1 else np.matmul  # which is slow at inner axes of one
        self.do(product, rows, W, found.reshape(len(W), count * m, -1))
        return found
