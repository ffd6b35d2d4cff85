"""Histories: the ways in which gradient descent changes an observable, as sums over trees.

A step θ_μ → θ_μ − η λ_μ Σ_b ε_b ∂_μ z_b, ε = z − y, moves a field by its Taylor series: each ε_b
hangs a derivative by the parameters, a new node b, on any node that was there. So after t steps

    F(t) = Σ_T (1/|T|) T_{… b c …}(0) Π_v (−η) Σ_{s_v < s_parent(v)} ε_v(s_v),

over the trees T that grow from F's, s_parent = t for what hangs on F itself, |T| the permutations
of branches that keep T. ε itself descends in the same way, so that the trees are nested: a
*descent* is either the leading one, ε_a(t) = (1 − ηΘ_a)^t ε_a(0) in the eigenbasis of Θ, or a tree
that is met on the way, each of its ε a descent again. A tree of one edge stands for H − Θ.

A history is a descent of z − y, or what has grown on a field, with a label for every
node. Labels stand for samples in the eigenbasis of Θ, and those that are not free are summed over.
It is a product of fields at initialization, and a function of the step that depends on the labels
through m = 1 − η Θ_a alone. That function is one of finitely many products of sums, such as
Σ_{s<t} m_b^s Σ_{s'<s} m_c^{s'}, each of which is linear in the others a step before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import factorial, prod
from typing import NamedTuple

from ..engine.trees import Edge, Field, Z, canonical_tree
from ..groups.pairings import compositions
from ..work.caches import cache


class Branch(NamedTuple):
    """A node that a step has hung on: how its ε has come about, and what hangs on it."""

    epsilon: Descent
    branches: Branches = ()


Branches = tuple[Branch, ...]
"""Sorted: what hangs on one node."""


class Descent(NamedTuple):
    """How z − y of one sample has come about: by Θ alone, or by the tree with these branches."""

    branches: Branches = ()


LEADING = Descent()


def symmetry(branches: Branches) -> int:
    """The permutations of equal branches, at every node."""
    own = prod(factorial(times) for times in Counter(branches).values())
    return own * prod(
        symmetry(each.epsilon.branches) * symmetry(each.branches) for each in branches
    )


@cache
def descents(edges: int) -> tuple[Descent, ...]:
    """The descents with so many edges in all of their trees."""
    if not edges:
        return (LEADING,)
    return tuple(Descent(branches) for branches in forests(edges))


@cache
def forests(edges: int) -> tuple[Branches, ...]:
    """Branches that may hang on one node, of so many edges, with those of the trees of each ε."""
    found: set[Branches] = {()} if not edges else set()
    for first in range(1, edges + 1):
        for branch, others in product(_branches(first), forests(edges - first)):
            found.add(tuple(sorted((branch, *others))))
    return tuple(sorted(found))


@cache
def _branches(edges: int) -> tuple[Branch, ...]:
    """Those of so many edges, the one by which it hangs with them."""
    return tuple(
        Branch(epsilon, below)
        for inner, above in compositions(edges - 1, 2)
        for epsilon, below in product(descents(inner), forests(above))
    )


class Variable(NamedTuple):
    """A sequence: ε of a label, (1 − ηΘ)^t or what a tree made of it, or a sum Σ_s ε over steps."""

    name: str
    label: int


Monomial = frozenset[Variable]
Rates = tuple[int, ...]
Entry = Mapping[Rates, int]
"""A polynomial in the rates of the labels: integers by the labels whose rates are multiplied."""
Polynomial = dict[tuple[Rates, Monomial], int]


class Insertion(NamedTuple):
    """A field at initialization, the label of each of its nodes, and whether its limit is in it.

    The limit of H is Θ, which every leading descent has in it already.
    """

    field: Field
    labels: tuple[int, ...]
    whole: bool = False


@dataclass(frozen=True)
class System:
    """Sequences s(t) with s(t+1) = M s(t); the first is what was asked for.

    Attributes:
        entries: of M, polynomials in the rates m_a = 1 − ηΘ_a.
        start: s(0), of zeros and ones.
        sums: how many sums over steps are in each, one in another or beside it: as η → 0 it is
            η^{−sums} times a function of ηt.
    """

    entries: Mapping[tuple[int, int], Entry]
    start: tuple[int, ...]
    sums: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class History:
    """The history of an observable with these free labels under descent.

    Attributes:
        free: the observable's labels.
        legs: labels of the z − y at initialization that it is a product of.
        insertions: the fields at initialization.
        weight: 1/|T|, times (−1) for each edge.
        edges: the power of η.
    """

    free: tuple[int, ...]
    legs: tuple[int, ...]
    insertions: tuple[Insertion, ...]
    weight: Fraction
    edges: int
    updates: Mapping[Variable, Monomial] = field(repr=False)
    target: Monomial = field(repr=False)

    @property
    def labels(self) -> int:
        """How many labels it has."""
        return 1 + max(
            (*self.free, *self.legs, *(a for each in self.insertions for a in each.labels))
        )

    @cached_property
    def steps(self) -> System:
        """Its function of the step t."""
        found, waiting = {self.target: 0}, [self.target]
        entries: dict[tuple[int, int], dict[Rates, int]] = {}
        while waiting:
            here = waiting.pop()
            for (rates, there), coefficient in self._next(here).items():
                if there not in found:
                    found[there] = len(found)
                    waiting.append(there)
                entry = entries.setdefault((found[here], found[there]), {})
                entry[rates] = entry.get(rates, 0) + coefficient
        start = tuple(int(all(v.name == "leading" for v in each)) for each in found)
        return System(entries, start, tuple(self._sums(each) for each in found))

    def _sums(self, monomial: Monomial) -> int:
        below = sum(self._sums(self.updates[v]) for v in monomial if v.name != "leading")
        return below + sum(v.name == "sum" for v in monomial)

    def _next(self, monomial: Monomial) -> Polynomial:
        """A product of variables one step later."""
        return _product([self._stepped(v) for v in sorted(monomial)])

    def _stepped(self, v: Variable) -> Polynomial:
        own = frozenset({v})
        if v.name == "leading":
            return {((v.label,), own): 1}
        if v.name == "sum":
            return {((), own): 1, ((), self.updates[v]): 1}
        source = self.updates[v]
        changed = self._next(source)
        changed[(), source] -= 1
        return {((v.label,), own): 1} | {key: c for key, c in changed.items() if c}


def _product(factors: Sequence[Polynomial]) -> Polynomial:
    found: Polynomial = {}
    for terms in product(*(each.items() for each in factors)):
        rates = tuple(sorted(a for (each, _), _ in terms for a in each))
        monomial = frozenset[Variable]().union(*(each for (_, each), _ in terms))
        coefficient = 1
        for _, c in terms:
            coefficient *= c
        found[rates, monomial] = found.get((rates, monomial), 0) + coefficient
    return found


@cache
def residuals(edges: int) -> tuple[History, ...]:
    """The histories of z_0(t) − y_0 with so many edges."""
    found = []
    for descent in descents(edges):
        made = _Made(1)
        target = frozenset({made.epsilon(descent, 0)})
        found.append(made.history((0,), target, symmetry(descent.branches), edges))
    return tuple(found)


@cache
def fields(base: Field, edges: int) -> tuple[History, ...]:
    """The histories of a field of derivatives, such as H, that has grown by so many edges.

    Raises ValueError for z itself, whose histories are `residuals`.
    """
    if base == Z:
        raise ValueError("z descends by Θ too: see `residuals`")
    return tuple(_grown(base, edges))


def _grown(base: Field, edges: int) -> Iterator[History]:
    for parts in compositions(edges, base.nodes):
        for chosen in product(*(forests(part) for part in parts)):
            made = _Made(base.nodes)
            target = made.tree(tuple(range(base.nodes)), base.edges, chosen)
            weight = prod(map(symmetry, chosen))
            yield made.history(tuple(range(base.nodes)), target, weight, edges)


class _Made:
    """A history, as its labels are given out."""

    def __init__(self, labels: int) -> None:
        self.labels = labels
        self.legs: list[int] = []
        self.insertions: list[Insertion] = []
        self.updates: dict[Variable, Monomial] = {}

    def epsilon(self, descent: Descent, label: int) -> Variable:
        """ε of a label."""
        if descent == LEADING:
            self.legs.append(label)
            return Variable("leading", label)
        variable = Variable("met", label)
        self.updates[variable] = self.tree((label,), (), (descent.branches,))
        return variable

    def tree(
        self, base: tuple[int, ...], edges: tuple[Edge, ...], chosen: Sequence[Branches]
    ) -> Monomial:
        """The tree that has grown from nodes of these labels; the product of its sums."""
        labels, joined = list(base), list(edges)
        sums = [self.sums(branches, place, labels, joined) for place, branches in enumerate(chosen)]
        tree, order = canonical_tree(len(labels), tuple(joined))
        own = tuple(labels[node] for node in order)
        self.insertions.append(Insertion(tree, own, len(base) > 1))
        return frozenset[Variable]().union(*sums)

    def sums(
        self, branches: Branches, parent: int, labels: list[int], joined: list[Edge]
    ) -> Monomial:
        """The sums over steps of what hangs on a node."""
        found = set()
        for branch in branches:
            label, place = self.labels, len(labels)
            self.labels += 1
            labels.append(label)
            joined.append((parent, place))
            below = self.sums(branch.branches, place, labels, joined)
            variable = Variable("sum", label)
            self.updates[variable] = below | {self.epsilon(branch.epsilon, label)}
            found.add(variable)
        return frozenset(found)

    def history(
        self, free: tuple[int, ...], target: Monomial, permutations: int, edges: int
    ) -> History:
        """The history so far."""
        weight = Fraction((-1) ** edges, permutations)
        legs, insertions = tuple(self.legs), tuple(self.insertions)
        return History(free, legs, insertions, weight, edges, self.updates, target)
