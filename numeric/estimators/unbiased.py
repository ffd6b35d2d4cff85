"""Tensors from samples: unbiased at every finite width, with standard errors.

Samplers record sums over networks of products of the moments that each estimates (`sums`). Products
of means are estimated without bias by sums over distinct draws (U-statistics), themselves
polynomials in power sums. Standard errors are the jackknife's over the blocks of draws (unequal
sizes: Busing, Meijer and van der Leeden, *Stat. Comput.* 9, 1999). Derived here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from math import prod
from operator import add, mul

import numpy as np

from derive.engine.orbits import orbits
from derive.engine.tensors import Name
from derive.errors import InputError
from derive.groups.pairings import mobius, pattern_of, set_partitions
from derive.work.caches import cache

from ..arrays import Array
from .moments import BLOCKS, Record
from .observables import Plan, Statistic, expanded


def check_width(n: int, pairs: int) -> None:
    """Refuse a layer that is too narrow to tell the pairings of 2·`pairs` fields apart."""
    if n < pairs:
        raise InputError(
            "width",
            n,
            f"at least {pairs} neurons, to tell the pairings of {2 * pairs} fields apart",
        )


@dataclass(frozen=True)
class Estimate:
    """A tensor from samples, layer by layer: arrays (depth, m, …, m), or (depth, orbits).

    Arguments:
        value: the unbiased estimate of the tensor of leading order, without its power of n.
        error: its standard error.
        terms: Σ|terms| of the subtraction that it is the result of, so that its rounding error
            is a small multiple of 2^−52 times this.
    """

    value: Array
    error: Array
    terms: Array


def cumulant(record: Record, target: Name) -> Estimate:
    """The coefficient of δ_p in the joint cumulant that this tensor is.

    Raises:
        InputError: if there are too few draws for an unbiased estimate or for its error.
    """
    return cumulants(record, (target,))[0]


def cumulants(record: Record, targets: Sequence[Name]) -> list[Estimate]:
    """`cumulant` of each of these tensors: the means that several of them need are taken once."""
    plans = [_expansion(record.plan, target) for target in targets]
    for target, (means, _) in zip(targets, plans, strict=True):
        if record.draws <= means:
            raise InputError("draws", record.draws, f"at least {means + 1} for {target}")
    resampled, found = _Resampled(record), []
    for target, (_, expansions) in zip(targets, plans, strict=True):
        shape = (len(record.reference), *_shape(record.plan, target))
        estimate = Estimate(np.empty(shape), np.empty(shape), np.empty(shape))
        for terms, places in expansions:
            value, error, size = resampled.cumulant(terms)
            for place in places:
                estimate.value[place], estimate.error[place] = value, error
                estimate.terms[place] = size
        found.append(estimate)
    return found


Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""Of a product Π_j (X⁰ + (X − X⁰))_j the factors X⁰ and the factors X − X⁰, as their places."""

Expansion = tuple[tuple[float, tuple[Choice, ...]], ...]
"""The terms of a cumulant: their weights, and their products of means multiplied out."""

Places = tuple[tuple[slice | int, ...], ...]
"""Where a component stands in a tensor's array."""


@cache(entries=256)
def _expansion(plan: Plan, target: Name) -> tuple[int, tuple[tuple[Expansion, Places], ...]]:
    """The number of means in the longest product; each number's expansion, and its places: a number
    is a component, or the mean over an orbit of them."""
    classes = plan.components(target)
    every = tuple(
        (
            tuple(
                (share * weight, _choices(tuple(plan.position[factor] for factor in factors)))
                for component, share in shares
                for weight, factors in expanded(component)
            ),
            _everywhere(places),
        )
        for shares, places in _numbers(plan, target)
    )
    means = max(len(factors) for component in classes for _, factors in expanded(component))
    return means, every


def _numbers(
    plan: Plan, target: Name
) -> Iterator[tuple[list[tuple[Statistic, float]], list[tuple[int, ...]]]]:
    """A number to estimate: components with their shares, and where it stands."""
    classes = plan.components(target)
    if not plan.exchangeable:
        yield from (([(component, 1.0)], places) for component, places in classes.items())
        return
    for place, patterns in enumerate(orbits(target, plan.samples).values()):
        own = {k: len(each) for k, each in classes.items() if pattern_of(each[0]) in patterns}
        total = sum(own.values())
        yield [(component, count / total) for component, count in own.items()], [(place,)]


def _shape(plan: Plan, target: Name) -> tuple[int, ...]:
    """Of the numbers of a layer."""
    if plan.exchangeable:
        return (len(orbits(target, plan.samples)),)
    return (len(plan.measured),) * (2 * target.pairs)


def _everywhere(places: Iterable[tuple[int, ...]]) -> Places:
    """These places at all layers."""
    return tuple((slice(None), *place) for place in places)


