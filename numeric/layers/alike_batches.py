"""The recursions of functions of all samples at exchangeable samples of any number m.

A tensor has one value for each orbit of its entries (`derive.engine.orbits`). An array over sample
labels has one for each *pattern*, which says what labels are the same sample. A label that is
summed over is one of the samples that other labels are, or one of the m − e others. A product of
arrays is summed label by label, each time over the arrays that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy

from derive.activations.batches import BatchFunction
from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Atom, atoms_in, of_kind
from derive.engine.atoms import read
from derive.engine.orbits import Pattern, orbit_numbers, orbits
from derive.engine.step import Step
from derive.engine.tensors import Name, Tensor, identify
from derive.gaussian.brackets import Bracket, slopes_of
from derive.groups.pairings import pattern_of, patterns
from derive.symbols import PARAMETERS
from derive.work.caches import cache

from ..arrays import Array, by_orbit, over_samples
from .alike import AlikeRule, slopes
from .analytic import Change, at_each
from .averages import Averages
from .batches import Factor, Wanted
from .program import Polynomial, multiplied
from .resting import Degenerate
from .stages import Average
from .vectors import Estimate, Places, disturbed, stacked, with_sizes

Labels: TypeAlias = tuple[int, ...]

NAMED = 4
"""Samples that the tensors of order 1/n name at most."""


class AlikeBatch:
    """The recursions through a stage with a function of all samples.

    Arguments:
        below, steps, parameters: as `stages.Stage` has them.
        sigma: the activation.
        m: the samples along the axes of arrays, which represent the batch.
        batch: the function.
        size: the samples of the batch.
        keep: p of dropout, as `stages.Stage` has it.

    Attributes:
        names, noises: as of `stages.Stage`.
    """

    def __init__(
        self,
        below: Sequence[Name],
        steps: Sequence[Step | Polynomial],
        sigma: Callable[[str], Activation],
        parameters: Sequence[str],
        m: int,
        batch: BatchFunction,
        size: int,
        keep: Value | None = None,
    ) -> None:
        self._below, self._parameters, self._m = tuple(below), list(parameters), m
        self.names = tuple(step.target for step in steps)
        self._size, self._keep = size, keep
        atoms = {atom for step in steps for atom in atoms_in(step.terms)}
        brackets = set(of_kind(atoms, Bracket))
        (label,) = {bracket.kernel for bracket in brackets}
        self._kernel = [name.label for name in below].index(label)
        wanted = sorted(
            {
                _average_of(bracket, pattern)
                for bracket in brackets
                for pattern in known(len(bracket.samples), size)
            }
        )
        self._numbers = sorted({*of_kind(atoms, Value)} | ({keep} if keep else set()), key=str)
        symbols = [PARAMETERS.get(name, sympy.Symbol(name)) for name in parameters]
        self._values = sympy.lambdify([symbols], [number.expr for number in self._numbers], "math")
        self._lay_out(wanted)
        rule = AlikeRule(batch, sigma(label), wanted, size)
        self.noises = len(wanted)

        def evaluate(K: Array) -> tuple[Array, Array]:
            return rule(float(K[0, 0]), float(K[0, 1]))

        def gradient(K: Array) -> Change:
            return slopes(rule, float(K[0, 0]), float(K[0, 1]))

        self._averages = Averages(at_each(evaluate), self.noises, {}, gradient)
        self._sums = [self._terms(step) for step in steps]

    def _lay_out(self, wanted: Sequence[Wanted]) -> None:
        """Where everything stands in the vector that the table multiplies."""
        count = len(self._parameters)
        every = list(map(Parameter, self._parameters))
        self._begins: dict[object, int] = {own: 1 + k for k, own in enumerate(every)}
        self._begins |= {(own, True): 1 + count + k for k, own in enumerate(every)}
        end = 1 + 2 * count
        for name in self._below:
            self._begins[name] = end
            end += len(orbits(name, self._size))
        for own in self._numbers:
            self._begins[own], self._begins[own, True] = end, end + len(self._numbers)
            end += 1
        end += len(self._numbers)
        self._begins |= {place: end + k for k, place in enumerate(wanted)}

    def _terms(self, step: Step | Polynomial) -> list[tuple[float, Sum]]:
        """The entries that represent orbits, term by term: numbers, and what they multiply."""
        at = [own[0] for own in orbits(step.target, self._size).values()]
        terms = [(sorted(mono, key=repr), value) for (mono, _), value in step.terms.items()]
        found = []
        for factors, value in sorted(terms, key=lambda each: repr(each[0])):
            sources = [
                self._source(atom, exponent < 0)
                for atom, exponent in factors
                for _ in range(abs(exponent))
            ]
            found.append((float(value), Sum(sources, tuple(step.samples), at, self._size)))
        return found

    def _source(self, atom: Atom, inverse: bool) -> Source:
        """Where the values of an atom are."""

        def of_tensor(own: Tensor) -> Source:
            name, labels = identify(own)
            begin, number = self._begins[name], orbit_numbers(name, self._size)
            return source(labels, lambda pattern: begin + number[pattern], _no_power, self._size)

        def of_bracket(own: Bracket) -> Source:
            def place(pattern: Pattern) -> int:
                return self._begins[_average_of(own, pattern)]

            def met(pattern: Pattern) -> int:
                to = dict(zip(own.samples, pattern, strict=True))
                return len({to[sample] for sample in own.inside}) - len(own.inside)

            power = met if self._keep else _no_power
            return source(own.samples, place, power, self._size)

        def of_number(own: object) -> Source:
            begin = self._begins[(own, True) if inverse else own]
            return source((), lambda _: begin, _no_power, self._size)

        return read(atom, tensor=of_tensor, bracket=of_bracket, other=of_number)

    def averages(self) -> list[Average]:
        """Of the brackets, layer after layer."""
        return [self._averages.copies()]

    def degenerate(self, tensors: Sequence[Array]) -> Degenerate | None:
        """None: `AlikeRule` raises InputError for samples without variance."""
        return None

    def passed(
        self, before: Estimate, parameters: Array, noise: Array, average: Sequence[Average]
    ) -> Estimate:
        """The tensors behind the stage, and their sizes; arguments as of `Stage.passed`."""
        tensors, sizes_before = before
        copies = len(parameters)
        parts = []
        for name, each, size in zip(self._below, tensors, sizes_before, strict=True):
            own = (by_orbit(values, name, self._size) for values in (each, size[None]))
            parts.append(np.concatenate([*own]))
        numbers = np.array(self._values(parameters[0]), float)
        both = np.concatenate([numbers, 1.0 / numbers])
        parts.append(np.broadcast_to(both, (copies + 1, len(both))))
        values, sizes = average[0](tensors[self._kernel])
        every = np.arange(self.noises)[None]
        parts.append(disturbed(values, sizes, noise, every).whole)
        vectors = stacked(with_sizes(parameters), *parts)
        vectors[-1] = np.abs(vectors[-1])
        keep = 1.0 if self._keep is None else float(numbers[self._numbers.index(self._keep)])
        found = []
        for name, terms in zip(self.names, self._sums, strict=True):
            total = np.zeros((copies + 1, len(orbits(name, self._size))))
            for value, summed in terms:
                total += summed(vectors, keep) * np.array([[value]] * copies + [[abs(value)]])
            found.append(over_samples(total, name, self._size, self._m))
        return [each[:-1] for each in found], [each[-1] for each in found]


def _no_power(pattern: Pattern) -> int:
    return 0


def _average_of(bracket: Bracket, samples: Pattern) -> Wanted:
    """The average that a bracket is if its labels are these samples."""
    to = dict(zip(bracket.samples, samples, strict=True))
    moved = bracket.relabelled(to.__getitem__)
    return _canonical(tuple(sorted(moved.factors)), tuple(sorted(moved.outer)))


@cache(entries=1 << 14)
def _canonical(factors: tuple[Factor, ...], outer: tuple[int, ...]) -> Wanted:
    """One of the averages that a permutation of the samples makes of this one: those that φ is of
    come first."""
    bracket = Bracket(factors, outer)
    inside = bracket.inside
    others = {*bracket.samples} - {*inside}
    found = []
    for order in permutations(inside):
        number = {sample: k for k, sample in enumerate(order)}

        def seen(other: int, number: Mapping[int, int] = number) -> tuple[Any, ...]:
            own = ((number[s], slopes_of(n)) for s, n in factors)
            return sorted((s, n.count(other)) for s, n in own if other in n), outer.count(other)

        number |= {other: len(inside) + k for k, other in enumerate(sorted(others, key=seen))}
        moved = bracket.relabelled(number.__getitem__)
        found.append((tuple(sorted(moved.factors)), tuple(sorted(moved.outer))))
    return min(found)


class Source(NamedTuple):
    """An array that a vector holds: its labels, and of each pattern of them its place, and the
    power of a number that it is multiplied by."""

    labels: Labels
    places: Places
    powers: Places


@cache(entries=64)
def known(rank: int, size: int) -> tuple[Pattern, ...]:
    """The patterns of so many labels of `size` samples, in order."""
    return tuple(each for each in sorted(patterns(rank)) if max(each, default=0) < size)


@cache(entries=512)
def among(rank: int, axes: Labels, size: int) -> Places:
    """Of each pattern of so many labels the pattern that some of them have."""
    number = {pattern: k for k, pattern in enumerate(known(len(axes), size))}
    every = (tuple(pattern[axis] for axis in axes) for pattern in known(rank, size))
    return np.array([number[pattern_of(each)] for each in every], np.int64)


@cache(entries=64)
def _last(rank: int, size: int) -> tuple[Places, Array]:
    """Where the patterns begin that differ in the last label alone, and how many samples each of
    these labels may be."""
    every = known(rank, size)
    begins = [k for k, each in enumerate(every) if not k or each[:-1] != every[k - 1][:-1]]
    taken = [(each[-1], max(each[:-1], default=-1) + 1) for each in every]
    counts = [float(size - others if own == others else 1) for own, others in taken]
    return np.array(begins, np.int64), np.array(counts)


class _Step(NamedTuple):
    """A sum over one label: of arrays, by their numbers and at patterns of all their labels."""

    factors: tuple[tuple[int, Places], ...]
    begins: Places
    counts: Array


class Sum:
    """A product of arrays, summed over all labels but those of the result.

    Arguments:
        sources: the arrays.
        kept: the labels of the result.
        at: the patterns of these that are wanted.
        size: m.
    """

    def __init__(
        self, sources: Sequence[Source], kept: Labels, at: Sequence[Pattern], size: int
    ) -> None:
        self._sources, self._steps = tuple(sources), list[_Step]()
        alive = {number: source.labels for number, source in enumerate(sources)}
        summed = {label for labels in alive.values() for label in labels} - {*kept}
        while summed:
            label = min(summed, key=lambda each: (len(_joined(alive.values(), each)), each))
            summed.remove(label)
            joint = (*sorted(_joined(alive.values(), label) - {label}), label)
            own = [number for number, labels in alive.items() if label in labels]
            factors = tuple((number, _at(joint, alive.pop(number), size)) for number in own)
            self._steps.append(_Step(factors, *_last(len(joint), size)))
            alive[len(sources) + len(self._steps) - 1] = joint[:-1]
        number = {pattern: k for k, pattern in enumerate(known(len(kept), size))}
        rows = np.array([number[each] for each in at], np.int64)
        self._left = [(k, _at(kept, labels, size)[rows]) for k, labels in alive.items()]
        self._shape = len(rows)

    def __call__(self, vectors: Array, keep: float) -> Array:
        """The sum, (copies, wanted), of vectors (copies, places); `keep` to the powers."""
        arrays = [
            vectors[:, places] * keep**powers if powers.any() else vectors[:, places]
            for _, places, powers in self._sources
        ]
        for factors, begins, counts in self._steps:
            terms = multiplied([arrays[number][:, at] for number, at in factors])
            arrays.append(np.add.reduceat(terms * counts, begins, axis=1))
        ones = np.ones((len(vectors), self._shape))
        return multiplied([ones, *(arrays[number][:, at] for number, at in self._left)])


def _joined(alive: Iterable[Labels], label: int) -> set[int]:
    """All labels of the arrays that have one."""
    return {each for labels in alive if label in labels for each in labels}


def _at(joint: Labels, labels: Labels, size: int) -> Places:
    return among(len(joint), tuple(map(joint.index, labels)), size)


def source(
    labels: Labels, place: Callable[[Pattern], int], power: Callable[[Pattern], int], size: int
) -> Source:
    """An array of these labels, by the place and the power of each pattern."""
    every = known(len(labels), size)
    places = np.fromiter(map(place, every), np.int64, len(every))
    return Source(labels, places, np.fromiter(map(power, every), np.int64, len(every)))
