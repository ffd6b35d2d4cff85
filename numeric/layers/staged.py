"""Layers of several stages, run stage by stage: norms, residual blocks, gates, layers of one's own.

Behind each stage stand tensors of its variables, such as K_y, and the recursions through the next
stage are polynomials in them, in its brackets, each at the kernel of its own variable, and in
functions of the collective variables' limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np

from derive.arithmetic.parameters import Parameter, Value
from derive.engine.scheme import Scheme
from derive.engine.stages import DENSE, Stage
from derive.engine.step import Step, at_inputs, hidden
from derive.engine.tensors import Name, named
from derive.errors import InputError
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..brackets.shapes import check_all_finite, is_merged
from . import stages
from .merged import Merged
from .resting import Degenerate, UndefinedError
from .start import Start
from .tapped import Tapped
from .vectors import Both, begun, put

Passage: TypeAlias = stages.Stage | Merged | Tapped


class StagedLayers:
    """The recursions of these tensors through layers of several stages; `run.Layers` has another's.

    Arguments:
        names: the tensors behind each stage of each scheme's layer, which need no others.
        schemes: under what the recursions of each distinct layer are derived.
        first: the weights of layer 1.
        m: inputs.
        change: puts another recursion in the place of each.
        read: the tensors that a convolution's readout is asked for; they come last.

    Attributes:
        names: the tensors behind a layer, and then those of the readout.
        parameters: the names of the hyperparameters that occur.
        noises: how many averages all stages have.
        orders: of the inputs' means that layer 1 depends on (`start.input_means`).

    Raises:
        InputError: where a bracket is infinite at every K, as for σ''σ'' with kinks.
    """

    def __init__(
        self,
        names: tuple[tuple[tuple[Name, ...], ...], ...],
        schemes: tuple[Scheme, ...],
        first: WeightEnsemble,
        m: int,
        change: Callable[[Step], Step] | None = None,
        read: tuple[Name, ...] = (),
    ) -> None:
        readouts = [each for scheme in schemes if (each := scheme.readout) is not None]
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
        reading = [[[hidden(name, readout, 0) for name in read]] for readout in readouts]
        for readout in readouts[:1]:
            starts += [at_inputs(name, readout, first, readout=True) for name in read]
        if change is not None:
            steps, reading = (
                [[[change(each) for each in part] for part in layer] for layer in of]
                for of in (steps, reading)
            )
            starts = [change(each) for each in starts]
        for scheme, of_layer in zip((*schemes, *readouts), (*steps, *reading), strict=True):
            for stage, of_stage in zip(scheme.stages, of_layer, strict=False):
                named_steps = {each.target.identifier: each for each in of_stage}
                check_all_finite(named_steps, partial(stage.sigma_at, default=scheme.sigma))
        every = [each for of_stage in chain(*steps, *reading) for each in of_stage]
        atoms = [each.atoms(Parameter) for each in (*every, *starts)]
        names_of = {atom.name for atom in set().union(*atoms)}
        values = set().union(*(each.atoms(Value) for each in every))
        values |= {s.keep for scheme in schemes for s in scheme.stages if s.keep is not None}
        names_of |= {symbol.name for value in values for symbol in value.expr.free_symbols}
        self.parameters = sorted({"C_W", "C_b", *names_of})
        self._layers = [
            [
                _passage(before, of_stage, self.parameters, m, stage, scheme)
                for before, of_stage, stage in zip(
                    (behind[-1], *behind[:-1]), of_layer, scheme.stages, strict=True
                )
            ]
            for scheme, behind, of_layer in zip(schemes, names, steps, strict=True)
        ]
        kernel = (named("K"),)
        self._start = Start(starts[:own], self.parameters, m)
        self.orders = self._start.orders
        self._read_at_start: Passage | None = None
        self._readouts: list[Passage] = []
        for readout, (of_stage,) in zip(readouts, reading, strict=True):
            (stage,) = readout.stages
            given = self.parameters, m, stage, readout
            self._readouts.append(_passage(names[0][-1], of_stage, *given))
            self._read_at_start = self._read_at_start or _passage(kernel, starts[own:], *given)
        self.noises = sum(stage.noises for stage in self._all)
        self._order: Sequence[int] | None = None

    @property
    def _all(self) -> list[Passage]:
        stages = [stage for layer in self._layers for stage in layer]
        return [*stages, *self._readouts]

    def along(self, order: Sequence[int]) -> StagedLayers:
        """The same with these of the distinct layers as layers 2, 3, …"""
        if len(self._layers) == 1:
            return self
        other = copy(self)
        other._order = order
        return other

    def first(self, kernel: Array, parameters: Array) -> Both:
        """The tensors at layer 1, and their sizes.

        Arguments:
            kernel: of the inputs, (m, m), or their `input_means` of `orders`.
            parameters: at layer 1, (copies, parameters).
        """
        at_first = self._start(kernel, parameters)
        if self._read_at_start is None:
            return at_first
        copies = len(parameters)
        shape = kernel.shape if len(kernel) > 1 else ()
        inputs = np.broadcast_to(kernel.reshape(shape), (copies, *shape))
        start = [inputs], [np.abs(inputs[0])]
        read = self._read_at_start.passed(start, parameters, np.zeros((copies, 0)), [])
        return _joined([at_first, read])

    def degenerate(
        self, tensors: Sequence[Array], parameters: Array, layer: int
    ) -> Degenerate | None:
        """See `run.Layers.degenerate`."""
        below = tensors[: len(self._layers[0][-1].names)]
        both = [each[None] for each in below], [np.abs(each) for each in below]
        number = self._order[layer - 2] if self._order else 0
        if self._readouts and (found := self._readouts[number].degenerate(both[0])):
            return found
        for stage in self._layers[number]:
            if found := stage.degenerate(both[0]):
                return found
            none = np.zeros((1, stage.noises))
            both = stage.passed(both, parameters, none, stage.averages())
        return None

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
        readings = [(stage, next(parts), stage.averages()) for stage in self._readouts]
        kept = len(self._layers[0][-1].names)
        for layer in range(1, len(parameters)):
            tensors = [each[layer - 1] for each in found[:kept]]
            number = self._order[layer - 1] if self._order else 0
            below = both = tensors, [np.abs(each[0]) for each in tensors]
            try:
                for stage, own, average in runs[number]:
                    both = stage.passed(both, parameters[layer], own, average)
            except UndefinedError as error:
                raise error.at(layer) from None
            if readings:
                stage, own, average = readings[number]
                both = _joined([both, stage.passed(below, parameters[layer], own, average)])
            put((found, sizes), layer, both, rounding)
            advance(1)
        return found, sizes


def _joined(parts: Sequence[Both]) -> Both:
    """Tensors one after another."""
    tensors = [each for values, _ in parts for each in values]
    return tensors, [each for _, sizes in parts for each in sizes]


def _passage(
    below: Sequence[Name],
    steps: Sequence[Step],
    parameters: Sequence[str],
    m: int,
    stage: Stage,
    scheme: Scheme,
) -> Passage:
    """The recursions through one stage; of a convolution, summed over its taps."""
    sigma = partial(stage.sigma_at, default=scheme.sigma)
    bent = [each for each in stage.sigmas(scheme.sigma) if not each.is_smooth]
    if stage.taps is not None:
        if m > 1 and stage.has_centres and bent and is_merged(stage, steps):
            wanted = "norms without centres, such as rms, before taps, or a smooth activation: "
            raise InputError("layer", str(scheme.layer), f"{wanted}{bent[0]} has kinks")
        own = stage != replace(DENSE, taps=stage.taps)
        return Tapped(below, steps, sigma, parameters, m, stage.taps, apart=own)
    if m > 1 and bent and is_merged(stage, steps):
        return Merged(below, steps, sigma, parameters, m)
    return stages.Stage(below, steps, sigma, parameters, m, keep=stage.keep)
