"""A product of equations, averaged over the stage's weights and biases and the neurons below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import sympy

from ...arithmetic.parameters import C_B, C_W, R_BIG, R_IN, R_OUT, Parameter, Value, correction
from ...arithmetic.polynomials import (
    UNIT,
    Atom,
    Expansion,
    add,
    monomial,
    multiply,
    multiply_all,
    power,
    times,
)
from ...groups.pairings import Blocks
from ...weights import WeightEnsemble
from ...work.caches import cache
from ..stages import INPUTS, NEURONS, Below, Stage
from ..through import Summand
from ..trees import STREAM, Kind, Placed
from .distinct import coincidences, ways_of
from .inputs import sums_over_inputs
from .insertions import Neuron, around_gaussian
from .products import Rows, carried_past, identified


class Average(NamedTuple):
    """Steps 2 to 4 for one product of equations."""

    stage: Stage
    weights: WeightEnsemble
    order: int
    equal_widths: bool
    corrections: int
    group: str
    below: Sums

    def __call__(self, whole: Summand, rows: Rows, pairs: Blocks) -> Iterator[Expansion]:
        """One choice of pairings of the columns, a pairing of each matrix's, at a time."""
        halves = tuple(
            (self.stage.matrices[m].variance, sum(map(len, p)) // 2) for m, p in rows.items()
        )
        kinds = Counter(kind for _, kind in whole.biases).items()
        biases = ((self.stage.equation(kind).variance, count // 2) for kind, count in kinds)
        most = self.order + len(whole.neurons)
        prefactor = multiply_all(
            [
                {(times(whole.parameters, monomial(whole.atoms)), 0): whole.coefficient},
                *(_over(self.ratio(space)) for space in whole.means),
                _variances((*halves, *biases), self.corrections),
            ],
            most,
        )
        carried = tuple(carried_past(whole, pairs))
        for columns in product(*(self.law(m).columns(p) for m, p in rows.items())):
            spectrum = multiply_all(
                [self.spectrum(m, p, q) for (m, p), q in zip(rows.items(), columns, strict=True)],
                most,
            )
            if not spectrum:
                yield {}
                continue
            budget = self.order - min(at for _, at in spectrum) - len(whole.means)
            averaged: Expansion = {}
            for sign, each in carried:
                joined = identified(each, dict(zip(rows, columns, strict=True)))
                add(averaged, self.below(self, joined, budget), sign)
            yield multiply(multiply(prefactor, spectrum, most), averaged, self.order)

    def law(self, matrix: int) -> WeightEnsemble:
        """The standard law of one of the stage's matrices."""
        return self.stage.matrices[matrix].law or self.weights

    def ratio(self, space: str) -> Parameter | Value | None:
        """The width of a space over n, None where they are equal."""
        return self.stage.ratio(space, self.equal_widths)

    def spectrum(self, matrix: int, rows: Blocks, columns: Blocks) -> Expansion:
        """C(p, q) of one of the stage's matrices, to as high an order as may be needed."""
        half = sum(map(len, rows)) // 2
        into, out = (self.ratio(space) for space in self.stage.matrices[matrix][1:3])
        equal_widths = into is None and out is None
        found = self.law(matrix).pairing_matrix(rows, columns, self.order + half, equal_widths)
        return found if equal_widths or (into, out) == (R_IN, R_OUT) else _renamed(found, into, out)

    def neurons(self, whole: Summand, order: int) -> Expansion:
        """Σ_j E[Π σ^{(…)}_j · fields] over the neurons of the stage below: steps 3 and 4."""
        carried = {
            j: placed.field.kind(node).space
            for placed in whole.fields
            for node, j in enumerate(placed.neurons)
            if j < 0
        }
        outside = list(carried)
        taken = Counter(carried.values())
        own = [[k for k, j in enumerate(outside) if carried[j] == space] for space in whole.neurons]
        result: Expansion = {}
        for homes, free in coincidences(whole.neurons, own, len(outside), -order):
            number = dict(zip(outside, range(len(outside)), strict=True)) | dict(enumerate(homes))
            if _is_odd(whole, number):
                continue
            neurons, fields = _at_neurons(whole, number, len(outside) + len(free))
            budget = order + len(free)
            outward = self.stage.has_centres
            batched = self.stage.batch is not None
            averaged = around_gaussian(neurons, fields, budget, outward, self.group, batched)
            if not averaged:
                continue
            ways = [
                ways_of(self.ratio(space), count, taken[space])
                for space, count in Counter(free).items()
            ]
            for keep in self.stage.masks:
                averaged = multiply(averaged, _masked(neurons, keep), budget)
            add(result, multiply(multiply_all(ways, 0), averaged, order))
        return result

    def inputs(self, whole: Summand, order: int) -> Expansion:
        """Σ_j Π fields over the network's inputs."""
        rotated = self.law(0).group == "O"
        most = 2 if rotated else sum(placed.field.nodes for placed in whole.fields)
        width = self.ratio(STREAM.space)
        result: Expansion = {}
        for means, sums in sums_over_inputs(whole, most):
            size = UNIT if width is None else power(width, sums)
            add(result, {(times(means, size), -sums): Fraction(1)})
        return result


Sums = Callable[[Average, Summand, int], Expansion]
"""How to average what is below a stage, through this power of 1/n."""

SUMS: dict[Below, Sums] = {NEURONS: Average.neurons, INPUTS: Average.inputs}


def _at_neurons(
    whole: Summand, number: dict[int, int], count: int
) -> tuple[tuple[Neuron, ...], tuple[Placed, ...]]:
    """The factors at each of so many distinct neurons, and the fields with their numbers."""
    content: list[list[tuple[int, int, Kind]]] = [[] for _ in range(count)]
    for j, sample, derivatives, of in whole.factors:
        content[number[j]].append((sample, derivatives, of))
    fields = tuple(placed.at(number[j] for j in placed.neurons) for placed in whole.fields)
    return tuple(tuple(sorted(factors)) for factors in content), fields


def _masked(neurons: Sequence[Neuron], keep: Value) -> Expansion:
    """E[Π μ/p] over the masks of dropout: p^{1−r} for r factors σ of one neuron and one sample."""
    alike = Counter((j, sample) for j, content in enumerate(neurons) for sample, *_ in content)
    return {(power(keep, sum(1 - count for count in alike.values())), 0): Fraction(1)}


def _is_odd(whole: Summand, number: dict[int, int]) -> bool:
    """True if some neuron without σ has an odd number of a group's indices."""
    live = {number[j] for j, *_ in whole.factors}
    odd: set[tuple[int, str]] = set()
    for placed in whole.fields:
        for node, j in enumerate(placed.neurons):
            if (at := number[j]) not in live:
                odd ^= {(at, placed.field.kind(node).group)}
    return bool(odd)


def _over(ratio: Atom | None) -> Expansion:
    """1/(rn)."""
    return {(UNIT if ratio is None else power(ratio, -1), 1): Fraction(1)}


def _renamed(
    spectrum: Expansion, into: Parameter | Value | None, out: Parameter | Value | None
) -> Expansion:
    """The widths' ratios of a matrix as those of its spaces, 1 for None."""
    big = into if into == out else Value(sympy.Max(_size(into), _size(out)))
    names: dict[Atom, Atom | None] = {R_IN: into, R_OUT: out, R_BIG: big}
    result: Expansion = {}
    for (mono, at), value in spectrum.items():
        named = UNIT
        for atom, exponent in mono:
            ratio: Atom | None = names.get(atom, atom)
            if ratio is not None:
                named = times(named, power(ratio, exponent))
        add(result, {(named, at): value})
    return result


def _size(ratio: Parameter | Value | None) -> sympy.Expr:
    return sympy.Integer(1) if ratio is None else ratio.expr


@cache
def _variances(halves: tuple[tuple[Parameter | Value, int], ...], corrections: int) -> Expansion:
    """Π C^{half}, C_W and C_b each a series in 1/n up to n^{-corrections}."""
    factors: list[Expansion] = []
    for variance, half in halves:
        atoms: tuple[Atom, ...] = (variance,)
        if variance in (C_W, C_B):
            atoms = correction(variance, corrections)
        series: Expansion = {(power(atom, 1), g): Fraction(1) for g, atom in enumerate(atoms)}
        factors += [series] * half
    return multiply_all(factors, corrections)
