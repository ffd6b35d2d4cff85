"""Layers of several stages, run stage by stage: norms, residual blocks, gates, layers of one's own.

Behind each stage stand tensors of its variables, such as K_y, and the recursions through the next
stage are polynomials in them, in its brackets, each at the kernel of its own variable, and in
functions of the collective variables' limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np

from derive.engine.scheme import Scheme
from derive.engine.stages import Stage
from derive.engine.step import Step
from derive.engine.tensors import Name
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..brackets.shapes import is_merged
from . import stages
from .alike_batches import AlikeBatch
from .averages import Averages
from .coincident_inputs import Merged
from .resting import Degenerate, UndefinedError
from .steps import ways
from .tapped import Tapped
from .vectors import Descent, Estimate, at_one_layer, begun, joined, put

Passage: TypeAlias = stages.Stage | Tapped | AlikeBatch


class StagedLayers:
    """The recursions of these tensors through layers of any stages.

    Arguments:
        names: the tensors behind each stage of each scheme's layer, which need no others.
        schemes: under what the recursions of each distinct layer are derived.
        first: the weights of layer 1.
        samples: in front of each scheme's layer, and behind layer 1.
        read: the tensors behind each stage of each scheme's readout; the last ones come last.
        exchangeable: True if permutations of the samples change no tensor.
        batch: how many exchangeable samples functions of all samples take.

    Attributes:
        names: the tensors behind a layer, and then those of the readout.
        parameters: the names of the hyperparameters that occur.
        noises: how many averages all stages have.
        orders: of the inputs' means that layer 1 depends on (`steps.input_means`).

    Raises:
        InputError: where a bracket is infinite at every K, as for σ''σ'' with kinks.
    """

    def __init__(
        self,
        names: tuple[tuple[tuple[Name, ...], ...], ...],
        schemes: tuple[Scheme, ...],
        first: WeightEnsemble,
        samples: tuple[tuple[int, ...], int],
        read: tuple[tuple[tuple[Name, ...], ...], ...] = (),
        *,
        exchangeable: bool = False,
        batch: int = 0,
    ) -> None:
        for scheme in schemes:
            scheme.check_numbers()
        found = ways(names, schemes, first, samples, read)
        self.names = (*names[0][-1], *(read[0][-1] if read else ()))
        self.parameters = found.parameters
        passage = partial(_passage, exchangeable=exchangeable, batch=batch)
        starts, self._layers, self._readouts = (
            [[passage(*each, self.parameters, way.scheme) for each in way.stages()] for way in of]
            for of in found
        )
        self._starts, self._m = [*chain(*starts)], samples[1]
        self._means = found.starts[0].below
        self.orders = tuple(len(name.subscripts) for name in self._means)
        self.noises = sum(stage.noises for stage in self._all)
        self._order: Sequence[int] | None = None
        self._unseen = 0

    @property
    def averages(self) -> Averages | None:
        """Those at the kernel of a layer of one stage; None of any other."""
        passage, *others = self._all
        if others or not isinstance(passage, stages.Stage) or len(passage.groups) != 1:
            return None
        return passage.groups[0]

    @property
    def starts(self) -> Sequence[Passage]:
        """The passages from the inputs to layer 1."""
        return self._starts

    @property
    def chains(self) -> Sequence[Sequence[Passage]]:
        """The stages of each distinct layer, and of each readout."""
        return [*self._layers, *self._readouts]

    def at(self, layer: int, noise: Array) -> tuple[Passage, Array]:
        """The one stage between this layer, 1, 2, …, and the next, and its part of the noise."""
        (found,) = self._with_noise(noise)[0][self._order[layer - 1] if self._order else 0]
        return found

    def _with_noise(self, noise: Array) -> list[list[list[tuple[Passage, Array]]]]:
        """The stages of each distinct layer, and of each readout, with the noise, (copies,
        averages), of the averages of each."""
        parts = iter(np.split(noise, np.cumsum([each.noises for each in self._all])[:-1], axis=1))
        return [
            [[(stage, next(parts)) for stage in of] for of in each]
            for each in (self._layers, self._readouts)
        ]

    @property
    def _all(self) -> list[Passage]:
        return [*chain(*self._layers, *self._readouts)]

    def along(self, order: Sequence[int], unseen: int = 0) -> StagedLayers:
        """The same with these of the distinct layers as layers 2, 3, …, of which the tensors of so
        many first layers are left out: those of other samples than the last ones have."""
        if len(self._layers) == 1 and not unseen:
            return self
        other = copy(self)
        other._order, other._unseen = order, unseen
        return other

    def first(self, kernel: Array, parameters: Array) -> Estimate:
        """The tensors at layer 1, and their sizes.

        Arguments:
            kernel: of the inputs, (m, m), or their `input_means` of `orders`.
            parameters: at layer 1, (copies, parameters).
        """
        return at_layer_1(self._starts, self._means, self._m, kernel, parameters)

    def degenerate(
        self, tensors: Sequence[Array], parameters: Array, layer: int
    ) -> Degenerate | None:
        """The first sample whose z = 0 leaves a value undefined in a layer; None if there is none.

        Arguments:
            tensors: the tensors of the layer below, (m, m, …) each.
            parameters: (1, parameters).
            layer: 2, 3, …
        """
        number = self._order[layer - 2] if self._order else 0
        for passages in (*self._readouts[number : number + 1], self._layers[number]):
            within = self._within(passages, tensors, parameters)
            for stage, at in zip(passages, within, strict=False):
                if found := stage.degenerate(at[0]):
                    return found
        return None

    def within(
        self, tensors: Sequence[Array], parameters: Array, layer: int, *, read: bool = False
    ) -> Iterator[Estimate]:
        """The tensors before each stage of a layer, or of its readout, and behind the last;
        arguments as of `degenerate`."""
        number = self._order[layer - 2] if self._order else 0
        passages = self._readouts if read else self._layers
        return self._within(passages[number], tensors, parameters)

    def _within(
        self, passages: Sequence[Passage], tensors: Sequence[Array], parameters: Array
    ) -> Iterator[Estimate]:
        """The tensors before each of these stages, and behind the last."""
        below = tensors[: len(self._layers[0][-1].names)]
        at: Estimate = [each[None] for each in below], [np.abs(each) for each in below]
        yield at
        for stage in passages:
            at = stage.passed(at, parameters, np.zeros((1, stage.noises)), stage.averages())
            yield at

    def descend(self, start: Estimate, given: Descent) -> Estimate:
        """The tensors at every layer, (depth, copies, m, m, …) each, and the sizes of the first
        copy's, (depth, m, m, …) each."""
        parameters, noise, rounding, advance, unseen = given
        both = begun(start, 1 if self._unseen else len(parameters))
        runs, readings = (
            [[(stage, own, stage.averages()) for stage, own in of] for of in each]
            for each in self._with_noise(noise)
        )
        kept = len(self._layers[0][-1].names)
        for layer in range(1, len(parameters)):
            row = max(0, layer - self._unseen)
            tensors = [each[max(0, row - 1)] for each in both[0][:kept]]
            if layer <= self._unseen:
                unseen([each[0] for each in tensors])
            number = self._order[layer - 1] if self._order else 0
            ends: list[Estimate] = []
            try:
                for passages in (runs[number], *readings[number : number + 1]):
                    below = tensors, [np.abs(each[0]) for each in tensors]
                    for stage, own, average in passages:
                        below = stage.passed(below, parameters[layer], own, average)
                    ends.append(below)
            except UndefinedError as error:
                raise error.at(layer) from None
            above = joined(ends)
            if layer <= self._unseen:
                self._check_defined(above, tensors, parameters[layer], layer)
                rows = len(parameters) - layer if layer == self._unseen else 1
                both = begun(above, rows) if rows > 1 else at_one_layer(above)
            put(both, row, above, rounding)
            advance(1)
        return both

    def _check_defined(
        self, above: Estimate, below: Sequence[Array], parameters: Array, layer: int
    ) -> None:
        """Raise UndefinedError for a tensor that z = 0 leaves undefined, as no row has it."""
        bad = [k for k, each in enumerate(above[0]) if not np.isfinite(each[0]).all()]
        if bad:
            found = self.degenerate([each[0] for each in below], parameters[:1], layer + 1)
            if found is not None:
                raise UndefinedError(found).at(layer, self.names[bad[0]])


