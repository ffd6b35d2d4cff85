"""One input: the tower averaged exactly over all weights, given the forward path.

Given the path z^(1), …, z^(ℓ), each weight matrix is known on one vector, W ŝ = f with ŝ = σ/|σ|,
and is otherwise invariant under rotations:

    W = f ŝᵀ + W_⊥ ,    E[Π W_⊥] = Σ_{p,q} C_⊥(p,q) Π_p (δ − ρ f f)(i) Π_q (δ − ŝ ŝ)(j) ,

C_⊥ = (C_W N/n_in)^k Wg_{N−1} and ρ = n_in/(C_W N) for a block of a Haar matrix on N,
C_⊥ = (C_W/n_in)^k δ_pq and ρ = 0 for Gaussian weights. So the average of a product of fields is

    E[φ_{i_1 …} φ … | path] = Σ_π c_π Π_{(a,b) ∈ π} δ_{i_a i_b} Π_{a ∉ π} f_{i_a}

over *partial* pairings π of its neural indices, and the forward equations turn the c_π of one layer
into those of the next, with sums over neurons of products of σ^{(k)}, f and ŝ for coefficients. No
matrix is built and nothing but the path is sampled; exact at every width (derived here).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from derive.fields import AnyField, Term, forward, slots_of
from derive.pairings import Pairing, Partition, coset_type, ordered, pair_partitions
from derive.parameters import LAMBDA_B, LAMBDA_W
from derive.tensors import slot_orders

from .estimate import Reading, haar_coefficient
from .observables import Statistic
from .weights import HAAR, Array

Kind = tuple[AnyField, ...]
"""A product of fields, in the order of their ranks."""


class State(NamedTuple):
    """The coefficient c_π of a product of fields."""

    kind: Kind
    pairs: Pairing


class Sum(NamedTuple):
    """Σ_j Π_k σ^{(k)}_j f_j^a ŝ_j^b, k over `orders`."""

    orders: tuple[int, ...]
    f: int
    s: int


Factor = State | Sum
Counts = NDArray[np.int64]
Polynomial = dict[tuple[Factor, ...], Array]
"""A polynomial in both, its coefficients an array over layers."""


@cache
def partial_pairings(points: tuple[int, ...]) -> tuple[Pairing, ...]:
    """All ways to pair some of the points."""
    if not points:
        return ((),)
    first, rest = points[0], points[1:]
    found = list(partial_pairings(rest))
    for position, partner in enumerate(rest):
        others = rest[:position] + rest[position + 1 :]
        found += [((first, partner), *tail) for tail in partial_pairings(others)]
    return tuple(found)


@cache
def _symmetries(kind: Kind) -> tuple[tuple[int, ...], ...]:
    """The permutations of slots that exchange equal fields and keep each field."""
    return tuple(slot_orders(kind, range(len(kind))))


@cache
def representative(kind: Kind, pairs: Pairing) -> State:
    """The coefficient up to the symmetries of its fields."""
    images = (
        tuple(sorted(ordered(image[a], image[b]) for a, b in pairs)) for image in _symmetries(kind)
    )
    return State(kind, min(images))


_numbers: dict[tuple[Factor, ...], int] = {}
"""The monomials that have been met, each with its number: cheaper to compare than they are."""


@cache
def _contraction(term: Term, joined: Pairing, ends: tuple[int, ...]) -> tuple[Counts, Counts]:
    """Σ over all neurons of a term whose weights are gone: monomials' numbers, and how often.

    Arguments:
        joined: pairs of places in `term.weights` whose neurons are one.
        ends: places whose neuron is contracted with ŝ.
    """
    placed = sorted(term.fields, key=lambda each: each.field.rank)
    kind = tuple(each.field for each in placed)
    slots = tuple(j for each in placed for j in each.neurons)
    neuron = [j for _, j in term.weights]
    counts: dict[int, int] = {}
    for pairs in partial_pairings(tuple(range(len(slots)))):
        name = list(range(term.neurons))
        unions = [(neuron[a], neuron[b]) for a, b in joined]
        for a, b in unions + [(slots[a], slots[b]) for a, b in pairs]:
            name = [name[a] if other == name[b] else other for other in name]
        paired = {slot for pair in pairs for slot in pair}
        factors: list[Factor] = [representative(kind, pairs)] if kind else []
        for one in sorted(set(name)):
            orders = sorted(order for j, _, order in term.factors if name[j] == one)
            f = sum(name[j] == one for slot, j in enumerate(slots) if slot not in paired)
            s = sum(name[neuron[a]] == one for a in ends)
            factors.append(Sum(tuple(orders), f, s))
        monomial = _numbers.setdefault(tuple(sorted(factors, key=str)), len(_numbers))
        counts[monomial] = counts.get(monomial, 0) + 1
    return np.array(list(counts)), np.array(list(counts.values()))


class _Sum:
    """A polynomial in the making: contractions, each with its coefficient."""

    def __init__(self) -> None:
        self._terms: list[tuple[Counts, Counts]] = []
        self._values: list[Array] = []

    def add(self, contraction: tuple[Counts, Counts], value: Array) -> None:
        """Add a coefficient times a contraction."""
        if value.any():
            self._terms.append(contraction)
            self._values.append(value)

    @property
    def polynomial(self) -> Polynomial:
        """All of it, monomial by monomial."""
        if not self._terms:
            return {}
        met = np.concatenate([monomials for monomials, _ in self._terms])
        counts = np.concatenate([counts for _, counts in self._terms]).astype(float)
        column = np.repeat(np.arange(len(self._terms)), [len(m) for m, _ in self._terms])
        numbers, row = np.unique(met, return_inverse=True)
        shape = numbers.size, len(self._terms)
        coefficients = sparse.coo_array((counts, (row, column)), shape) @ np.array(self._values)
        monomials = list(_numbers)
        return {monomials[k]: c for k, c in zip(numbers, coefficients, strict=True)}


@dataclass(frozen=True)
class Conditioned:
    """The law of W_⊥ at layers 1, 2, …

    Arguments:
        factors: each layer's weights, (GAUSSIAN or HAAR, N, √(C_W N/n_in) or √(C_W/n_in)).
    """

    factors: tuple[tuple[int, int, float], ...]

    @property
    def scale(self) -> Array:
        """What each pair of weights brings to C_⊥."""
        return np.array([scale**2 for _, _, scale in self.factors])

    @property
    def rho(self) -> Array:
        """ρ, layer by layer."""
        return np.array([scale**-2 if kind == HAAR else 0.0 for kind, _, scale in self.factors])

    def coefficient(self, coset: Partition) -> Array:
        """C_⊥ by coset type, without the scale."""
        wick = float(all(part == 1 for part in coset))
        return np.array(
            [
                haar_coefficient(big - 1, coset) if kind == HAAR and coset else wick
                for kind, big, _ in self.factors
            ]
        )


class Averages:
    """The polynomials of an ensemble: statistics and states of layer ℓ+1 in what layer ℓ has."""

    def __init__(
        self, statistics: Iterable[Statistic], reading: Reading, given: Conditioned
    ) -> None:
        self._reading, self._given = reading, given
        self.statistics = [self._statistic(kinds, pairing) for kinds, _, pairing, _ in statistics]
        found: dict[State, Polynomial] = {}
        pending = _states(self.statistics)
        while pending:
            state = pending.pop()
            found[state] = self._state(*state)
            pending |= _states([found[state]]) - found.keys()
        self.states = {state: found[state] for state in sorted(found, key=str)}

    def _statistic(self, fields: Kind, pairing: Pairing) -> Polynomial:
        """M_p, the layer's own weights averaged without any condition."""
        total = _Sum()
        for term in _terms(fields):
            rest = set(pairing)
            made = {ordered(*pair) for pair in term.deltas}
            biased = {pair for pair in rest if set(pair) <= set(term.biases)}
            if not made <= rest or 2 * len(biased) != len(term.biases):
                continue
            place = {slot: a for a, (slot, _) in enumerate(term.weights)}
            pairs = sorted((place[a], place[b]) for a, b in rest - made - biased)
            p: Pairing = tuple(sorted(ordered(a, b) for a, b in pairs))
            scale = self._parameters(term) * self._reading.C_b ** len(biased)
            for q in pair_partitions(len(term.weights)):
                value = scale * self._reading.coefficient(coset_type(p, q))
                total.add(_contraction(term, q, ()), value)
        return total.polynomial

    def _state(self, kind: Kind, pairs: Pairing) -> Polynomial:
        """c_π of layer ℓ+1, given the path."""
        total = _Sum()
        slots = set(range(sum(field.nodes for field in kind)))
        single = slots - {slot for pair in pairs for slot in pair}
        for term in _terms(kind):
            made = {ordered(*pair) for pair in term.deltas}
            if not made <= set(pairs):
                continue
            place = {slot: a for a, (slot, _) in enumerate(term.weights)}
            fixed = tuple(sorted(ordered(place[a], place[b]) for a, b in set(pairs) - made))
            free = tuple(sorted(place[slot] for slot in single))
            everything = range(len(term.weights))
            for joined, value in self._perpendicular(fixed, free).items():
                met = {a for pair in joined for a in pair}
                ends = tuple(a for a in everything if a not in met)
                total.add(_contraction(term, joined, ends), self._parameters(term) * value)
        return total.polynomial

    def _perpendicular(self, fixed: Pairing, free: tuple[int, ...]) -> dict[Pairing, Array]:
        """By which neurons are joined, the others being contracted with ŝ: the coefficient of
        δ on the pairs `fixed` and f on the slots `free`."""
        given, total = self._given, dict[Pairing, Array]()
        for extra in partial_pairings(free):
            p = tuple(sorted((*fixed, *extra)))
            points = sorted(a for pair in p for a in pair)
            factor = (-given.rho) ** len(extra) * given.scale ** len(p)
            for q in _pairings_of(tuple(points)):
                value = factor * given.coefficient(coset_type(p, q) if p else ())
                if not value.any():
                    continue
                for kept in range(len(q) + 1):
                    for joined in combinations(q, kept):
                        signed = (-1) ** (len(q) - kept) * value
                        total[joined] = total.get(joined, 0.0) + signed
        return total

    def _parameters(self, term: Term) -> Array:
        reading = self._reading
        rates: dict[Any, Array] = {LAMBDA_W: reading.lambda_W, LAMBDA_B: reading.lambda_b}
        value: Array = float(term.coefficient) * reading.widths ** -float(term.fan_in)
        for atom, power in term.parameters:
            value = value * rates[atom] ** power
        return value


@cache
def _terms(kind: Kind) -> tuple[Term, ...]:
    """The forward equation of a product of fields."""
    expanded = [
        forward(field, slots, (0,) * field.nodes)
        for field, slots in zip(kind, slots_of(kind), strict=True)
    ]
    return tuple(prod(terms, start=Term()) for terms in product(*expanded))


@cache
def _pairings_of(points: tuple[int, ...]) -> tuple[Pairing, ...]:
    return tuple(
        tuple((points[a], points[b]) for a, b in pairing)
        for pairing in pair_partitions(len(points))
    )


def _states(polynomials: Iterable[Polynomial]) -> set[State]:
    """The coefficients that occur."""
    return {factor for factor in _factors(polynomials) if isinstance(factor, State)}


def sums(polynomials: Iterable[Polynomial]) -> list[Sum]:
    """The sums over neurons that occur."""
    return sorted({factor for factor in _factors(polynomials) if isinstance(factor, Sum)})


def _factors(polynomials: Iterable[Polynomial]) -> Iterator[Factor]:
    for polynomial in polynomials:
        for monomial in polynomial:
            yield from monomial
