"""Multiply the constant factors of a graph into the matrices and sums next to them.

    k (b + W u) = k b + (k W) u,   W (k u) = (k W) u,   k Σ_j c_j u_j = Σ_j (k c_j) u_j,
    norm(k u; ε) = norm(u; ε/k²) for k > 0

A factor that no matrix, sum or norm can take stays in place. An example is a factor inside σ of a
value that is also used without the factor.
"""

from __future__ import annotations

from dataclasses import replace

import sympy

from .graph import Graph, Linear, Node, Norm, Sum


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
