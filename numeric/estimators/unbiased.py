"""Tensors from samples: unbiased at every finite width, with standard errors.

The moments of layer ℓ+1 follow from the inner products S = s·s'/n_in of the vectors s_{;O} of layer
ℓ (`probes`), its own weights, biases and directions averaged exactly. Each pair of M_p's neural
indices is made by biases, by the parameters of layer ℓ+1 on an edge that it joins, or by weights:

    M_p = E[ Σ C_b^|A| Π_{(a,b) ∈ B} (λ_W S_ab + [both ends have no other edge] λ_b)
             Σ_q C(p∖A∖B, q) Π_{(a,b) ∈ q} n_in S_ab ] ,

A ⊆ p among the preactivations, B ⊆ p among the edges, C the weights' pairing matrix. The *pairing
estimator* takes layer ℓ+1's own fields instead: contract them with every pairing q and multiply
by Weingarten's function, M_p = E[Σ_q Wg(p, q) Σ_i δ_q(i) φ … φ].

Products of means are estimated without bias by sums over distinct draws (U-statistics), themselves
polynomials in power sums. Standard errors are the jackknife's over the blocks of draws (unequal
sizes: Busing, Meijer and van der Leeden, *Stat. Comput.* 9, 1999). Derived here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations, product
from math import prod
from operator import add, mul

import numpy as np
import sympy

from derive.engine.fields import Field
from derive.engine.tensors import Name
from derive.errors import InputError
from derive.groups.pairings import (
    Pairing,
    Partition,
    as_pairing,
    coset_type,
    mobius,
    ordered,
    pair_partitions,
    set_partitions,
)
from derive.groups.weingarten import weingarten
from derive.weights import WeightEnsemble
from derive.work.caches import cache

from ..arrays import Array
from .moments import BLOCKS, Record
from .observables import Plan, Statistic, components, expanded
from .polynomials import Structure, flattened
from .probes import Jet, Probes, degrees, edges_of

Vector = tuple[Jet, int]
"""The vector s_{;O} of one sample."""

Entry = tuple[Vector, Vector]
"""The inner product S of two vectors, in order."""

Polynomial = dict[tuple[Entry, ...], Array]
"""A polynomial in the entries, its coefficients an array over layers."""


@dataclass(frozen=True)
class Reading:
    """How the moments of layers 1, 2, … follow from the layer before.

    Arguments:
        layers: each layer's (weights, n_in, n_out).
        parameters: each layer's (C_b, λ_b, λ_W).
        symbols: those of the user's equations, each with its values layer by layer.
    """

    layers: tuple[tuple[WeightEnsemble, int, int], ...]
    parameters: tuple[tuple[float, float, float], ...]
    symbols: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def widths(self) -> Array:
        """n_in, layer by layer."""
        return np.array([float(n_in) for _, n_in, _ in self.layers])

    @property
    def C_b(self) -> Array:
        """The variance of the biases, layer by layer."""
        return np.array(self.parameters)[:, 0]

    @property
    def lambda_b(self) -> Array:
        """The learning rate of the biases, layer by layer."""
        return np.array(self.parameters)[:, 1]

    @property
    def lambda_W(self) -> Array:
        """The learning rate of the weights, layer by layer."""
        return np.array(self.parameters)[:, 2]

    def coefficient(self, coset: Partition) -> Array:
        """C(p, q) by coset type, with C_W^k in it, layer by layer."""
        return _coefficients(self, coset)


@cache(entries=256)
def _coefficients(reading: Reading, coset: Partition) -> Array:
    return np.array([weight_coefficient(w, coset, *sizes) for w, *sizes in reading.layers])


@cache(entries=4096)
def weight_coefficient(ensemble: WeightEnsemble, coset: Partition, n_in: int, n_out: int) -> float:
    """C(p, q) with C_W^k in it, at whole widths."""
    sizes = sympy.Integer(n_in), sympy.Integer(n_out)
    return float(ensemble.C_W ** sum(coset) * ensemble.coefficient(coset, *sizes))


@cache(entries=4096)
def haar_coefficient(n: int, coset: Partition) -> float:
    """Weingarten's function of O(n)."""
    return float(weingarten(coset, sympy.Integer(n)))


def check_width(n: int, pairs: int) -> None:
    """Refuse a layer that is too narrow to tell the pairings of 2·`pairs` fields apart."""
    if n < pairs:
        raise InputError(
            "width",
            n,
            f"at least {pairs} neurons, to tell the pairings of {2 * pairs} fields apart",
        )


def moment(
    trees: tuple[Field, ...],
    pairing: Pairing,
    samples: tuple[int, ...],
    reading: Reading,
    probes: Probes,
) -> Polynomial:
    """M_p in the inner products of the layer before, averaged over the probes on its edges."""
    polynomial = _one_assignment(trees, pairing, samples, reading)
    assignments = list(probes.assignments(trees))
    total: Polynomial = {}
    entries = {entry for monomial in polynomial for entry in monomial}
    for chosen in assignments:
        name = {entry: _entry(*(_rename(vector, chosen) for vector in entry)) for entry in entries}
        for monomial, value in polynomial.items():
            renamed = tuple(sorted([name[entry] for entry in monomial]))
            total[renamed] = total.get(renamed, 0.0) + value / len(assignments)
    return total


