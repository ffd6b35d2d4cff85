"""Layers of several stages, run stage by stage: norms, residual blocks, gates, layers of one's own.

Behind each stage stand tensors of its variables, such as K_y, and the recursions through the next
stage are polynomials in them, in its brackets, each at the kernel of its own variable, and in
functions of the collective variables' limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
import sympy

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Atom
from derive.engine.scheme import Scheme
from derive.engine.step import Step, at_inputs, hidden
from derive.engine.taps import Taps
from derive.engine.tensors import Name, Tensor, identify, named
from derive.engine.through import Response
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..brackets.shapes import check_all_finite
from . import averages as of
from .program import Tables
from .tapped import Reader, axes_of
from .vectors import Both, begun, disturbed, put, relabelled, side_by_side, stacked, with_sizes

Average: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Of the copies of a kernel: values, (copies, averages), and sizes, (averages,)."""


class StagedLayers:
    """The recursions of these tensors through the stages of a layer; `run.Layers` has another's.

    Arguments:
        names: the tensors behind each stage, which need no others.
        activation: σ.
        scheme: under what the recursions are derived.
        first: the weights of layer 1.
        m: inputs.
        change: puts another recursion in the place of each.
        read: the tensors that a convolution's readout is asked for; they come last.

    Attributes:
        names: the tensors of the layers, and then those of the readout.
        parameters: the names of the hyperparameters that occur.
        noises: how many averages all stages have.

    Raises:
        InputError: where a bracket is infinite at every K, as for σ''σ'' with kinks.
    """

    def __init__(
        self,
        names: tuple[tuple[Name, ...], ...],
        activation: Activation,
        scheme: Scheme,
        first: WeightEnsemble,
        m: int,
        change: Callable[[Step], Step] | None = None,
        read: tuple[Name, ...] = (),
    ) -> None:
        readout = scheme.readout
        self.names = (*names[-1], *read)
        steps = [
            [hidden(name, scheme, stage) for name in behind] for stage, behind in enumerate(names)
        ]
        starts = [at_inputs(name, scheme, first) for name in names[-1]]
        if readout is not None:
            steps.append([hidden(name, readout, 0) for name in read])
            starts += [at_inputs(name, readout, first, readout=True) for name in read]
        if change is not None:
            steps = [[change(each) for each in part] for part in steps]
            starts = [change(each) for each in starts]
        for of_stage in steps:
            by_name = {each.target.identifier: each for each in of_stage}
            check_all_finite(by_name, activation)
        if m > 1 and not activation.is_smooth:
            _check_kinks(steps[: len(names)], scheme)
        atoms = [each.atoms(Parameter) for each in (*chain(*steps), *starts)]
        self.parameters = sorted({"C_W", "C_b", *(atom.name for atom in set().union(*atoms))})
        taps = [stage.taps for stage in scheme.stages]
        below = [names[-1], *names[:-1]]
        if readout is not None:
            taps.append(readout.stages[0].taps)
            below.append(names[-1])
        self._stages = [
            _stage(before, of_stage, activation, self.parameters, m, each)
            for before, of_stage, each in zip(below, steps, taps, strict=True)
        ]
        self._readout = self._stages.pop() if readout is not None else None
        own, kernel = len(names[-1]), (named("K"),)
        self._first = [_stage(kernel, starts[:own], activation, self.parameters, m, None)]
        if readout is not None:
            of_readout = kernel, starts[own:], activation, self.parameters, m, taps[-1]
            self._first.append(_stage(*of_readout))
        self.noises = sum(stage.noises for stage in self._all)

    @property
    def _all(self) -> list[_Stage | _Tapped]:
        return [*self._stages, *([] if self._readout is None else [self._readout])]

    def first(self, kernel: Array, parameters: Array) -> Both:
        """The tensors at layer 1, and their sizes.

        Arguments:
            kernel: of the inputs, (m, m).
            parameters: at layer 1, (copies, parameters).
        """
        copies = len(parameters)
        shape = kernel.shape if len(kernel) > 1 else ()
        inputs = np.broadcast_to(kernel.reshape(shape), (copies, *shape))
        start = [inputs], [np.abs(inputs[0])]
        parts = [each.passed(start, parameters, np.zeros((copies, 0)), []) for each in self._first]
        return _joined(parts)

    def descend(
        self,
        start: Both,
        parameters: Array,
        noise: Array,
        rounding: Array,
        advance: Callable[[float], None],
    ) -> Both:
        """The tensors at every layer, (depth, copies, m, m, …) each, and the sizes of the first
        copy's, (depth, m, m, …) each; arguments as of `run.Layers.descend`."""
        found, sizes = begun(start, len(parameters))
        averages_of = [stage.averages() for stage in self._all]
        ends = np.cumsum([stage.noises for stage in self._all])[:-1]
        parts = np.split(noise, ends, axis=1)
        own = len(self._stages[-1].names)
        for layer in range(1, len(parameters)):
            tensors = [each[layer - 1] for each in found[:own]]
            below = both = tensors, [np.abs(each[0]) for each in tensors]
            made = []
            for stage, part, average in zip(self._all, parts, averages_of, strict=True):
                before = below if stage is self._readout else both
                both = stage.passed(before, parameters[layer], part, average)
                made.append(both)
            put((found, sizes), layer, _joined(made[len(self._stages) - 1 :]), rounding)
            advance(1)
        return found, sizes


