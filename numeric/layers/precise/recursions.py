"""Recursions entry by entry: sums of monomials with exact coefficients, over numbers of any kind.

An entry is a tensor at a tuple of distinct inputs; entries that are equal by symmetry are one. Of
an entry's step the labels are replaced by inputs, monomials that become equal are added, and what
they multiply stands in one vector: hyperparameters, their inverses, entries of the layer below, and
Gaussian averages of products of derivatives of σ over distinct inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import TypeAlias

from flint import arb, fmpq

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter
from derive.arithmetic.polynomials import Atom
from derive.engine.scheme import Scheme
from derive.engine.step import Step, at_inputs, hidden
from derive.engine.tensors import Name, Tensor, identify, named, tensor
from derive.gaussian.brackets import Bracket
from derive.gaussian.shapes import SingleShape, is_even, leibniz
from derive.weights import WeightEnsemble

from ...brackets.shapes import check_all_finite
from ..vectors import relabelled

Entry: TypeAlias = "tuple[Name, tuple[int, ...]]"
"""A tensor at these inputs, in the order of its subscripts; () with one input."""

Group: TypeAlias = "tuple[tuple[int, ...], int]"
"""The orders of the derivatives of σ at one input, and of the derivative of their product."""

Average: TypeAlias = "tuple[tuple[int, Group], ...]"
"""(input, orders and derivatives outside) of each distinct input, ascending."""

Terms: TypeAlias = "list[tuple[Fraction, tuple[int, ...]]]"
"""Coefficients, and the places of what they multiply."""


class Recursions:
    """The recursions of these tensors, which need no others, over m distinct inputs.

    Attributes:
        parameters: the names of the hyperparameters that occur.
        entries: all that is computed, layer by layer.
        averages: the Gaussian averages that they need.
    """

    def __init__(
        self,
        names: Sequence[Name],
        activation: Activation,
        scheme: Scheme,
        first: WeightEnsemble,
        m: int,
    ) -> None:
        self._activation, self._single, self.m = activation, scheme.single, m
        steps = {name: hidden(name, scheme) for name in names}
        starts = {name: at_inputs(name, scheme, first) for name in names}
        check_all_finite({name.identifier: step for name, step in steps.items()}, activation)
        atoms = [each.atoms(Parameter) for each in (*steps.values(), *starts.values())]
        self.parameters = sorted({"C_W", "C_b", *(atom.name for atom in set().union(*atoms))})
        self.entries = list(
            dict.fromkeys(
                self.entry(name, samples)
                for name in names
                for samples in product(range(m), repeat=self._rank(name))
            )
        )
        self._places = {
            each: 1 + 2 * len(self.parameters) + k for k, each in enumerate(self.entries)
        }
        self.averages: dict[Average, int] = {}
        self._starts = [self._compiled(starts[name], samples) for name, samples in self.entries]
        self._steps = [self._compiled(steps[name], samples) for name, samples in self.entries]

    def _rank(self, name: Name) -> int:
        return 0 if self._single else len(name.subscripts)

    @cache  # noqa: B019  (an object of one flow)
    def entry(self, name: Name, samples: tuple[int, ...]) -> Entry:
        """The entry that this one is equal to by symmetry."""
        if self._single:
            return name, ()
        slots = dict(zip(name.subscripts, samples, strict=True))
        labels = tuple(slots[slot] for slot in range(len(slots)))
        return identify(tensor(name.fields, name.order, name.pairing, labels))

    @property
    def monomials(self) -> int:
        """How many there are in a layer."""
        return sum(map(len, self._steps))

    def kernel(self, a: int, b: int) -> int:
        """The place of K_ab among the entries."""
        found = self.entry(named("K"), (a, b) if not self._single else ())
        return self._places[found] - 1 - 2 * len(self.parameters)

    def _compiled(self, step: Step, samples: tuple[int, ...]) -> Terms:
        """At layer 1 the one tensor below is the inputs' kernel, which has K's places."""
        to = dict(zip(step.samples, samples, strict=True)) if samples else {}
        total: Counter[tuple[int, ...]] = Counter()
        for (mono, _), value in step.terms.items():
            parts: list[tuple[Fraction, tuple[int, ...]]] = [(value, ())]
            for atom, exponent in mono:
                found = self._found(atom, exponent < 0, to, first=step.first_layer)
                for _ in range(abs(exponent)):
                    parts = [
                        (one * other, (*places, place))
                        for one, places in parts
                        for other, place in found
                    ]
            for coefficient, places in parts:
                total[tuple(sorted(places))] += coefficient  # type: ignore[assignment]
        return [(Fraction(value), places) for places, value in total.items() if value]

    def _found(
        self, atom: Atom, inverse: bool, to: Mapping[int, int], *, first: bool
    ) -> list[tuple[Fraction, int]]:
        """An atom as a combination of what has places in the vector."""
        if isinstance(atom, Parameter):
            at = 1 + self.parameters.index(atom.name) + inverse * len(self.parameters)
            return [(Fraction(1), at)]
        if isinstance(atom, Bracket):
            return self._bracket(atom, to)
        assert isinstance(atom, Tensor)
        if first:
            a, b = atom.samples
            found = (named("K"), () if self._single else (to[a], to[b]))
            return [(Fraction(1), self._places[self.entry(*found)])]
        if self._single:
            return [(Fraction(1), self._places[identify(atom)[0], ()])]
        labels = tuple(to[label] for label in atom.samples)
        moved = tensor(atom.fields, atom.order, atom.pairing, labels)
        return [(Fraction(1), self._places[identify(moved)])]

    def _bracket(self, atom: Bracket, to: Mapping[int, int]) -> list[tuple[Fraction, int]]:
        """Averages have places behind the entries."""
        bracket, labels = relabelled(atom)
        samples = tuple(0 if self._single else to[label] for label in labels)
        found = []
        for average, count in _placed(bracket, samples, self._activation).items():
            at = self.averages.setdefault(average, len(self.averages))
            found.append((Fraction(count), 1 + 2 * len(self.parameters) + len(self.entries) + at))
        return found

    def first(self, parameters: Sequence[arb], kernel: Sequence[Sequence[arb]]) -> list[arb]:
        """The entries at layer 1."""
        below = [arb(0)] * len(self.entries)
        for a, b in product(range(self.m), repeat=2):
            below[self.kernel(a, b)] = kernel[a][b]
        return self._evaluated(self._starts, parameters, below, [])

    def next(
        self, parameters: Sequence[arb], below: Sequence[arb], averages: Sequence[arb]
    ) -> list[arb]:
        """The entries at the next layer."""
        return self._evaluated(self._steps, parameters, below, averages)

    def _evaluated(
        self,
        rows: Sequence[Terms],
        parameters: Sequence[arb],
        below: Sequence[arb],
        averages: Sequence[arb],
    ) -> list[arb]:
        inverses = [1 / each if not each.is_zero() else arb("nan") for each in parameters]
        vector = [arb(1), *parameters, *inverses, *below, *averages]
        return [_sum(terms, vector) for terms in rows]


def _sum(terms: Terms, vector: Sequence[arb]) -> arb:
    total = arb(0)
    for coefficient, places in terms:
        term = arb(fmpq(coefficient.numerator, coefficient.denominator))
        for place in places:
            term = term * vector[place]
        total += term
    return total


@cache
def _placed(bracket: Bracket, samples: tuple[int, ...], activation: Activation) -> Counter[Average]:
    """A bracket at these inputs, label by label, as averages over distinct inputs.

    Derivatives go inside where σ is analytic. For kinks they stay outside, and where labels meet at
    an input its N positions share them, ∂_p = (1/N) d/dz: it comes to the same in a recursion,
    which is symmetric in what meets.
    """
    labels: dict[int, list[Group]] = {}
    for label, sample in enumerate(samples):
        orders = tuple(sorted(order for own, order in bracket.factors if own == label))
        labels.setdefault(sample, []).append((orders, bracket.outer.count(label)))
    found: Counter[Average] = Counter({(): 1})
    for sample in sorted(labels):
        groups = _inside(tuple(labels[sample]), activation)
        found = _times(found, sample, groups)
    if not activation.is_odd:
        return found
    return Counter(
        {
            average: count
            for average, count in found.items()
            if is_even(
                [order for _, (orders, _) in average for order in orders],
                sum(outer for _, (_, outer) in average),
            )
        }
    )


def _times(found: Counter[Average], sample: int, groups: Counter[Group]) -> Counter[Average]:
    total: Counter[Average] = Counter()
    for average, count in found.items():
        for group, times in groups.items():
            total[(*average, (sample, group))] += count * times
    return total


def _inside(groups: tuple[Group, ...], activation: Activation) -> Counter[Group]:
    """The product of what stands at one input, as a sum."""
    if not activation.is_smooth:
        together = tuple(sorted(order for orders, _ in groups for order in orders))
        share = Fraction(1)
        for orders, outer in groups:
            share *= Fraction(len(orders), len(together)) ** outer
        return Counter({(together, sum(outer for _, outer in groups)): share})
    total: Counter[tuple[int, ...]] = Counter({(): 1})
    for group in groups:
        parts = leibniz(*SingleShape(*group))
        raised: Counter[tuple[int, ...]] = Counter()
        for orders, count in total.items():
            for more, times in parts.items():
                raised[tuple(sorted((*orders, *more)))] += count * times
        total = raised
    return Counter({(orders, 0): count for orders, count in total.items()})
