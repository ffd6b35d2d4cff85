"""K, V and Θ of a model, measured over initializations of it in its own framework.

Over the neurons i ≠ j of a layer of N, S_ab = Σ_i z_ia z_ib,

    E S_ab/N = G_ab
    E (S_ab S_cd − Σ_i z_ia z_ib z_ic z_id)/(N(N−1)) = G_ab G_cd + V_(ab)(cd)/n

whatever the law of the weights, so long as permutations keep it. Matrices of different layers are
independent, so a network whose layers come from different initializations is an initialization,
too: within a group of g of them, layer by layer, each one's matrices meet values that others led
to, which gives up to g^ℓ networks at layer ℓ for the price of g. Where a layer is one matrix with
independent rows, as layer 1 and a head are, g of them over the same values below are one layer of
g N neurons, and any N of these a layer of an initialization. Groups share nothing: products of
means are taken over different groups, so that the estimates have no bias, and leaving out one group
after another gives their standard errors. Θ is that of the first neuron, of whole initializations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import xarray
from numpy.typing import NDArray

from ..arrays import Array
from ..tables import layout
from .description import Description
from .graph import Linear

_LEAST, _GROUPS, _MIXED = 3, 60, 10
"""Groups at least, as V without one of them is a product over two others; at most; and
initializations of each at least, where there are so many."""
_WORK = 1e10
"""Multiplications for a layer's mixed networks, all groups together."""
_POOL, _POOL_BYTES = 8192, 2.0**26
"""Networks whose values at a layer are kept for the next, in a group, and the bytes of these."""
_BYTES = 2.0**28
"""Of a group's parameters."""
_FEWEST, _MOST = 96, 2000
_PARAMETERS, _TANGENTS = 4e8, 4e8
"""Parameters that are drawn, all initializations together, by default; and whose part of Θ is
measured, at all layers."""


class Sample(NamedTuple):
    """What was measured.

    Attributes:
        first: K and Theta by layer, and `spread`, the standard deviation of H_11 among
            initializations.
        second: V, of the layers with two neurons or more; None without one.
        networks: by layer, how many networks K and V are means over.
    """

    first: xarray.Dataset
    second: xarray.Dataset | None
    networks: NDArray[np.int64]


def enough(description: Description) -> int:
    """How many initializations are measured by default: as many as take some seconds."""
    size = sum(np.size(each) for each in description.reading.graph.parameters.values())
    count = _PARAMETERS / (description.reading.overhead + size)
    return int(np.clip(count, _FEWEST, _MOST))


class Plan(NamedTuple):
    """How many groups, initializations of each, and of these with which Θ is measured."""

    groups: int
    per_group: int
    tangents: int

    @property
    def total(self) -> int:
        """Initializations."""
        return self.groups * self.per_group