def _joined(parts: Sequence[Both]) -> Both:
    """Tensors one after another."""
    tensors = [each for values, _ in parts for each in values]
    return tensors, [each for _, sizes in parts for each in sizes]


def _check_kinks(steps: Sequence[Sequence[Step]], scheme: Scheme) -> None:
    """Refuse kinked σ of several inputs where a mean is taken off before σ: derivatives outside are
    each of one label there, and labels that meet at one input share theirs."""
    for stage, of_stage in zip(scheme.stages, steps, strict=True):
        if stage.means and any(each.atoms(Bracket) for each in of_stage):
            wanted = "one input, or σ without kinks, where a mean is taken off before σ"
            raise InputError("layer", str(scheme.layer), wanted)


def _stage(
    below: Sequence[Name],
    steps: Sequence[Step],
    activation: Activation,
    parameters: Sequence[str],
    m: int,
    taps: Taps | None,
) -> _Stage | _Tapped:
    """The recursions through one stage, as `_Stage`; of a convolution, summed over its taps."""
    if taps is None:
        return _Stage(below, steps, activation, parameters, m)
    return _Tapped(below, steps, activation, parameters, m, taps)


class _Stage:
    """The recursions through one stage.

    Arguments:
        below: the tensors before it.
        steps: of each tensor behind it.
        activation: σ.
        parameters: the names of the hyperparameters.
        m: inputs.
        apart: as `averages.of_several` has it.
    """

    def __init__(
        self,
        below: Sequence[Name],
        steps: Sequence[Step],
        activation: Activation,
        parameters: Sequence[str],
        m: int,
        apart: bool = True,
    ) -> None:
        self._parameters, self._m, self._below = list(parameters), m, tuple(below)
        self.names = tuple(step.target for step in steps)
        brackets: dict[str, set[Bracket]] = {}
        for bracket in set().union(*(each.atoms(Bracket) for each in steps)):
            brackets.setdefault(bracket.kernel, set()).add(relabelled(bracket)[0])
        labels = [name.label for name in below]
        self._kernels = [labels.index(kernel) for kernel in sorted(brackets)]
        self._groups = [
            of.of_one(activation, sorted(brackets[kernel]))
            if m == 1
            else of.of_several(activation, sorted(brackets[kernel]), m, apart=apart)
            for kernel in sorted(brackets)
        ]
        self.noises = sum(group.count for group in self._groups)
        self._lay_out(sorted(brackets), {k: sorted(each) for k, each in brackets.items()}, steps)
        self._tables = Tables(steps, m, self._find)

    def _lay_out(
        self, kernels: Sequence[str], brackets: dict[str, list[Bracket]], steps: Sequence[Step]
    ) -> None:
        """Where everything begins in the vector: 1, hyperparameters, their inverses, tensors,
        numbers, functions of collective variables, brackets."""
        m, end = self._m, 1 + 2 * len(self._parameters)
        self._begins: dict[object, int] = {}
        for name in self._below:
            self._begins[name] = end
            end += m ** (0 if m == 1 else len(name.subscripts))
        numbers = sorted(set().union(*(each.atoms(Value) for each in steps)), key=str)
        self._numbers = np.array([float(number.expr) for number in numbers])
        for number in numbers:
            self._begins[number], self._begins[number, True] = end, end + len(numbers)
            end += 1
        end += len(numbers)
        found = set().union(*(each.atoms(Response) for each in steps))
        self._responses = sorted({_canonical(each)[0] for each in found}, key=str)
        self._compiled = [_compiled(each) for each in self._responses]
        for response in self._responses:
            self._begins[response] = end
            end += m ** (0 if m == 1 else len(_samples(response)))
        self._sums = []
        for kernel, group in zip(kernels, self._groups, strict=True):
            places = [group.places[bracket] for bracket in brackets[kernel]]
            for bracket, each in zip(brackets[kernel], places, strict=True):
                self._begins[kernel, bracket] = end
                end += each[0].size
            self._sums.append(side_by_side(places, group.count))

    def _find(self, atom: Atom, inverse: bool) -> tuple[int, Sequence[int]]:
        if isinstance(atom, Parameter):
            place = self._parameters.index(atom.name)
            return 1 + place + inverse * len(self._parameters), ()
        if isinstance(atom, Value):
            return self._begins[(atom, True) if inverse else atom], ()
        if isinstance(atom, Bracket):
            bracket, labels = relabelled(atom)
            return self._begins[atom.kernel, bracket], labels
        if isinstance(atom, Response):
            response, labels = _canonical(atom)
            return self._begins[response], labels
        assert isinstance(atom, Tensor)
        name, labels = identify(atom)
        return self._begins[name], labels

    def averages(self) -> list[Average]:
        """Of the brackets at each kernel, layer after layer."""
        return [self._average(group) for group in self._groups]

    def _average(self, group: of.Averages) -> Average:
        if self._m > 1:
            return group.copies()

        def average(K: Array) -> tuple[Array, Array]:
            values, sizes = group(K)
            return values.T, sizes[:, 0]

        return average

    def passed(
        self,
        before: Both,
        parameters: Array,
        noise: Array,
        average: Sequence[Average],
    ) -> Both:
        """The tensors behind the stage, and their sizes.

        Arguments:
            before: those before it: what cancelled in one stage is no size in the next.
            parameters: (copies, parameters).
            noise: what is added to each average, in units of its size: (copies, averages).
            average: as `averages` makes them.
        """
        copies, (tensors, sizes_before) = len(parameters), before
        parts = [
            np.concatenate([each.reshape(copies, -1), size.reshape(1, -1)])
            for each, size in zip(tensors, sizes_before, strict=True)
        ]
        numbers = np.concatenate([self._numbers, 1.0 / self._numbers])
        parts.append(np.broadcast_to(numbers, (copies + 1, len(numbers))))
        parts += [with_sizes(self._response(k, tensors)) for k in range(len(self._responses))]
        begin = 0
        for kernel, group, sums, own in zip(
            self._kernels, self._groups, self._sums, average, strict=True
        ):
            values, sizes = own(tensors[kernel])
            parts.append(disturbed(values, sizes, noise[:, begin : begin + group.count], sums))
            begin += group.count
        return self._tables(stacked(with_sizes(parameters), *parts))

    def _response(self, number: int, tensors: Sequence[Array]) -> Array:
        """A function of collective variables at its samples, (copies, entries)."""
        response, samples = self._responses[number], _samples(self._responses[number])
        copies = len(tensors[0])
        arguments = []
        for _, limit in response.limits:
            name, labels = identify(limit)
            values = tensors[self._below.index(name)]
            if self._m > 1:  # the axes of the samples, in the order of the function's
                axes = [1 + samples.index(label) for label in labels]
                letters = "".join("zabcdefgh"[axis] for axis in (0, *axes))
                kept = "".join("zabcdefgh"[axis] for axis in (0, *sorted(set(axes))))
                values = np.einsum(f"{letters}->{kept}", values)
                lacking = [k for k in range(len(samples)) if 1 + k not in axes]
                values = np.expand_dims(values, [1 + k for k in lacking])
            arguments.append(values)
        shape = (copies, *((self._m,) * len(samples) if self._m > 1 else ()))
        value = np.broadcast_to(self._compiled[number](*arguments), shape)
        return np.asarray(value, dtype=float).reshape(copies, -1)


