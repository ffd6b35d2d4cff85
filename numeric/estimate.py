"""Tensors from samples: unbiased at every finite width, with standard errors.

With 2k neural indices, E[z_i1 … z_i2k] = Σ_p δ_p(i) M_p, and for weights with pairing matrix C,

    M_p = E[ Σ_{A ⊆ p} C_b^|A| Σ_q C(p∖A, q) Π_{(a,b) ∈ q} n_in S_ab ],

S the Gram matrix of the layer before: the layer's own weights and biases are averaged exactly. Read
instead with C Weingarten's function of O(n), C_b = 0 and S the Gram matrix of z itself, the same
sum is the *pairing estimator*: contract z … z with every pairing, multiply by Wg(p, q).

A joint cumulant's coefficient is Σ_π (−1)^{|π|−1} (|π|−1)! Π_{B ∈ π} M_{p|B} over the set
partitions π of p's pairs. Products of means are estimated without bias by sums over distinct draws
(U-statistics), themselves polynomials in power sums. Standard errors are the jackknife's over the
blocks of draws (unequal sizes: Busing, Meijer and van der Leeden, *Stat. Comput.* 9, 1999).
Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import factorial, prod

import numpy as np
import sympy

from derive.errors import InputError
from derive.pairings import Pairing, Partition, coset_type, pair_partitions, set_partitions
from derive.weights import WeightEnsemble
from derive.weingarten import weingarten

from .gram import Monomial, PowerSums, entries
from .weights import Array

Labels = tuple[tuple[int, int], ...]
"""The sample indices of a tensor, pair by pair: ((a, b), (c, d)) for V_{(ab)(cd)}."""

Polynomial = dict[Monomial, float]
"""A polynomial in the entries of S − S⁰."""


@dataclass(frozen=True)
class Reading:
    """How one layer's moments follow from a recorded Gram matrix.

    Arguments:
        width: n_in, the number of neurons that the Gram matrix is an average over.
        coefficient: C(p, q) by coset type, with C_W^k in it.
        C_b: the variance of biases that the Gram matrix does not know of.
    """

    width: int
    coefficient: Callable[[Partition], float]
    C_b: float = 0.0


@cache
def weights_averaged(ensemble: WeightEnsemble, n_in: int, n_out: int, C_b: float) -> Reading:
    """Read layer ℓ+1 off the Gram matrix of σ^(ℓ), its weights and biases averaged exactly."""
    sizes = sympy.Integer(n_in), sympy.Integer(n_out)

    @cache
    def coefficient(coset: Partition) -> float:
        return float(ensemble.C_W ** sum(coset) * ensemble.coefficient(coset, *sizes))

    return Reading(n_in, coefficient, C_b)


@cache
def pairing_estimator(n: int) -> Reading:
    """Read layer ℓ off the Gram matrix of its own z of width n: Weingarten's matrix of O(n)."""

    @cache
    def coefficient(coset: Partition) -> float:
        return float(weingarten(coset, sympy.Integer(n)))

    return Reading(n, coefficient)


