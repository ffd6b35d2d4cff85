"""Layers of several stages, run stage by stage: norms, residual blocks, gates, layers of one's own.

Behind each stage stand tensors of its variables, such as K_y, and the recursions through the next
stage are polynomials in them, in its brackets, each at the kernel of its own variable, and in
functions of the collective variables' limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
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
from derive.gaussian.brackets import Bracket
from derive.groups.pairings import as_pairing
from derive.symbols import PARAMETERS
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..brackets.shapes import check_all_finite, check_kinks
from . import averages as of
from .program import Tables
from .tapped import Reader, axes_of
from .vectors import Both, begun, disturbed, put, relabelled, side_by_side, stacked, with_sizes

Average: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Of the copies of a kernel: values, (copies, averages), and sizes, (averages,)."""


class StagedLayers:
    """The recursions of these tensors through layers of several stages; `run.Layers` has another's.

    Arguments:
        names: the tensors behind each stage of each scheme's layer, which need no others.
        activation: σ.
        schemes: under what the recursions of each distinct layer are derived.
        first: the weights of layer 1.
        m: inputs.
        change: puts another recursion in the place of each.
        read: the tensors that a convolution's readout is asked for; they come last.

    Attributes:
        names: the tensors behind a layer, and then those of the readout.
        parameters: the names of the hyperparameters that occur.
        noises: how many averages all stages have.

    Raises:
        InputError: where a bracket is infinite at every K, as for σ''σ'' with kinks.
    """

    def __init__(
        self,
        names: tuple[tuple[tuple[Name, ...], ...], ...],
        activation: Activation,
        schemes: tuple[Scheme, ...],
        first: WeightEnsemble,
        m: int,
        change: Callable[[Step], Step] | None = None,
        read: tuple[Name, ...] = (),
    ) -> None:
        readout = schemes[0].readout
        own = len(names[0][-1])
        self.names = (*names[0][-1], *read)
        for scheme in schemes:
            scheme.check_numbers()
        steps = [
            [
                [hidden(name, scheme, stage) for name in behind]
                for stage, behind in enumerate(of_layer)
            ]
            for scheme, of_layer in zip(schemes, names, strict=True)
        ]
        starts = [at_inputs(name, schemes[0], first) for name in names[0][-1]]
        reading: list[Step] = []
        if readout is not None:
            reading = [hidden(name, readout, 0) for name in read]
            starts += [at_inputs(name, readout, first, readout=True) for name in read]
        if change is not None:
            steps = [[[change(each) for each in part] for part in layer] for layer in steps]
            starts = [change(each) for each in starts]
            reading = [change(each) for each in reading]
        for of_stage in (*chain(*steps), reading):
            check_all_finite({each.target.identifier: each for each in of_stage}, activation)
        if m > 1 and not activation.is_smooth:
            for scheme, of_layer in zip(schemes, steps, strict=True):
                check_kinks(of_layer, scheme)
        every = [each for of_stage in (*chain(*steps), reading) for each in of_stage]
        atoms = [each.atoms(Parameter) for each in (*every, *starts)]
        names_of = {atom.name for atom in set().union(*atoms)}
        values = set().union(*(each.atoms(Value) for each in every))
        names_of |= {symbol.name for value in values for symbol in value.expr.free_symbols}
        self.parameters = sorted({"C_W", "C_b", *names_of})
        given = activation, self.parameters, m
        self._layers = [
            [
                _stage(before, of_stage, *given, stage.taps)
                for before, of_stage, stage in zip(
                    (behind[-1], *behind[:-1]), of_layer, scheme.stages, strict=True
                )
            ]
            for scheme, behind, of_layer in zip(schemes, names, steps, strict=True)
        ]
        kernel = (named("K"),)
        self._first = [_stage(kernel, starts[:own], *given, None)]
        self._readout: _Stage | _Tapped | None = None
        if readout is not None:
            taps = readout.stages[0].taps
            self._readout = _stage(names[0][-1], reading, *given, taps)
            self._first.append(_stage(kernel, starts[own:], *given, taps))
        self.noises = sum(stage.noises for stage in self._all)
        self._order: Sequence[int] | None = None

    @property
    def _all(self) -> list[_Stage | _Tapped]:
        stages = [stage for layer in self._layers for stage in layer]
        return stages if self._readout is None else [*stages, self._readout]

    def along(self, order: Sequence[int]) -> StagedLayers:
        """The same with these of the distinct layers as layers 2, 3, …"""
        if len(self._layers) == 1:
            return self
        other = copy(self)
        other._order = order
        return other

    orders = (2,)
    """Of the inputs' means that layer 1 depends on: their kernel alone."""

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
        ends = np.cumsum([stage.noises for stage in self._all])[:-1]
        parts = iter(np.split(noise, ends, axis=1))
        runs = [[(stage, next(parts), stage.averages()) for stage in of] for of in self._layers]
        readout, kept = self._readout, len(self._layers[0][-1].names)
        last = None if readout is None else (readout, next(parts), readout.averages())
        for layer in range(1, len(parameters)):
            tensors = [each[layer - 1] for each in found[:kept]]
            below = both = tensors, [np.abs(each[0]) for each in tensors]
            for stage, own, average in runs[self._order[layer - 1] if self._order else 0]:
                both = stage.passed(both, parameters[layer], own, average)
            if last is not None:
                stage, own, average = last
                both = _joined([both, stage.passed(below, parameters[layer], own, average)])
            put((found, sizes), layer, both, rounding)
            advance(1)
        return found, sizes


def _joined(parts: Sequence[Both]) -> Both:
    """Tensors one after another."""
    tensors = [each for values, _ in parts for each in values]
    return tensors, [each for _, sizes in parts for each in sizes]


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
        known = [PARAMETERS.get(name, sympy.Symbol(name)) for name in self._parameters]
        self._values = sympy.lambdify([known], [number.expr for number in numbers], "math")
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
        values = np.array(self._values(parameters[0]), float)
        numbers = np.concatenate([values, 1.0 / values])
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
            axes_of(part.ties or (), as_pairing(part.target.pairing), part.target.subscripts)
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
