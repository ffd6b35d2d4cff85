"""The fields of a layer, and their forward equations by differentiating z = b + W σ(z).

A field is a tree: each node is a preactivation, each edge a pair of derivatives by the parameters θ
contracted with the learning-rate tensor (source 000, eqs. 6.1, 6.3, 6.11),

    z  = a node,     H_{i1 i2} = Σ_μ λ_μ ∂_μ z_{i1} ∂_μ z_{i2} = an edge,     dH = three in a row,

so one rule gives every forward equation: an edge is either a parameter of the new layer or an older
one, and older derivatives pass through σ by the chain rule (Faà di Bruno), cutting the tree into
smaller trees of the layer below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise, permutations, product
from typing import Literal, NamedTuple, Protocol

from ..arithmetic.parameters import LAMBDA_B, LAMBDA_W
from ..arithmetic.polynomials import UNIT, Monomial, power, times
from ..errors import InputError
from ..groups.pairings import ordered, set_partitions

Edge = tuple[int, int]
AtInputs = Literal["zero", "identity", "inputs"]


class Placed(NamedTuple):
    """A field of the layer below: its tree, the summed neuron and the sample of each node."""

    field: AnyField
    neurons: tuple[int, ...]
    samples: tuple[int, ...]


class Term(NamedTuple):
    """One term of a forward equation, a product over summed neurons j of

    coefficient parameters n_in^{-fan_in} Π δ_{slot slot'} Π b Π W_{slot j} Π σ^{(order)}_j Π field.
    """

    parameters: Monomial = UNIT
    fan_in: int = 0
    deltas: tuple[tuple[int, int], ...] = ()
    biases: tuple[int, ...] = ()
    weights: tuple[tuple[int, int], ...] = ()
    factors: tuple[tuple[int, int, int], ...] = ()
    fields: tuple[Placed, ...] = ()
    neurons: int = 0
    coefficient: Fraction = Fraction(1)

    def __mul__(self, other: Term) -> Term:  # type: ignore[override]
        """The product, with the other's summed neurons renumbered behind this one's."""
        by = self.neurons
        return Term(
            times(self.parameters, other.parameters),
            self.fan_in + other.fan_in,
            self.deltas + other.deltas,
            self.biases + other.biases,
            self.weights + tuple((slot, j + by) for slot, j in other.weights),
            self.factors + tuple((j + by, sample, order) for j, sample, order in other.factors),
            self.fields
            + tuple(
                placed._replace(neurons=tuple(j + by for j in placed.neurons))
                for placed in other.fields
            ),
            by + other.neurons,
            self.coefficient * other.coefficient,
        )


class AnyField(Protocol):
    """What the engine asks of a field: a tree of derivatives, or an equation of one's own."""

    @property
    def nodes(self) -> int:
        """How many neural indices it carries, each with a sample."""

    @property
    def rank(self) -> tuple[int, str, tuple[Edge, ...]]:
        """Its place among the fields of a cumulant."""

    @property
    def at_inputs(self) -> AtInputs:
        """What it is at layer 0: the inputs x_j, δ_{j1 j2}, or nothing."""

    def symmetries(self) -> tuple[tuple[int, ...], ...]:
        """The permutations of its nodes that keep it."""

    def forward(self, slots: tuple[int, ...], samples: tuple[int, ...]) -> tuple[Term, ...]:
        """The field at layer ℓ+1 as a polynomial in that layer's weights.

        `slots` names the neural index of each node, `samples` its sample.
        """

    def __hash__(self) -> int: ...


class Kind(NamedTuple):
    """A variable of a layer, and the space of its index: rotations of each act by themselves."""

    name: str
    space: str


STREAM = Kind("z", "z")


@dataclass(frozen=True)
class Field:
    """A tree on nodes 0 … nodes−1; each node carries a neural index and a sample index.

    `kinds` are the variables at the nodes; none where all of them are preactivations z.
    """

    nodes: int
    edges: tuple[Edge, ...] = ()
    kinds: tuple[Kind, ...] = ()

    def __post_init__(self) -> None:
        edges = tuple(sorted(ordered(a, b) for a, b in self.edges))
        object.__setattr__(self, "edges", edges)
        if set(self.kinds) <= {STREAM}:
            object.__setattr__(self, "kinds", ())
        reached = {0}
        for _ in range(self.nodes):
            reached |= {node for edge in edges if reached & set(edge) for node in edge}
        if reached != set(range(self.nodes)) or len(edges) != self.nodes - 1:
            raise InputError("edges", self.edges, f"a tree on the nodes 0 … {self.nodes - 1}")

    def __str__(self) -> str:
        if self.kinds:
            names = "".join(kind.name for kind in self.kinds)
            return names if self.nodes == 1 else f"{Field(self.nodes, self.edges)}_{names}"
        return FIELD_NAMES.get(self, repr(self))

    def __repr__(self) -> str:
        kinds = f", {[kind.name for kind in self.kinds]}" if self.kinds else ""
        return f"Field({self.nodes}, {list(self.edges)}{kinds})"

    def kind(self, node: int) -> Kind:
        """The variable at a node."""
        return self.kinds[node] if self.kinds else STREAM

    @property
    def rank(self) -> tuple[int, str, tuple[Edge, ...]]:
        """Small trees first."""
        return self.nodes, "".join(kind.name for kind in self.kinds), self.edges

    @property
    def at_inputs(self) -> AtInputs:
        """Layer 0 has no parameters to differentiate by."""
        return "zero" if self.edges else "inputs"

    def symmetries(self) -> tuple[tuple[int, ...], ...]:
        """The permutations of the nodes that keep the tree."""
        return _automorphisms(self)

    def forward(self, slots: tuple[int, ...], samples: tuple[int, ...]) -> tuple[Term, ...]:
        """Every edge is a parameter of the new layer, a weight or a bias, or an older one."""
        terms: list[Term] = []
        for kinds in product(("old", "weight", "bias"), repeat=len(self.edges)):
            terms.extend(_terms(self, kinds, slots, samples))
        return tuple(terms)


@cache
def _automorphisms(field: Field) -> tuple[tuple[int, ...], ...]:
    edges = set(field.edges)
    return tuple(
        order
        for order in permutations(range(field.nodes))
        if {ordered(order[a], order[b]) for a, b in edges} == edges
        and all(field.kind(node) == field.kind(order[node]) for node in range(field.nodes))
    )


Z = Field(1)
H = Field(2, ((0, 1),))
DH = Field(3, ((0, 1), (0, 2)))
DDH_I = Field(4, ((0, 1), (0, 2), (0, 3)))
DDH_II = Field(4, ((0, 1), (0, 2), (1, 3)))

FIELD_NAMES = {Z: "z", H: "H", DH: "dH", DDH_I: "ddI", DDH_II: "ddII"}


@cache
def canonical_tree(
    nodes: int, edges: tuple[Edge, ...], kinds: tuple[Kind, ...] = ()
) -> tuple[Field, tuple[int, ...]]:
    """One representative of the tree's isomorphism class, and the node that each place takes.

    The named fields are their own representatives.
    """
    if set(kinds) <= {STREAM}:
        for field in FIELD_NAMES:
            order = _isomorphism(nodes, edges, field)
            if order is not None:
                return field, order
    candidates = []
    for order in permutations(range(nodes)):
        place = {node: position for position, node in enumerate(order)}
        relabelled = tuple(sorted(ordered(place[a], place[b]) for a, b in edges))
        candidates.append((relabelled, tuple(kinds[node] for node in order if kinds), order))
    best, named, order = min(candidates)
    return Field(nodes, best, named), order


def _isomorphism(nodes: int, edges: tuple[Edge, ...], field: Field) -> tuple[int, ...] | None:
    if nodes != field.nodes:
        return None
    have = {frozenset(edge) for edge in edges}
    for order in permutations(range(nodes)):
        if {frozenset((order[a], order[b])) for a, b in field.edges} == have:
            return order
    return None


@cache
def forward(field: AnyField, slots: tuple[int, ...], samples: tuple[int, ...]) -> tuple[Term, ...]:
    """The field's forward equation, derived once."""
    return field.forward(slots, samples)


def slots_of(fields: Sequence[AnyField]) -> list[tuple[int, ...]]:
    """The slots of each field's nodes, counted through a product of fields."""
    ends = list(accumulate((field.nodes for field in fields), initial=0))
    return [tuple(range(a, b)) for a, b in pairwise(ends)]


@cache
def automorphisms(field: AnyField) -> tuple[tuple[int, ...], ...]:
    """The permutations of the nodes that keep the field."""
    return field.symmetries()


def _terms(
    field: Field, kinds: tuple[str, ...], slots: tuple[int, ...], samples: tuple[int, ...]
) -> Iterator[Term]:
    """The terms in which each edge is a parameter of this kind."""
    touching: list[list[int]] = [[] for _ in range(field.nodes)]
    for number, (a, b) in enumerate(field.edges):
        touching[a].append(number)
        touching[b].append(number)
    new = [[e for e in touched if kinds[e] != "old"] for touched in touching]
    if any(len(edges) > 1 for edges in new):
        return  # z is linear in the parameters of its own layer
    if any(
        kinds[edges[0]] == "bias" and len(touching[node]) > 1
        for node, edges in enumerate(new)
        if edges
    ):
        return  # a bias's derivative is a constant
    parameters = UNIT
    for kind, atom in (("weight", LAMBDA_W), ("bias", LAMBDA_B)):
        parameters = times(parameters, power(atom, kinds.count(kind)))
    deltas = tuple(
        (slots[a], slots[b])
        for (a, b), kind in zip(field.edges, kinds, strict=True)
        if kind != "old"
    )
    neuron_of_edge: dict[int, int] = {}
    neuron: list[int | None] = []
    weights = []
    count = 0
    for node in range(field.nodes):
        if not new[node]:
            neuron.append(count)
            weights.append((slots[node], count))
            count += 1
        elif kinds[new[node][0]] == "bias":
            neuron.append(None)
        else:
            if new[node][0] not in neuron_of_edge:
                neuron_of_edge[new[node][0]] = count
                count += 1
            neuron.append(neuron_of_edge[new[node][0]])
    old = [[e for e in touched if kinds[e] == "old"] for touched in touching]
    base = Term(parameters, kinds.count("weight"), deltas, (), tuple(weights), (), (), count)
    for chains in product(*(tuple(set_partitions(tuple(edges))) for edges in old)):
        yield _chain_rule(base, field, neuron, samples, chains)
    if field.nodes == 1:
        yield Term(biases=slots)


def _chain_rule(
    base: Term,
    field: Field,
    neuron: list[int | None],
    samples: tuple[int, ...],
    chains: tuple[tuple[tuple[int, ...], ...], ...],
) -> Term:
    """Faà di Bruno's term: node a carries σ^{(|chains[a]|)} and a copy of z_j for each block."""
    factors: list[tuple[int, int, int]] = []
    copies: list[tuple[int, int]] = []
    ends: dict[int, list[int]] = {}
    for node, blocks in enumerate(chains):
        j = neuron[node]
        if j is None:
            continue
        factors.append((j, samples[node], len(blocks)))
        for block in blocks:
            for edge in block:
                ends.setdefault(edge, []).append(len(copies))
            copies.append((j, samples[node]))
    return base._replace(
        factors=tuple(factors), fields=tuple(_components(copies, list(ends.values())))
    )


def _components(copies: list[tuple[int, int]], edges: list[list[int]]) -> Iterator[Placed]:
    """The connected trees among the copies of z_j."""
    unseen = set(range(len(copies)))
    while unseen:
        tree = {min(unseen)}
        while grown := {end for edge in edges if tree & set(edge) for end in edge} - tree:
            tree |= grown
        unseen -= tree
        members = sorted(tree)
        place = {copy: position for position, copy in enumerate(members)}
        inner = tuple(sorted(ordered(place[a], place[b]) for a, b in edges if a in tree))
        field, order = canonical_tree(len(members), inner)
        chosen = [copies[members[position]] for position in order]
        yield Placed(field, tuple(j for j, _ in chosen), tuple(sample for _, sample in chosen))
