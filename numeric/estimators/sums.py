"""Moments of z = c + Σ_k W_k s_k + b, each source averaged exactly given all that is before it.

A skip carries c past the matrices. The law of c is invariant under rotations of its neurons, or
under signed permutations, for any s_k. One source makes all ends of a block of M_p's neural
indices: biases, the parameters of a matrix or of the biases on the edge that it joins, or W or c.
W and c contribute

    Σ_q C_k(p, q) Π_{B ∈ q} Σ_j Π_{a ∈ B} s_{a;j} ,
    Σ_q Wg_n(p, q) Π_{B ∈ q} Σ_i Π_{a ∈ B} c_{a;i} ,

where p has the blocks that this source makes. These are pairs; for laws that only signed
permutations keep, they are even blocks. One matrix alone is the dense layer, for which `Reading`
has the coefficients of all layers at once, as arrays. c alone is the *pairing estimator*. Derived
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from math import prod
from typing import ClassVar

import numpy as np
import sympy

from derive.engine.fields import Field
from derive.groups.pairings import (
    Blocks,
    Partition,
    as_pairing,
    coset_type,
    ordered,
    pair_partitions,
)
from derive.groups.weingarten import elements_of, weingarten
from derive.weights import Gaussian, IndependentEntries, PermutationInvariant, WeightEnsemble
from derive.work.caches import cache

from ..arrays import Array
from .observables import Plan
from .polynomials import Structure, flattened
from .probes import Jet, Probes, degrees, edges_of

Vector = tuple[Jet, int]
Entry = tuple[int, tuple[Vector, ...]]
"""The mean over the neurons of a product of two or more vectors of a source."""

Value = float | Array
"""A coefficient: a number, or an array of one for each layer."""

Polynomial = dict[tuple[Entry, ...], Value]


@dataclass(frozen=True)
class Sum:
    """The terms whose sum is a layer's z.

    Arguments:
        n: neurons.
        matrices: the (ensemble, n_in) of each.
        carried: whether there is a c, the source after the matrices.
        biases: (C_b, λ_b), or nothing.
        lambda_W: the weights' learning rate.
        group: the group that keeps the law of c: rotations "O" or signed permutations "B".
    """

    n: int
    matrices: tuple[tuple[WeightEnsemble, int], ...]
    carried: bool
    biases: tuple[float, float] | None
    lambda_W: float
    group: str = "O"

    def contracted(self, source: int, p: Blocks) -> Iterator[tuple[Value, Blocks]]:
        """n^|q| times the coefficient of each q that a source makes of these blocks, and q."""
        if source == len(self.matrices):
            found, n = ELEMENTS[self.group](self.n, p), self.n
        else:
            weights, n = self.matrices[source]
            found = spectrum(weights, p, n, self.n)
        for value, q in found:
            yield value * float(n) ** len(q), q


@dataclass(frozen=True)
class Reading:
    """Dense layers 1, 2, …, each one matrix and biases: their numbers are arrays, layer by layer.

    Arguments:
        layers: each layer's (weights, n_in, n_out).
        parameters: each layer's (C_b, λ_b, λ_W).
        symbols: those of the user's equations, each with its values layer by layer.
    """

    layers: tuple[tuple[WeightEnsemble, int, int], ...]
    parameters: tuple[tuple[float, float, float], ...]
    symbols: tuple[tuple[str, tuple[float, ...]], ...] = ()
    matrices: ClassVar[range] = range(1)
    carried: ClassVar[bool] = False

    @property
    def widths(self) -> Array:
        """n_in, layer by layer."""
        return np.array([float(n_in) for _, n_in, _ in self.layers])

    @property
    def biases(self) -> tuple[Array, Array]:
        """C_b and λ_b."""
        return self.C_b, self.lambda_b

    @property
    def C_b(self) -> Array:
        """The variance of the biases."""
        return np.array(self.parameters)[:, 0]

    @property
    def lambda_b(self) -> Array:
        """The learning rate of the biases."""
        return np.array(self.parameters)[:, 1]

    @property
    def lambda_W(self) -> Array:
        """The learning rate of the weights."""
        return np.array(self.parameters)[:, 2]

    def coefficient(self, coset: Partition) -> Array:
        """C(p, q) by coset type, with C_W^k in it."""
        return _coefficients(self, coset)

    def contracted(self, source: int, p: Blocks) -> Iterator[tuple[Array, Blocks]]:
        """n^k C(p, q) and q, for the k pairs of p."""
        del source
        pairs = as_pairing(p)
        for q in pair_partitions(2 * len(pairs)):
            yield self.coefficient(coset_type(pairs, q)) * self.widths ** len(q), q


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


def compiled(plan: Plan, given: Sum, probes: Probes) -> tuple[Structure, Array]:
    """The plan's statistics as polynomials in the sources' Gram matrices, one after another, and
    then in the means that `larger` lists.

    The rows of every source are jet·m + sample.
    """
    structure, coefficients = compiled_layers(plan, given, probes)
    return structure, coefficients[0]


@cache(entries=256)
def compiled_layers(plan: Plan, given: Sum | Reading, probes: Probes) -> tuple[Structure, Array]:
    """`compiled`, with the coefficients (layers, terms) of all layers."""
    vectors = _vectors(plan, probes)
    place = {vector: number for number, vector in enumerate(vectors)}
    sources = range(len(given.matrices) + given.carried)
    measured = set(plan.measured)
    seen = [vector for vector in vectors if vector[1] in measured]
    number: dict[Entry, int] = {
        (k, (a, b)): (k * len(vectors) + place[a]) * len(vectors) + place[b]
        for k in sources
        for a in seen
        for b in seen
        if a <= b
    }
    first = len(sources) * len(vectors) ** 2
    number |= {entry: first + k for k, entry in enumerate(_larger(plan, given, probes))}
    arrays = [
        {monomial: np.atleast_1d(value) for monomial, value in polynomial.items()}
        for polynomial in _polynomials(plan, given, probes)
    ]
    structure, coefficients = flattened(arrays, number)
    if not coefficients.size:  # without weights and biases no term is left
        layers = len(given.layers) if isinstance(given, Reading) else 1
        coefficients = np.zeros((layers, 0))
    return structure, coefficients


@cache(entries=256)
def larger(plan: Plan, given: Sum, probes: Probes) -> tuple[tuple[int, list[int]], ...]:
    """The source and the rows of each mean of more than two vectors."""
    place = {vector: number for number, vector in enumerate(_vectors(plan, probes))}
    found = _larger(plan, given, probes)
    return tuple((source, [place[each] for each in vectors]) for source, vectors in found)


def _larger(plan: Plan, given: Sum | Reading, probes: Probes) -> list[Entry]:
    monomials = (each for polynomial in _polynomials(plan, given, probes) for each in polynomial)
    return sorted({entry for monomial in monomials for entry in monomial if len(entry[1]) > 2})


def _vectors(plan: Plan, probes: Probes) -> list[Vector]:
    return [(jet, sample) for jet in probes.jets for sample in range(plan.samples)]


@cache(entries=256)
def _polynomials(plan: Plan, given: Sum | Reading, probes: Probes) -> tuple[Polynomial, ...]:
    return tuple(
        moment(fields, statistic.pairing, statistic.samples, given, probes)
        for fields, statistic in zip(plan.trees(), plan.statistics, strict=True)
    )


def moment(
    trees: tuple[Field, ...],
    blocks: Blocks,
    samples: tuple[int, ...],
    given: Sum | Reading,
    probes: Probes,
) -> Polynomial:
    """M_p in the inner products of the sources, averaged over the probes on its edges."""
    polynomial = _one_assignment(trees, blocks, samples, given)
    entries = {entry for monomial in polynomial for entry in monomial}
    assignments = list(probes.assignments(trees))
    total: Polynomial = {}
    for chosen in assignments:
        name = {entry: _renamed(entry, chosen) for entry in entries}
        for monomial, value in polynomial.items():
            renamed = tuple(sorted([name[entry] for entry in monomial]))
            total[renamed] = total.get(renamed, 0.0) + value / len(assignments)
    return total


def _renamed(entry: Entry, chosen: Sequence[int]) -> Entry:
    source, vectors = entry
    return _entry(source, [(tuple(sorted(chosen[e] for e in jet)), at) for jet, at in vectors])


def _entry(source: int, vectors: Iterable[Vector]) -> Entry:
    return source, tuple(sorted(vectors))


def _one_assignment(
    fields: tuple[Field, ...], blocks: Blocks, samples: tuple[int, ...], given: Sum | Reading
) -> Polynomial:
    """M_p with edge e along probe e."""
    edges, degree = edges_of(fields), degrees(fields)
    ends: dict[tuple[int, ...], int] = {ordered(*edge): k for k, edge in enumerate(edges)}
    vectors = [
        (tuple(e for e, edge in enumerate(edges) if node in edge), samples[node])
        for node in range(len(degree))
    ]
    sources = range(len(given.matrices) + given.carried)
    new = {block: list(_new(block, ends.get(block), vectors, given)) for block in blocks}
    total: Polynomial = {}
    for makers in product((*sources, "new"), repeat=len(blocks)):
        pairs = list(zip(blocks, makers, strict=True))
        choices = [new[block] for block, maker in pairs if maker == "new"]
        if not all(choices):
            continue
        for source in sources:
            own = tuple(block for block, maker in pairs if maker == source)
            choices.append(list(_contracted(source, own, vectors, given)))
        for chosen in product(*choices):
            value = prod(part for part, _ in chosen)
            if np.any(value):
                monomial = tuple(sorted(entry for _, entries in chosen for entry in entries))
                total[monomial] = total.get(monomial, 0.0) + value
    return total


Choice = tuple[Value, tuple[Entry, ...]]
"""A coefficient, and the inner products that it multiplies."""


def _new(
    block: tuple[int, ...], edge: int | None, vectors: Sequence[Vector], given: Sum | Reading
) -> Iterator[Choice]:
    """A pair made by biases, or by parameters of this layer on the edge that it joins."""
    if len(block) > 2:
        return
    jets = [vectors[node][0] for node in block]
    if edge is None:
        if given.biases and not any(jets) and np.any(given.biases[0]):
            yield given.biases[0], ()
        return
    ends = [(tuple(e for e in vectors[node][0] if e != edge), vectors[node][1]) for node in block]
    for source in range(len(given.matrices)):
        yield given.lambda_W, (_entry(source, ends),)
    if given.biases and jets == [(edge,), (edge,)]:
        yield given.biases[1], ()


def _contracted(
    source: int, blocks: Blocks, vectors: Sequence[Vector], given: Sum | Reading
) -> Iterator[Choice]:
    """The blocks that a matrix makes, or the carried vectors."""
    if not blocks:
        yield 1.0, ()
        return
    rows = [vectors[node] for block in blocks for node in block]
    ends = [0, *accumulate(map(len, blocks))]
    p = tuple(tuple(range(a, b)) for a, b in pairwise(ends))
    for value, q in given.contracted(source, p):
        yield value, tuple(_entry(source, [rows[a] for a in b]) for b in q)


@cache(entries=1024)
def spectrum(
    weights: WeightEnsemble, rows: Blocks, n_in: int, n_out: int
) -> tuple[tuple[float, Blocks], ...]:
    """C(p, q), including C_W^k, and q, for a p whose points need not be 0, 1, …"""
    k = sum(map(len, rows)) // 2
    if isinstance(weights, IndependentEntries | Gaussian):
        cumulants = 1.0
        for block in rows:
            fourth = isinstance(weights, IndependentEntries) and len(block) > 2
            own = float(weights.cumulant(len(block))) if fourth else float(len(block) == 2)  # type: ignore[union-attr]
            cumulants *= own
        return ((cumulants * (float(weights.C_W) / n_in) ** k, rows),) if cumulants else ()
    points = [point for block in rows for point in block]
    place = {point: at for at, point in enumerate(points)}
    if isinstance(weights, PermutationInvariant):
        C_W, whole = float(weights.C_W), tuple(tuple(place[a] for a in block) for block in rows)
        return tuple(
            (
                C_W**k * float(weights.joint(whole, q, sympy.Integer(n_in), sympy.Integer(n_out))),
                tuple(tuple(points[a] for a in block) for block in q),
            )
            for q in weights.columns(whole)
        )
    if any(len(block) > 2 for block in rows):
        return ()
    p = tuple((place[a], place[b]) for a, b in as_pairing(rows))
    return tuple(
        (
            weight_coefficient(weights, coset_type(p, q), n_in, n_out),
            tuple((points[a], points[b]) for a, b in q),
        )
        for q in pair_partitions(len(points))
    )


Elements = Callable[[int, Blocks], Iterable[tuple[float, Blocks]]]


def _of_rotations(n: int, pairing: Blocks) -> Iterator[tuple[float, Blocks]]:
    """Pairings, by Weingarten's function of O(n)."""
    p = as_pairing(pairing)
    for q in pair_partitions(sum(map(len, pairing))):
        yield haar_coefficient(n, coset_type(p, q)), q


@cache(entries=256)
def _of_permutations(n: int, blocks: Blocks) -> tuple[tuple[float, Blocks], ...]:
    """Even set partitions, by Weingarten's function of the signed permutations."""
    size = sympy.Integer(n)
    return tuple(
        (float(weingarten((blocks, q), size, "B")), q)
        for q in elements_of(sum(map(len, blocks)), "B")
    )


ELEMENTS: dict[str, Elements] = {"O": _of_rotations, "B": _of_permutations}
"""The elements of each group."""