def plan(description: Description, draws: int) -> Plan:
    """At least so many initializations, in groups whose parameters can be held at a time."""
    size = sum(np.size(each) for each in description.reading.graph.parameters.values())
    wanted = max(_LEAST, min(_GROUPS, draws // _MIXED), min(20, draws // 2))
    per_group = int(min(-(-draws // wanted), max(2, _BYTES // (8 * size))))
    groups = max(_LEAST, -(-draws // per_group))
    most = _TANGENTS / (size * groups * description.depth)
    return Plan(groups, per_group, int(np.clip(most, min(2, per_group), per_group)))


class Initialized(Protocol):
    """What draws initializations and computes with them, as `Reading` does."""

    precision: float

    def initialize(self, seeds: Sequence[int]) -> Any:
        """See `Reading`."""

    def first(self, made: Any, count: int) -> Any:
        """See `Reading`."""

    def propagate(self, made: Any, source: int, states: Array, node: int) -> Array:
        """See `Reading`."""

    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """See `Reading`."""


def measure(
    description: Description,
    X: Array,
    planned: Plan,
    seed: int,
    advance: Callable[[int], object] = lambda count: None,
    by: Initialized | None = None,
) -> Sample:
    """Initialize the model as planned and measure it at these inputs, (m, n_0): in its own
    framework, or what is given."""
    reading, blocks = by or description.reading, description.structure.blocks
    nodes, depth = [block.node for block in blocks], len(blocks)
    widths = np.array([block.width for block in blocks])
    m, (groups, per_group, own) = len(X), planned
    costs = [_cost(description, number) * planned.total * m for number in range(depth)]
    free, n = [_has_free_rows(description, number) for number in range(depth)], int(widths[0])
    H = np.empty((groups, own, depth, m, m))
    K, P = np.empty((groups, depth, m, m)), np.zeros((groups, depth, m, m, m, m))
    networks = np.zeros(depth, np.int64)
    for group in range(groups):
        first = seed + group * per_group
        made = reading.initialize(range(first, first + per_group))
        H[group] = reading.tangents(reading.first(made, own), X, nodes)
        random = np.random.default_rng((seed, group))
        states, below = X[None], 0
        for at, node in enumerate(nodes):
            count = int(min(len(states), max(1, _WORK // costs[at])))
            hands = 1 if free[at] and _is_narrow(widths[at], n, per_group) else per_group
            chosen = _dealt(len(states), hands, count, random)
            given = states[chosen].reshape(len(chosen), count * m, -1)
            values = reading.propagate(made, below, given, node)
            z = values.reshape(per_group, count, m, -1)
            is_one = free[at] and len(chosen) == 1
            K[group, at], P[group, at] = _moments(_side_by_side(z) if is_one else _each(z))
            networks[at] += per_group * count
            kept = int(max(1, min(_POOL, _POOL_BYTES // z[0, 0].nbytes)))
            states, below = (_recombined if is_one else _some)(z, kept, random), node
        advance(per_group)
    about: dict[str, int | float | str] = {
        "width": n,
        "draws": planned.total,
        "blocks": groups,
        "network": str(description.network),
    }
    layers = range(1, depth + 1)
    single, precision = m == 1, reading.precision
    V = _left_out(lambda kept: n * _covariance(P[kept], K[kept]), groups)
    spread = _left_out(lambda kept: _deviation(H[kept]), groups)
    means, tangents = layout.averaged(K), layout.averaged(H.mean(axis=1))
    first = layout.table(
        layers,
        about,
        K=_shaped(means, single),
        Theta=_shaped(tangents, single),
        spread=_shaped(spread, single),
        K_floor=precision * _largest(means[0]),
        Theta_floor=precision * _largest(tangents[0]),
        spread_floor=precision * _largest(tangents[0]),
    )
    wide = np.flatnonzero(widths > 1)
    if not len(wide):
        return Sample(first, None, networks)
    values, errors = _shaped(V, single)
    second = layout.table(
        [int(at) + 1 for at in wide],
        about,
        V=(values[wide], errors[wide]),
        V_floor=n * precision * _largest(means[0] ** 2)[wide],
    )
    return Sample(first, second, networks)


def _cost(description: Description, number: int) -> int:
    """Multiplications of a layer for one input."""
    nodes = description.structure.graph.nodes
    matrices = [nodes[at] for at in description.structure.blocks[number].matrices]
    return sum(each.fan_in * each.fan_out for each in matrices if isinstance(each, Linear))


def _dealt(pool: int, hands: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """For each of the hands as many of the pool, all as often as can be: (hands, count), or
    (1, pool) where each has all."""
    if count == pool:
        return np.arange(pool)[None]
    places = np.arange(count) + count * np.arange(hands)[:, None]
    order: NDArray[np.int64] = random.permutation(pool)
    return np.asarray(order[places % pool])


def _has_free_rows(description: Description, number: int) -> bool:
    """Whether the layer is one matrix whose rows, and biases, are independent and of one law: given
    the layer below, its neurons are."""
    nodes, block = description.structure.graph.nodes, description.structure.blocks[number]
    end = nodes[block.node]
    if len(block.matrices) > 1 or not isinstance(end, Linear):
        return False
    return description.laws[end.weight].has_free_rows


def _is_narrow(N: int, n: int, per_group: int) -> bool:
    """Whether V of a layer with free rows is known better from all matrices over the same values
    below than from each over others: with v ≈ 2/n the errors are as v + 2/gN, and (v + 2/N)/√g."""
    return bool((1 / n + 1 / (per_group * N)) ** 2 < (1 / n + 1 / N) ** 2 / per_group)


def _each(z: Array) -> Array:
    """A network each: (hands · count, m, N)."""
    return z.reshape(-1, *z.shape[2:])


def _side_by_side(z: Array) -> Array:
    """All hands' neurons over the same values as one layer: (count, m, hands · N)."""
    hands, count, m, N = z.shape
    return np.ascontiguousarray(z.transpose(1, 2, 0, 3)).reshape(count, m, hands * N)


def _some(z: Array, kept: int, random: np.random.Generator) -> Array:
    """As many of the networks, (kept, m, N)."""
    every = _each(z)
    return every[random.permutation(len(every))[:kept]]


def _recombined(z: Array, kept: int, random: np.random.Generator) -> Array:
    """Networks with each neuron of any hand, (kept, m, N): as many as g of layer 1 can make."""
    hands, count, _, N = z.shape
    below = np.arange(kept) % count if count > 1 else np.zeros(kept, np.int64)
    chosen = random.integers(0, hands, (kept, N))
    return np.ascontiguousarray(z[chosen, below[:, None], :, np.arange(N)].transpose(0, 2, 1))


def _moments(z: Array) -> tuple[Array, Array]:
    """The means of S_ab/N and of (S_ab S_cd − Σ_i z_ia z_ib z_ic z_id)/(N(N − 1)), of (networks, m,
    N) values."""
    count, m, N = z.shape
    S = (z @ z.transpose(0, 2, 1)).reshape(count, m * m)
    K = (S.mean(axis=0) / N).reshape(m, m)
    if N == 1:
        return K, np.zeros((m,) * 4)
    squares = np.einsum("kai,kbi->kiab", z, z).reshape(-1, m * m)
    P = (S.T @ S - squares.T @ squares) / (count * N * (N - 1))
    return K, P.reshape((m,) * 4)


def _deviation(H: Array) -> Array:
    """The standard deviation of H_aa, (depth, m), of (groups, draws, depth, m, m) ones."""
    own = np.einsum("gklaa->gkla", H).reshape(-1, *H.shape[2:4])
    return np.asarray(own.std(axis=0, ddof=1))


def _largest(values: Array) -> Array:
    """By layer."""
    return np.asarray(abs(values).reshape(len(values), -1).max(axis=1))


def _shaped(pair: tuple[Array, Array], single: bool) -> tuple[Array, Array]:
    """(depth, m, …), or (depth,) of one input."""
    values, errors = pair
    if not single:
        return values, errors
    return values.reshape(len(values)), errors.reshape(len(errors))


def _covariance(P: Array, K: Array) -> Array:
    """E P − E K E K, the product over different groups."""
    count, total = len(K), K.sum(axis=0)
    own = np.einsum("klab,klcd->labcd", K, K)
    both = (np.einsum("lab,lcd->labcd", total, total) - own) / (count * (count - 1))
    return np.asarray(P.mean(axis=0) - both)


def _left_out(estimate: Callable[[NDArray[np.int64]], Array], groups: int) -> tuple[Array, Array]:
    """An estimate from all groups, and its standard error by leaving out one after another."""
    every = np.arange(groups)
    left = np.array([estimate(np.delete(every, at)) for at in range(groups)])
    return estimate(every), np.sqrt((groups - 1) * left.var(axis=0))
