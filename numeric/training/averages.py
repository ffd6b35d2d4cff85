"""A network's predictions after descent, to order 1/n: the diagrams as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from derive.training.averages import Average
from derive.training.diagrams import Diagram, Line
from derive.training.histories import History
from derive.work.caches import cache

from ..arrays import Array
from . import evolution

SINGULAR = 1e-10
"""Eigenvalues of Θ on the training set below this part of the largest are taken to vanish."""

_AT_ONCE = 8
"""Steps that are contracted together."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Samples as eigenvectors of Θ on the training inputs, and what descent leaves of the others.

    z of a test input moves with those of the training inputs, z_t = r + Σ_a (Θ_ta/Θ_a) z_a, and r,
    whose Θ with all training inputs is 0, stays. The labels are the eigenvectors, then each r.

    Attributes:
        theta: Θ of the labels, 0 of r.
        into: (labels, samples), which takes samples to labels.
        back: (samples, labels), its inverse.
        training: how many of the labels are eigenvectors.
    """

    theta: Array
    into: Array
    back: Array
    training: int

    @classmethod
    def of(cls, theta: Array, training: int) -> Basis:
        """From Θ of all samples, those of the training set first."""
        values, U = np.linalg.eigh(theta[:training, :training])
        values = np.where(values < SINGULAR * values[-1], 0.0, values)
        tests = len(theta) - training
        pulls = theta[training:, :training] @ U
        pulls = np.divide(pulls, values, out=np.zeros_like(pulls), where=values > 0)
        nothing = np.zeros((training, tests))
        into = np.block([[U.T, nothing], [-pulls @ U.T, np.eye(tests)]])
        back = np.block([[U, nothing], [pulls, np.eye(tests)]])
        return cls(np.append(values, np.zeros(tests)), into, back, training)


class Descended:
    """The averages of one network, its tensors known, at given steps.

    Arguments:
        tensors: of the last layer, by label, an axis a subscript, samples of the training set
            first.
        targets: (training, outputs).
        eta: 0 where `steps` are times τ.

    Attributes:
        unit: a power of 2 near the largest eigenvalue of Θ, which histories are functions of in
            units of it, and η and times in units of its inverse.
    """

    def __init__(
        self,
        tensors: Mapping[str, Array],
        targets: Array,
        eta: float,
        steps: Sequence[float],
    ) -> None:
        self.training, self.outputs = targets.shape
        self.basis = Basis.of(tensors["Theta"], self.training)
        self.unit = math.ldexp(1.0, math.frexp(float(self.basis.theta.max()))[1])
        h, self._theta = eta * self.unit, self.basis.theta / self.unit
        flows = h < evolution.FLOWS  # which may be 0 or lose digits, as times of many steps do not
        self._h = 0.0 if flows else h
        self._times = [t * (eta or 1.0) * self.unit for t in steps] if flows else steps
        into = self.basis.into
        self._tensors = {name: labelled(values, into) for name, values in tensors.items()}
        self._y = np.zeros((len(self.basis.theta), self.outputs))
        self._y[: self.training] = self.basis.into[: self.training, : self.training] @ targets
        self._functions: dict[History, Array] = {}

    @property
    def leading(self) -> Array:
        """The mean of z in the limit, (steps, samples, outputs); where it has hardly moved from 0,
        z − y has not its digits."""
        met = evolution.met(self._theta, self._times, self._h)
        return np.asarray(np.einsum("sa,ta,ai->tsi", self.basis.back, met, self._y))

    def average(self, average: Average, order: int) -> Array:
        """(steps, free samples …, free outputs …) of an average at this order in 1/n."""
        free = average.free
        shape = len(self._times), *[len(self.basis.theta)] * free, *[self.outputs] * free
        total = np.zeros(shape)
        for each in average.orders[order]:
            self._add(each, free, total)
        for axis in range(1, free + 1):
            total = np.moveaxis(np.tensordot(total, self.basis.back, axes=(axis, 1)), -1, axis)
        return total

    def _add(self, diagram: Diagram, free: int, total: Array) -> None:
        at = diagram.free
        first = 1 + max(max(each) for each in diagram.labels)
        weight = float(diagram.weight) * self.unit**-diagram.edges
        operands = [self._restricted(each.labels, at, each.name.label) for each in diagram.tensors]
        of_lines, loops = joined(
            diagram.lines, first, self.outputs, lambda label: self._targets(label, at)
        )
        operands += of_lines
        moment = first + free
        result = [moment, *at, *(first + k for k in range(free))]
        for begin in range(0, len(self._times), _AT_ONCE):
            steps = slice(begin, begin + _AT_ONCE)
            own = [
                (self._function(history)[steps], [moment, *labels])
                for history, labels in zip(diagram.histories, diagram.labels, strict=True)
            ]
            part = contracted([*operands, *own], result)
            total[steps] += weight * loops * part

    def _restricted(
        self, labels: Sequence[int], free: Sequence[int], name: str
    ) -> tuple[Array, list[int]]:
        """A tensor with labels of the training set alone, where they are summed over."""
        cut = tuple(slice(None if a in free else self.training) for a in labels)
        return self._tensors[name][cut], list(labels)

    def _targets(self, label: int, free: Sequence[int]) -> Array:
        return self._y if label in free else self._y[: self.training]

    def _function(self, history: History) -> Array:
        """(steps, labels …)."""
        if history not in self._functions:
            own = [
                self._theta if label in history.free else self._theta[: self.training]
                for label in range(history.labels)
            ]
            found = evolution.evolved(history, own, self._times, self._h)
            self._functions[history] = np.array(found)
        return self._functions[history]


def labelled(values: Array, into: Array) -> Array:
    """A tensor with labels for samples; `into` is (labels, samples)."""
    for _ in range(values.ndim):
        values = np.tensordot(values, into, axes=(0, 1))
    return values


def joined(
    lines: Sequence[Line], first: int, outputs: int, targets: Callable[[int], Array]
) -> tuple[list[tuple[Array, list[int]]], int]:
    """The arrays of lines, as operands of `contracted`, and the factor of those that are closed.

    Arguments:
        first: the label of the first free output.
        targets: (values of the label, outputs) of a label.
    """
    operands: list[tuple[Array, list[int]]] = []
    loops = 0
    for line in lines:
        free = [first + number for kind, number in line.ends if kind == "free"]
        own = [number for kind, number in line.ends if kind == "target"]
        of_targets = [(targets(k), [k, free[0] if free else first]) for k in own]
        operands += [(np.eye(outputs), [free[0], other]) for other in free[1:]]
        if free:
            operands += of_targets
        elif own:
            operands.append((contracted(of_targets, own), own))
        else:
            loops += 1
    return operands, outputs**loops


def contracted(operands: Sequence[tuple[Array, list[int]]], result: Sequence[int]) -> Array:
    """Arrays with a label for each axis, summed over all labels but those of the result."""
    names = sorted({k for _, labels in operands for k in labels})
    place = {name: k for k, name in enumerate(names)}
    given: list[Any] = []
    for array, labels in operands:
        given += [array, [place[k] for k in labels]]
    given.append([place[k] for k in result])
    axes = tuple(tuple(part) for part in (*given[1::2], given[-1]))
    path = _path(axes, tuple(array.shape for array, _ in operands))
    return np.asarray(np.einsum(*given, optimize=path))


@cache(entries=4096)
def _path(axes: tuple[tuple[int, ...], ...], shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    """In which order such arrays are contracted."""
    given: list[Any] = []
    for own, shape in zip(axes[:-1], shapes, strict=True):
        given += [np.broadcast_to(0.0, shape), list(own)]
    return list(np.einsum_path(*given, list(axes[-1]), optimize="greedy")[0])
