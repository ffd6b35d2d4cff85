"""The tensors of a layer: coefficients of its joint cumulants, and the literature's names for them.

    κ(φ_1, …, φ_r) = n^{1−m} Σ_p δ_p(i) Σ_g n^{−g} T^{g}_p(α) ,

p a pairing of the 2m neural indices. T of equal fields are related by permuting them, and by the
symmetries of each field's tree, so one representative stands for all.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations, product
from typing import NamedTuple

from .errors import InputError
from .fields import DDH_I, DDH_II, DH, FIELD_NAMES, Field, H, Z, automorphisms
from .pairings import Pairing, ordered, pair_partitions


class Tensor(NamedTuple):
    """T^{g}_p(α): the coefficient of δ_p at relative order g in the joint cumulant of `fields`."""

    fields: tuple[Field, ...]
    order: int
    pairing: Pairing
    samples: tuple[int, ...]

    @property
    def pairs(self) -> int:
        """m, half the number of neural indices."""
        return len(self.pairing)

    @property
    def n_power(self) -> int:
        """The power of 1/n that stands before this tensor in the cumulant."""
        return self.pairs - 1 + self.order


@cache
def tensor(
    fields: tuple[Field, ...], order: int, pairing: Pairing, samples: tuple[int, ...]
) -> Tensor:
    """The tensor with its fields sorted and its labels brought to their representative."""
    starts = _starts(fields)
    ranked = sorted(range(len(fields)), key=lambda f: fields[f])
    if all(field == Z for field in fields):
        pairs = sorted(ordered(samples[a], samples[b]) for a, b in pairing)
        flat = tuple(label for pair in pairs for label in pair)
        return Tensor(fields, order, pair_partitions(len(samples))[0], flat)
    best: tuple[Pairing, tuple[int, ...]] | None = None
    for ranking in _rankings(fields, tuple(ranked)):
        trees = [automorphisms(fields[f]) for f in ranking]
        for orders in product(*trees):
            slots = [
                starts[f] + node for f, tree in zip(ranking, orders, strict=True) for node in tree
            ]
            place = {slot: position for position, slot in enumerate(slots)}
            candidate = (
                tuple(sorted(ordered(place[a], place[b]) for a, b in pairing)),
                tuple(samples[slot] for slot in slots),
            )
            if best is None or candidate < best:
                best = candidate
    assert best is not None
    return Tensor(tuple(fields[f] for f in ranked), order, *best)


def _rankings(fields: tuple[Field, ...], ranked: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The orderings of the fields that keep their kinds in place."""
    kinds = [fields[f] for f in ranked]
    return [
        order
        for order in permutations(ranked)
        if all(fields[f] == kind for f, kind in zip(order, kinds, strict=True))
    ]


def _starts(fields: tuple[Field, ...]) -> list[int]:
    """The slot of each field's first node."""
    return [sum(field.nodes for field in fields[:f]) for f in range(len(fields))]


class Name(NamedTuple):
    """A named tensor: its cumulant, its order, its pairing of slots, and its subscripts.

    The subscripts are the slots in the order in which the literature writes the sample indices.
    """

    fields: tuple[Field, ...]
    order: int
    pairing: Pairing
    subscripts: tuple[int, ...]


def _name(fields: tuple[Field, ...], order: int, pairing: str, subscripts: str = "") -> Name:
    """Read "01 23" as ((0, 1), (2, 3)); subscripts default to the slots pair by pair."""
    pairs = tuple((int(pair[0]), int(pair[1])) for pair in pairing.split())
    slots = subscripts or pairing.replace(" ", "")
    return Name(fields, order, pairs, tuple(int(slot) for slot in slots))


NAMES: dict[str, Name] = {
    "K": _name((Z, Z), 0, "01"),
    "G1": _name((Z, Z), 1, "01"),
    "G2": _name((Z, Z), 2, "01"),
    "V": _name((Z,) * 4, 0, "01 23"),
    "V2": _name((Z,) * 4, 1, "01 23"),
    "U6": _name((Z,) * 6, 0, "01 23 45"),
    "Theta": _name((H,), 0, "01"),
    "Theta1": _name((H,), 1, "01"),
    "Theta2": _name((H,), 2, "01"),
    "D": _name((Z, Z, H), 0, "01 23"),
    "F": _name((Z, Z, H), 0, "02 13"),
    "A": _name((H, H), 0, "01 23"),
    "B": _name((H, H), 0, "02 13"),
    "P": _name((Z, DH), 0, "01 23", "1230"),
    "Q": _name((Z, DH), 0, "03 12", "1230"),
    "R": _name((DDH_I,), 0, "01 23"),
    "S": _name((DDH_II,), 0, "01 23"),
    "T": _name((DDH_II,), 0, "02 13"),
    "U": _name((DDH_II,), 0, "03 12"),
}


def spell(atom: Tensor) -> tuple[str, tuple[int, ...]]:
    """The tensor's name and its samples in the literature's order of subscripts."""
    for ranking in _rankings(atom.fields, tuple(range(len(atom.fields)))):
        starts = _starts(atom.fields)
        for orders in product(*(automorphisms(atom.fields[f]) for f in ranking)):
            slots = [
                starts[f] + node for f, tree in zip(ranking, orders, strict=True) for node in tree
            ]
            place = {slot: position for position, slot in enumerate(slots)}
            pairing = tuple(sorted(ordered(place[a], place[b]) for a, b in atom.pairing))
            for key, name in NAMES.items():
                if (name.fields, name.order, name.pairing) == (atom.fields, atom.order, pairing):
                    return key, tuple(atom.samples[slots[slot]] for slot in name.subscripts)
    fields = ",".join(FIELD_NAMES.get(field, str(field)) for field in atom.fields)
    pairs = " ".join(f"{a}{b}" for a, b in atom.pairing)
    order = f";{atom.order}" if atom.order else ""
    return f"kappa({fields}|{pairs}{order})", atom.samples


def named(name: str) -> Name:
    """The definition of a named tensor."""
    if name not in NAMES:
        raise InputError("tensor", name, f"one of {', '.join(NAMES)}")
    return NAMES[name]
