"""K, V and Θ of a model, measured over initializations of it in its own framework.

Over the neurons i ≠ j of a layer of N, S_ab = Σ_i z_ia z_ib,

    E S_ab/N = G_ab
    E (S_ab S_cd − Σ_i z_ia z_ib z_ic z_id)/(N(N−1)) = G_ab G_cd + V_(ab)(cd)/n

whatever the law of the weights, so long as permutations keep it. Matrices of different layers are
independent, so a network whose layers come from different initializations is an initialization,
too: within a group of g of them, layer by layer, each one's matrices meet values that others led
to, which gives up to g^ℓ networks at layer ℓ for the price of g. Where a layer is one matrix with
independent rows, as layer 1 and a head are, g of them over the same values below are one layer of
g N neurons, and any N of these a layer of an initialization. That its rows and biases are
independent is an assumption, tested on the model's own initializations (`independence`): where a
test finds dependence, or says less of V than V itself, neurons are left in their initializations,
and what it might not have seen is part of V's standard error; all of it at layer 1, where V of
recombined neurons is 0. V behind a skip is V of the layer below and what is added to it (`skips`).

Groups share nothing: products of means are taken over different groups, or over halves of one that
share no matrix, so that the estimates have no bias, and leaving out one group after another gives
their standard errors. Θ is that of the first neuron, of whole initializations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray
from numpy.typing import NDArray

from ..arrays import Array
from ..tables import layout
from ..tables.compare import Comparison
from .description import Description
from .drawn import Drawn
from .frameworks.base import Initialized
from .graph import Linear
from .independence import Rows, Tests
from .networks import law_of_biases, law_of_weights
from .skips import Centred, Centring, Skip, moments, skip
from .theory import largest

_LEAST, _GROUPS, _MIXED = 3, 120, 6
"""Groups at least, as V without one of them is a product over two others; at most; and
initializations of each at least, where there are so many."""
_WORK, _VALUE = 6e9, 200
"""Multiplications for a layer's mixed networks, all groups together, as many initializations as by
default, and in proportion of more; and of a function's value."""
_POOL, _POOL_BYTES = 2048, 2.0**25
"""Networks whose values at a layer are kept for the next, in half a group, and the bytes of
these."""
_BYTES = 2.0**28
"""Of a group's parameters."""
_PILOT, _CHANGE = 8, 0.1
"""Initializations, and a change of K in them, that say by how much a fluctuation of it is carried
on."""
_FEWEST, _FEWEST_AT_ALL, _MOST = 96, 20, 1500
_PARAMETERS, _TANGENTS = 4.6e8, 4e8
"""Parameters that are drawn, all initializations together, by default; and whose part of Θ is
measured, at all layers."""
_FEWEST_DRAWN, _DRAWN = 24, 4e9
"""Initializations in NumPy at least, and multiplications that otherwise limit them."""
_PRODUCTS = 50
"""Multiplications in the time in which a parameter is drawn."""


class Sample(NamedTuple):
    """The measured numbers.

    Attributes:
        first: K and Theta by layer, and `spread`, the standard deviation of H_11 among
            initializations.
        second: V, of the layers with two neurons or more; None without one.
        networks: by layer, how many networks K and V are means over.
        rows: the tests of layers whose neurons were to be recombined, and of skips.
        below: K of the layers before these, of signals of other positions: means over all
            positions. None where there are none.
    """

    first: xarray.Dataset
    second: xarray.Dataset | None
    networks: NDArray[np.int64]
    rows: tuple[Rows | Centred, ...] = ()
    below: xarray.Dataset | None = None

    def table_of(self, comparison: Comparison) -> xarray.Dataset:
        """The table that a comparison is with."""
        first = comparison.rows[0]
        if "V" in comparison.tensors:
            found = self.second
        else:
            found = self.below if first.layer < int(self.first["layer"][0]) else self.first
        assert found is not None
        return found


