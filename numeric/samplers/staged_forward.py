"""One input and preactivations alone: networks of any layer side by side.

The same streams and the same networks as `staged.ProbeSampler` draws, to rounding. Dense layers
have a kernel of their own (`forward`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.engine.fields import Z
from derive.engine.stages import Product, Stage
from derive.engine.trees import STREAM, Kind
from derive.errors import InputError
from derive.weights import Gaussian
from derive.work.caches import cache

from ..arrays import Array, aligned
from ..emit.kernels import load_kernels
from ..emit.templates import sigma_source
from ..estimators.observables import Plan
from ..estimators.probes import Probes
from ..estimators.sums import Sum, compiled
from ..random import lazy
from ..random.lazy import COLUMN, DIAGONAL, FACTOR
from .base import evaluated
from .ensemble import STAGES, Ensemble, number_at
from .forward import WIDEST, grouped
from .forward_kernels import LANES, room_of_words
from .stage_kernels import PARTS
from .stage_source import written
from .stage_tables import Drawn, Place, Size, Written

_PIECE = 1 << 22
"""Neurons of all networks in one call of compiled code, some 0.1 s: Ctrl-C comes in between."""


def fits(ensemble: Ensemble, plan: Plan) -> bool:
    """True for one input and preactivations alone, in equal layers that are not too wide."""
    needs = ensemble.layers.needs.keys()
    if plan.samples > 1 or plan.fields != {Z} or needs != {STAGES}:
        return False
    stages = {ensemble.stages_at(layer) for layer in range(2, ensemble.depth + 1)}
    several = not isinstance(ensemble.net.activation, Activation) or any(
        stage.relates_positions or stage.scores or stage.sets > 1 or stage.is_bound
        for each in stages
        for stage in each
    )
    if several or len(stages) > 1:
        return False
    factors = tables_of(ensemble).factors[0]
    widest = max(*ensemble.widths, *factors[:, 1], *factors[:, 2])
    return widest <= WIDEST and DIAGONAL not in factors[:, 0]


def blocks(ensemble: Ensemble, plan: Plan, draws: NDArray[np.int64]) -> Iterator[tuple[int, Array]]:
    """The statistics of layers that are sums of the same, at a time."""
    count, tables = draws.size, tables_of(ensemble)
    networks = grouped(draws)
    sources = max(len(given.matrices) + given.carried for given in tables.sums)
    squares = np.empty((ensemble.depth, sources, *networks.shape))
    squares[0, 0] = ensemble.inputs[0] @ ensemble.inputs[0]
    _run(ensemble, networks, squares)
    first = 0
    for given, alike in groupby(tables.sums):
        these = slice(first, first + len(list(alike)))
        structure, coefficients = compiled(plan, given, Probes())
        n = np.array([*(n_in for _, n_in in given.matrices), *[given.n] * given.carried])
        vectors = squares[these, : n.size].reshape(these.stop - first, n.size, -1)
        factors = np.ascontiguousarray((vectors[..., :count] / n[:, None]).swapaxes(1, 2))
        repeated = np.broadcast_to(coefficients, (these.stop - first, coefficients.size)).copy()
        yield first, evaluated((structure, repeated), factors)
        first = these.stop


def _run(ensemble: Ensemble, networks: NDArray[np.uint64], squares: Array) -> None:
    """Fill in the squares, some groups or some layers of one group in a call."""
    tables, depth = tables_of(ensemble), ensemble.depth
    compiled = _kernels(ensemble.net.one_activation("this sampler"), tables.written)
    rooms = tables.rooms()
    spent = np.cumsum(tables.neurons) * LANES
    groups = max(1, _PIECE // int(spent[-1]))
    for first in range(0, len(networks), groups):
        these = slice(first, first + groups)
        start = 1
        while start <= depth:
            reach = _PIECE + (spent[start - 2] if start > 1 else 0)
            stop = max(start, int(np.searchsorted(spent, reach, side="right")))
            stop = depth if groups > 1 else stop
            span = start, stop
            known = ensemble.key, span, tables.arrays, tables.factors
            compiled.forward(networks[these], *known, *rooms, squares[:, :, these])
            start = stop + 1


@dataclass(frozen=True, eq=False)
class _Tables:
    """The tables of layers for the kernel.

    Arguments:
        written: the kernel.
        arrays: (bounds, sizes, numbers), a row for each layer.
        factors: rows (kind, big, size, stream, use) of all matrices, and their scales.
        sums: what z is made of at each layer.
    """

    written: Written
    arrays: tuple[NDArray[np.int64], NDArray[np.int64], Array]
    factors: tuple[NDArray[np.int64], Array]
    sums: tuple[Sum, ...]

    @property
    def neurons(self) -> NDArray[np.int64]:
        """The numbers that are drawn for one network at each layer."""
        bounds = self.arrays[0]
        drawn = np.cumsum([0, *self.factors[0][:, 1:3].max(axis=1, initial=1)])
        found: NDArray[np.int64] = np.maximum(1, drawn[bounds[:, -1]] - drawn[bounds[:, 0]])
        return found

    def rooms(self) -> tuple[Array, NDArray[np.uint64], Array]:
        """Room for the variables of a group, for words of random numbers, and for its rows."""
        widest = 4 + max(int(self.factors[0][:, 1:3].max(initial=1)), int(self.arrays[1].max()))
        rooms = aligned(self.written.rooms, widest * LANES)
        return rooms, room_of_words(), aligned(self.written.rows, LANES)


@cache(entries=64)
def tables_of(ensemble: Ensemble) -> _Tables:
    """The tables of an ensemble's layers."""
    depth = ensemble.depth
    biased = any(
        (ensemble.biases_of(layer, equation) or (0.0, 0.0))[0]
        for layer in range(1, depth + 1)
        for stage in ensemble.stages_at(layer)
        for _, equation in stage.equations
    )
    made = written(ensemble.stages_at(max(2, depth)), biased=biased)
    rows, scales, sums = list[tuple[int, ...]](), list[float](), list[Sum]()
    bounds = np.zeros((depth, len(made.places) + 1), np.int64)
    sizes = np.zeros((depth, len(made.sizes)), np.int64)
    numbers = np.zeros((depth, len(made.numbers)))
    for layer in range(1, depth + 1):
        at = _At(ensemble, layer)
        for number, place in enumerate(made.places):
            bounds[layer - 1, number] = len(rows)
            own = number < 2 if layer == 1 else number >= 2
            for row, scale in at.factors(place) if own else []:
                rows.append(row)
                scales.append(scale)
        bounds[layer - 1, -1] = len(rows)
        sums.append(at.sum)
        sizes[layer - 1] = [at.size(size) for size in made.sizes]
        if layer > 1:
            numbers[layer - 1] = [at.number(*each) for each in made.numbers]
    factors = np.array(rows, np.int64).reshape(-1, 5), np.array(scales)
    return _Tables(made, (bounds, sizes, numbers), factors, tuple(sums))


