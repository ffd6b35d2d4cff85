"""Multiply the constant factors of a graph into the matrices and sums next to them.

    k (b + W u) = k b + (k W) u,   W (k u) = (k W) u,   k Σ_j c_j u_j = Σ_j (k c_j) u_j,
    norm(k u; ε) = norm(u; ε/k²) for k > 0

A factor that no matrix, sum or norm can take stays in place. An example is a factor inside σ of a
value that is also used without the factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy

from derive.symbols import z

from .functions import activation
from .graph import Applied, Graph, Linear, Node, Norm, Pooled, Product, Sum


def absorb(graph: Graph) -> None:
    """Rewrite the nodes that lead to the output, in place.

    Only matrices and sums within one layer change their values.
    """
    while _step(graph):
        pass


def _step(graph: Graph) -> bool:
    """Move one factor; False if no factor can be moved."""
    nodes = graph.nodes
    live = [0, *graph.between(0, graph.output)]
    users: dict[int, list[int]] = {at: [] for at in live}
    for at in live:
        for source in nodes[at].sources:
            users[source].append(at)
    for at in live:
        node = nodes[at]
        if not isinstance(node, Sum):
            continue
        if len(node.terms) > 1:
            for number, (factor, source) in enumerate(node.terms):
                below = nodes[source]
                if isinstance(below, Sum) and len(users[source]) == 1:
                    inner = ((factor * own, at) for own, at in below.terms)
                    nodes[at] = Sum((*node.terms[:number], *inner, *node.terms[number + 1 :]))
                    return True
                if factor != 1 and isinstance(below, Linear) and len(users[source]) == 1:
                    nodes[source] = below.times(factor)
                    terms = list(node.terms)
                    terms[number] = (sympy.S.One, source)
                    nodes[at] = Sum(tuple(terms))
                    return True
            continue
        ((factor, source),) = node.terms
        below = nodes[source]
        if isinstance(below, Linear | Sum) and len(users[source]) == 1:
            nodes[at] = below.times(factor)
            return True
        for user in users[at]:
            made = _taken(nodes[user], at, factor, source)
            if made is not None:
                nodes[user] = made
                return True
    return False


def without(graph: Graph, is_zero: Callable[[str], bool]) -> bool:
    """Leave out matrices that are 0 from the sums that they end branches of, in place.

    Arguments:
        is_zero: of a path, whether the parameter is 0 in every initialization.

    False if there are none. What then has one argument is joined to it: σ(σ'(u)) is one function.
    """
    nodes, live = graph.nodes, graph.between(0, graph.output)

    def is_dead(at: int) -> bool:
        node = nodes[at]
        paths = [node.weight, node.bias] if isinstance(node, Linear) else []
        return bool(paths) and all(is_zero(path) for path in paths if path is not None)

    dead = {at for at in live if is_dead(at)}
    sums = [
        at for at in live if isinstance(nodes[at], Sum) and dead.intersection(nodes[at].sources)
    ]
    for at in sums:
        node = nodes[at]
        assert isinstance(node, Sum)
        kept = tuple(term for term in node.terms if term[1] not in dead) or node.terms[:1]
        nodes[at] = Sum(kept)
        if len(kept) == 1 and kept[0][0] == 1:
            graph.origins[kept[0][1]] = graph.origins[at]  # what is behind takes the whole sum
    for at in graph.between(0, graph.output):
        nodes[at] = _joined(graph, nodes[at])
    absorb(graph)
    used = [nodes[at] for at in graph.between(0, graph.output)]
    paths = {path for e in used if isinstance(e, Linear) for path in (e.weight, e.bias)}
    left = [path for path in graph.parameters if path not in paths]
    graph.gains += [path for path in left if is_zero(path)]
    graph.parameters = {path: own for path, own in graph.parameters.items() if path in paths}
    return bool(sums)


def _joined(graph: Graph, node: Node) -> Node:
    """The node with its arguments in place of sums of them alone, and of functions of functions."""

    def origin(at: int) -> int:
        own = graph.nodes[at]
        alone = isinstance(own, Sum) and len(own.terms) == 1 and own.terms[0][0] == 1
        return origin(own.sources[0]) if alone else at

    if not isinstance(node, Linear | Norm | Pooled | Applied | Product | Sum):
        return node
    made = node.moved(origin)
    below = graph.nodes[made.sources[0]]
    if not isinstance(made, Applied) or not isinstance(below, Applied):
        return made
    expr = made.function.expr.xreplace({z: below.function.expr})
    return Applied(below.source, activation(sympy.simplify(expr), "a function of a function"))


def _taken(node: Node, at: int, factor: sympy.Expr, source: int) -> Node | None:
    """The node with the factor of its argument absorbed; None if it cannot absorb one."""
    if isinstance(node, Linear):
        return replace(node, source=source, scale=factor * node.scale)
    if isinstance(node, Sum):
        terms = [(own * factor, source) if s == at else (own, s) for own, s in node.terms]
        return Sum(tuple(terms))
    if isinstance(node, Norm) and factor.is_positive:
        return replace(node, source=source, eps=node.eps / factor**2)
    return None