def enough(description: Description, share: float = 1.0) -> int:
    """How many initializations are measured by default: as many as take some seconds, or a share
    of them."""
    size = sum(np.size(each) for each in description.reading.graph.parameters.values())
    if description.positions:
        size += sum(_cost(description, at)[0] for at in range(description.depth)) // _PRODUCTS
    count = share * _PARAMETERS / (description.reading.overhead + size)
    fewest = _FEWEST if share >= 1 else _FEWEST_AT_ALL
    return int(np.clip(count, fewest, share * _MOST))


class Plan(NamedTuple):
    """How many groups, initializations of each, and of these with which Θ is measured; and how many
    networks are mixed from them, in units of the default."""

    groups: int
    per_group: int
    tangents: int
    work: float = 1.0

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


def fewer(description: Description, planned: Plan, m: int) -> Plan:
    """The same, or as many initializations in NumPy as take some seconds."""
    products = sum(_cost(description, at)[0] for at in range(description.depth))
    draws = max(_FEWEST_DRAWN, int(planned.work * _DRAWN / (m * products)))
    if draws >= planned.total:
        return planned
    return plan(description, draws)._replace(work=planned.work * draws / planned.total)


def measure(
    description: Description,
    X: Array,
    planned: Plan,
    seed: int,
    advance: Callable[[int], object] = lambda count: None,
    by: Initialized | None = None,
    with_networks: bool = True,
) -> Sample:
    """Initialize the model as planned and measure it at these inputs, (m, n_0).

    Arguments:
        by: instead of the model's own framework.
        with_networks: K and V, too.
    """
    ensemble = Ensemble(description, X, planned, seed, by, with_networks)
    ensemble.extend(planned.groups, advance)
    return ensemble.sample()


