"""Sums over neurons below a skip around one matrix: their canonical forms, and averages.

`Sums` is put together while the weights are averaged, a column and a contraction at a time; its
`canonical` form, a `Sum`, is the same for all that differ by the names of neurons alone, so that
each is averaged once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from ..arithmetic.polynomials import Expansion, add, constant, monomial, multiply, multiply_all
from ..work.caches import cache
from .cumulants import coincidences, ways_of
from .exchangeable import Local, Pair, Tangent, distinct, mean
from .norms import Norm, terms_of
from .through import Summand
from .trees import STREAM, Placed

Element = tuple[bool, int]
"""A weight of H', by its neuron, or a ξ, (True, its sample)."""
Contraction = tuple[Element, Element]


class Sums:
    """A product over summed neurons of the layer below, and neurons outside of the sums."""

    def __init__(self, whole: Summand, left: Sequence[Local]) -> None:
        self._left, self._fields = left, whole.fields
        self.factors = [(j, (sample, order)) for j, sample, order, _ in whole.factors]
        self._name = list(range(len(whole.neurons)))
        self._power = len(whole.means)

    def column(self, element: Element) -> int:
        """The neuron of a weight's column; of ξ = Σ_j W_ij σ_j a new one."""
        of_xi, at = element
        if not of_xi:
            return at
        self._name.append(len(self._name))
        self.factors.append((len(self._name) - 1, (at, 0)))
        return len(self._name) - 1

    def identify(self, a: int, b: int) -> None:
        """Two summed neurons are one."""
        i, j = self._name[a], self._name[b]
        self._name = [i if other == j else other for other in self._name]

    def contract(self, pair: Contraction) -> None:
        """Two weights are equal, of variance 1/n."""
        one, other = pair
        self.identify(self.column(one), self.column(other))
        self._power += 1

    def changed(
        self, norm: Norm, changes: Sequence[tuple[int, Pair]], slopes: Sequence[tuple[int, Pair]]
    ) -> Iterator[tuple[Expansion, Sums]]:
        """With these factors, and f of these samples, as the terms of their Taylor series of these
        orders in δq and m, each with what is before it."""
        of_slopes = [norm.placed(norm.scale_term(*orders), at) for at, orders in slopes]
        moved = [(at, *orders) for at, orders in slopes]
        moved += [(self.factors[k][1][0], *orders) for k, orders in changes]
        squares = [sample for sample, of_q, _ in moved for _ in range(of_q)]
        centres = [sample for sample, _, of_m in moved for _ in range(of_m)]
        own = (terms_of(norm, self.factors[k][1], *orders) for k, orders in changes)
        for terms in product(*own):
            made, scales = self.copy(), [*of_slopes]
            for (k, _), (orders, value) in zip(changes, terms, strict=True):
                at, (sample, _) = self.factors[k]
                *more, last = orders
                made.factors[k] = at, (sample, last)
                made.factors += [(at, (sample, order)) for order in more]
                scales.append(value)
            for sample in centres:
                made._put([(sample, -1)])
            scale = multiply_all(scales, 0)
            for kept in product((True, False), repeat=len(squares)) if scale else ():
                each, limits = made.copy(), [scale]
                for sample, whole in zip(squares, kept, strict=True):
                    length = ((sample, -1), (sample, -1))
                    if whole:
                        each._put(length)
                    else:
                        limits.append({(monomial([mean(Local(factors=length))]), 0): Fraction(-1)})
                yield multiply_all(limits, 0), each

    def copy(self) -> Sums:
        """One to go on with."""
        found = copy(self)
        found.factors, found._name = [*self.factors], [*self._name]
        return found

    def _put(self, factors: Sequence[Pair]) -> None:
        """1/n times these at a new neuron."""
        self._name.append(len(self._name))
        self.factors += [(len(self._name) - 1, factor) for factor in factors]
        self._power += 1

    @property
    def order(self) -> int:
        """That of 1/n of its largest part."""
        apart = any(self._named(each).is_apart for each in self._fields)
        return self._power - len(set(self._name)) + apart

    def _named(self, each: Placed) -> Tangent:
        """H with the names of its neurons; of one that is carried past the weights, j < 0."""
        ends = tuple(j if j < 0 else self._name[j] for j in each.neurons)
        return Tangent(ends, each.samples, each.field)

    def canonical(self, more: int = 0) -> Sum:
        """The sum with its neurons in an order of its own; with so many 1/n more."""
        content: dict[int, list[Pair]] = {j: [] for j in set(self._name)}
        for j, factor in self.factors:
            content[self._name[j]].append(factor)
        fields = [self._named(each) for each in self._fields]
        first = dict.fromkeys(j for each in fields for j in each.neurons if j >= 0)
        places = {j: tuple(sorted(factors)) for j, factors in content.items()}
        ordered = [*first, *sorted(places.keys() - first, key=places.__getitem__)]
        number = {j: at for at, j in enumerate(ordered)}
        tangents = tuple(
            each._replace(neurons=tuple(number.get(j, j) for j in each.neurons)) for each in fields
        )
        neurons = tuple(places[j] for j in ordered)
        return Sum(tuple(self._left), neurons, tangents, self._power + more)


class Sum(NamedTuple):
    """n^{-power} Σ_j of what stands at summed neurons, and at those outside of the sums.

    Arguments:
        left: at those outside.
        neurons: σ^{(order)} of samples, at each summed one.
        fields: H, at summed neurons, or at the one outside of the place −1 − j.
        power: that of 1/n.
    """

    left: tuple[Local, ...]
    neurons: tuple[tuple[Pair, ...], ...]
    fields: tuple[Tangent, ...]
    power: int


@cache(entries=8192)
def averaged(of: Sum) -> Expansion:
    """E of it, through order 1/n."""
    outside, spent = len(of.left), of.power
    own = [range(outside)] * len(of.neurons)
    by_free: dict[int, Expansion] = {}
    spaces = [STREAM.space] * len(of.neurons)
    for homes, free in coincidences(spaces, own, outside, spent - 1):
        content = [*of.left, *(Local() for _ in free)]
        for at, factors in zip(homes, of.neurons, strict=True):
            merged = tuple(sorted((*content[at].factors, *factors)))
            content[at] = content[at]._replace(factors=merged)
        fields = [_moved(each, homes) for each in of.fields]
        found = distinct(content, fields, 1 - spent + len(free))
        add(by_free.setdefault(len(free), {}), found)
    total: Expansion = {}
    for count, found in by_free.items():
        ways = multiply(ways_of(None, count, outside), constant(1, spent), 1)
        add(total, multiply(found, ways, 1))
    return total


def _moved(each: Tangent, homes: Sequence[int]) -> Tangent:
    """H where its neurons are these; of one that is carried past the weights, −1 − j."""
    return each._replace(neurons=tuple(-1 - j if j < 0 else homes[j] for j in each.neurons))