def _rename(vector: Vector, probes: Sequence[int]) -> Vector:
    jet, sample = vector
    return tuple(sorted(probes[edge] for edge in jet)), sample


def _entry(a: Vector, b: Vector) -> Entry:
    return (a, b) if a <= b else (b, a)


def _one_assignment(
    fields: tuple[Field, ...], pairing: Pairing, samples: tuple[int, ...], reading: Reading
) -> Polynomial:
    """M_p with edge e along probe e."""
    edges, degree = edges_of(fields), degrees(fields)
    ends = {ordered(*edge): number for number, edge in enumerate(edges)}
    jets = [tuple(e for e, edge in enumerate(edges) if node in edge) for node in range(len(degree))]
    total: Polynomial = {}
    for makers in product(("weights", "new"), repeat=len(pairing)):
        constant = np.ones_like(reading.widths)
        choices: list[list[tuple[Array, tuple[Entry, ...]]]] = []
        rest: list[Vector] = []
        for (a, b), maker in zip(pairing, makers, strict=True):
            edge = ends.get(ordered(a, b))
            if maker == "weights":
                rest += [(jets[a], samples[a]), (jets[b], samples[b])]
            elif edge is not None:
                left, right = (
                    (tuple(e for e in jets[node] if e != edge), samples[node]) for node in (a, b)
                )
                choices.append([(reading.lambda_W, (_entry(left, right),))])
                if degree[a] == degree[b] == 1:
                    choices[-1].append((reading.lambda_b, ()))
            elif degree[a] == degree[b] == 0:
                constant = constant * reading.C_b
            else:
                constant = np.zeros_like(constant)
        if not constant.any():
            continue
        choices.append(list(_weights_average(rest, reading)))
        for chosen in product(*choices):
            value = constant * prod((part for part, _ in chosen), start=np.ones_like(constant))
            if value.any():
                monomial = tuple(sorted(entry for _, entries in chosen for entry in entries))
                total[monomial] = total.get(monomial, 0.0) + value
    return total


def _weights_average(
    vectors: Sequence[Vector], reading: Reading
) -> Iterator[tuple[Array, tuple[Entry, ...]]]:
    """The terms n_in^k C(p, q) Π S, p the pairing that joins vectors 0 and 1, 2 and 3, …"""
    p: Pairing = tuple((a, a + 1) for a in range(0, len(vectors), 2))
    for q in pair_partitions(len(vectors)):
        value = reading.coefficient(coset_type(p, q)) * reading.widths ** len(q)
        yield value, tuple(_entry(vectors[a], vectors[b]) for a, b in q)


def compiled(plan: Plan, reading: Reading, probes: Probes) -> tuple[Structure, Array]:
    """The plan's statistics as polynomials in the vectors' inner products, row by row.

    Vector (jet, sample) has number jet·m + sample.
    """
    return _compiled(tuple(plan.trees()), plan.statistics, plan.samples, reading, probes)


@cache(entries=64)
def _compiled(
    trees: tuple[tuple[Field, ...], ...],
    statistics: tuple[Statistic, ...],
    samples: int,
    reading: Reading,
    probes: Probes,
) -> tuple[Structure, Array]:
    vectors = [(jet, sample) for jet in probes.jets for sample in range(samples)]
    place = {vector: number for number, vector in enumerate(vectors)}
    number = {
        (a, b): place[a] * len(vectors) + place[b] for a in vectors for b in vectors if a <= b
    }
    polynomials = [
        moment(fields, as_pairing(statistic.pairing), statistic.samples, reading, probes)
        for fields, statistic in zip(trees, statistics, strict=True)
    ]
    structure, coefficients = flattened(polynomials, number)
    if not coefficients.size:  # without weights and biases nothing is left
        coefficients = np.zeros((len(reading.layers), 0))
    return structure, coefficients


@dataclass(frozen=True)
class Estimate:
    """A tensor from samples, layer by layer: arrays (depth, m, …, m).

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
        shape = (len(record.reference),) + (record.plan.samples,) * (2 * target.pairs)
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

Expansion = tuple[tuple[int, tuple[Choice, ...]], ...]
"""The terms of a cumulant: their weights, and their products of means multiplied out."""

Places = tuple[tuple[slice | int, ...], ...]
"""Where a component stands in a tensor's array."""


@cache(entries=256)
def _expansion(plan: Plan, target: Name) -> tuple[int, tuple[tuple[Expansion, Places], ...]]:
    """The number of means in the longest product; each component's expansion, and its places."""
    classes = components(target, plan.samples)
    every = tuple(
        (
            tuple(
                (weight, _choices(tuple(plan.position[factor] for factor in factors)))
                for weight, factors in expanded(component)
            ),
            _everywhere(places),
        )
        for component, places in classes.items()
    )
    means = max(len(factors) for component in classes for _, factors in expanded(component))
    return means, every


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
        error: Array = np.sqrt(np.mean(deviation**2 / (ratio - 1.0), axis=0))
        return error