class Ensemble:
    """Initializations of a model, measured group by group; see `measure`."""

    def __init__(
        self,
        description: Description,
        X: Array,
        planned: Plan,
        seed: int,
        by: Initialized | None = None,
        with_networks: bool = True,
    ) -> None:
        self._description, self._X, self._plan, self._seed = description, X, planned, seed
        self._reading = by or description.reading
        self._nodes = [block.node for block in description.structure.blocks]
        self._steps = self._fitted(_steps(description, planned, len(X)) if with_networks else [])
        self._tangents: list[Array] = []
        self._means: list[_Means] = []
        self._tests: Tests | None = None
        self._centring: Centring | None = None
        if self._steps and not self._reading.has_free_rows:
            apart = [at for at, step in enumerate(self._steps) if step.is_apart]
            numbers = [at for at, step in enumerate(self._steps) if step.is_one or step.is_apart]
            given = [at for at in apart if self._steps[at].is_together]
            tested = (numbers, (seed, planned.total), given)
            self._tests = Tests(description, *tested) if numbers else None
            self._centring = Centring(
                {at: step.skip for at, step in enumerate(self._steps) if step.skip}
            )

    @property
    def groups(self) -> int:
        """How many were measured."""
        return len(self._tangents)

    @property
    def draws(self) -> int:
        """Initializations so far."""
        return self.groups * self._plan.per_group

    def extend(
        self, groups: int, advance: Callable[[int], object] = lambda count: None
    ) -> Ensemble:
        """The same with more groups, so many in all."""
        reading, first = self._reading, self._description.first - 1
        for group in range(self.groups, groups):
            made = self._initialized(group)
            few = reading.first(made, self._plan.tangents)
            self._tangents.append(reading.tangents(few, self._X, self._nodes[first:]))
            for tests in (self._tests, self._centring):
                if tests is not None:
                    tests.add(reading.values(made))
            if self._steps:
                self._means.append(self._networks(made, group))
            advance(self._plan.per_group)
        return self

    def sample(self) -> Sample:
        """The measurements so far."""
        X, first, depth = self._X, self._description.first - 1, len(self._nodes)
        H, single, precision = np.array(self._tangents), len(X) == 1, self._reading.precision
        n = self._description.structure.blocks[0].width
        layers = range(first + 1, depth + 1)
        about: dict[str, int | float | str] = {
            "width": n,
            "draws": self.draws,
            "blocks": self.groups,
            "network": str(self._description.network),
        }
        spread = _left_out(lambda kept: _deviation(H[kept]), self.groups)
        tangents = layout.averaged(H.mean(axis=1))
        floor = precision * largest(tangents[0])
        arrays = {"Theta": _shaped(tangents, single), "spread": _shaped(spread, single)}
        floors = {"Theta_floor": floor, "spread_floor": floor}
        if not self._steps:
            table = layout.table(layers, about, **arrays, **floors)
            return Sample(table, None, np.zeros(depth - first, np.int64))
        tested, unseen = self._tested()
        found, steps = self._means, self._steps
        V = _left_out(lambda kept: n * _covariance([found[at] for at in kept], steps), self.groups)
        K = np.array([each.K for each in found])
        counts = np.array([each.networks for each in found])
        means = layout.averaged(K)
        shaped, floor = _shaped(means, single), precision * largest(means[0])
        below = None
        if first:
            K_below = shaped[0][:first], shaped[1][:first]
            below = layout.table(range(1, first + 1), about, K=K_below, K_floor=floor[:first])
        arrays["K"], floors["K_floor"] = (shaped[0][first:], shaped[1][first:]), floor[first:]
        table, networks = layout.table(layers, about, **arrays, **floors), counts.sum(axis=0)
        widths = np.array([block.width for block in self._description.structure.blocks])
        wide = first + np.flatnonzero(widths[first:] > 1)
        if not len(wide):
            return Sample(table, None, networks[first:], tested, below)
        K_aa = np.sqrt(np.einsum("laa->la", means[0]))
        sizes = np.einsum("la,lb,lc,ld->labcd", K_aa, K_aa, K_aa, K_aa)
        joined = np.hypot(V[1], n * unseen[:, None, None, None, None] * sizes)
        values, errors = _shaped((V[0], joined), single)
        second = layout.table(
            [int(at) + 1 for at in wide],
            about,
            V=(values[wide], errors[wide]),
            V_floor=n * precision * largest(means[0] ** 2)[wide],
        )
        return Sample(table, second, networks[first:], tested, below)

    def _initialized(self, group: int) -> Any:
        first = self._seed + group * self._plan.per_group
        return self._reading.initialize(range(first, first + self._plan.per_group))

    def _networks(self, made: Any, group: int) -> _Means:
        per_group, seed = self._plan.per_group, (self._seed, group)
        return _group(self._reading, made, self._X, self._steps, per_group, seed)

    def _fitted(self, steps: Sequence[_Step]) -> list[_Step]:
        """With what is given of layers whose matrices are averaged over as the model has it."""
        if not any(step.is_apart for step in steps):
            return [*steps]
        made = self._reading.initialize([self._seed])
        return [
            self._of_model(made, at, step) if step.is_apart else step
            for at, step in enumerate(steps)
        ]

    def _of_model(self, made: Any, at: int, step: _Step) -> _Step:
        """The step of a layer whose matrix is averaged over, by one initialization."""
        assert step.given is not None
        channels = self._description.structure.blocks[at - 1].width
        for own in (step.given, step.given._replace(channels_first=channels)):
            if not self._misses(made, at, own):
                return step._replace(given=own)
        return step._replace(is_free=False)

    def _misses(self, made: Any, at: int, given: _Given) -> bool:
        """True if the matrix of a layer times u is not z, so that V is not that of q: a factor of
        it may stand at another node of the model than of the graph."""
        reading, node = self._reading, self._nodes[at]
        end = self._description.structure.graph.nodes[node]
        assert isinstance(end, Linear)
        below, values = self._nodes[at - 1], reading.values(made)
        rows = reading.propagate(made, 0, self._X[None], below)
        u = given.values(below, rows)
        if u.shape[-1] != end.fan_in:
            return True
        z = float(end.scale) * u[0] @ np.asarray(values[end.weight][0], float).T
        if end.bias is not None:
            z = z + float(end.bias_scale) * np.asarray(values[end.bias][0], float)
        own = reading.propagate(made, below, rows, node)[0]
        return not np.allclose(z, own, rtol=1e-3, atol=1e-4 * abs(own).max())

    def _tested(self) -> tuple[tuple[Rows | Centred, ...], Array]:
        """The tests of what is assumed, and what they might not have seen in V/(nK²). Where one
        fails, all groups are measured anew without that assumption."""
        centred = [] if self._centring is None else self._centring.tests()
        bad_skips = {each.layer - 1 for each in centred if not each.is_used}
        rows, bad, unseen = list[Rows](), set[int](), np.zeros(len(self._nodes))
        if self._tests is not None:
            K = np.mean([each.K for each in self._means], axis=0)
            rows = self._tests.rows(np.einsum("laa->la", K))
            bad = {each.layer - 1 for each in rows if not each.are_free}
            pilot = range(self._seed, self._seed + min(_PILOT, self.draws))
            made = self._reading.initialize(pilot)
            free = [each for each in rows if each.are_free and math.isfinite(each.direct)]
            unseen = _unseen(self._reading, made, self._X, self._nodes, free)
        before = self._steps
        self._steps = [
            step._replace(
                skip=None if at in bad_skips else step.skip, is_free=step.is_free and at not in bad
            )
            for at, step in enumerate(before)
        ]
        if self._steps != before:
            self._means = [
                self._networks(self._initialized(group), group) for group in range(self.groups)
            ]
        return (*rows, *centred), unseen


