"""The meaning of a tensor in words, derived from its fields, order and pairing of neurons.

    kappa(z,z,H|02 13)    joint cumulant of two preactivations and the NTK;
                          equal neurons: (z, H)(z, H)

A field with neurons of several kinds, as dH of its middle and its ends, says which; of equal fields
all but the first are primed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby

from ..groups.pairings import Blocks, ordered
from .trees import DDH_I, DDH_II, DH, AnyField, Edge, Field, H, Z, automorphisms, slots_of

_KERNEL = "NTK"

_TREES = {
    H: _KERNEL,
    DH: f"first differential of the {_KERNEL}",
    DDH_I: f"second differential of the {_KERNEL}, one end moved twice",
    DDH_II: f"second differential of the {_KERNEL}, both ends moved",
}

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def meaning(fields: Sequence[AnyField], order: int, pairing: Blocks) -> str:
    """The cumulant of these fields, and which of its neurons are equal."""
    statistic = {1: "mean", 2: "covariance"}.get(len(fields), "joint cumulant")
    kinds = [(field, len(list(same))) for field, same in groupby(fields)]
    of = " and ".join(_several(field, count) for field, count in kinds)
    part = f"part of relative order 1/{_power(order)} of the " if order else ""
    neurons = "".join(f"({', '.join(block)})" for block in _blocks(fields, pairing))
    return f"{part}{statistic} of {of}; equal neurons: {neurons}"


def normalisation(pairs: int, order: int) -> str:
    """n^{m−1+g}, by which the part of relative order g of a cumulant with m pairs is multiplied."""
    return _power(pairs - 1 + order)


def _power(exponent: int) -> str:
    return {0: "1", 1: "n"}.get(exponent, f"n^{exponent}")


def _several(field: AnyField, count: int) -> str:
    number = _COUNTS[count] if count < len(_COUNTS) else str(count)
    if field == Z:
        return "a preactivation" if count == 1 else f"{number} preactivations"
    return f"the {_thing(field)}" if count == 1 else f"{number} entries of the {_thing(field)}"


def _thing(field: AnyField) -> str:
    if not isinstance(field, Field):
        return f"field {field}"
    if field.kinds and field.nodes == 1:
        return f"variable {field}"
    if field.kinds:
        of = ", ".join(kind.name for kind in field.kinds)
        return f"{_thing(Field(field.nodes, field.edges))} of {of}"
    edges = " ".join(f"{a}-{b}" for a, b in field.edges)
    return _TREES.get(
        field, f"differential {field.nodes - 2} of the {_KERNEL}, on the tree {edges}"
    )


def _blocks(fields: Sequence[AnyField], pairing: Blocks) -> Iterator[tuple[str, ...]]:
    """The neurons of each block, by their fields and their kinds."""
    letters = _letters(fields)
    home = [
        (number, node) for number, own in enumerate(slots_of(fields)) for node in range(len(own))
    ]
    for block in pairing:
        places = [home[slot] for slot in block]
        names = [f"{letters[number]}{_kind(fields[number], node)}" for number, node in places]
        (left, i), (right, j) = places[:2]
        if len(block) == 2 and left == right:
            names[1] += _beside(fields[left], i, j)
        yield tuple(names)


def _letters(fields: Sequence[AnyField]) -> list[str]:
    letters = []
    for number, field in enumerate(fields):
        unnamed = isinstance(field, Field) and str(field) == repr(field)
        primes = "" if field == Z else "'" * list(fields[:number]).count(field)
        letters.append(("tree" if unnamed else str(field)) + primes)
    return letters


def _kind(field: AnyField, node: int) -> str:
    """Which neuron of its field: nothing to say where they are all alike."""
    if len({order[0] for order in automorphisms(field)}) == field.nodes:
        return ""
    if not isinstance(field, Field):
        return f" {node + 1}"
    degrees = [sum(place in edge for edge in field.edges) for place in range(field.nodes)]
    if degrees[node] == 1:
        return " end"
    return " middle" if sum(degree > 1 for degree in degrees) == 1 else " inner"


def _beside(field: AnyField, i: int, j: int) -> str:
    """True if two neurons of a tree are neighbours, where their kinds leave it open."""
    if not isinstance(field, Field):
        return ""

    def kinds(pair: Edge) -> list[str]:
        return sorted(_kind(field, node) for node in pair)

    alike = [pair for pair in combinations(range(field.nodes), 2) if kinds(pair) == kinds((i, j))]
    if len({pair in field.edges for pair in alike}) == 1:
        return ""
    return " beside it" if ordered(i, j) in field.edges else " farther off"
