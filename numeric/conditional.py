"""The sampler of `paths`: one forward path per network, the tower averaged over all the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from derive.fields import Field
from derive.weights import Gaussian, Orthogonal, Truncated

from . import path_kernels, paths, random, weights
from .ensemble import Ensemble, load_template
from .estimate import Reading
from .lazy import reading
from .observables import Plan, Statistic
from .polynomials import Structure, flattened
from .sampling import Sampler, common_kernels
from .weights import Array

_LAYER = '''\
"""The kernels that take forward paths from layer to layer.

{fingerprint}
"""

{prelude}
from numeric import path_kernels

{entry}

@entry
def advance(columns, Z, F, draws, factor, C_b, source):
    """Draw z and f of the next layer (numeric.path_kernels.advance)."""
    path_kernels.advance(columns, Z, F, draws, factor, C_b, source)


@entry
def arrange(derivatives, F, columns):
    """1, σ and its derivatives, f and ŝ (numeric.path_kernels.arrange)."""
    path_kernels.arrange(derivatives, F, columns)


@entry
def sum_over_neurons(columns, tree, factors, first):
    """Sums of products of columns (numeric.path_kernels.sum_over_neurons)."""
    path_kernels.sum_over_neurons(columns, tree, factors, first)
'''


MOST_EDGES = 3
"""Pairs of derivatives in a cumulant, up to which it is worth while to compile its averages."""


def applies(ensemble: Ensemble, plan: Plan) -> bool:
    """Whether paths give this plan: trees, one input, Gaussian weights or blocks of Haar matrices.

    Preactivations alone need no more than the forward pass; there is nothing to average. The states
    of a cumulant of many fields are many.
    """
    kinds = {type(ensemble.net.weights_at(layer)) for layer in range(1, ensemble.depth + 1)}
    fields = {field for kind, *_ in plan.statistics for field in kind}
    most = max(sum(field.nodes - 1 for field in kind) for kind, *_ in plan.statistics)
    return (
        len(ensemble.inputs) == 1
        and kinds <= {Gaussian, Orthogonal, Truncated}
        and all(isinstance(field, Field) for field in fields)
        and 0 < most <= MOST_EDGES
        and all(steps[0].big > 1 for steps in ensemble.steps)
        and bool(np.all(ensemble.C_W > 0.0))
    )


@dataclass(frozen=True, eq=False)
class PathSampler(Sampler):
    """Networks of an ensemble on one input, known by their forward path alone."""

    @property
    def numbers(self) -> int:
        """The columns of the widest layer."""
        return (self._compiled.orders + 3) * max(self.ensemble.widths)

    @cached_property
    def _compiled(self) -> _Compiled:
        factors = tuple((step.kind, step.big, step.scale) for (step,) in self.ensemble.steps)
        return _compiled(self.plan.statistics, reading(self.ensemble), factors)

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """Take paths down the layers; their statistics, (draws, statistics), at each."""
        kernels = load_template(_LAYER, "path", (path_kernels, random, weights))
        evaluate = common_kernels().evaluate
        ensemble, compiled, count = self.ensemble, self._compiled, draws.size
        states, orders = compiled.states, compiled.orders
        activation = ensemble.activation(orders)
        n = ensemble.widths[0]
        derivatives, F = np.zeros((count, orders, 1, n)), np.zeros((count, 1, n))
        derivatives[:, 0] = ensemble.inputs
        factors = np.zeros((count, states + compiled.tree[0].size))
        values, after = np.empty((count, len(self.plan.statistics))), np.empty((count, states))
        for layer in range(ensemble.depth):
            columns = np.empty((count, orders + 3, n))
            kernels.arrange(derivatives, F, columns)
            kernels.sum_over_neurons(columns, compiled.tree, factors, states)
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
            Z, F = np.empty((count, 1, n)), np.empty((count, 1, n))
            source = (ensemble.key, layer + 1)
            (step,) = ensemble.steps[layer]
            factor = (step.kind, step.big, step.scale)
            kernels.advance(columns, Z, F, draws, factor, ensemble.C_b[layer], source)
            derivatives = np.empty((count, orders, 1, n))
            activation.differentiate(Z, derivatives)


@dataclass(frozen=True, eq=False)
class _Compiled:
    """What the kernels are told: factors are states, then sums over neurons.

    Arguments:
        tree: the sums, as products of columns.
        states: the number of states.
        orders: of derivatives of σ, σ itself included.
        statistics, steps: the statistics, and the next layer's states, as polynomials.
    """

    tree: tuple[NDArray[np.int64], NDArray[np.int64]]
    states: int
    orders: int
    statistics: tuple[Structure, Array]
    steps: tuple[Structure, Array]


@lru_cache(maxsize=64)
def _compiled(
    statistics: tuple[Statistic, ...],
    reading: Reading,
    factors: tuple[tuple[int, int, float], ...],
) -> _Compiled:
    averages = paths.Averages(statistics, reading, paths.Conditioned(factors))
    steps = list(averages.states.values())
    sums = paths.sums([*averages.statistics, *steps])
    orders = 1 + max((order for chosen, _, _ in sums for order in chosen), default=0)
    number: dict[paths.Factor, int] = {state: k for k, state in enumerate(averages.states)}
    rows = {
        each: (
            *(1 + order for order in each.orders),
            *(orders + 1,) * each.f,
            *(orders + 2,) * each.s,
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
        len(steps),
        orders,
        flattened(averages.statistics, number),
        flattened(steps, number),
    )
