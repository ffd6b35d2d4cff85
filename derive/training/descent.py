"""Gradient descent as a sum over trees.

A step θ_μ → θ_μ − η λ_μ Σ_b ε_b ∂_μ z_b, ε = z − y, moves a field by its Taylor series: each ε_b
hangs a derivative by the parameters, a new node b, on any node that was there. So after t steps

    F(t) = Σ_T (1/|T|) T_{… b c …}(0) Π_v (−η) Σ_{s_v < s_parent(v)} ε_v(s_v),

over the trees T that grow from F's, s_parent = t for what hangs on F itself, |T| the permutations
of branches that keep T. ε itself descends in the same way, so that the trees are nested: a
*descent* is either the leading one, ε_a(t) = (1 − ηΘ_a)^t ε_a(0) in the eigenbasis of Θ, or a tree
that is met on the way, each of its ε a descent again. A tree of one edge stands for H − Θ.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import factorial, prod
from typing import NamedTuple

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
