"""Constant factors of a graph, multiplied into the matrices and sums that are next to them.

    k (b + W u) = k b + (k W) u,   W (k u) = (k W) u,   k Σ_j c_j u_j = Σ_j (k c_j) u_j,
    norm(k u; ε) = norm(u; ε/k²) for k > 0

A factor that no matrix, sum or norm can take stays where it is, as one before σ of a value that is
also used without it.
"""

from __future__ import annotations

from dataclasses import replace

import sympy

from .graph import Graph, Linear, Node, Norm, Sum


def absorb(graph: Graph) -> None:
    """Rewrite the nodes that lead to the output, in place. No node changes its value but matrices
    and sums within one layer."""
    while _step(graph):
        pass


def _step(graph: Graph) -> bool:
    """Move one factor; False if there is none to move."""
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
    """A node that takes the factor of what it is computed from; None for one that cannot."""
    if isinstance(node, Linear):
        return replace(node, source=source, scale=factor * node.scale)
    if isinstance(node, Sum):
        terms = [(own * factor, source) if s == at else (own, s) for own, s in node.terms]
        return Sum(tuple(terms))
    if isinstance(node, Norm) and factor.is_positive:
        return replace(node, source=source, eps=node.eps / factor**2)
    return None
