"""The tower averaged exactly over all weights, given the forward paths of a few inputs.

Given the path z^(1), …, z^(ℓ) of m inputs, each weight matrix is known on m vectors, W ŝ_a = f_a
with ŝ_a an orthonormal basis of the σ's, and is otherwise invariant under rotations:

    W = Σ_a f_a ŝ_aᵀ + W_⊥ ,
    E[Π W_⊥] = Σ_{p,q} C_⊥(p,q) Π_p (δ − ρ Σ_a f_a f_a)(i) Π_q (δ − Σ_a ŝ_a ŝ_a)(j) ,

C_⊥ = (C_W N/n_in)^k Wg_{N−m} and ρ = n_in/(C_W N) for a block of a Haar matrix on N,
C_⊥ = (C_W/n_in)^k δ_pq and ρ = 0 for Gaussian weights. So the average of a product of fields is

    E[φ_{i_1 …} φ … | path] = Σ_π Σ_a c_{π,a} Π_{(k,l) ∈ π} δ_{i_k i_l} Π_{k ∉ π} f_{a_k; i_k}

over *partial* pairings π of its neural indices and labels a of the others, and the forward
equations turn the c of one layer into those of the next, with sums over neurons of products of
σ^{(k)}, f and ŝ for coefficients. No matrix is built and nothing but the path is sampled; exact at
every width (derived here).

Low-rank weights are W = C M, M of r rows a matrix as above and C a uniform frame of r columns in
n_out dimensions. M ŝ_a = λ_a g_a with orthonormal g_a, once the ŝ are turned so, and C g_a = h_a is
a frame: f_a = λ_a h_a, orthogonal. C is known on the g_a and otherwise a block of a Haar matrix on
n_out − m, whose average over C C^T on pairs p' of the rows of M is

    c(p, p') = Σ_q Wg_{n_out − m}(p, q) (r − m)^{number of cycles of q with p'} .

With ν_a = λ_a^{-2}, E[Π W_⊥] follows from these three steps, S the pairs that stay with the g_a:

    Σ_{p',q} C_⊥(p',q) Π_q (δ − Σ_a ŝ_a ŝ_a)(j) Σ_{S ⊆ p'} Π_S Σ_a (ν_a − ρ) f_a f_a(i)
        Σ_p c(p, p'∖S) Π_p (δ − Σ_a ν_a f_a f_a)(i) .
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, count, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from derive.arithmetic.parameters import LAMBDA_B, LAMBDA_W, Parameter
from derive.engine.fields import AnyField, Z, forward, slots_of
from derive.engine.tensors import slot_orders
from derive.engine.through import Summand
from derive.groups.pairings import (
    Pairing,
    Partition,
    as_pairing,
    coset_type,
    matchings,
    ordered,
    pair_partitions,
)
from derive.work.caches import cache

from ..arrays import Array
from ..estimators.observables import Statistic
from ..estimators.sums import Reading, haar_coefficient
from ..random.lazy import HAAR

Kind = tuple[AnyField, ...]
"""A product of fields, in the order of their ranks."""


Labels = tuple[int, ...]


class State(NamedTuple):
    """The coefficient c of a product of fields: a sample for each slot, a label or −1 if paired."""

    kind: Kind
    pairs: Pairing
    samples: Labels
    labels: Labels


class Sum(NamedTuple):
    """Σ_j Π σ^{(k)}_{α; j} Π f_{a; j} Π ŝ_{a; j} over the (α, k) of sigma, the a of f and of s."""

    sigma: tuple[tuple[int, int], ...]
    f: Labels
    s: Labels


class Inverse(NamedTuple):
    """ν_a = 1/|f_a|² of the layer above, behind low-rank weights; 1 behind others."""

    label: int


Factor = State | Sum | Inverse
Monomial = tuple[Factor, ...]
Counts = NDArray[np.int64]
Polynomial = dict[Monomial, Array]
"""A polynomial in both, its coefficients an array over layers."""


@cache
def partial_pairings(points: tuple[int, ...]) -> tuple[Pairing, ...]:
    """All ways to pair some of the points."""
    return tuple(pairs for pairs, _ in matchings(points))


@cache
def _symmetries(kind: Kind) -> tuple[tuple[int, ...], ...]:
    """The permutations of slots that exchange equal fields and keep each field."""
    return tuple(slot_orders(kind, range(len(kind))))


@cache
def representative(kind: Kind, pairs: Pairing, samples: Labels, labels: Labels) -> State:
    """The coefficient up to the symmetries of its fields."""
    images = []
    for slots in _symmetries(kind):
        place = {slot: position for position, slot in enumerate(slots)}
        moved = tuple(sorted(ordered(place[a], place[b]) for a, b in pairs))
        images.append(
            State(
                kind,
                moved,
                tuple(samples[slot] for slot in slots),
                tuple(labels[slot] for slot in slots),
            )
        )
    return min(images, key=lambda state: state[1:])


_new_numbers = count()


@cache(entries=2**16)
def _number(monomial: Monomial) -> int:
    """A number that no other monomial has: cheaper to compare than they are."""
    return next(_new_numbers)


class _Counts(NamedTuple):
    """Monomials, their numbers, and how often each is in a contraction."""

    monomials: NDArray[np.object_]
    numbers: Counts
    times: Counts


@cache
def _contraction(
    term: Summand,
    samples: Labels,
    inputs: int,
    joined: Pairing,
    ends: Pairing,
    inverses: Labels = (),
) -> _Counts:
    """Σ over all neurons of a term whose weights are gone.

    Arguments:
        samples: of the slots of layer ℓ+1, by which the term names them.
        inputs: m, the number of labels.
        joined: pairs of places in `term.weights` whose neurons are one.
        ends: pairs (place, label) of those whose neuron is contracted with ŝ.
        inverses: the labels of factors ν.
    """
    known = [Inverse(label) for label in inverses]
    placed = sorted(term.fields, key=lambda each: each.field.rank)
    kind = tuple(each.field for each in placed)
    slots = tuple(j for each in placed for j in each.neurons)
    below = tuple(samples[slot] for each in placed for slot in each.samples)
    neuron = [j for *_, j in term.weights]
    times: dict[Monomial, int] = {}
    for pairs in partial_pairings(tuple(range(len(slots)))):
        name = list(range(len(term.neurons)))
        unions = [(neuron[a], neuron[b]) for a, b in joined]
        for a, b in unions + [(slots[a], slots[b]) for a, b in pairs]:
            name = [name[a] if other == name[b] else other for other in name]
        paired = {slot for pair in pairs for slot in pair}
        single = [slot for slot in range(len(slots)) if slot not in paired]
        neurons = [
            (
                one,
                tuple(sorted((samples[at], k) for j, at, k, _ in term.factors if name[j] == one)),
                tuple(sorted(label for a, label in ends if name[neuron[a]] == one)),
            )
            for one in sorted(set(name))
        ]
        for chosen in product(range(inputs), repeat=len(single)):
            label = dict(zip(single, chosen, strict=True))
            labels = tuple(label.get(slot, -1) for slot in range(len(slots)))
            factors: list[Factor] = [*known]
            factors += [representative(kind, pairs, below, labels)] if kind else []
            for one, sigma, s in neurons:
                f = tuple(sorted(label[slot] for slot in single if name[slots[slot]] == one))
                factors.append(Sum(sigma, f, s))
            monomial = tuple(sorted(factors, key=_spelled))
            times[monomial] = times.get(monomial, 0) + 1
    monomials = np.fromiter(times, object, len(times))  # an array of tuples, not of their parts
    numbers = np.array([_number(monomial) for monomial in times])
    return _Counts(monomials, numbers, np.array(list(times.values())))


_spelled = cache(str)


class _Sum:
    """A polynomial in the making: contractions, each with its coefficient."""

    def __init__(self) -> None:
        self._terms: list[_Counts] = []
        self._values: list[Array] = []

    def add(self, contraction: _Counts, value: Array) -> None:
        """Add a coefficient times a contraction."""
        if value.any():
            self._terms.append(contraction)
            self._values.append(value)

    @property
    def polynomial(self) -> Polynomial:
        """All of it, monomial by monomial."""
        if not self._terms:
            return {}
        monomials, met, times = (np.concatenate(each) for each in zip(*self._terms, strict=True))
        column = np.repeat(np.arange(len(self._terms)), [len(each.times) for each in self._terms])
        numbers, first, row = np.unique(met, return_index=True, return_inverse=True)
        shape = numbers.size, len(self._terms)
        shared = sparse.coo_array((times.astype(float), (row, column)), shape)
        coefficients = shared @ np.array(self._values)
        found: Polynomial = {}  # a monomial has two numbers if the first was dropped
        for monomial, c in zip(monomials[first], coefficients, strict=True):
            found[monomial] = found[monomial] + c if monomial in found else c
        return found


class Law(NamedTuple):
    """The weights of a layer, √(C_W N/n_in) or √(C_W/n_in) their scale, or M of low-rank W = C M.

    Arguments:
        kind, big, scale: GAUSSIAN, or HAAR on N = `big`.
        rank, frame: r and n_out of low-rank weights, 0 of others.
    """

    kind: int
    big: int
    scale: float
    rank: int = 0
    frame: int = 0


@dataclass(frozen=True)
class Conditioned:
    """The law of W_⊥ at layers 1, 2, …

    Arguments:
        laws: each layer's weights.
        inputs: m, the vectors on which they are known.
    """

    laws: tuple[Law, ...]
    inputs: int

    def coefficients(
        self, fixed: Pairing, extra: Pairing, q: Pairing
    ) -> Iterator[tuple[Pairing, Array]]:
        """Coefficients of Π_fixed δ(i) Π_extra f_a f_a(i) Π_q (δ − Σ_a ŝ_a ŝ_a)(j) in E[Π W_⊥], by
        layer: the pairs of `extra` that bring a ν, and the coefficient."""
        p = tuple(sorted((*fixed, *extra)))
        coset = coset_type(p, q) if p else ()
        yield (), self._powers(len(p), len(extra)) * self._whole(coset)
        if not any(law.rank for law in self.laws):
            return
        for kept in range(len(extra) + 1):
            for inverse in combinations(extra, kept):
                yield (
                    inverse,
                    self._powers(len(p), len(extra) - kept)
                    * [
                        _low_rank(law, self.inputs, (fixed, extra, inverse), q) if law.rank else 0.0
                        for law in self.laws
                    ],
                )

    def _powers(self, scales: int, rhos: int) -> Array:
        """The share of each pair of weights in C_⊥, and of each pair of f."""
        rho = np.array([law.scale**-2 if law.kind == HAAR else 0.0 for law in self.laws])
        powers: Array = (-rho) ** rhos * np.array([law.scale**2 for law in self.laws]) ** scales
        return powers

    def _whole(self, coset: Partition) -> Array:
        """C_⊥ by coset type, without the scale; 0 for low-rank weights."""
        return np.array([0.0 if law.rank else _rows(law, self.inputs, coset) for law in self.laws])


def _rows(law: Law, inputs: int, coset: Partition) -> float:
    """C_⊥ of W, or of M behind low-rank weights."""
    if law.kind == HAAR and coset:
        return haar_coefficient(law.big - inputs, coset)
    return float(all(part == 1 for part in coset))


@cache(entries=1 << 16)
def _low_rank(law: Law, inputs: int, given: tuple[Pairing, Pairing, Pairing], q: Pairing) -> float:
    """The coefficient of Π_inverse ν, without scale and ρ.

    Arguments:
        given: `fixed`, `extra` and `inverse`. Each pair of the last is either in S, or in p with
            the −ν of f f; the other extra pairs are in S.
    """
    fixed, extra, inverse = given
    total = 0.0
    for size in range(len(inverse) + 1):
        for cut in combinations(inverse, size):
            p = tuple(sorted((*fixed, *cut)))
            stay = [pair for pair in extra if pair not in cut]
            for between in _pairings_of(tuple(sorted(a for pair in p for a in pair))):
                rows = tuple(sorted((*stay, *between)))
                along = _rows(law, inputs, coset_type(rows, q) if q else ())
                total += (-1) ** size * _frame(law, inputs, p, between) * along
    return total


@cache(entries=1 << 16)
def _frame(law: Law, inputs: int, p: Pairing, between: Pairing) -> float:
    """c(p, p')."""
    if not p:
        return 1.0
    points = tuple(sorted(a for pair in p for a in pair))
    return sum(
        haar_coefficient(law.frame - inputs, coset_type(p, q))
        * float(law.rank - inputs) ** len(coset_type(q, between))
        for q in _pairings_of(points)
    )


class Averages:
    """The polynomials of an ensemble: statistics and states of layer ℓ+1 in what layer ℓ has."""

    def __init__(
        self, statistics: Iterable[Statistic], reading: Reading, given: Conditioned
    ) -> None:
        self._reading, self._given = reading, given
        self.statistics = [
            self._statistic(kinds, as_pairing(pairing), samples)
            for kinds, _, pairing, samples in statistics
        ]
        found: dict[State, Polynomial] = {}
        pending = _states(self.statistics)
        while pending:
            state = pending.pop()
            found[state] = self._state(state)
            pending |= _states([found[state]]) - found.keys()
        self.states = {state: found[state] for state in sorted(found, key=str)}

    def _statistic(self, fields: Kind, pairing: Pairing, samples: Labels) -> Polynomial:
        """M_p, the layer's own weights averaged without any condition."""
        total = _Sum()
        for term in _terms(fields):
            rest = set(pairing)
            made = {ordered(*pair) for pair in term.deltas}
            biased = {pair for pair in rest if set(pair) <= {slot for slot, _ in term.biases}}
            if not made <= rest or 2 * len(biased) != len(term.biases):
                continue
            place = {slot: a for a, (_, slot, _) in enumerate(term.weights)}
            pairs = sorted((place[a], place[b]) for a, b in rest - made - biased)
            p: Pairing = tuple(sorted(ordered(a, b) for a, b in pairs))
            scale = self._parameters(term) * self._reading.C_b ** len(biased)
            for q in pair_partitions(len(term.weights)):
                value = scale * self._reading.coefficient(coset_type(p, q))
                total.add(_contraction(term, samples, self._given.inputs, q, ()), value)
        return total.polynomial

    def _state(self, state: State) -> Polynomial:
        """c of layer ℓ+1, given the path."""
        total = _Sum()
        pairs, inputs = set(state.pairs), self._given.inputs
        for term in _terms(state.kind):
            made = {ordered(*pair) for pair in term.deltas}
            if not made <= pairs:
                continue
            place = {slot: a for a, (_, slot, _) in enumerate(term.weights)}
            fixed = tuple(sorted(ordered(place[a], place[b]) for a, b in pairs - made))
            free = {place[slot]: label for slot, label in enumerate(state.labels) if label >= 0}
            parameters = self._parameters(term)
            for contracted, value in self._perpendicular(fixed, free).items():
                contraction = _contraction(term, state.samples, inputs, *contracted)
                total.add(contraction, parameters * value)
        return total.polynomial

    def _perpendicular(
        self, fixed: Pairing, free: Mapping[int, int]
    ) -> dict[tuple[Pairing, Pairing, Labels], Array]:
        """By which neurons are joined, which ŝ the others are contracted with, and the labels of
        factors ν: the coefficient of δ on the pairs `fixed` and of the f with these labels on the
        slots `free`."""
        given, total = self._given, dict[tuple[Pairing, Pairing, Labels], Array]()
        for extra in partial_pairings(tuple(sorted(free))):
            if any(free[a] != free[b] for a, b in extra):
                continue
            points = sorted(a for pair in (*fixed, *extra) for a in pair)
            known = [(a, label) for a, label in free.items() if a not in points]
            for q in _pairings_of(tuple(points)):
                for inverse, value in given.coefficients(fixed, extra, q):
                    if not value.any():
                        continue
                    inverses = tuple(sorted(free[a] for a, _ in inverse))
                    for joined, ends in _projected(q, given.inputs):
                        key = joined, tuple(sorted((*known, *ends))), inverses
                        signed = (-1) ** (len(q) - len(joined)) * value
                        total[key] = total.get(key, 0.0) + signed
        return total

    def _parameters(self, term: Summand) -> Array:
        reading = self._reading
        values: dict[Any, Array] = {LAMBDA_W: reading.lambda_W, LAMBDA_B: reading.lambda_b}
        values |= {Parameter(name): np.array(column) for name, column in reading.symbols}
        value: Array = float(term.coefficient) * reading.widths ** -float(len(term.means))
        for atom, power in term.parameters:
            value = value * values[atom] ** power
        return value


@cache
def _projected(q: Pairing, inputs: int) -> tuple[tuple[Pairing, Pairing], ...]:
    """Π_q (δ − Σ_a ŝ_a ŝ_a): the pairs that are joined, and (place, label) of the others' ends."""
    found = []
    for kept in range(len(q) + 1):
        for joined in combinations(q, kept):
            rest = [pair for pair in q if pair not in joined]
            for labels in product(range(inputs), repeat=len(rest)):
                cut = zip(rest, labels, strict=True)
                found.append((joined, tuple((a, label) for pair, label in cut for a in pair)))
    return tuple(found)


@cache
def _terms(kind: Kind) -> tuple[Summand, ...]:
    """The forward equation of a product of fields, each slot a sample of its own."""
    expanded = [
        forward(field, slots, slots) for field, slots in zip(kind, slots_of(kind), strict=True)
    ]
    return tuple(prod(terms, start=Summand()) for terms in product(*expanded))


def closes(kinds: Iterable[Kind], most: int) -> bool:
    """True if the averages of these products follow from states with at most so many indices.

    Not with a bias or z itself in the equation of a field whose state is needed.
    """
    kinds = set(kinds)
    states = {_below(term) for kind in kinds for term in _terms(kind)} - {()}
    pending = set(states)
    while pending:
        kind = pending.pop()
        if Z in kind or sum(field.nodes for field in kind) > most:
            return False
        if any(term.biases for term in _terms(kind)):
            return False
        found = {_below(term) for term in _terms(kind)} - {()} - states
        states |= found
        pending |= found
    return True


def _below(term: Summand) -> Kind:
    """The product of fields of layer ℓ in a term."""
    return tuple(sorted((placed.field for placed in term.fields), key=lambda field: field.rank))


def at_inputs(state: State) -> float:
    """c at layer 0: 1 for δ of the indices of each field that is the identity there."""
    own = tuple(sorted(slots for slots in slots_of(state.kind) if len(slots) == 2))
    identity = all(field.at_inputs == "identity" for field in state.kind)
    return float(identity and state.pairs == own)


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