def _choices(places: tuple[int, ...]) -> tuple[Choice, ...]:
    """The terms of Π_j (X⁰ + (X − X⁰))_j, those of few factors X − X⁰ first."""
    which = range(len(places))
    return tuple(
        (tuple(places[j] for j in which if j not in chosen), tuple(places[j] for j in chosen))
        for count in range(len(places) + 1)
        for chosen in combinations(which, count)
    )


@cache(entries=512)
def _power_sums(plan: Plan, places: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Σ Π_j (X − X⁰)_j over choices of different draws, in sums over all draws of products: a
    weight, and the products whose sums are multiplied, for each partition of the factors."""
    return tuple(
        (
            prod(mobius(len(block)) for block in partition),
            tuple(plan.products[tuple(sorted(places[j] for j in block))] for block in partition),
        )
        for partition in set_partitions(tuple(range(len(places))))
    )


class _Resampled:
    """Every layer's power sums: of all draws, then of all but each block.

    Arrays are (samples of the draws, depth), the sample of all draws first.
    """

    def __init__(self, record: Record) -> None:
        used = min(record.draws, BLOCKS)  # the others are empty
        block, count = record.sums[:used], record.counts[:used]
        total = block.sum(axis=0).T  # by product, as all that follows
        self._plan = record.plan
        self._reference, self._sizes = record.reference, record.sizes
        self._multiplied = record.multiplied
        self._sums = np.empty((len(total), 1 + used, total.shape[1]))
        self._sums[:, 0] = total
        np.subtract(total[:, None], block.transpose(2, 0, 1), out=self._sums[:, 1:])
        self._constants: dict[tuple[int, ...], Array | None] = {}
        self._means: dict[tuple[int, ...], Array] = {}
        self._ways: dict[int, Array] = {}
        draws = np.concatenate([[record.draws], record.draws - count]).astype(float)
        self._draws = np.repeat(draws, total.shape[1]).reshape(1 + used, -1)  # to go line by line

    def cumulant(self, expansion: Expansion) -> tuple[Array, Array, Array]:
        """The joint cumulant's coefficient, its error and its terms, layer by layer."""
        values, terms = np.zeros(self._sums.shape[1:]), np.zeros(self._sums.shape[2])
        for weight, choices in expansion:
            term = weight * self._product_of_means(choices)
            values += term
            terms += np.abs(term[0])
            if self._sizes is not None:
                every = choices[0][0]
                terms += abs(weight) * self._sizes[:, list(every)].prod(axis=1)
        return values[0], self._jackknife(values), terms

    def _product_of_means(self, choices: Sequence[Choice]) -> Array:
        """Π_j E[X_j] without bias: X = X⁰ + (X − X⁰); of factors, for all layers so far."""
        total: Array | float = 0.0
        for rest, places in choices:
            if not rest:
                total = total + self._distinct_draws(places)
            elif (constant := self._constant(rest)) is not None:
                total = total + (constant * self._distinct_draws(places) if places else constant)
        means = np.asarray(total)
        return np.cumprod(means, axis=-1) if self._multiplied else means

    def _constant(self, places: tuple[int, ...]) -> Array | None:
        """Π_j X⁰_j, layer by layer; None where it is zero at all of them."""
        if places not in self._constants:
            constant = reduce(mul, (self._reference[:, x] for x in places))
            self._constants[places] = constant if constant.any() else None
        return self._constants[places]

    def _distinct_draws(self, places: tuple[int, ...]) -> Array:
        """Π_j (X − X⁰)_j averaged over all choices of a different draw for each factor."""
        if places not in self._means:
            products = [
                reduce(mul, (self._sums[k] for k in together)) * weight
                for weight, together in _power_sums(self._plan, places)
            ]
            self._means[places] = reduce(add, products) / self._choices(len(places))
        return self._means[places]

    def _choices(self, count: int) -> Array:
        """In how many ways so many different draws are chosen, one after the other."""
        if count not in self._ways:
            self._ways[count] = reduce(mul, (self._draws - used for used in range(count)))
        return self._ways[count]

    @cached_property
    def _ratio(self) -> Array:
        """All draws to those of each block."""
        ratio: Array = self._draws[0] / (self._draws[0] - self._draws[1:])
        return ratio

    def _jackknife(self, values: Array) -> Array:
        """The standard error of values[0] from the values without each block."""
        ratio = self._ratio
        pseudo = (ratio - 1.0) * (values[0] - values[1:])  # pseudovalues, less values[0]
        deviation = pseudo - np.sum(pseudo / ratio, axis=0)
        error: Array = np.sqrt(np.sum(deviation**2 / (ratio - 1.0), axis=0) / len(ratio))
        return error
