"""A network's predictions after descent, to order 1/n: the diagrams as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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

_HELD = 1 << 17
"""Numbers of a function of four labels, at all steps, that are held at a time, more or less."""


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

    @property
    def leading(self) -> Array:
        """The mean of z in the limit, (steps, samples, outputs); where it has hardly moved from 0,
        z − y has not its digits."""
        met = evolution.met(self._theta, self._times, self._h)
        return np.asarray(np.einsum("sa,ta,ai->tsi", self.basis.back, met, self._y))

    def averages(self, wanted: Mapping[str, tuple[Average, int]]) -> dict[str, Array]:
        """Averages at an order in 1/n: (steps, free samples …, free outputs …) each.

        One free label of each diagram has a block of values at a time, so that functions of four
        labels are never held whole.
        """
        labels, steps = len(self.basis.theta), len(self._times)
        found = {
            name: np.zeros((steps, *(labels,) * average.free, *(self.outputs,) * average.free))
            for name, (average, _) in wanted.items()
        }
        together = max(1, _HELD // (max(1, steps) * self.training**3))
        for begin in range(0, labels, together):
            block = slice(begin, min(begin + together, labels))
            functions: dict[_Part, Array] = {}
            for name, (average, order) in wanted.items():
                for each in average.orders[order]:
                    self._add(each, found[name], block, functions)
        for name, (average, _) in wanted.items():
            for axis in range(1, average.free + 1):
                moved = np.tensordot(found[name], self.basis.back, axes=(axis, 1))
                found[name] = np.moveaxis(moved, -1, axis)
        return found

    def _add(
        self, diagram: Diagram, total: Array, block: slice, functions: dict[_Part, Array]
    ) -> None:
        """Add a diagram with its first free label, or that of its longest history, in a block."""
        at = diagram.free
        longest = max(diagram.labels, key=len)
        cut = [slice(self.training)] * (1 + max(max(each) for each in diagram.labels))
        for label in at:
            cut[label] = slice(None)
        blocked = next(k for k, label in enumerate(at) if label in longest)
        cut[at[blocked]] = block
        weight = float(diagram.weight) * self.unit**-diagram.edges
        operands = [
            (self._tensors[each.name.label][tuple(cut[a] for a in each.labels)], list(each.labels))
            for each in diagram.tensors
        ]
        of_lines, loops = joined(
            diagram.lines, len(cut), self.outputs, lambda label: self._y[cut[label]]
        )
        operands += of_lines
        moment = len(cut) + len(at)
        result = [moment, *at, *range(len(cut), moment)]
        for begin in range(0, len(self._times), _AT_ONCE):
            steps = slice(begin, begin + _AT_ONCE)
            own = [
                (self._function(history, labels, cut, functions)[steps], [moment, *labels])
                for history, labels in zip(diagram.histories, diagram.labels, strict=True)
            ]
            part = contracted([*operands, *own], result)
            total[(steps, *(cut[label] for label in at))] += weight * loops * part

    def _function(
        self,
        history: History,
        labels: Sequence[int],
        cut: Sequence[slice],
        functions: dict[_Part, Array],
    ) -> Array:
        """(steps, labels …), of these values of each label."""
        key = history, tuple(cut[label].start for label in labels)
        if key not in functions:
            own = [self._theta[cut[label]] for label in labels]
            functions[key] = np.array(evolution.evolved(history, own, self._times, self._h))
        return functions[key]


_Part: TypeAlias = "tuple[History, tuple[int | None, ...]]"
"""A history, and where the values of each of its labels begin, in a block."""


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
