"""The averages over initializations that say what training does, to order 1/n.

Each is one for a group that keeps the law of the outputs: rotations "O", or permutations "B".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import NamedTuple

from ..engine.tensors import Name
from ..engine.trees import Field, H, Z
from ..groups.pairings import compositions, partitions
from ..work.caches import cache
from .diagrams import Diagram, Factor, diagrams
from .histories import History, fields, residuals

EDGES = 3
"""At order 1/n the trees of a history have no more: four neural indices, one of them the root."""


class Average(NamedTuple):
    """The average of an observable with so many free labels, at each order in 1/n, 0 and 1."""

    free: int
    orders: tuple[tuple[Diagram, ...], ...]


@cache
def prediction(group: str = "O") -> Average:
    """Of z − y."""
    return _average(1, ((history,) for k in range(EDGES + 1) for history in residuals(k)), group)


@cache
def covariance(group: str = "O") -> Average:
    """Of z with z, less the product of the averages."""
    pairs = (
        pair
        for k in range(EDGES + 1)
        for a, b in compositions(k, 2)
        for pair in product(residuals(a), residuals(b))
    )
    return _average(2, pairs, group)


@cache
def ntk(group: str = "O") -> Average:
    """Of the tangent kernel H."""
    return _average(2, ((history,) for k in range(EDGES + 1) for history in fields(H, k)), group)


class Output(NamedTuple):
    """A quantity of trained networks that is derived to order 1/n.

    Attributes:
        meaning: in words.
        fields: whose joint cumulant it is; a sample and an output for each of their nodes.
        average: for a group.
    """

    meaning: str
    fields: tuple[Field, ...]
    average: Callable[[str], Average]

    @property
    def indices(self) -> int:
        """How many samples it is of."""
        return sum(field.nodes for field in self.fields)


OUTPUTS = {
    "prediction": Output("mean over initializations of the output", (Z,), prediction),
    "covariance": Output("covariance over initializations of the outputs", (Z, Z), covariance),
    "ntk": Output("mean over initializations of the tangent kernel", (H,), ntk),
}
"""By their names in tables."""


def _average(free: int, histories: Iterable[tuple[History, ...]], group: str) -> Average:
    given = list(histories)
    orders = (
        tuple(each for chosen in given for each in diagrams(chosen, order, group))
        for order in (0, 1)
    )
    return Average(free, tuple(orders))


@cache
def tensors(group: str = "O", wanted: tuple[str, ...] = tuple(OUTPUTS)) -> tuple[Name, ...]:
    """The tensors of the last layer at initialization that these averages are made of."""
    names = {
        factor.name.label: factor.name
        for name in wanted
        for order in OUTPUTS[name].average(group).orders
        for each in order
        for factor in each.tensors
    }
    return tuple(names[label] for label in sorted(names))


@cache
def fluctuations(group: str = "O") -> tuple[Factor, ...]:
    """The tensors that add up to n Cov[H_ab, H_cd], all neural indices alike; labels are 0 … 3.

    A sum over the pairings of four neural indices (source 000, eq. 6.9), and with the group "B" the
    block of all four.
    """
    return tuple(Factor.of((H, H), 0, pairing, (0, 1, 2, 3)) for pairing in partitions(4, group))