class _Given(NamedTuple):
    """q_ab = E[z_ia z_ib | u] = C_b + C_W u_a·u_b/fan-in, for W u with independent rows.

    Attributes:
        drawn, source: the graph, and the node of u in it.
        per_product: C_W over the fan-in.
        C_b: of the biases.
        mean: the matrix, where u is a mean over positions that it takes.
        channels_first: of the values below, if these come before positions in the model.
    """

    drawn: Drawn
    source: int
    per_product: float
    C_b: float
    mean: Linear | None = None
    channels_first: int = 0

    def values(self, below: int, rows: Array) -> Array:
        """u by values below, (1, rows, …): no matrix stands between."""
        if self.channels_first:
            apart = rows.reshape(*rows.shape[:2], self.channels_first, -1)
            rows = apart.swapaxes(2, 3).reshape(rows.shape)
        u = rows
        if self.source != below:
            u = self.drawn.propagate({"": np.zeros(1)}, below, rows, self.source)
        return u if self.mean is None else self.drawn.columns(self.mean, u)

    def moments(self, u: Array) -> tuple[Array, Array]:
        """The means of q_ab and of q_ab q_cd, of (networks, m, fan-in) values."""
        m = u.shape[1]
        q = (self.C_b + self.per_product * (u @ u.transpose(0, 2, 1))).reshape(-1, m * m)
        return q.mean(axis=0).reshape(m, m), (q.T @ q / len(q)).reshape((m,) * 4)


class _Step(NamedTuple):
    """A layer of a group's networks.

    Attributes:
        node: of its preactivations.
        most: networks of each initialization's matrices, at most.
        is_free: whether its neurons are independent, given the layer below.
        is_together: whether all of a group's matrices meet the same values below, as in layer 1.
        is_first: whether these are the inputs.
        skip: the layer's, if that is one.
        given: the variance of its neurons, given the layer below, where V is taken from that.
    """

    node: int
    most: int
    is_free: bool
    is_together: bool
    is_first: bool
    skip: Skip | None
    given: _Given | None = None

    @property
    def is_one(self) -> bool:
        """True if neurons of a group's matrices are recombined."""
        return self.is_free and self.is_together

    @property
    def is_apart(self) -> bool:
        """True if its own matrix is averaged over, so that it makes no noise in V."""
        return self.is_free and self.given is not None


def _steps(description: Description, planned: Plan, m: int) -> list[_Step]:
    """Of all layers; before the first of a report positions are others, and K is measured alone."""
    found, first = [], description.first - 1
    n = description.structure.blocks[0].width
    work = planned.work * _WORK * max(1.0, planned.total / enough(description))
    for number, block in enumerate(description.structure.blocks):
        free = number >= first and _has_free_rows(description, number)
        narrow = number >= first and _is_narrow(block.width, n, planned.per_group)
        together = number == 0 or narrow
        products, values = _cost(description, number)
        cost = products + values / (planned.per_group if together and number else 1)
        most = max(1, int(work / (cost * planned.total * m)))
        own = None if together or number < first else skip(description, number)
        given = _given(description, number) if free and number else None
        free = free and (number == 0 or given is not None or not narrow)
        found.append(_Step(block.node, most, free, together, number == 0, own, given))
    return found


