"""What descent makes of a network's predictions, to order 1/n: the diagrams as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from derive.engine.tensors import Name, named
from derive.engine.trees import H
from derive.training.descent import shares
from derive.training.diagrams import Diagram, diagrams
from derive.training.histories import History, fields, residuals

from ..arrays import Array
from .evolution import evolved

EDGES = 3
"""At order 1/n a history has no more."""


class Average(NamedTuple):
    """An observable's average at each order, 0 and 1, as diagrams."""

    free: int
    orders: tuple[tuple[Diagram, ...], ...]


@cache
def mean() -> Average:
    """Of z − y."""
    return _average(1, (each for k in range(EDGES + 1) for each in ((h,) for h in residuals(k))))


@cache
def covariance() -> Average:
    """Of z with z."""
    pairs = (
        pair
        for k in range(EDGES + 1)
        for a, b in shares(k, 2)
        for pair in product(residuals(a), residuals(b))
    )
    return _average(2, pairs)


@cache
def ntk() -> Average:
    """Of the tangent kernel."""
    return _average(2, ((h,) for k in range(EDGES) for h in fields(H, k)))


def _average(free: int, histories: Iterator[tuple[History, ...]]) -> Average:
    given = list(histories)
    orders = (
        tuple(each for chosen in given for each in diagrams(chosen, order)) for order in (0, 1)
    )
    return Average(free, tuple(orders))


@cache
def needed() -> tuple[Name, ...]:
    """The tensors that the averages are made of."""
    names = {
        factor.name.label: factor.name
        for average in (mean(), covariance(), ntk())
        for order in average.orders
        for each in order
        for factor in each.tensors
    }
    return tuple(names[label] for label in sorted(names))


@dataclass(frozen=True, eq=False)
class Basis:
    """Samples as eigenvectors of Θ on the training inputs, and what descent leaves of the others.

    z of a test input moves with those of the training inputs, z_t = r + Σ_a (Θ_ta/Θ_a) z_a, and r,
    whose Θ with all training inputs is 0, stays. The labels are the eigenvectors, then each r.

    Attributes:
        theta: Θ of the labels, 0 of r.
        into: (labels, samples), which takes samples to labels.
        back: (samples, labels), its inverse.
    """

    theta: Array
    into: Array
    back: Array
    training: int

    @classmethod
    def of(cls, theta: Array, training: int, singular: float) -> Basis:
        """From Θ of all samples, those of the training set first."""
        values, U = np.linalg.eigh(theta[:training, :training])
        values = np.where(values < singular * values[-1], 0.0, values)
        tests = len(theta) - training
        shares_ = theta[training:, :training] @ U
        shares_ = np.divide(shares_, values, out=np.zeros_like(shares_), where=values > 0)
        into = np.block([[U.T, np.zeros((training, tests))], [-shares_ @ U.T, np.eye(tests)]])
        back = np.block([[U, np.zeros((training, tests))], [shares_, np.eye(tests)]])
        return cls(np.append(values, np.zeros(tests)), into, back, training)


@dataclass(frozen=True, eq=False)
class Descended:
    """The averages of one network, its tensors known, at given steps.

    Arguments:
        tensors: of the last layer, by label, an axis a subscript.
        targets: (training, outputs).
        eta: 0 where `steps` are times τ.
    """

    tensors: Mapping[str, Array]
    targets: Array
    eta: float
    steps: Sequence[float]
    basis: Basis

    @property
    def outputs(self) -> int:
        """Of the network."""
        return self.targets.shape[1]

    @cached_property
    def labelled(self) -> dict[str, Array]:
        """The tensors with labels for samples."""
        found = {}
        for name, values in self.tensors.items():
            moved = values
            for _ in range(values.ndim):
                moved = np.tensordot(moved, self.basis.into, axes=(0, 1))
            found[name] = moved
        return found

    @cached_property
    def y(self) -> Array:
        """The targets by label, 0 of what stays."""
        y = np.zeros((len(self.basis.theta), self.outputs))
        y[: self.basis.training] = self.basis.into[: self.basis.training, : self.basis.training] @ (
            self.targets
        )
        return y

    @cached_property
    def _functions(self) -> dict[int, list[Array]]:
        return {}

    def function(self, history: History) -> list[Array]:
        """The history's function of the step, at each."""
        known = self._functions
        if id(history) not in known:
            theta = self.basis.theta
            rates = theta if self.eta == 0 else 1 - self.eta * theta
            own = [
                rates if label in history.free else rates[: self.basis.training]
                for label in range(history.labels)
            ]
            known[id(history)] = evolved(history, own, self.steps, continuous=self.eta == 0)
        return known[id(history)]

    def average(self, average: Average, order: int) -> Array:
        """(steps, free samples …, free outputs …) of an average at this order in 1/n."""
        size, outputs = len(self.basis.theta), self.outputs
        shape = (len(self.steps), *[size] * average.free, *[outputs] * average.free)
        total = np.zeros(shape)
        for each in average.orders[order]:
            self._add(each, average.free, total)
        for axis in range(1, average.free + 1):
            total = np.moveaxis(np.tensordot(total, self.basis.back, axes=(axis, 1)), -1, axis)
        return total

    def _add(self, diagram: Diagram, free: int, total: Array) -> None:
        offsets = diagram.offsets
        at = [
            a + offset
            for h, offset in zip(diagram.histories, offsets, strict=True)
            for a in h.free
        ]
        training = self.basis.training
        operands: list[tuple[Array, list[int]]] = []
        for factor in diagram.tensors:
            cut = tuple(slice(None if a in at else training) for a in factor.labels)
            operands.append((self.labelled[factor.name.label][cut], list(factor.labels)))
        loops, outputs = 0, 1000
        for line in diagram.lines:
            kinds = [end[0] for end in line.ends]
            numbers = [end[1] for end in line.ends]
            if not kinds:
                loops += 1
            elif kinds == ["free", "free"]:
                operands.append((np.eye(self.outputs), [outputs + k for k in numbers]))
            elif kinds == ["free", "target"]:
                y = self.y if numbers[1] in at else self.y[:training]
                operands.append((y, [numbers[1], outputs + numbers[0]]))
            else:
                rows = [self.y if k in at else self.y[:training] for k in numbers]
                operands.append((rows[0] @ rows[1].T, numbers))
        weight = float(diagram.weight) * self.outputs**loops
        weight *= self.eta**diagram.edges if self.eta else 1.0
        result = [*at, *(outputs + k for k in range(free))]
        for step in range(len(self.steps)):
            own = [
                (self.function(h)[step], [offset + k for k in range(h.labels)])
                for h, offset in zip(diagram.histories, offsets, strict=True)
            ]
            total[step] += weight * _contracted([*operands, *own], result)


def _contracted(operands: Sequence[tuple[Array, list[int]]], result: Sequence[int]) -> Array:
    names = sorted({k for _, labels in operands for k in labels})
    place = {name: k for k, name in enumerate(names)}
    given: list[object] = []
    for array, labels in operands:
        given += [array, [place[k] for k in labels]]
    found: Array = np.einsum(*given, [place[k] for k in result], optimize="greedy")
    return found


TENSORS = tuple(named(label) for label in ("K", "Theta"))
