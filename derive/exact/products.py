"""Products of fields and of forward equations, and what becomes of their summed neurons."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple, TypeAlias

from ..arithmetic.polynomials import Expansion, constant
from ..engine.fields import Placed
from ..engine.trees import Kind
from ..groups.pairings import double_factorial_pairings
from .forward import Column, Content, Norm, Term
from .matrices import Row
from .values import multiply, raised

Powers: TypeAlias = tuple[tuple[tuple[Kind, int], int], ...]
"""The variables at a neuron, each with its sample, and their exponents."""
Label: TypeAlias = tuple[str, Powers]
"""A neural index: its space, and what stands at it."""


class Fields(NamedTuple):
    """A product at different neural indices.

    Attributes:
        labels: the indices at which variables alone stand.
        nodes: those that fields with several nodes have, too.
        links: these fields; their neurons number the nodes.
    """

    labels: tuple[Label, ...] = ()
    nodes: tuple[Label, ...] = ()
    links: tuple[Placed, ...] = ()


class Neuron(NamedTuple):
    """The content of a neuron that is summed over, or, if outside, of an index of the left.

    `members` are the neurons of links that it is, by their numbers.
    """

    space: str
    content: Content
    outside: bool = False
    members: tuple[int, ...] = ()

    def with_(self, other: Neuron) -> Neuron:
        """Both at one neuron."""
        return Neuron(
            self.space,
            tuple(sorted(self.content + other.content)),
            self.outside or other.outside,
            self.members + other.members,
        )


class Sums(NamedTuple):
    """A product of terms of forward equations, its matrices to be averaged.

    Attributes:
        rows: the number of a matrix, and what stands at the columns of one row.
        neurons: those without a matrix, in order.
        nodes: those of links, which number them.
        links: as in `Fields`.
        norms: one for each factor of one over a norm.
    """

    rows: tuple[tuple[int, Row], ...] = ()
    neurons: tuple[Neuron, ...] = ()
    nodes: tuple[Neuron, ...] = ()
    links: tuple[Placed, ...] = ()
    norms: tuple[Norm, ...] = ()

    def times(self, other: Sums) -> Sums:
        """The product with one at other indices, which has no links."""
        return Sums(
            tuple(sorted(self.rows + other.rows)),
            tuple(sorted(self.neurons + other.neurons)),
            self.nodes or other.nodes,
            self.links or other.links,
            tuple(sorted(self.norms + other.norms)),
        )


class Chosen(NamedTuple):
    """A term of a field's equation, the neural index of each of its slots, and how often."""

    term: Term
    labels: tuple[int, ...]
    power: int


