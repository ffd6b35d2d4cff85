"""The recursions of functions of all samples at exchangeable samples of any number m.

A tensor has one value for each orbit of its entries (`derive.engine.orbits`). A sum over a sample
of the batch is a sum over the samples that a term has already, and over a new one, which stands
for all m − e others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import NamedTuple, TypeAlias

import numpy as np
import sympy

from derive.activations.batches import BatchFunction
from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Atom, Expansion, atoms_in, of_kind
from derive.display.labels import SUMMED
from derive.engine.atoms import read
from derive.engine.orbits import Pattern, orbits
from derive.engine.step.derived import Kind
from derive.engine.tensors import Name, Tensor, identify
from derive.gaussian.brackets import Bracket
from derive.groups.pairings import pattern_of
from derive.symbols import PARAMETERS
from derive.work.caches import cache

from ..arrays import Array
from .alike import AlikeRule, Factors, Wanted, slopes
from .averages import Averages
from .program import Polynomial, Table
from .resting import Degenerate
from .stages import Average
from .vectors import Estimate, disturbed, stacked, with_sizes

NAMED = 4
"""Samples that the tensors of order 1/n name at most."""

_Place: TypeAlias = "tuple[Name, int] | Wanted"
"""A tensor and the number of an orbit of it; or an average."""


class _Entry(NamedTuple):
    """An entry of a tensor, one of those that represent orbits."""

    target: Name
    terms: Expansion
    samples: tuple[int, ...] = ()

    def atoms(self, kind: type[Kind]) -> set[Kind]:
        """The atoms of this kind."""
        return set(of_kind(atoms_in(self.terms), kind))


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
        steps: Sequence[Polynomial],
        sigma: Callable[[str], Activation],
        parameters: Sequence[str],
        m: int,
        batch: BatchFunction,
        size: int,
        keep: Value | None = None,
    ) -> None:
        self._below, self._parameters, self._m = tuple(below), list(parameters), m
        self.names = tuple(step.target for step in steps)
        (label,) = {bracket.kernel for each in steps for bracket in each.atoms(Bracket)}
        self._kernel = [name.label for name in below].index(label)
        entries = [
            _Entry(step.target, _summed(step, patterns[0], size, keep))
            for step in steps
            for patterns in orbits(step.target, size).values()
        ]
        own = {atom for each in entries for mono, _ in each.terms for atom, _ in mono}
        wanted = sorted({place for atom in own if (place := _average_of(atom)) is not None})
        self._numbers = sorted(set(of_kind(own, Value)), key=str)
        known = [PARAMETERS.get(name, sympy.Symbol(name)) for name in parameters]
        self._values = sympy.lambdify([known], [number.expr for number in self._numbers], "math")
        self._lay_out(wanted, size)
        rule = AlikeRule(batch, sigma(label), wanted, size)
        self.noises = len(wanted)
        self._averages = Averages(_evaluated(rule), self.noises, {}, _gradient(rule))
        self._table = Table(entries, 1, self._find)
        self._size = size

    def _lay_out(self, wanted: Sequence[Wanted], size: int) -> None:
        """Where everything stands in the vector that the table multiplies."""
        count = len(self._parameters)
        every = list(map(Parameter, self._parameters))
        self._begins: dict[object, int] = {own: 1 + k for k, own in enumerate(every)}
        self._begins |= {(own, True): 1 + count + k for k, own in enumerate(every)}
        end = 1 + 2 * count
        for name in self._below:
            for number in range(len(orbits(name, size))):
                self._begins[name, number] = end
                end += 1
        for own in self._numbers:
            self._begins[own], self._begins[own, True] = end, end + len(self._numbers)
            end += 1
        end += len(self._numbers)
        self._begins |= {place: end + k for k, place in enumerate(wanted)}

    def _find(self, atom: Atom, inverse: bool) -> tuple[int, Sequence[int]]:
        return self._begins[(atom, True) if inverse else atom], ()

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
            at = np.array([patterns[0] for patterns in orbits(name, self._size).values()]).T
            parts.append(np.concatenate([each[(slice(None), *at)], size[(*at,)][None]]))
        numbers = np.array(self._values(parameters[0]), float)
        both = np.concatenate([numbers, 1.0 / numbers])
        parts.append(np.broadcast_to(both, (copies + 1, len(both))))
        values, sizes = average[0](tensors[self._kernel])
        every = np.arange(self.noises)[None]
        parts.append(disturbed(values, sizes, noise, every))
        found, of_terms = self._table(stacked(with_sizes(parameters), *parts))
        return self._spread(found[..., 0]), [each[0] for each in self._spread(of_terms.T)]

    def _spread(self, values: Array) -> list[Array]:
        """The arrays over samples, (copies, m, m, …) each, of values (copies, entries)."""
        arrays, begin = [], 0
        for name in self.names:
            rank, every = len(name.subscripts), orbits(name, self._size).values()
            number = {each: k for k, patterns in enumerate(every) for each in patterns}
            at = [number[pattern_of(each)] for each in product(range(self._m), repeat=rank)]
            own = values[:, begin + np.array(at)].reshape(-1, *(self._m,) * rank)
            arrays.append(own)
            begin += len(every)
        return arrays


def _evaluated(rule: AlikeRule) -> Callable[[Array], tuple[Array, Array]]:
    """The averages at kernels (m, m) or (copies, m, m)."""

    def evaluate(K: Array) -> tuple[Array, Array]:
        if K.ndim == 2:
            return rule(float(K[0, 0]), float(K[0, 1]))
        found = [evaluate(each) for each in K]
        values, sizes = (np.array(part) for part in zip(*found, strict=True))
        return values, sizes

    return evaluate


def _gradient(rule: AlikeRule) -> Callable[[Array], Callable[[Array], Array]]:
    return lambda K: slopes(rule, float(K[0, 0]), float(K[0, 1]))


def _average_of(atom: object) -> Wanted | None:
    """An atom of an entry that is an average."""
    if not isinstance(atom, tuple) or len(atom) != 2 or isinstance(atom[0], Name):
        return None
    return atom if isinstance(atom[0], tuple) else None


def _summed(step: Polynomial, pattern: Pattern, size: int, keep: Value | None) -> Expansion:
    """The terms of one entry, its sums over samples done, in `_Place`s."""
    ends = dict(zip(step.samples, pattern, strict=True))
    found: Expansion = {}
    for (mono, _), value in step.terms.items():
        labels = sorted({s for atom, _ in mono for s in _samples(atom) if s >= SUMMED})
        for to, ways in _assigned(labels, ends, size):
            made: dict[object, int] = {}
            for atom, exponent in mono:
                place = _placed(atom, to, size)
                made[place] = made.get(place, 0) + exponent
                if keep is not None and (met := _met(atom, to)):
                    made[keep] = made.get(keep, 0) - met * exponent
            key = frozenset(each for each in made.items() if each[1]), 0
            found[key] = found.get(key, Fraction(0)) + value * ways
    return {key: value for key, value in found.items() if value}


def _met(atom: object, to: dict[int, int]) -> int:
    """How many labels of an average's factors meet one before them."""

    def of_bracket(own: Bracket) -> int:
        return len(own.inside) - len({to[sample] for sample in own.inside})

    return read(atom, bracket=of_bracket, other=lambda _: 0)


