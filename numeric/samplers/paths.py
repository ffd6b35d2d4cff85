"""The sampler of `paths`: a forward pass for each network, the tower averaged over all the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from derive.engine.fields import Field
from derive.weights import Gaussian, Orthogonal, Truncated

from ..arrays import Array
from ..emit.kernels import load_kernels
from ..estimators.observables import Plan, Statistic
from ..estimators.polynomials import Structure, flattened
from ..estimators.unbiased import Reading
from ..random.lazy import BIAS, COLUMN, HAAR
from ..random.philox import whole_blocks
from . import path_averages, path_kernels
from .base import Sampler, common_kernels, uncollected
from .ensemble import Ensemble, Layers
from .probing import reading

MOST_EDGES = {1: 3, 2: 2, 3: 1, 4: 1}
"""Pairs of derivatives in a cumulant, up to which its averages are few, by the number of inputs.

A product of H H with two inputs has some hundred coefficients, of H H H or ddH some thousands.
"""


def applies(ensemble: Ensemble | Layers, plan: Plan) -> bool:
    """Whether paths give this plan: few inputs, Gaussian weights or blocks of Haar matrices.

    Preactivations alone need no more than the forward pass; there is nothing to average. The states
    of a cumulant of many fields are many. A user's field must be made of weights and σ alone.
    """
    kinds = {type(ensemble.net.weights_at(layer)) for layer in range(1, ensemble.depth + 1)}
    m = plan.samples
    return (
        kinds <= {Gaussian, Orthogonal, Truncated}
        and all(steps[0].big > m for steps in ensemble.steps)
        and min(ensemble.widths[:-1]) >= m
        and bool(np.all(ensemble.C_W > 0.0))
        and _closes(frozenset(kind for kind, *_ in plan.statistics), MOST_EDGES.get(m, 0))
    )


@lru_cache(maxsize=64)
def _closes(kinds: frozenset[path_averages.Kind], edges: int) -> bool:
    most = max(sum(field.nodes - 1 for field in kind) for kind in kinds)
    if all(isinstance(field, Field) for kind in kinds for field in kind):
        return 0 < most <= edges
    return most <= edges and path_averages.closes(kinds, 2 * edges)


@dataclass(frozen=True, eq=False)
class PathSampler(Sampler):
    """Networks of an ensemble on a few inputs, known by their forward paths alone."""

    name: ClassVar[str] = "paths"

    @property
    def numbers(self) -> int:
        """The columns of the widest layer."""
        return self._columns * max(self.ensemble.widths)

    @property
    def _columns(self) -> int:
        return 1 + self.plan.samples * (self._compiled.orders + 2)

    @cached_property
    def _compiled(self) -> _Compiled:
        factors = tuple((step.kind, step.big, step.scale) for (step,) in self.ensemble.steps)
        told = reading(self.ensemble, self.plan.fields)
        return _compiled(
            self.plan.statistics, told, path_averages.Conditioned(factors, self.plan.samples)
        )

    def _advanced(
        self, draws: NDArray[np.int64], layer: int, columns: Array, orders: int
    ) -> tuple[Array, Array]:
        """f_a = W ŝ_a and z = Σ_a (ŝ_a·σ) f_a + b of the next layer: Z, F (draws, m, n)."""
        ensemble, m, compiled = self.ensemble, self.plan.samples, kernels()
        n, C_b, (step,) = ensemble.widths[layer + 1], ensemble.C_b[layer], ensemble.steps[layer]
        drawn = step.big if step.kind == HAAR else n
        G = np.empty((draws.size, m, whole_blocks(drawn)))
        compiled.draw(G, ensemble.key, draws, COLUMN + np.arange(m), layer + 1)
        if step.kind == HAAR:
            compiled.orthonormalise(G, drawn)
        F, Z = step.scale * G[:, :, :n], np.zeros((draws.size, m, n))
        compiled.advance(columns, orders, F, Z)
        if C_b > 0.0:
            b = np.empty((draws.size, 1, whole_blocks(n)))
            compiled.draw(b, ensemble.key, draws, np.array([BIAS]), layer + 1)
            compiled.add_to_each(Z, math.sqrt(C_b), b)
        return Z, F

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """Take paths down the layers; their statistics, (draws, statistics), at each."""
        layer_kernels = kernels()
        evaluate = common_kernels().evaluate
        ensemble, compiled, count, m = self.ensemble, self._compiled, draws.size, self.plan.samples
        states, orders = compiled.states, compiled.orders
        activation = ensemble.activation(orders)
        n = ensemble.widths[0]
        derivatives, F = np.zeros((count, orders, m, n)), np.zeros((count, m, n))
        derivatives[:] = ensemble.at_inputs(orders)
        factors = np.zeros((count, states + compiled.tree[0].size))
        factors[:, :states] = compiled.start
        values, after = np.empty((count, len(self.plan.statistics))), np.empty((count, states))
        for layer in range(ensemble.depth):
            columns = _arranged(derivatives, F)
            layer_kernels.sum_over_neurons(columns, compiled.tree, factors, states)
            structure, coefficients = compiled.statistics
            evaluate(factors, structure, coefficients[layer], values)
            yield values
            if layer + 1 == ensemble.depth:
                return
            if states:
                structure, coefficients = compiled.steps
                evaluate(factors, structure, coefficients[layer], after)
                factors[:, :states] = after
            n = ensemble.widths[layer + 1]
            Z, F = self._advanced(draws, layer, columns, orders)
            derivatives = np.empty((count, orders, m, n))
            activation.differentiate(Z, derivatives)


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
    return load_kernels("path", "What takes forward paths from layer to layer.", entries)


@dataclass(frozen=True, eq=False)
class _Compiled:
    """What the kernels are told: factors are states, then sums over neurons.

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

    @property
    def states(self) -> int:
        """How many states there are."""
        return self.start.size


@lru_cache(maxsize=64)
@uncollected()
def _compiled(
    statistics: tuple[Statistic, ...], reading: Reading, given: path_averages.Conditioned
) -> _Compiled:
    averages, m = path_averages.Averages(statistics, reading, given), given.inputs
    steps = list(averages.states.values())
    sums = path_averages.sums([*averages.statistics, *steps])
    orders = 1 + max((order for each in sums for _, order in each.sigma), default=0)
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
    ordered = sorted(kept, key=lambda row: (len(row), row))
    place = {row: k for k, row in enumerate(ordered)} | {(): -1}
    number |= {each: len(steps) + place[row or ones] for each, row in rows.items()}
    tree = np.array([place[row[:-1]] for row in ordered]), np.array([row[-1] for row in ordered])
    return _Compiled(
        tree,
        np.array([path_averages.at_inputs(state) for state in averages.states], float),
        orders,
        flattened(averages.statistics, number),
        flattened(steps, number),
    )
