"""Moments of z = c + Σ_k W_k s_k + b, each source averaged exactly given all that is before it.

c is carried past the matrices, by a skip: of its law it is known that rotations of its neurons keep
it, whatever the s_k are. Each pair of M_p's neural indices is made by one source at both ends: by
biases, by the parameters of a matrix or of the biases on the edge that it joins, or by W or c,

    Σ_q C_k(p, q) Π_{(a,b) ∈ q} s_a·s_b ,        Σ_q Wg_n(p, q) Π_{(a,b) ∈ q} c_a·c_b ,

the weights, and what is carried, over the pairs that this source makes. One matrix alone is the
dense layer (`unbiased`), c alone is the pairing estimator. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from derive.engine.fields import Field
from derive.groups.pairings import Pairing, as_pairing, coset_type, ordered, pair_partitions
from derive.weights import WeightEnsemble
from derive.work.caches import cache

from ..arrays import Array
from .observables import Plan
from .polynomials import Structure, flattened
from .probes import Jet, Probes, degrees, edges_of
from .unbiased import haar_coefficient, weight_coefficient

Entry = tuple[int, tuple[Jet, int], tuple[Jet, int]]
"""The inner product, over n_in, of two vectors of a source."""

Polynomial = dict[tuple[Entry, ...], float]


@dataclass(frozen=True)
class Sum:
    """What a layer's z is the sum of.

    Arguments:
        n: neurons.
        matrices: the (ensemble, n_in) of each.
        carried: whether there is a c, the source after the matrices.
        biases: (C_b, λ_b), or nothing.
        lambda_W: the weights' learning rate.
    """

    n: int
    matrices: tuple[tuple[WeightEnsemble, int], ...]
    carried: bool
    biases: tuple[float, float] | None
    lambda_W: float


@cache(entries=256)
def compiled(plan: Plan, given: Sum, probes: Probes) -> tuple[Structure, Array]:
    """The plan's statistics as polynomials in the sources' Gram matrices, one after another.

    Of every source the rows are jet·m + sample.
    """
    vectors = [(jet, sample) for jet in probes.jets for sample in range(plan.samples)]
    place = {vector: number for number, vector in enumerate(vectors)}
    sources = len(given.matrices) + given.carried
    number = {
        (k, a, b): (k * len(vectors) + place[a]) * len(vectors) + place[b]
        for k in range(sources)
        for a in vectors
        for b in vectors
        if a <= b
    }
    polynomials = [
        moment(fields, as_pairing(statistic.pairing), statistic.samples, given, probes)
        for fields, statistic in zip(plan.trees(), plan.statistics, strict=True)
    ]
    arrays = [
        {monomial: np.array([value]) for monomial, value in polynomial.items()}
        for polynomial in polynomials
    ]
    structure, coefficients = flattened(arrays, number)
    return structure, coefficients[0]


def moment(
    trees: tuple[Field, ...],
    pairing: Pairing,
    samples: tuple[int, ...],
    given: Sum,
    probes: Probes,
) -> Polynomial:
    """M_p in the inner products of the sources, averaged over the probes on its edges."""
    polynomial = _one_assignment(trees, pairing, samples, given)
    assignments = list(probes.assignments(trees))
    total: Polynomial = {}
    for chosen in assignments:
        for monomial, value in polynomial.items():
            renamed = tuple(sorted(_renamed(entry, chosen) for entry in monomial))
            total[renamed] = total.get(renamed, 0.0) + value / len(assignments)
    return total


def _renamed(entry: Entry, probes: Sequence[int]) -> Entry:
    source, *vectors = entry
    a, b = ((tuple(sorted(probes[e] for e in jet)), sample) for jet, sample in vectors)
    return _entry(source, a, b)


def _entry(source: int, a: tuple[Jet, int], b: tuple[Jet, int]) -> Entry:
    return (source, a, b) if a <= b else (source, b, a)


def _one_assignment(
    fields: tuple[Field, ...], pairing: Pairing, samples: tuple[int, ...], given: Sum
) -> Polynomial:
    """M_p with edge e along probe e."""
    edges, degree = edges_of(fields), degrees(fields)
    ends = {ordered(*edge): number for number, edge in enumerate(edges)}
    vectors = [
        (tuple(e for e, edge in enumerate(edges) if node in edge), samples[node])
        for node in range(len(degree))
    ]
    sources = range(len(given.matrices) + given.carried)
    total: Polynomial = {}
    for makers in product((*sources, "new"), repeat=len(pairing)):
        choices: list[list[tuple[float, tuple[Entry, ...]]]] = []
        for pair, maker in zip(pairing, makers, strict=True):
            if maker == "new":
                choices.append(list(_new(pair, ends.get(ordered(*pair)), vectors, given)))
        for source in sources:
            own = [pair for pair, maker in zip(pairing, makers, strict=True) if maker == source]
            choices.append(list(_contracted(source, own, vectors, given)))
        for chosen in product(*choices):
            value = prod(part for part, _ in chosen)
            if value:
                monomial = tuple(sorted(entry for _, entries in chosen for entry in entries))
                total[monomial] = total.get(monomial, 0.0) + value
    return total


def _new(
    pair: tuple[int, int], edge: int | None, vectors: Sequence[tuple[Jet, int]], given: Sum
) -> Iterator[tuple[float, tuple[Entry, ...]]]:
    """A pair made by biases, or by parameters of this layer on the edge that it joins."""
    jets = [vectors[node][0] for node in pair]
    if edge is None:
        if given.biases and not any(jets):
            yield given.biases[0], ()
        return
    a, b = ((tuple(e for e in vectors[node][0] if e != edge), vectors[node][1]) for node in pair)
    for source in range(len(given.matrices)):
        yield given.lambda_W, (_entry(source, a, b),)
    if given.biases and jets == [(edge,), (edge,)]:
        yield given.biases[1], ()


def _contracted(
    source: int, pairs: Sequence[tuple[int, int]], vectors: Sequence[tuple[Jet, int]], given: Sum
) -> Iterator[tuple[float, tuple[Entry, ...]]]:
    """The pairs that a matrix makes, or the carried vectors."""
    rows = [vectors[node] for pair in pairs for node in pair]
    p: Pairing = tuple((a, a + 1) for a in range(0, len(rows), 2))
    for q in pair_partitions(len(rows)):
        coset = coset_type(p, q)
        if source < len(given.matrices):
            weights, n_in = given.matrices[source]
            value = weight_coefficient(weights, coset, n_in, given.n) * float(n_in) ** len(q)
        else:
            value = haar_coefficient(given.n, coset) * float(given.n) ** len(q)
        yield value, tuple(_entry(source, rows[a], rows[b]) for a, b in q)