def multiplied(
    chosen: Sequence[Chosen], variance: Callable[[Kind], Expansion]
) -> tuple[Sums, Expansion] | None:
    """A product of terms, its biases averaged; None where it vanishes.

    Arguments:
        variance: of the biases in a variable's equation.
    """
    biases: Counter[tuple[int, Kind]] = Counter()
    neurons: list[Column] = []
    columns: dict[tuple[int, int], list[int]] = defaultdict(list)
    carried: dict[int, list[tuple[Kind, int, int]]] = defaultdict(list)
    links: list[Placed] = []
    norms: list[Norm] = []
    for term, labels, count in chosen:
        norms += term.norms * count
        for slot, kind in term.biases:
            biases[labels[slot], kind] += count
        for _ in range(count):
            by = len(neurons)
            neurons.extend(term.neurons)
            for matrix, slot, j in term.weights:
                columns[matrix, labels[slot]].append(by + j)
            for slot, factor in term.carried:
                carried[labels[slot]].append(factor)
            for placed in term.links:
                at = (by + j if j >= 0 else -1 - labels[-1 - j] for j in placed.neurons)
                links.append(placed.at(at))
    if any(len(row) % 2 for row in columns.values()) or any(c % 2 for c in biases.values()):
        return None
    scale = reduce(
        multiply,
        (raised(term.scale, count) for term, _, count in chosen),
        constant(prod(map(double_factorial_pairings, biases.values()))),
    )
    for (_, kind), count in biases.items():
        scale = multiply(scale, raised(variance(kind), count // 2))
    if not scale:
        return None
    number: dict[int, int] = {}
    nodes: list[Neuron] = []
    for placed in links:
        for node, j in enumerate(placed.neurons):
            if j not in number:
                number[j] = len(nodes)
                space = placed.field.kind(node).space
                outer = () if j >= 0 else tuple(sorted(carried.pop(-1 - j, ())))
                nodes.append(Neuron(space, neurons[j][1] if j >= 0 else outer, j < 0))
    named: list[tuple[str, Any]] = [
        ("", number[j]) if j in number else column for j, column in enumerate(neurons)
    ]
    rows = ((matrix, tuple(sorted(named[j] for j in at))) for (matrix, _), at in columns.items())
    weighed = {j for row in columns.values() for j in row}
    alone = [Neuron(*each) for j, each in enumerate(neurons) if j not in {*weighed, *number}]
    alone += [Neuron(at[0][0].space, tuple(sorted(at)), outside=True) for at in carried.values()]
    made = Sums(
        tuple(sorted(rows)),
        tuple(sorted(alone)),
        tuple(nodes),
        tuple(placed.at(number[j] for j in placed.neurons) for placed in links),
        tuple(sorted(norms)),
    )
    return made, scale


def canonical(fields: Fields) -> Fields:
    """The labels in order, and the nodes numbered as the links come."""
    labels = tuple(sorted(fields.labels))
    if not fields.links:
        return Fields(labels)
    links = sorted(fields.links, key=_rank)
    number: dict[int, int] = {}
    for placed in links:
        for node in placed.neurons:
            number.setdefault(node, len(number))
    moved = (p.at(number[node] for node in p.neurons) for p in links)
    return Fields(
        labels, tuple(fields.nodes[node] for node in number), tuple(sorted(moved, key=_rank))
    )


def _rank(placed: Placed) -> tuple[object, ...]:
    return placed.field.rank, placed.samples, placed.neurons


def merged(sums: Sums, blocks: Iterable[Row]) -> Sums:
    """The sums where the columns of each block are one neuron."""
    name = list(range(len(sums.nodes)))
    contents = [list(node.content) for node in sums.nodes]
    alone = list(sums.neurons)
    for block in blocks:
        members = [at for space, at in block if not space]
        plain = [column for column in block if column[0]]
        content = [factor for _, found in plain for factor in found]
        if not members:
            alone.append(Neuron(plain[0][0], tuple(sorted(content))))
            continue
        contents[members[0]] += content
        for other in members[1:]:
            i, j = name[members[0]], name[other]
            name = [i if each == j else each for each in name]
    number = {label: k for k, label in enumerate(dict.fromkeys(name))}
    nodes = []
    for label in number:
        joined = [node for node, other in enumerate(name) if other == label]
        content = sorted(factor for node in joined for factor in contents[node])
        first = sums.nodes[joined[0]]
        outside = any(sums.nodes[node].outside for node in joined)
        nodes.append(Neuron(first.space, tuple(content), outside))
    links = tuple(placed.at(number[name[j]] for j in placed.neurons) for placed in sums.links)
    return Sums((), tuple(sorted(alone)), tuple(nodes), links, sums.norms)


def coincidences(sums: Sums) -> Iterable[tuple[tuple[Neuron, ...], int]]:
    """The ways in which summed neurons can be one, with each other and with those outside.

    Neurons without links are counted by what stands there.
    """
    nodes = [node._replace(members=(number,)) for number, node in enumerate(sums.nodes)]
    every = [*nodes, *sums.neurons]
    found = Counter({tuple(sorted(each for each in every if each.outside)): 1})
    for added in (each for each in every if not each.outside):
        grown: Counter[tuple[Neuron, ...]] = Counter()
        for groups, ways in found.items():
            grown[tuple(sorted((*groups, added)))] += ways
            for group, count in Counter(groups).items():
                if group.space == added.space:
                    others = list(groups)
                    others.remove(group)
                    grown[tuple(sorted((*others, group.with_(added))))] += ways * count
        found = grown
    return found.items()