class _Tapped:
    """The recursions through a convolution: of the dense layer, and then sums over taps.

    Arguments:
        taps: the positions that its matrices read.

    The others are those of `_Stage`.
    """

    def __init__(
        self,
        below: Sequence[Name],
        steps: Sequence[Step],
        activation: Activation,
        parameters: Sequence[str],
        m: int,
        taps: Taps,
    ) -> None:
        self.names = tuple(step.target for step in steps)
        parts = [(k, part) for k, step in enumerate(steps) for part in step.parts]
        self._owners = [k for k, _ in parts]
        self._blocks = [
            axes_of(part.ties or (), part.target.pairing, part.target.subscripts)
            for _, part in parts
        ]
        self._reader, self._m = Reader(taps, m // taps.positions), m
        dense = below, [part for _, part in parts], activation, parameters, m
        self._dense = _Stage(*dense, apart=False)
        self.noises = self._dense.noises

    def averages(self) -> list[Average]:
        """Of the brackets at each kernel, layer after layer."""
        return self._dense.averages()

    def passed(
        self, before: Both, parameters: Array, noise: Array, average: Sequence[Average]
    ) -> Both:
        """The tensors behind the stage, and their sizes; arguments as of `_Stage.passed`."""
        parts = self._dense.passed(before, parameters, noise, average)
        found: list[Array] = [np.zeros(())] * len(self.names)
        sizes = list(found)
        for k, blocks, values, size in zip(self._owners, self._blocks, *parts, strict=True):
            found[k] = found[k] + self._summed(values, blocks, 1)
            sizes[k] = sizes[k] + self._summed(size, blocks, 0)
        return found, sizes

    def _summed(self, values: Array, blocks: Sequence[Sequence[int]], first: int) -> Array:
        """Over the taps, its samples' axes from `first` on; of a constant at all samples behind."""
        if not blocks:
            shape = (self._reader.samples[1],) * (values.ndim - first)
            corner = values.reshape(*values.shape[:first], -1)[..., :1]
            return np.broadcast_to(
                corner.reshape(*values.shape[:first], *(1,) * len(shape)),
                (*values.shape[:first], *shape),
            )
        moved = [[axis + first for axis in block] for block in blocks]
        return self._reader.summed(values, moved)


def _samples(response: Response) -> tuple[int, ...]:
    """The samples that it depends on, ascending."""
    return tuple(sorted({sample for _, limit in response.limits for sample in limit.samples}))


def _canonical(response: Response) -> tuple[Response, tuple[int, ...]]:
    """The same with its samples called 0, 1, … in their order, and what they were."""
    labels = _samples(response)
    to = {label: place for place, label in enumerate(labels)}
    limits = tuple(
        (symbol, limit._replace(samples=tuple(to[sample] for sample in limit.samples)))
        for symbol, limit in response.limits
    )
    return Response(response.value, limits), labels


def _compiled(response: Response) -> Callable[..., Array]:
    symbols = [symbol for symbol, _ in response.limits]
    compiled: Callable[..., Array] = sympy.lambdify(symbols, response.value, "numpy")
    return compiled
