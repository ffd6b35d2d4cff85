r"""One neuron's variables along the layers, and the covariances of what it adds to outputs.

At leading order the variables of a neuron are Gaussian in all layers together: a matrix brings new
ones, u ~ N(0, G), a skip and a norm carry those before, x' = f x + u. With sums of products r_a(x)
for each output a, E r_a r_b is a mean over draws of such neurons.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from derive.engine.tensors import Name
from derive.engine.trees import Kind
from derive.errors import InputError

from ..arrays import Array

Values: TypeAlias = "Mapping[Hashable, Array]"
"""Of each variable, or function of several: (samples, draws)."""

_SEED = 1998
_AT_ONCE = 1 << 22
"""Numbers that are drawn at a time, more or less."""

_NEGATIVE = 1e-8
"""An eigenvalue below 0 that is rounding, relative to the largest."""


class Source(NamedTuple):
    """A variable before a stage, times a number at each sample; then at the samples of `past`."""

    kind: Kind
    scale: Array
    past: sparse.csr_array | None


@dataclass(frozen=True)
class Move:
    """The variables of a neuron behind a stage: what is carried, and new ones.

    Attributes:
        carried: of each variable.
        root: B, with B Bᵀ the covariance of the new ones, all variables one after another.
    """

    carried: Mapping[Kind, Sequence[Source]]
    root: Array | None

    def __call__(self, before: Values, rng: np.random.Generator, draws: int) -> Values:
        """The variables behind the stage."""
        found = {kind: _carried(sources, before) for kind, sources in self.carried.items()}
        if self.root is None:
            return found  # type: ignore[return-value]
        new = np.split(self.root @ rng.standard_normal((self.root.shape[1], draws)), len(found))
        return {k: own + u for (k, own), u in zip(found.items(), new, strict=True)}


def _carried(sources: Sequence[Source], before: Values) -> Array | float:
    total: Array | float = 0.0
    for kind, scale, past in sources:
        own = scale[:, None] * before[kind]
        total = total + (own if past is None else past @ own)
    return total


Weights: TypeAlias = dict[Name, Array]
"""Of each mean of two variables: weights of pairs of samples, (outputs, m, m)."""


@dataclass
class Group:
    """Outputs of one layer, on the way down.

    Attributes:
        number: of the group.
        weights: an output changes by Σ w δK.
        carried: the part of the weights that skips and norms alone have brought down since the
            last matrix. Its part of second degree has been counted there.
        totals: V, squares of standard errors, and sums of absolute values, (3, outputs, outputs).
    """

    number: int
    weights: Weights
    carried: Weights
    totals: Array

    @classmethod
    def of(cls, number: int, name: Name, weights: Array) -> Group:
        """A group at its own layer."""
        own = {name: weights}
        return cls(number, own, own, np.zeros((3, len(weights), len(weights))))

    def add(self, values: Array, errors: Array | float = 0.0) -> None:
        """Add a part of V."""
        self.totals += np.array([values, 0.0 * values + errors**2, np.abs(values)])


@dataclass
class Forms:
    """r = Σ vᵀ A v' + Σ a v − c of each output: A (outputs, samples, samples), c (outputs,)."""

    products: list[tuple[Hashable, Hashable, Array]]
    lines: list[tuple[Hashable, Array]]
    constant: Array

    @classmethod
    def of(cls, outputs: int) -> Forms:
        """No terms yet."""
        return cls([], [], np.zeros(outputs))

    def __call__(self, values: Values) -> Array:
        """(outputs, draws)."""
        draws = next(iter(values.values())).shape[1]
        total = np.repeat(-self.constant[:, None], draws, axis=1)
        for one, other, weights in self.products:
            for k, each in enumerate(weights):
                total[k] += ((each @ values[other]) * values[one]).sum(axis=0)
        for one, line in self.lines:
            total += line @ values[one]
        return total


@dataclass(frozen=True)
class Reading:
    """The variables before a stage, as it reads them.

    Attributes:
        evaluate: adds functions of the variables to them.
        forms: by groups of outputs.
    """

    evaluate: Callable[[Values, np.random.Generator], Values]
    forms: Mapping[int, Forms]


@dataclass
class Lane:
    """The neurons of one kind, from the last stage to the first."""

    events: list[Move | Reading | Lane] = field(default_factory=list)

    @property
    def outputs(self) -> dict[int, int]:
        """How many outputs each group has that is read."""
        found: dict[int, int] = {}
        for each in self.events:
            if isinstance(each, Reading):
                found |= {group: len(forms.constant) for group, forms in each.forms.items()}
            elif isinstance(each, Lane):
                found |= each.outputs
        return found

    def _added(
        self, values: Values, draws: int, rng: np.random.Generator, totals: Mapping[int, Array]
    ) -> None:
        """Add r of every reading."""
        for event in reversed(self.events):
            if isinstance(event, Move):
                values = event(values, rng, draws)
            elif isinstance(event, Lane):
                event._added(values, draws, rng, totals)
            else:
                found = event.evaluate(values, rng)
                for group, forms in event.forms.items():
                    totals[group][:] += forms(found)

    def add_to(
        self, groups: Sequence[Group], ratio: float, draws: int, stream: Sequence[int]
    ) -> None:
        """Add E r_a r_b to each group of outputs, and its standard error.

        Arguments:
            ratio: the number of neurons over n.
            draws, stream: of random numbers.
        """
        means = self._means(draws, stream)
        for group in groups:
            if group.number in means:
                group.add(*(each / ratio for each in means[group.number]))

    def _means(self, draws: int, stream: Sequence[int]) -> dict[int, tuple[Array, Array]]:
        first = self.events[-1]
        assert isinstance(first, Move)
        assert first.root is not None
        rng = np.random.default_rng([_SEED, *stream])
        outputs = self.outputs
        sums = {group: np.zeros((2, count, count)) for group, count in outputs.items()}
        step = max(1, _AT_ONCE // len(first.root))
        for begin in range(0, draws, step):
            own = min(step, draws - begin)
            totals = {group: np.zeros((count, own)) for group, count in outputs.items()}
            self._added({}, own, rng, totals)
            for group, r in totals.items():
                sums[group] += r @ r.T, (r * r) @ (r * r).T
        return {group: _mean(each, draws) for group, each in sums.items()}


def _mean(sums: Array, draws: int) -> tuple[Array, Array]:
    mean = sums[0] / draws
    return mean, np.sqrt(np.maximum(sums[1] / draws - mean**2, 0.0) / draws)


def root(K: Array) -> Array:
    """A matrix B with B Bᵀ = K.

    Raises InputError for a K with a negative eigenvalue.
    """
    values, vectors = np.linalg.eigh(K)
    if values[0] < -_NEGATIVE * abs(values[-1]):
        wanted = f"a kernel that is a covariance; this one has the eigenvalue {values[0]:.2g}"
        raise InputError("inputs", f"{len(K)} samples", wanted)
    live = values > 0.0
    return np.asarray(vectors[:, live] * np.sqrt(values[live]))


Lanes: TypeAlias = "dict[str, Lane]"
"""By the neurons' space."""


def put(lanes: Lanes, space: str, events: Iterable[Move | Reading | Lane]) -> None:
    """Add what happens to neurons of this space, further down."""
    lanes.setdefault(space, Lane()).events.extend(events)
