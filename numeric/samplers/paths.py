"""The sampler of `paths`: a forward pass for each network, the tower averaged over all the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from derive.engine.fields import Field
from derive.weights import Gaussian, LowRankGaussian, LowRankOrthogonal, Orthogonal, Truncated
from derive.work.caches import cache

from ..arrays import Array, aligned
from ..emit.kernels import load_kernels
from ..estimators.observables import Plan, Statistic
from ..estimators.polynomials import Structure, flattened
from ..estimators.sums import Reading
from ..random.lazy import BIAS, COLUMN, FACTOR, HAAR, PARTS, Step
from ..random.philox import whole_blocks
from . import pairs, path_averages, path_kernels
from .base import Sampler, evaluated_once, uncollected
from .ensemble import Layers
from .path_kernels import BLOCK
from .probing import reading

MOST_EDGES = {1: 3, 2: 2, 3: 1, 4: 1}
"""Pairs of derivatives in a cumulant, up to which its averages are few, by the number of inputs.

A product of H H with two inputs has some hundred coefficients, of H H H or ddH some thousands.
"""


def within(layers: Layers, inputs: int) -> bool:
    """True if the weights are known, and elsewhere free, given the path of so many inputs."""
    kinds = {type(layers.weights_at(layer)) for layer in range(1, layers.depth + 1)}
    return (
        kinds <= {Gaussian, Orthogonal, Truncated, LowRankGaussian, LowRankOrthogonal}
        and all(step.big > inputs for steps in layers.steps for step in steps)
        and all(steps[0].size >= inputs for steps in layers.steps if len(steps) > 1)
        and min(layers.widths[:-1]) >= inputs
        and bool(np.all(layers.C_W > 0.0))
    )


def few(statistics: Iterable[Statistic], inputs: int) -> bool:
    """True if the averages that these follow from are few enough to be polynomials."""
    return _closes(frozenset(kind for kind, *_ in statistics), MOST_EDGES.get(inputs, 0))


@cache(entries=64)
def _closes(kinds: frozenset[path_averages.Kind], edges: int) -> bool:
    most = max(sum(field.nodes - 1 for field in kind) for kind in kinds)
    if all(isinstance(field, Field) for kind in kinds for field in kind):
        return most <= edges
    return most <= edges and path_averages.closes(kinds, 2 * edges)


@dataclass(frozen=True, eq=False)
class PathSampler(Sampler):
    """Networks of an ensemble on a few inputs, known by their forward paths alone."""

    name: ClassVar[str] = "paths"
    because: ClassVar[str] = (
        "given a path, one matrix of a law that rotations keep is free on all but what it met"
    )
    wanted: ClassVar[str] = '"lazy" for so many inputs and derivatives, these weights, or z alone'

    @classmethod
    def gives(cls, layers: Layers, plan: Plan) -> bool:
        """True if paths give this plan: few inputs; weights that are Gaussian, blocks of Haar
        matrices, or of low rank.

        Preactivations alone need no more than the forward pass; there is nothing to average. The
        states of a cumulant of many fields are many. A user's field must be made of weights and σ
        alone.
        """
        kinds = {kind for kind, *_ in plan.statistics}
        derived = any(field.nodes > 1 for kind in kinds for field in kind)
        rest = pairs.others(plan)
        return derived and within(layers, plan.samples) and (not rest or few(rest, plan.samples))

    @property
    def numbers(self) -> int:
        """The columns of the widest layer, and the averages of H H."""
        held = self._columns * max(self.ensemble.widths)
        return held + (0 if self._tangents is None else self._tangents.numbers)

    @property
    def batch(self) -> int:
        """Few where the averages of H H of one network fill a cache."""
        return super().batch if self._tangents is None else pairs.BATCH

    @property
    def _columns(self) -> int:
        return 1 + self.plan.samples * (self.orders + 2)

    @property
    def orders(self) -> int:
        """Of derivatives of σ, σ itself included."""
        least = 1 if self._tangents is None else pairs.ORDERS
        return self.compiled.orders if self.polynomial else least

    @cached_property
    def polynomial(self) -> tuple[Statistic, ...]:
        """The statistics that are polynomials in states and sums over neurons."""
        return pairs.others(self.plan)

    @cached_property
    def _tangents(self) -> pairs.Tangents | None:
        """Averages of products of two tangent kernels of three or four inputs."""
        if self.polynomial == self.plan.statistics:
            return None
        return pairs.Tangents(self.ensemble, self.plan, self.given)

    @cached_property
    def given(self) -> path_averages.Conditioned:
        """The weights' law given the path."""
        laws = tuple(_law(steps) for steps in self.ensemble.steps)
        return path_averages.Conditioned(laws, self.plan.samples)

    @cached_property
    def compiled(self) -> Compiled:
        """The arguments of the kernels for `polynomial`."""
        told = reading(self.ensemble, self.plan.fields)
        least = 1 if self._tangents is None else pairs.ORDERS
        return _compiled(self.polynomial, told, self.given, least)

    def _advanced(
        self, draws: NDArray[np.int64], layer: int, columns: Array, inverses: Array
    ) -> tuple[Array, Array]:
        """f_a = W ŝ_a and z = Σ_a (ŝ_a·σ) f_a + b of the next layer: Z, F (draws, m, n).

        Behind low-rank weights the ŝ among the columns are turned so that the f are orthogonal, and
        `inverses` (draws, m) is filled with ν.
        """
        ensemble, m, compiled = self.ensemble, self.plan.samples, kernels()
        n, C_b, steps = ensemble.widths[layer + 1], ensemble.C_b[layer], ensemble.steps[layer]
        orders = self.orders
        F = self._image(steps[-1], draws, layer, COLUMN + FACTOR * (len(steps) - 1))
        if len(steps) > 1:
            within = self._image(steps[0], draws, layer, COLUMN)
            lengths = _turned(within, columns[:, 1 + m * (orders + 1) :])
            inverses[:] = lengths**-2
            F = lengths[:, :, None] * F
        Z = np.zeros((draws.size, m, n))
        compiled.advance(columns, orders, F, Z)
        if C_b > 0.0:
            b = np.empty((draws.size, 1, whole_blocks(n)))
            compiled.draw(b, ensemble.key, draws, np.array([BIAS]), layer + 1)
            compiled.add_to_each(Z, math.sqrt(C_b), b)
        return Z, F

    def _image(self, step: Step, draws: NDArray[np.int64], layer: int, stream: int) -> Array:
        """A factor of the weights on m orthonormal vectors, (draws, m, n)."""
        m, compiled = self.plan.samples, kernels()
        drawn = step.big if step.kind == HAAR else step.size
        G = np.empty((draws.size, m, whole_blocks(drawn)))
        compiled.draw(G, self.ensemble.key, draws, stream + np.arange(m), layer + 1)
        if step.kind == HAAR:
            compiled.orthonormalise(G, drawn)
        return step.scale * G[:, :, : step.size]

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """Take paths down the layers; their statistics, (draws, statistics), at each."""
        if self._tangents is None:
            yield from self._polynomials(draws)
            return
        others = self._polynomials(draws) if self.polynomial else None
        inverses = np.ones((draws.size, self.plan.samples))
        paths = self.paths(draws, inverses)
        for values in self._tangents.layers(paths, self.orders, inverses):
            if others is not None:
                values[:, self._tangents.rest] = next(others)
            yield values

    def _polynomials(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        compiled = self.compiled
        count, states, m = draws.size, compiled.states, self.plan.samples
        sums = states + compiled.tree[0].size
        factors = np.ones((count, sums + m))
        factors[:, :states] = compiled.start
        room, products = np.empty((0, BLOCK)), aligned(1 + compiled.levels.max(), BLOCK)
        for layer, columns in enumerate(self.paths(draws, factors[:, sums:])):
            if len(room) != columns.shape[1]:
                room = aligned(columns.shape[1], BLOCK)
            given = compiled.tree, compiled.levels, (room, products)
            kernels().sum_over_neurons(columns, *given, factors, states)
            structure, coefficients = compiled.statistics
            yield evaluated_once((structure, coefficients[layer]), factors)
            if states and layer + 1 < self.ensemble.depth:
                structure, coefficients = compiled.steps
                factors[:, :states] = evaluated_once((structure, coefficients[layer]), factors)

    def paths(self, draws: NDArray[np.int64], inverses: Array) -> Iterator[Array]:
        """The columns of layers 0 … depth − 1; `inverses` (draws, m) has the ν of what is above."""
        ensemble, count, m, orders = self.ensemble, draws.size, self.plan.samples, self.orders
        n = ensemble.widths[0]
        derivatives, F = np.zeros((count, orders, m, n)), np.zeros((count, m, n))
        derivatives[:] = ensemble.at_inputs(orders)
        for layer in range(ensemble.depth):
            columns, last = _arranged(derivatives, F), layer + 1 == ensemble.depth
            if last:
                yield columns
                return
            Z, F = self._advanced(draws, layer, columns, inverses)
            yield columns
            n = ensemble.widths[layer + 1]
            derivatives = np.empty((count, orders, m, n))
            ensemble.activation(layer + 1, orders).differentiate(Z, derivatives)


def _arranged(derivatives: Array, F: Array) -> Array:
    """The columns of a layer: 1, the derivatives (draws, orders, m, n), F (draws, m, n) and ŝ."""
    count, orders, m, n = derivatives.shape
    f, s = 1 + m * orders, 1 + m * (orders + 1)
    columns = np.empty((count, s + m, n))
    columns[:, 0] = 1.0
    by_input = columns[:, 1:f].reshape(count, m, orders, n)  # a view
    by_input[:] = derivatives.transpose(0, 2, 1, 3)
    columns[:, f:s] = F
    basis = derivatives[:, 0].copy()
    kernels().orthonormalise(basis, n)
    columns[:, s:] = basis
    return columns


def _turned(within: Array, basis: Array) -> Array:
    """The lengths λ (draws, m) of M ŝ_a, once the basis ŝ (draws, m, n) is turned to have them
    orthogonal: M ŝ_a, (draws, m, r), from before. They are the singular values of their triangle.
    """
    count, m, _ = within.shape
    axes, T = np.broadcast_to(np.eye(m), (count, m, m)).copy(), np.zeros((count, m, m))
    kernels().advance(_arranged(within[:, None], np.zeros_like(within)), 1, axes, T)
    turns, lengths, _ = np.linalg.svd(T)
    basis[:] = np.einsum("dab,dan->dbn", turns, basis)
    return np.asarray(lengths)


def _law(steps: tuple[Step, ...]) -> path_averages.Law:
    first, *frames = steps
    ranks = ((first.size, frame.big) for frame in frames)
    return path_averages.Law(first.kind, first.big, first.scale, *next(ranks, (0, 0)))


@cache
def kernels() -> ModuleType:
    """The kernels of `path_kernels`, compiled."""
    entries = (
        path_kernels.draw,
        path_kernels.orthonormalise,
        path_kernels.advance,
        path_kernels.add_to_each,
        path_kernels.sum_over_neurons,
    )
    doc = "What takes forward paths from layer to layer."
    return load_kernels("path", doc, entries, parts=PARTS)


@dataclass(frozen=True, eq=False)
class Compiled:
    """The arguments of the kernels: factors are states, then sums over neurons, then the ν.

    Arguments:
        tree: the sums, as products of columns.
        start: the states at the inputs.
        orders: of derivatives of σ, σ itself included.
        statistics, steps: the statistics, and the next layer's states, as polynomials.
    """

    tree: tuple[NDArray[np.int64], NDArray[np.int64]]
    start: Array
    orders: int
    statistics: tuple[Structure, Array]
    steps: tuple[Structure, Array]

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """The products above each of the tree."""
        return path_kernels.levels(self.tree[0])

    @property
    def states(self) -> int:
        """How many states there are."""
        return self.start.size


@cache(entries=64)
@uncollected()
def _compiled(
    statistics: tuple[Statistic, ...],
    reading: Reading,
    given: path_averages.Conditioned,
    least: int,
) -> Compiled:
    averages, m = path_averages.Averages(statistics, reading, given), given.inputs
    steps = list(averages.states.values())
    sums = path_averages.sums([*averages.statistics, *steps])
    highest = max((order for each in sums for _, order in each.sigma), default=0)
    orders = max(least, 1 + highest)
    f = 1 + m * orders
    number: dict[path_averages.Factor, int] = {state: k for k, state in enumerate(averages.states)}
    rows = {
        each: (
            *(1 + alpha * orders + order for alpha, order in each.sigma),
            *(f + a for a in each.f),
            *(f + m + a for a in each.s),
        )
        for each in sums
    }
    ones = (0,)  # Σ_j 1
    kept = {row[:k] for row in rows.values() for k in range(1, len(row) + 1)} | {ones}
    ordered = sorted(kept)
    place = {row: k for k, row in enumerate(ordered)} | {(): -1}
    number |= {each: len(steps) + place[row or ones] for each, row in rows.items()}
    number |= {path_averages.Inverse(a): len(steps) + len(ordered) + a for a in range(m)}
    tree = np.array([place[row[:-1]] for row in ordered]), np.array([row[-1] for row in ordered])
    return Compiled(
        tree,
        np.array([path_averages.at_inputs(state) for state in averages.states], float),
        orders,
        flattened(averages.statistics, number),
        flattened(steps, number),
    )