def moments_of_samples(z: Array, k: int) -> Array:
    """M_p of 2k fields, estimated from samples of one layer's preactivations.

    Arguments:
        z: (draws, m, n), of an ensemble that is invariant under rotations of its n neurons.
        k: the number of pairs, at most n.

    Returns:
        (draws, m, …, m), one estimate per draw, each unbiased: entry [:, a, b, c, d, …] is the
        coefficient of δ_{i1 i2} δ_{i3 i4} … in E[z_i1;a z_i2;b z_i3;c z_i4;d …].

    Raises:
        InputError: if z has another shape or is not finite, or its n neurons are fewer than k.
    """
    if z.ndim != 3 or z.size == 0 or not np.isfinite(z).all():
        raise InputError("z", np.shape(z), "finite samples of shape (draws, m, n)")
    draws, m, n = z.shape
    check_width(n, k)
    gram = np.einsum("dai,dbi->dab", z, z) / n
    reference = np.zeros(m * (m + 1) // 2)
    out = np.empty((m,) * (2 * k) + (draws,))
    for labels, places in symmetry_classes(m, k):
        value = np.zeros(draws)
        for monomial, coefficient in moment(labels, pairing_estimator(n), reference).items():
            term = np.full(draws, coefficient)
            for a, b in (entries(m)[entry] for entry in monomial):
                term *= gram[:, a, b]
            value += term
        for place in places:
            out[place] = value
    return np.moveaxis(out, -1, 0)


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
    """A tensor from samples, layer by layer: arrays (depth, m, …, m).

    Arguments:
        value: the unbiased estimate.
        error: its standard error.
        terms: Σ|terms| of the subtraction that it is the result of, so that its rounding error
            is a small multiple of 2^−52 times this.
    """

    value: Array
    error: Array
    terms: Array


def cumulants(record: PowerSums, readings: Sequence[Reading], pairs: int) -> Estimate:
    """The coefficient of δ_{i1 i2} δ_{i3 i4} … in the joint cumulant of 2·`pairs` fields.

    Arguments:
        record: power sums with monomials up to degree `pairs` at least.
        readings: how to read each layer, in order.

    Raises:
        InputError: if there are too few draws for an unbiased estimate or for its error.
    """
    if record.draws <= pairs:
        raise InputError(
            "draws", record.draws, f"at least {pairs + 1} for cumulants of {2 * pairs} fields"
        )
    m = record.monomials.samples
    shape = (len(readings),) + (m,) * (2 * pairs)
    estimate = Estimate(np.empty(shape), np.empty(shape), np.empty(shape))
    for layer, reading in enumerate(readings):
        resampled = _Resampled(record, layer)
        for labels, places in symmetry_classes(m, pairs):
            value, error, terms = resampled.cumulant(labels, reading)
            for place in places:
                estimate.value[(layer, *place)] = value
                estimate.error[(layer, *place)] = error
                estimate.terms[(layer, *place)] = terms
    return estimate


@cache
def symmetry_classes(m: int, pairs: int) -> tuple[tuple[Labels, list[tuple[int, ...]]], ...]:
    """Sample indices up to exchanges within a pair and of pairs, each with all it stands for."""
    classes: dict[Labels, list[tuple[int, ...]]] = {}
    for place in product(range(m), repeat=2 * pairs):
        split = zip(place[::2], place[1::2], strict=True)
        labels = tuple(sorted((min(pair), max(pair)) for pair in split))
        classes.setdefault(labels, []).append(place)
    return tuple(classes.items())


def moment(labels: Labels, reading: Reading, reference: Array) -> Polynomial:
    """M_p for the pairing of `labels`, as a polynomial in S − S⁰."""
    position = {pair: place for place, pair in enumerate(entries(_samples(reference)))}
    total: Polynomial = {}
    for count in range(len(labels) + 1):
        for chosen in combinations(range(len(labels)), count):
            kept = [pair for place, pair in enumerate(labels) if place not in chosen]
            bias = reading.C_b ** len(chosen)
            if not bias:
                continue
            for coefficient, contraction in _weights_average(kept, reading):
                term: Polynomial = {(): bias * coefficient}
                for pair in contraction:
                    entry = position[pair]
                    term = _multiply(term, {(): float(reference[entry]), (entry,): 1.0})
                for monomial, value in term.items():
                    total[monomial] = total.get(monomial, 0.0) + value
    return total


def _weights_average(
    labels: Sequence[tuple[int, int]], reading: Reading
) -> Iterator[tuple[float, list[tuple[int, int]]]]:
    """The terms n_in^k C(p, q), with the entries of S that q contracts."""
    flat = [label for pair in labels for label in pair]
    p: Pairing = tuple((2 * k, 2 * k + 1) for k in range(len(labels)))
    for q in pair_partitions(len(flat)):
        if coefficient := reading.coefficient(coset_type(p, q)):
            contraction = [(min(pair), max(pair)) for pair in ((flat[a], flat[b]) for a, b in q)]
            yield coefficient * float(reading.width) ** len(q), contraction


def _samples(reference: Array) -> int:
    return int(np.sqrt(2 * reference.size))


def _multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for a, x in left.items():
        for b, y in right.items():
            monomial = tuple(sorted(a + b))
            out[monomial] = out.get(monomial, 0.0) + x * y
    return out


class _Resampled:
    """One layer's power sums: of all draws, then of all but each block."""

    def __init__(self, record: PowerSums, layer: int) -> None:
        used = record.counts > 0
        block, count = record.sums[used, layer], record.counts[used]
        total = block.sum(axis=0)
        self._position = record.monomials.position
        self._reference = record.reference[layer]
        self._sums = np.concatenate([total[None], total - block])
        self._draws = np.concatenate([[record.draws], record.draws - count]).astype(float)

    def cumulant(self, labels: Labels, reading: Reading) -> tuple[float, float, float]:
        """The joint cumulant's coefficient for these sample indices, its error and its terms."""
        values, terms = np.zeros(self._draws.size), 0.0
        for partition in set_partitions(range(len(labels))):
            factors = [
                moment(tuple(labels[pair] for pair in block), reading, self._reference)
                for block in partition
            ]
            term = _mobius(len(partition)) * self._product_of_means(factors)
            values += term
            terms += abs(float(term[0]))
        return float(values[0]), self._jackknife(values), terms

    def _product_of_means(self, factors: Sequence[Polynomial]) -> Array:
        """Π E[c_j + X_j] without bias, c_j the constant terms."""
        total = np.zeros(self._draws.size)
        for count in range(len(factors) + 1):
            for chosen in combinations(range(len(factors)), count):
                constant = prod(
                    factor.get((), 0.0) for j, factor in enumerate(factors) if j not in chosen
                )
                if constant:
                    varying = [_without_constant(factors[j]) for j in chosen]
                    total += constant * self._distinct_draws(varying)
        return total

    def _distinct_draws(self, factors: Sequence[Polynomial]) -> Array:
        """Π X_j averaged over all choices of a different draw for each factor."""
        total = np.zeros(self._draws.size)
        for partition in set_partitions(range(len(factors))):
            term = np.ones(self._draws.size)
            for block in partition:
                together: Polynomial = {(): float(_mobius(len(block)))}
                for j in block:
                    together = _multiply(together, factors[j])
                term *= self._sum(together)
            total += term
        return total / prod(self._draws - used for used in range(len(factors)))

    def _sum(self, polynomial: Polynomial) -> Array:
        """Σ_draws of a polynomial without constant term."""
        total = np.zeros(self._draws.size)
        for monomial, coefficient in polynomial.items():
            total += coefficient * self._sums[:, self._position[monomial]]
        return total

    def _jackknife(self, values: Array) -> float:
        """The standard error of values[0] from the values without each block."""
        ratio = self._draws[0] / (self._draws[0] - self._draws[1:])
        pseudo = (ratio - 1.0) * (values[0] - values[1:])  # pseudovalues, less values[0]
        deviation = pseudo - np.sum(pseudo / ratio)
        return float(np.sqrt(np.mean(deviation**2 / (ratio - 1.0))))


def _without_constant(polynomial: Polynomial) -> Polynomial:
    return {monomial: value for monomial, value in polynomial.items() if monomial}


def _mobius(blocks: int) -> int:
    """(−1)^{r−1} (r−1)!, the weight of r blocks in a cumulant and of r draws that coincide."""
    return -factorial(blocks - 1) if blocks % 2 == 0 else factorial(blocks - 1)