class _Means(NamedTuple):
    """Of a group's networks, by layer.

    Attributes:
        K: S_ab/N.
        P: the products whose mean V is a part of.
        part: of K behind a skip, that of its last matrix; of a layer whose own matrix is averaged
            over, the mean of q.
        networks: how many.
    """

    K: Array
    P: Array
    part: Array
    networks: NDArray[np.int64]


def _group(
    reading: Initialized,
    made: Any,
    X: Array,
    steps: Sequence[_Step],
    hands: int,
    seed: tuple[int, int],
) -> _Means:
    """Means by layer over a group's networks.

    Where the rows of a layer are independent given the layer below, i ≠ j have

        E z_ia z_ib z_jc z_jd = E q_ab q_cd,    q_ab = E[z_ia z_ib | the layer below],

    so that V/n = Cov(q_ab, q_cd): P is then of q, which the layer's own matrix adds no noise to.
    """
    random = np.random.default_rng(seed)
    K, P, counts, added = [], [], [], []
    m, below, pool, every = len(X), 0, X[None], X[None]
    for step in steps:
        together, count = step.is_together, min(step.most, len(pool))
        if below == 0:
            given = X[None]
        elif together:
            given = _some(pool[None], count, random)
        else:
            given = pool[_dealt(len(pool), hands, count, random)]
        axes = X.shape[1:] if below == 0 else given.shape[-1:]
        rows = given.reshape(1 if together else hands, -1, *axes)
        z = reading.propagate(made, below, rows, step.node)
        z = z.reshape(hands, -1, m, z.shape[-1])
        is_one = step.is_one
        networks = _side_by_side(z) if is_one else _each(z)
        own, product = _moments(networks)
        part = np.zeros_like(own)
        if step.is_apart:
            assert step.given is not None
            u = step.given.values(below, every.reshape(1, -1, every.shape[-1]))
            part, product = step.given.moments(u.reshape(-1, m, u.shape[-1]))
        if step.skip is not None:
            z_below = rows.reshape(-1, m, rows.shape[-1])
            part, product = moments(step.skip.factor, z_below, networks)
        added.append(part)
        K.append(own)
        P.append(product)
        counts.append(hands * z.shape[1])
        kept = int(max(1, min(_POOL, _POOL_BYTES // z[0, 0].nbytes)))
        pool = (_recombined if is_one else _some)(z, kept, random)
        every = pool if is_one else _each(z)
        below = step.node
    return _Means(np.array(K), np.array(P), np.array(added), np.array(counts))


def _lengths(reading: Initialized, made: Any, source: int, states: Array, nodes: Any) -> Array:
    """z·z/N of each node, (nodes, m), from states of a node below."""
    found = [(reading.propagate(made, source, states, node) ** 2).mean((0, 2)) for node in nodes]
    return np.array(found).reshape(-1, states.shape[1])


def _unseen(
    reading: Initialized, made: Any, X: Array, nodes: Sequence[int], rows: Sequence[Rows]
) -> Array:
    """The part of V/(nK²) that tests of rows might miss, (depth,), as standard errors: at their
    layers, and where a fluctuation of these is carried to, by d log K/d log K or 1, if less."""
    found = np.zeros(len(nodes))
    for each in rows:
        at, behind = each.layer - 1, nodes[each.layer :]
        found[at] += each.error**2
        if not len(behind):
            continue
        z = reading.propagate(made, 0, X[None], nodes[at])
        longer, shorter = (
            _lengths(reading, made, nodes[at], z * math.sqrt(1 + sign * _CHANGE), behind)
            for sign in (1, -1)
        )
        ratio = np.divide(longer, shorter, out=np.ones_like(longer), where=shorter > 0)
        growth = np.log(ratio) / math.log((1 + _CHANGE) / (1 - _CHANGE))
        found[each.layer :] += (np.maximum(1.0, abs(growth).max(axis=1)) ** 2 * each.error) ** 2
    return np.sqrt(found)


def _cost(description: Description, number: int) -> tuple[int, int]:
    """Multiplications of a layer for one input, at all positions: of its matrices, and as many as
    its functions take the time of."""
    made, products, values = description.structure, 0, 0
    block = made.blocks[number]
    for at, node in zip(block.matrices, made.matrices([block]), strict=True):
        positions = math.prod(made.graph.shapes[at])
        products += positions * node.fan_in * node.fan_out
        values += _VALUE * positions * node.fan_in // node.count
    return products, values


def _dealt(pool: int, hands: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """For each of the hands as many of the pool, all as often as can be: (hands, count)."""
    places = np.arange(count) + count * np.arange(hands)[:, None]
    order: NDArray[np.int64] = random.permutation(pool)
    return np.asarray(order[places % pool])


def _has_free_rows(description: Description, number: int) -> bool:
    """True if the layer is one matrix whose rows, and biases, are independent and of one law: given
    the layer below, its neurons are."""
    nodes, block = description.structure.graph.nodes, description.structure.blocks[number]
    end = nodes[block.node]
    if len(block.matrices) > 1 or not isinstance(end, Linear):
        return False
    return law_of_weights(end, description.laws).has_free_rows


def _given(description: Description, number: int) -> _Given | None:
    """Of a layer without positions, each of whose neurons has a weight for every value of u."""
    graph, block = description.structure.graph, description.structure.blocks[number]
    end = graph.nodes[block.node]
    assert isinstance(end, Linear)
    size, is_mean = graph.widths[end.source], end.count == 1
    size *= 1 if is_mean else math.prod(graph.shapes[end.source])
    if graph.shapes[block.node] or end.fan_in != size:
        return None
    weights, biases = (f(end, description.laws) for f in (law_of_weights, law_of_biases))
    assert weights is not None
    C_b = 0.0 if biases is None else float(biases.C)
    per_product, mean = float(weights.C) / end.fan_in, end if is_mean else None
    return _Given(description.drawn(), end.source, per_product, C_b, mean)


def _is_narrow(N: int, n: int, per_group: int) -> bool:
    """True if V is known better from all matrices over the same values below than from each over
    others: with free rows and v ≈ 2/n the errors are as v + 2/gN, and (v + 2/N)/√g."""
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


def _shaped(pair: tuple[Array, Array], single: bool) -> tuple[Array, Array]:
    """(depth, m, …), or (depth,) of one input."""
    values, errors = pair
    if not single:
        return values, errors
    return values.reshape(len(values)), errors.reshape(len(errors))


def _covariance(found: Sequence[_Means], steps: Sequence[_Step]) -> Array:
    """V/n by layer: E P without the products of means, over different groups; of a first layer with
    independent neurons 0; behind a skip with what that carries."""
    K, part = (np.array([getattr(each, name) for each in found]) for name in ("K", "part"))
    V = np.mean([each.P for each in found], axis=0)
    squares, mixed, own = _apart(K, K), _apart(K, part), _apart(part, part)
    for at, step in enumerate(steps):
        if step.is_first and step.is_one:
            V[at] = 0.0
        elif step.skip is not None:
            both = mixed[at] + mixed[at].transpose(2, 3, 0, 1) - own[at]
            V[at] += step.skip.factor**4 * V[at - 1] - both
        else:
            V[at] -= own[at] if step.is_apart else squares[at]
    return np.asarray(V)


def _apart(K: Array, other: Array) -> Array:
    """The mean of K_ab K'_cd over different groups, by layer."""
    count = len(K)
    own = np.einsum("klab,klcd->labcd", K, other)
    both = np.einsum("lab,lcd->labcd", K.sum(axis=0), other.sum(axis=0))
    return np.asarray((both - own) / (count * (count - 1)))


def _left_out(estimate: Callable[[NDArray[np.int64]], Array], groups: int) -> tuple[Array, Array]:
    """An estimate from all groups, and its standard error by leaving out one after another."""
    every = np.arange(groups)
    left = np.array([estimate(np.delete(every, at)) for at in range(groups)])
    return estimate(every), np.sqrt((groups - 1) * left.var(axis=0))
