"""Random probes: every field is an average of directional derivatives of z.

A field is a tree whose edges contract pairs of derivatives by the parameters θ (`engine.fields`).
Give every edge e a random direction θ_e of its own, independent, with E[θ_e θ_eᵀ] = Λ, the
learning rates. Then

    φ_{i_1 … i_r} = E_θ Π_a z_{i_a; O_a} ,

O_a the edges at node a, z_{;O} the derivative of z along all θ_e, e ∈ O (derived here). So H needs
∂_{θ_1}z, dH also ∂_{θ_1}∂_{θ_2}z, and no array has more than one neural index. These derivatives,
*jets*, go forward from layer to layer together with z:

    z_{;O}^(ℓ+1) = W s_{;O} + Σ_{e ∈ O} (∂_{θ_e}W s_{;O∖e} + [O = e] ∂_{θ_e}b) ,

s_{;O} = ∂_O σ(z^(ℓ)).

Only the covariance of a direction enters, once for each edge, so entries of ±1 do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from derive.engine.fields import Edge, Field
from derive.groups.pairings import set_partitions

Jet = tuple[int, ...]
"""The probes along which z is differentiated, ascending; () is z itself."""


def edges_of(fields: Iterable[Field]) -> list[Edge]:
    """The edges of all fields, their nodes numbered through."""
    found, start = [], 0
    for field in fields:
        found += [(a + start, b + start) for a, b in field.edges]
        start += field.nodes
    return found


def degrees(fields: Iterable[Field]) -> list[int]:
    """The number of edges at each node."""
    fields = tuple(fields)
    ends = [node for edge in edges_of(fields) for node in edge]
    return [ends.count(node) for node in range(sum(field.nodes for field in fields))]


@dataclass(frozen=True)
class Probes:
    """Which jets are followed: all z_{;O} with |O| = d among the first counts[d−1] probes."""

    counts: tuple[int, ...] = ()

    @cached_property
    def jets(self) -> tuple[Jet, ...]:
        """All jets, by order; () first."""
        return tuple(
            jet
            for order, count in enumerate((0, *self.counts))
            for jet in combinations(range(count), order)
        )

    @property
    def order(self) -> int:
        """The highest derivative of z."""
        return len(self.counts)

    def assignments(self, fields: tuple[Field, ...]) -> Iterator[tuple[int, ...]]:
        """Ways to give every edge a probe of its own, such that all jets are there."""
        edges, followed = edges_of(fields), set(self.jets)
        nodes = range(sum(field.nodes for field in fields))
        at = [[e for e, edge in enumerate(edges) if node in edge] for node in nodes]
        for chosen in permutations(range(max(self.counts, default=0)), len(edges)):
            if all(tuple(sorted(chosen[e] for e in touching)) in followed for touching in at):
                yield chosen

    @cached_property
    def chain_rule(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Faà di Bruno's formula as arrays (start, order, factors), for jets from last to first.

        Terms start[k] … start[k+1] − 1 are those of jet k; a term is σ^{(order)} times the jets in
        its row of factors, −1 where there are none left.
        """
        place = {jet: number for number, jet in enumerate(self.jets)}
        start, order, factors = [0], [], []
        for jet in self.jets:
            for blocks in set_partitions(jet):
                order.append(len(blocks))
                row = [place[tuple(sorted(block))] for block in blocks]
                factors.append(row + [-1] * (max(self.order, 1) - len(row)))
            start.append(len(order))
        return np.array(start), np.array(order), np.array(factors)

    @cached_property
    def raising(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Arrays (start, from, to): probe e takes the jets `from` to the jets `to` = from ∪ {e}."""
        place = {jet: number for number, jet in enumerate(self.jets)}
        start, lower, upper = [0], [], []
        for probe in range(max(self.counts, default=0)):
            for jet in self.jets:
                raised = tuple(sorted({*jet, probe}))
                if probe not in jet and raised in place:
                    lower.append(place[jet])
                    upper.append(place[raised])
            start.append(len(lower))
        return np.array(start), np.array(lower, np.int64), np.array(upper, np.int64)


def needed(statistics: Iterable[tuple[Field, ...]], more: int = 0) -> Probes:
    """The fewest probes with which the fields of all statistics can be made, and `more` of each."""
    counts: list[int] = []
    for fields in statistics:
        edges = len(edges_of(fields))
        for order in range(max(degrees(fields), default=0)):
            counts += [0] * (order + 1 - len(counts))
            counts[order] = max(counts[order], edges)
    return Probes(tuple(count + more for count in counts))


def spare(statistics: Iterable[tuple[Field, ...]]) -> int:
    """How many probes more than are needed pay: the least variance times time, as measured.

    For A and B of two inputs, n = 50 … 500, eight more are ten times the networks in the same
    time. Each pair of probes takes a jet more for dH, and each three for ddH: they do not pay.
    """
    fields = [list(each) for each in statistics]
    order = max((max(degrees(each), default=0) for each in fields), default=0)
    edges = max((len(edges_of(each)) for each in fields), default=0)
    return {0: 0, 1: 4 * edges, 2: 1}.get(order, 0)