def at_layer_1(
    passages: Iterable[Passage], below: Sequence[Name], m: int, means: Array, parameters: Array
) -> Estimate:
    """The tensors behind these passages from the inputs, one after another, and their sizes.

    Arguments:
        below: the means in front of the passages.
        m: the number of inputs.
        means: their `steps.input_means`; those of higher orders may follow.
        parameters: at layer 1, (copies, parameters).
    """
    shapes = [(m,) * len(name.subscripts) if m > 1 else () for name in below]
    parts = np.split(means.ravel(), np.cumsum([math.prod(shape) for shape in shapes]))
    arrays = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=False)]
    copies = [np.broadcast_to(each, (len(parameters), *each.shape)) for each in arrays]
    before, none = (copies, [np.abs(each) for each in arrays]), np.zeros((len(parameters), 0))
    return joined([each.passed(before, parameters, none, []) for each in passages])


def _passage(
    stage: Stage,
    below: Sequence[Name],
    steps: Sequence[Step],
    m: int,
    parameters: Sequence[str],
    scheme: Scheme,
    *,
    exchangeable: bool,
    batch: int,
) -> Passage:
    """The recursions through one stage; of a convolution, summed over its taps."""
    sigma = partial(stage.sigma_at, default=scheme.sigma)
    bent = not all(each.is_smooth for each in stage.sigmas(scheme.sigma))
    given = below, [part for step in steps for part in step.parts], sigma, parameters, m
    apart = not stage.alone.has_dense_equation
    if stage.batch is not None and exchangeable:
        return AlikeBatch(*given, stage.batch, batch, stage.keep)
    made = (
        Merged(*given, stage.pools, exchangeable=exchangeable, masked=bool(stage.masks))
        if m > 1 and bent and stage.batch is None and is_merged(stage, steps)
        else stages.Stage(
            *given,
            apart=apart,
            exchangeable=exchangeable,
            keep=stage.keep,
            positions=max(stage.pools, stage.positions),
            attends=bool(stage.scores),
            batch=stage.batch,
        )
    )
    return Tapped(made, steps, stage.taps, m) if stage.taps.moves else made
