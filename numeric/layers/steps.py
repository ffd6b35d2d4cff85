"""The steps of a network's tensors through its layers, their symbols, and where they start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from derive.arithmetic.parameters import Parameter, Value
from derive.engine.scheme import Scheme
from derive.engine.stages import Stage
from derive.engine.step import Step, through
from derive.engine.tensors import Name, Tensor, identify, named
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..brackets.shapes import check_all_finite
from ..checks import Inputs


class Way(NamedTuple):
    """The stages of a layer, or of a readout, and what leads through them.

    Attributes:
        scheme: under what the steps are derived.
        below: the tensors in front of it.
        steps: those through each of its stages.
        samples: in front of it.
    """

    scheme: Scheme
    below: Sequence[Name]
    steps: Sequence[Sequence[Step]]
    samples: int

    def stages(self) -> Iterator[tuple[Stage, Sequence[Name], Sequence[Step], int]]:
        """Each stage, the tensors before it, the steps through it, and the samples before it."""
        below, m = self.below, self.samples
        for stage, steps in zip(self.scheme.stages, self.steps, strict=True):
            yield stage, below, steps, m
            below, m = [each.target for each in steps], stage.taps.behind(m)


class Ways(NamedTuple):
    """Those of layer 1, of each distinct layer, and of the readout of each.

    Layer 1 has one to the tensors of the stream, and one to those that are read out, if any.
    """

    starts: list[Way]
    layers: list[Way]
    readouts: list[Way]

    @property
    def parameters(self) -> list[str]:
        """The names of the hyperparameters that occur."""
        every = [*self.starts, *self.layers, *self.readouts]
        masks = (p for way in every for stage in way.scheme.stages for p in stage.masks)
        return parameters_of((step for way in every for step in chain(*way.steps)), masks)


def ways(
    names: Sequence[Sequence[Sequence[Name]]],
    schemes: Sequence[Scheme],
    first: WeightEnsemble,
    samples: tuple[Sequence[int], int],
    read: Sequence[Sequence[Sequence[Name]]] = (),
    more: Sequence[Name] = (),
) -> Ways:
    """The ways through the layers of a network.

    Arguments:
        names: the tensors behind each stage of each distinct layer, which need no others.
        schemes: under what the recursions of each distinct layer are derived.
        first: the weights of layer 1.
        samples: in front of each distinct layer, and behind layer 1.
        read: the tensors behind each stage of the readout of each layer.
        more: tensors that only layer 1 has.
    """
    (ahead, m), stream = samples, names[0][-1]
    at_first = [(schemes[0].first(first), ((*stream, *more),))]
    at_first += [
        (schemes[0].first(first, each.stages[-1].taps), (tuple(read[0][-1]),))
        for each in schemes[0].readouts
    ]
    steps = [steps_of(*each) for each in at_first]
    means = means_of(chain(*chain(*steps)))
    starts = [Way(of, means, made, m) for (of, _), made in zip(at_first, steps, strict=True)]

    def passed(schemes: Iterable[Scheme], names: Sequence[Sequence[Sequence[Name]]]) -> list[Way]:
        given = zip(schemes, names, ahead[: len(names)], strict=True)
        return [Way(of, stream, steps_of(of, each), count) for of, each, count in given]

    readouts = (each for scheme in schemes for each in scheme.readouts)
    return Ways(starts, passed(schemes, names), passed(readouts, read))


def steps_of(scheme: Scheme, names: Sequence[Sequence[Name]]) -> list[list[Step]]:
    """The steps through each stage of the scheme's layer.

    Arguments:
        names: the tensors behind each stage.

    Raises InputError where a bracket is infinite at every K, as for σ''σ'' with kinks.
    """
    found = []
    for stage, behind in zip(scheme.stages, names, strict=True):
        steps = [through(name, scheme, stage) for name in behind]
        named = {each.target.identifier: each for each in steps}
        check_all_finite(named, partial(stage.sigma_at, default=scheme.sigma))
        found.append(steps)
    return found


def parameters_of(steps: Iterable[Step], more: Iterable[Value] = ()) -> list[str]:
    """The names of the hyperparameters in steps and in more values, and always C_W and C_b."""
    every = list(steps)
    values = set(more).union(*(each.atoms(Value) for each in every))
    found = {symbol.name for value in values for symbol in value.expr.free_symbols}
    found |= {atom.name for each in every for atom in each.atoms(Parameter)}
    return sorted({"C_W", "C_b", *found})


def input_means(X: Array, orders: Sequence[int], scale: float = 1.0) -> Array:
    """The means (1/n_0) Σ_k Π_a x_ak of inputs (m, n_0): the kernel XXᵀ/n_0, and higher orders.

    Arguments:
        orders: the number of factors of each mean; 2 is the kernel.
        scale: divides the kernel.
    """
    kernel = X @ X.T / X.shape[1]
    if scale != 1.0:
        kernel = kernel / scale
    if tuple(orders) == (2,):
        return np.asarray(kernel)
    parts = [kernel.reshape(-1)]
    for order in orders[1:]:
        operands: list[object] = []
        for axis in range(order):
            operands += [X, [axis, order]]
        mean = np.einsum(*operands, list(range(order))) / X.shape[1]  # type: ignore[call-overload]
        parts.append(mean.reshape(-1) / scale ** (order / 2))
    return np.concatenate(parts)


def means_at(data: Inputs, orders: Sequence[int], scale: float = 1.0) -> Array:
    """`input_means` of the inputs; of exchangeable ones q and p themselves, without rounding."""
    if data.exchangeable is None:
        return input_means(data.X, orders, scale)
    q, p = (float(each) / scale for each in data.exchangeable.numbers)
    return np.where(np.eye(len(data.X), dtype=bool), q, p)


def means_of(steps: Iterable[Step]) -> list[Name]:
    """The means over the inputs' entries in the equations of layer 1, and always the kernel."""
    found = {identify(atom)[0] for each in steps for atom in each.atoms(Tensor)}
    return sorted({named("K"), *found}, key=lambda name: len(name.subscripts))
