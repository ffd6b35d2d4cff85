"""A product of equations, averaged over the stage's weights and biases and the neurons below.

Sums over neurons are split into sums over distinct ones. The inputs below layer 1 are fixed:
Σ_j x_j x_j = n_0 K0, without fluctuations.
"""

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
    Monomial,
    add,
    constant,
    monomial,
    multiply,
    multiply_all,
    power,
    times,
)
from ...errors import InputError
from ...groups.pairings import Blocks
from ...weights import WeightEnsemble
from ...work.caches import cache
from ..stages import INPUTS, NEURONS, Below, Stage
from ..tensors import Tensor, tensor
from ..through import Summand
from ..trees import STREAM, Kind, Placed, Z, input_terms
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


def coincidences(
    spaces: Sequence[str], own: Sequence[Sequence[int]], outside: int, least: int
) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Which neuron each summed one is: one outside the sums, of its `own`, or one that is free.

    Those outside have the numbers 0 … outside−1, and the free ones, whose spaces come too, those
    behind; there are `least` free ones or more.
    """

    def extended(
        homes: tuple[int, ...], free: tuple[str, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
        j = len(homes)
        if j == len(spaces):
            yield homes, free
            return
        if len(free) + len(spaces) - j > least:
            for k in own[j]:
                yield from extended((*homes, k), free)
            for k, space in enumerate(free):
                if space == spaces[j]:
                    yield from extended((*homes, outside + k), free)
        yield from extended((*homes, outside + len(free)), (*free, spaces[j]))

    if len(spaces) >= least:
        yield from extended((), ())


@cache
def ways_of(ratio: Atom | None, count: int, taken: int) -> Expansion:
    """How many ways to choose distinct neurons, in order, among rn of which some are taken."""
    width = UNIT if ratio is None else power(ratio, 1)
    result = constant(1)
    for k in range(taken, taken + count):
        result = multiply(result, {(width, -1): Fraction(1), (UNIT, 0): Fraction(-k)}, 0)
    return result


def sums_over_inputs(whole: Summand, most: int) -> Iterator[tuple[Monomial, int]]:
    """Σ_j Π fields over the inputs, term by term: (Π K, r), to be multiplied by n_0^r.

    K is the mean xᵀx/n_0, or that of more factors, at most `most`: Σ_j x_j x_j x_j x_j/n_0 enters
    where rotations do not keep the law of the weights. Raises InputError for others.
    """
    for terms in product(*(input_terms(placed.field) for placed in whole.fields)):
        name = list(range(len(whole.neurons)))
        for placed, term in zip(whole.fields, terms, strict=True):
            for a, b in term.joined:
                i, j = (name[placed.neurons[node]] for node in (a, b))
                name = [i if other == j else other for other in name]
        samples: dict[int, list[int]] = {j: [] for j in name}
        for placed, term in zip(whole.fields, terms, strict=True):
            for node in term.entries:
                samples[name[placed.neurons[node]]].append(placed.samples[node])
        if any(len(found) % 2 or len(found) > most for found in samples.values()):
            wanted = "cumulants that at layer 1 depend on the inputs through xᵀx only"
            raise InputError("fields", whole.fields, wanted)
        means = [_mean_of(tuple(found)) for found in samples.values() if found]
        yield monomial(means), len(samples)


def _mean_of(samples: tuple[int, ...]) -> Tensor:
    """The mean over the inputs' entries of a product of them, as the tensor of one block."""
    block = tuple(range(len(samples)))
    return tensor((Z,) * len(samples), 0, (block,), samples)