class _At:
    """The data of one layer's stages; an InputError where they cannot be sampled."""

    def __init__(self, ensemble: Ensemble, layer: int) -> None:
        self._ensemble, self._layer = ensemble, layer
        self._stages, self._values = ensemble.stages_at(layer), ensemble.symbols_at(layer)
        self._places, place = list[Place](), Place(layer)
        self._widths: list[Mapping[Kind, int]] = [{STREAM: ensemble.widths[layer - 1]}]
        for stage in self._stages:
            self._places.append(place)
            self._widths.append(self._behind(stage, self._widths[-1]))
            place = place.after(stage)

    def _behind(self, stage: Stage, before: Mapping[Kind, int]) -> dict[Kind, int]:
        """The neurons of each variable behind a stage."""
        found = {}
        for kind, equation in stage.equations:
            widths = {
                self._ensemble.neurons(self._layer, stage, stage.matrices[term.weight[0]].out)
                if term.weight is not None
                else before[stage.carried(term)]
                for term in equation.right
            }
            if len(widths) > 1:
                got = f"a skip between widths {sorted(widths)}"
                raise InputError("layer", got, "equal widths")
            (found[kind],) = widths
        return found

    def size(self, wanted: Size) -> int:
        """The length of a loop."""
        if self._layer == 1:
            return self._ensemble.widths[1]
        if isinstance(wanted.of, Kind):
            return self._widths[wanted.stage + 1][wanted.of]
        return self._in(wanted.stage)[wanted.of]

    def _in(self, stage: int) -> dict[str, int]:
        """The neurons of each space before a stage."""
        return {kind.space: n for kind, n in self._widths[stage].items()}

    def number(self, stage: int, term: Product) -> float:
        """A product's coefficient, parameters and 1/n."""
        n = self._in(stage)
        value = float(term.coefficient) / math.prod(n[space] for space in term.means)
        for atom, power in term.parameters:
            value *= number_at(self._values, atom) ** power
        return value

    def factors(self, place: Drawn) -> list[tuple[tuple[int, ...], float]]:
        """The rows and scales of a matrix, or of biases."""
        stage, at = self._stages[place.stage], self._places[place.stage]
        if place.bias:
            kind, equation = stage.equations[place.number]
            n = self._widths[place.stage + 1][kind]
            variance, _ = self._ensemble.biases_of(self._layer, equation) or (0.0, 0.0)
            steps = lazy.steps(Gaussian(variance), 1, n)
            stream = at.biases(place.number)
        else:
            matrix = stage.matrices[place.number]
            n_in = self._in(place.stage)[matrix.into]
            n = self._ensemble.neurons(self._layer, stage, matrix.out)
            steps = lazy.steps(self._ensemble.ensemble_of(self._layer, matrix), n_in, n)
            stream = at.weights(place.number)
        return [
            ((step.kind, step.big, step.size, stream, COLUMN + FACTOR * number), step.scale)
            for number, step in enumerate(steps)
        ]

    @property
    def sum(self) -> Sum:
        """The terms that z of this layer is the sum of."""
        stage, n = self._stages[-1], self._in(len(self._stages) - 1)
        ((_, equation),) = stage.equations
        matrices = dict.fromkeys(term.weight[0] for term in equation.right if term.weight)
        n_in = {k: n[stage.matrices[k].into] for k in matrices}
        carried = any(term.weight is None for term in equation.right)
        biases = self._ensemble.biases_of(self._layer, equation)
        return self._ensemble.sum_of(self._layer, stage, n_in, carried=carried, biases=biases)


@cache
def _kernels(activation: Activation, made: Written) -> ModuleType:
    """`forward`, compiled for this layer and activation."""
    sigma = sigma_source(activation, made.orders)
    doc = f"Networks of a layer side by side: {activation.name}."
    return load_kernels("stages", doc, (), f"{sigma}\n\n{made.text}", PARTS)
