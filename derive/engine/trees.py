"""The fields of a layer: trees of derivatives, and what a forward equation is made of.

A field is a tree: each node is a preactivation, each edge a pair of derivatives by the parameters θ
contracted with the learning-rate tensor (source 000, eqs. 6.1, 6.3, 6.11),

    z  = a node,     H_{i1 i2} = Σ_μ λ_μ ∂_μ z_{i1} ∂_μ z_{i2} = an edge,     dH = three in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, permutations
from typing import Literal, NamedTuple, Protocol

from ..errors import InputError
from ..groups.pairings import joined, ordered
from ..work.caches import cache

Edge = tuple[int, int]
InputValue = Literal["zero", "identity", "inputs"]


class Kind(NamedTuple):
    """A variable of a layer: its name, the neurons that its index runs over, and its group.

    Variables of one group are rotated together, those of different groups each by themselves: the
    rows of every matrix may be. Indices of one group alone can be paired.

    Its neurons may be normalized by themselves in several sets of equal size. Its cumulants are
    then means over all neurons, or, if `alone`, those of the neurons of one set.
    """

    name: str
    space: str
    group: str
    sets: int = 1
    alone: bool = False

    @property
    def in_one_set(self) -> Kind:
        """The variable at the neurons of one set."""
        if self.sets == 1 or self.alone:
            return self
        return self._replace(name=self.name + _ALONE, alone=True)

    @property
    def everywhere(self) -> Kind:
        """The variable at all neurons."""
        return self._replace(name=self.name.removesuffix(_ALONE), alone=False)


_ALONE = "_in_one_set"


STREAM = Kind("z", "z", "z")
ABOVE = "z'"
"""The neurons of z behind a layer, where they need not be as many as those before it."""


class Placed(NamedTuple):
    """A field of the layer below: its tree, the summed neuron and the sample of each node."""

    field: AnyField
    neurons: tuple[int, ...]
    samples: tuple[int, ...]

    def at(self, neurons: Iterable[int]) -> Placed:
        """The same at these neurons."""
        return Placed(self.field, tuple(neurons), self.samples)


class AtInputs(NamedTuple):
    """A product that a field is at layer 0: of x at some of its nodes, and δ of two of them."""

    entries: tuple[int, ...] = ()
    joined: tuple[tuple[int, int], ...] = ()


_INPUT_TERMS: dict[InputValue, tuple[AtInputs, ...]] = {
    "zero": (),
    "identity": (AtInputs(joined=((0, 1),)),),
    "inputs": (AtInputs(entries=(0,)),),
}


class AnyField(Protocol):
    """A field, as the engine uses it: a tree of derivatives, or an equation of one's own."""

    @property
    def nodes(self) -> int:
        """How many neural indices it carries, each with a sample."""

    @property
    def rank(self) -> tuple[int, str, tuple[Edge, ...]]:
        """Its place among the fields of a cumulant."""

    @property
    def at_inputs(self) -> InputValue:
        """Its value at layer 0: the inputs x_j, δ_{j1 j2}, or nothing (`input_terms`)."""

    def kind(self, node: int) -> Kind:
        """The variable whose index a node carries."""

    def symmetries(self) -> tuple[tuple[int, ...], ...]:
        """The permutations of its nodes that keep it."""

    def __hash__(self) -> int: ...


def input_terms(field: AnyField) -> tuple[AtInputs, ...]:
    """The terms of a field at layer 0, none where it is 0."""
    return _INPUT_TERMS[field.at_inputs]


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
        nodes = set(range(self.nodes))
        if joined([{0}, *edges]) != [nodes] or len(edges) != self.nodes - 1:
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
    def everywhere(self) -> Field:
        """The same of variables at all neurons."""
        return replace(self, kinds=tuple(kind.everywhere for kind in self.kinds))

    @property
    def in_one_set(self) -> Field:
        """The same of variables at the neurons of one set."""
        return replace(self, kinds=tuple(kind.in_one_set for kind in self.kinds))

    @property
    def rank(self) -> tuple[int, str, tuple[Edge, ...]]:
        """Small trees first."""
        return self.nodes, "".join(kind.name for kind in self.kinds), self.edges

    @property
    def at_inputs(self) -> InputValue:
        """Layer 0 has no parameters to differentiate by."""
        return "zero" if self.edges else "inputs"

    def symmetries(self) -> tuple[tuple[int, ...], ...]:
        """The permutations of the nodes that keep the tree."""
        return _automorphisms(self)


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


def slots_of(fields: Sequence[AnyField]) -> list[tuple[int, ...]]:
    """The slots of each field's nodes, counted through a product of fields."""
    ends = list(accumulate((field.nodes for field in fields), initial=0))
    return [tuple(range(a, b)) for a, b in pairwise(ends)]


@cache
def automorphisms(field: AnyField) -> tuple[tuple[int, ...], ...]:
    """The permutations of the nodes that keep the field."""
    return field.symmetries()


def components(
    copies: Sequence[tuple[Kind, int, int]], edges: Iterable[Sequence[int]]
) -> Iterator[Placed]:
    """The connected trees among copies of variables (kind, neuron, sample), joined by edges."""
    pairs = list(edges)
    if not pairs:
        for kind, j, sample in copies:
            field, _ = canonical_tree(1, (), () if kind == STREAM else (kind,))
            yield Placed(field, (j,), (sample,))
        return
    for members in sorted(map(sorted, joined([*((k,) for k in range(len(copies))), *pairs]))):
        place = {copy: position for position, copy in enumerate(members)}
        inner = tuple(sorted(ordered(place[a], place[b]) for a, b in pairs if a in place))
        kinds = tuple(copies[member][0] for member in members)
        field, order = canonical_tree(len(members), inner, () if set(kinds) == {STREAM} else kinds)
        chosen = [copies[members[position]] for position in order]
        yield Placed(field, tuple(j for _, j, _ in chosen), tuple(s for _, _, s in chosen))
