"""A field's equation through a stage: every edge a parameter of its matrices, or an older one.

z is linear in the parameters of its own stage; older derivatives pass by the chain rule through σ,
through the functions of collective variables and along what is carried, and cut the tree into
smaller ones of the stage before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, product
from typing import NamedTuple

import sympy

from ..arithmetic.parameters import LAMBDA_B, LAMBDA_W
from ..arithmetic.polynomials import UNIT, Atom, Monomial, power, times
from ..display.labels import POOLED, SLOPES, relabelled
from ..gaussian.brackets import by_samples
from ..groups.pairings import MOST_POINTS, compositions
from ..work.caches import cache
from .scores import Scores
from .stages import (
    LEFT,
    Attended,
    Collective,
    Function,
    Limit,
    Product,
    Stage,
    Variable,
    fresh,
    numbers,
)
from .tensors import Tensor, kernel_of
from .trees import Field, Kind, Placed, components


class Response(NamedTuple):
    """A function of collective variables, or a derivative of one, at their limits.

    `limits` are the symbols in it, and the tensors that they stand for.
    """

    value: sympy.Expr
    limits: tuple[tuple[sympy.Symbol, Tensor], ...]

    @property
    def samples(self) -> tuple[int, ...]:
        """Those that it depends on, ascending."""
        every = (sample % POOLED for _, limit in self.limits for sample in limit.samples)
        return tuple(sorted(set(every)))

    def relabelled(self, label: Callable[[int], int]) -> Response:
        """With other labels of its samples."""
        limits = ((symbol, limit.relabelled(label)) for symbol, limit in self.limits)
        return Response(self.value, tuple(limits))

    def at_limits(self, value: Callable[[Tensor], sympy.Expr]) -> sympy.Expr:
        """The function with these values of the limits."""
        return self.value.subs({symbol: value(limit) for symbol, limit in self.limits})


class Weighting(NamedTuple):
    """A[t,s], or its derivative by scores c[t,r], …, at the limits of the scores.

    `samples` are those of t, s, r, …; of s and r they are positions that are summed over.
    """

    scores: Scores
    samples: tuple[int, ...]

    @property
    def order(self) -> int:
        """How often it is differentiated."""
        return len(self.samples) - 2

    @property
    def label(self) -> str:
        """Its name, such as softmax_c'[1,p1,p'1] of the first derivative."""
        return f"{self.scores.name}_{self.scores.symbol}{chr(39) * self.order}"

    @property
    def limits(self) -> tuple[Tensor, ...]:
        """K of the query and the key, which the scores are in the limit; none if that is 0."""
        return (score_limit(self.scores, self.samples[0], 0),) if self.scores.is_tied else ()

    def at(self, samples: tuple[int, ...]) -> Weighting:
        """The same at these samples; derivatives commute."""
        t, s, *others = samples
        return self._replace(samples=(t, s, *sorted(others)))

    def relabelled(self, label: Callable[[int], int]) -> Weighting:
        """With other labels of its samples."""
        return self.at(relabelled(self.samples, label))


class Summand(NamedTuple):
    """One term of a field's equation through a stage, a product over summed neurons j of

    coefficient parameters Π 1/n Π δ_{slot slot'} Π b Π W_{slot j} Π σ^{(order)}_j Π field Π atoms.

    `means` are the spaces whose widths divide, `neurons` the space of each j; a field carried past
    the stage has −1 − slot for its neuron.
    """

    parameters: Monomial = UNIT
    means: tuple[str, ...] = ()
    deltas: tuple[tuple[int, int], ...] = ()
    biases: tuple[tuple[int, Kind], ...] = ()
    weights: tuple[tuple[int, int, int], ...] = ()
    """(matrix, slot, j)"""
    factors: tuple[tuple[int, int, int, Kind], ...] = ()
    """(j, sample, order, the variable that σ is taken of)"""
    fields: tuple[Placed, ...] = ()
    atoms: tuple[Atom, ...] = ()
    neurons: tuple[str, ...] = ()
    coefficient: Fraction = Fraction(1)

    def __mul__(self, other: Summand) -> Summand:  # type: ignore[override]
        """The product, with the other's summed neurons renumbered behind this one's."""
        by = len(self.neurons)
        return Summand(
            times(self.parameters, other.parameters),
            self.means + other.means,
            self.deltas + other.deltas,
            self.biases + other.biases,
            self.weights + tuple((m, slot, j + by) for m, slot, j in other.weights),
            self.factors + tuple((j + by, s, order, of) for j, s, order, of in other.factors),
            self.fields
            + tuple(
                placed.at(j + by if j >= 0 else j for j in placed.neurons)
                for placed in other.fields
            ),
            self.atoms + other.atoms,
            self.neurons + other.neurons,
            self.coefficient * other.coefficient,
        )


@dataclass(eq=False)
class Part:
    """The function at a node, to be expanded in the stage's collective variables.

    Every line with this product at the node has its expansion in common.
    """

    stage: Stage
    node: int
    term: Product
    _found: dict[int, tuple[Product, ...]] = field(default_factory=dict)

    def degree(self, total: int) -> tuple[Product, ...]:
        """Its terms of this degree in c − c* that are not 0, with neurons of their own."""
        if total not in self._found:
            expanded = self.stage.expanded(self.term, total)
            self._found[total] = tuple(each for each in expanded if not self._vanishes(each))
        return self._found[total]

    def _vanishes(self, term: Product) -> bool:
        derivatives = (each for each in term.factors if isinstance(each, Collective))
        return any(self.stage.derivative(*each) == 0 for each in derivatives)


@dataclass(eq=False)
class Line:
    """One product of a field's equation, to be expanded in the stage's collective variables.

    Attributes:
        nodes: what stands at each node.
        weights: (matrix, slot, neuron).
        rest: parameters, deltas, biases and means.
        tied: the slots at which it has a matrix, or its derivative.
    """

    stage: Stage
    slots: tuple[int, ...]
    samples: tuple[int, ...]
    nodes: tuple[Part, ...]
    weights: tuple[tuple[int, int, int], ...]
    rest: Summand
    tied: frozenset[int]
    _found: dict[int, tuple[Summand, ...]] = field(default_factory=dict)

    def degree(self, total: int) -> tuple[Summand, ...]:
        """Its terms of this degree in c − c*."""
        if total not in self._found:
            self._found[total] = tuple(self._expanded(total))
        return self._found[total]

    def _expanded(self, total: int) -> Iterator[Summand]:
        for split in compositions(total, len(self.nodes)):
            parts = (part.degree(own) for part, own in zip(self.nodes, split, strict=True))
            yield from map(self._summand, product(*parts))

    def _summand(self, terms: Sequence[Product]) -> Summand:
        number: dict[int, int] = {}
        neurons: list[str] = []
        coefficient, parameters, means = Fraction(1), self.rest.parameters, self.rest.means
        factors: list[tuple[int, int, int, Kind]] = []
        copies: list[tuple[Kind, int, int]] = []
        atoms: list[Atom] = []
        ends: dict[int, list[int]] = {}
        for part, term in zip(self.nodes, terms, strict=True):
            for at, space in term.neurons:
                if at not in number:  # an edge may join two nodes at one neuron
                    number[at] = len(neurons)
                    neurons.append(space)
            coefficient *= term.coefficient
            parameters = times(parameters, term.parameters)
            means += term.means
            sample, slot = self.samples[part.node], self.slots[part.node]
            first = 1 + _PLACES * slot
            any_samples = count(SLOPES + slot, MOST_POINTS)  # that a function of all is bent by
            positions = count(sample + POOLED * (first + _PLACES // 2), POOLED)
            reads = defaultdict[int, int](positions.__next__)  # those that attention reads
            moved: list[int] = []
            for each in term.factors:
                if isinstance(each, Attended):
                    at_reads = (sample, *map(reads.__getitem__, each.reads))
                    atoms.append(Weighting(self.stage.scores[each.scores], at_reads))
                elif isinstance(each, Limit) and each.read:
                    scores = self.stage.scores[each.variable]
                    atoms.append(score_limit(scores, sample, reads[each.read]))
                elif isinstance(each, Variable):
                    at = -1 - self.slots[part.node] if each.at == LEFT else number[each.at]
                    for edge in each.edges:
                        ends.setdefault(edge, []).append(len(copies))
                    own = sample
                    if self.stage.batch is not None and each.edges and at >= 0:
                        own = next(any_samples)
                        moved.append(own)
                    own += POOLED * (first + at) if each.pooled else 0
                    own = reads[each.read] if each.read else own
                    copies.append((each.kind, at, own))
                elif isinstance(each, Function):
                    kind = self.stage.argument_kinds[each.argument]
                    factors.append((number[each.at], sample, each.order, kind))
                else:
                    place = first + _PLACES // 4 + len(atoms)
                    atoms.append(at_limit(self.stage, each, sample, place))
            if moved:  # a function of all samples stands alone at its node
                factors[-1] = (*factors[-1][:2], by_samples(moved), factors[-1][3])
        return Summand(
            parameters,
            means,
            self.rest.deltas,
            self.rest.biases,
            tuple((matrix, slot, number[at]) for matrix, slot, at in self.weights),
            tuple(factors),
            tuple(components(copies, ends.values())),
            tuple(atoms),
            tuple(neurons),
            coefficient,
        )


@cache
def at_limit(stage: Stage, factor: Collective | Limit, sample: int, place: int = 0) -> Atom:
    """A function at the limits of its collective variables, or a limit; each factor reads positions
    that are averaged over by itself."""
    if isinstance(factor, Limit):
        return _limit(stage, factor.variable, sample, place)
    value = stage.derivative(factor.function, factor.orders)
    found = [
        (mean.symbol, _limit(stage, v, sample))
        for v, mean in enumerate(stage.means)
        if not mean.is_odd and value.has(mean.symbol)
    ]
    return Response(value, tuple(found))


_PLACES = 128
"""Numbers of averaged positions at a slot: a quarter are its neurons', a quarter those of limits,
and half those that attention reads. Slots have their own, as the moments that a cumulant multiplies
have different ones."""


def score_limit(scores: Scores, sample: int, read: int) -> Tensor:
    """K of a query at a sample and of a key at the position that it reads."""
    return kernel_of(scores.query, scores.key, (sample, read or sample))


def _limit(stage: Stage, variable: int, sample: int, place: int = 1) -> Tensor:
    """K of the two variables whose product's mean this is."""
    mean = stage.means[variable]
    one, other = (each.kind for each in mean.factors)
    sample += POOLED * place * mean.is_pooled
    return kernel_of(one, other, (sample, sample))


@cache(entries=16)  # each keeps its expansions, up to megabytes
def lines(
    stage: Stage, tree: Field, slots: tuple[int, ...], samples: tuple[int, ...]
) -> tuple[Line, ...]:
    """The tree's equation through a stage.

    `slots` names the neural index of each node, `samples` its sample.
    """
    found: list[Line] = []
    equations = [stage.equation(tree.kind(node)) for node in range(tree.nodes)]
    for origins in product(("old", "weight", "bias"), repeat=len(tree.edges)):
        for chosen in product(*((*each.right, *[None] * each.bias) for each in equations)):
            found.extend(_lines(stage, tree, slots, samples, chosen, origins))
    return tuple(found)


def _lines(
    stage: Stage,
    tree: Field,
    slots: tuple[int, ...],
    samples: tuple[int, ...],
    chosen: tuple[Product | None, ...],
    origins: tuple[str, ...],
) -> Iterator[Line]:
    """With these products at the nodes, None for the bias, and edges of these origins."""
    touching = [
        [e for e, edge in enumerate(tree.edges) if node in edge] for node in range(tree.nodes)
    ]
    new = [[e for e in touched if origins[e] != "old"] for touched in touching]
    if not all(map(_possible, chosen, touching, new, [origins] * tree.nodes)):
        return
    parameters = UNIT
    for origin, atom in (("weight", LAMBDA_W), ("bias", LAMBDA_B)):
        parameters = times(parameters, power(atom, origins.count(origin)))
    deltas, means = [], []
    neuron_of: dict[int, int] = {}
    for e, ((a, b), origin) in enumerate(zip(tree.edges, origins, strict=True)):
        if origin == "old":
            continue
        if origin == "weight":
            one, other = (_matrix(chosen[node]) for node in (a, b))
            if one != other:
                return
            means.append(stage.matrices[one].into)
            neuron_of[e] = next(numbers)
        elif tree.kind(a) != tree.kind(b):
            return
        deltas.append((slots[a], slots[b]))
    weights: list[tuple[int, int, int]] = []
    biases: list[tuple[int, Kind]] = []
    nodes: list[tuple[Part, ...]] = []
    for node, each in enumerate(chosen):
        if each is None:
            if not new[node]:
                biases.append((slots[node], tree.kind(node)))
            continue
        term = fresh(each)
        if term.weight:
            matrix, neuron = term.weight
            if new[node]:
                term = term.renamed({neuron: neuron_of[new[node][0]]})
            else:
                weights.append((matrix, slots[node], neuron))
        older = tuple(e for e in touching[node] if origins[e] == "old")
        nodes.append(tuple(Part(stage, node, one) for one in stage.differentiated(term, older)))
    rest = Summand(parameters, tuple(means), tuple(deltas), tuple(biases))
    tied = frozenset(slots[node] for node, each in enumerate(chosen) if each and each.weight)
    for parts in product(*nodes):
        yield Line(stage, slots, samples, parts, tuple(weights), rest, tied)


def _matrix(term: Product | None) -> int:
    assert term is not None
    assert term.weight is not None
    return term.weight[0]


def _possible(
    term: Product | None, touching: list[int], new: list[int], origins: tuple[str, ...]
) -> bool:
    """True if a node can be this product, or its bias, with these edges: linear in the new ones."""
    if len(new) > 1:
        return False
    from_bias = bool(new) and origins[new[0]] == "bias"
    if term is None:
        return not touching or (len(touching) == 1 and from_bias)
    return not from_bias and not (new and term.weight is None)