def _samples(atom: object) -> tuple[int, ...]:
    return read(
        atom,
        tensor=lambda own: own.samples,
        bracket=lambda own: own.samples,
        other=lambda _: (),
    )


def _assigned(
    labels: Sequence[int], known: dict[int, int], size: int
) -> Iterator[tuple[dict[int, int], int]]:
    """The samples that summed labels may be: those before, or a new one of so many."""
    if not labels:
        yield known, 1
        return
    taken = max(known.values()) + 1
    for sample in range(min(taken + 1, size)):
        ways = size - taken if sample == taken else 1
        for found, rest in _assigned(labels[1:], {**known, labels[0]: sample}, size):
            yield found, ways * rest


def _placed(atom: object, to: dict[int, int], size: int) -> object:
    def of_tensor(own: Tensor) -> _Place:
        name, labels = identify(own)
        pattern = pattern_of(tuple(to[label] for label in labels))
        every = orbits(name, size).values()
        return name, next(k for k, patterns in enumerate(every) if pattern in patterns)

    def of_bracket(own: Bracket) -> _Place:
        moved = own.relabelled(to.__getitem__)
        return _canonical(tuple(sorted(moved.factors)), tuple(sorted(moved.outer)))

    return read(atom, tensor=of_tensor, bracket=of_bracket, other=lambda same: same)


@cache
def _canonical(factors: Factors, outer: tuple[int, ...]) -> Wanted:
    """One of the averages that a permutation of the samples makes of this one: those that φ is of
    first."""
    bracket = Bracket(factors, outer)
    inside = bracket.inside
    others = sorted({*bracket.samples} - {*inside})
    found = []
    for one, two in product(permutations(inside), permutations(others)):
        number = {sample: k for k, sample in enumerate((*one, *two))}
        moved = bracket.relabelled(number.__getitem__)
        found.append((tuple(sorted(moved.factors)), tuple(sorted(moved.outer))))
    return min(found)
