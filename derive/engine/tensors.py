"""The tensors of a layer: coefficients of its joint cumulants, and the literature's names for them.

    κ(φ_1, …, φ_r) = n^{1−m} Σ_p δ_p(i) Σ_g n^{−g} T^{g}_p(α) ,

p a pairing of the 2m neural indices; of laws that only signed permutations of the neurons keep, a
set partition of them into even blocks, in which all indices of a block are equal. T of equal fields
are related by permuting them, and by the symmetries of each field's tree, so one representative
stands for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise, permutations, product
from typing import NamedTuple

from ..display.labels import Label, component_latex, read_pairing, relabelled
from ..errors import InputError, as_integer, did_you_mean
from ..groups.pairings import MOST_POINTS, Blocks, ordered, partitions
from ..work.caches import cache
from .meaning import meaning, normalisation
from .trees import (
    DDH_I,
    DDH_II,
    DH,
    FIELD_NAMES,
    STREAM,
    AnyField,
    Field,
    H,
    Kind,
    Z,
    automorphisms,
    slots_of,
)


class Tensor(NamedTuple):
    """T^{g}_p(α): the coefficient of δ_p at relative order g in the joint cumulant of `fields`."""

    fields: tuple[AnyField, ...]
    order: int
    pairing: Blocks
    samples: tuple[int, ...]

    @property
    def pairs(self) -> int:
        """m, half the number of neural indices."""
        return len(self.samples) // 2

    @property
    def n_power(self) -> int:
        """The power of 1/n that stands before this tensor in the cumulant."""
        return self.pairs - 1 + self.order

    def relabelled(self, label: Callable[[int], int]) -> Tensor:
        """With other labels of its samples, not brought to their representative."""
        return self._replace(samples=relabelled(self.samples, label))


@cache
def tensor(
    fields: tuple[AnyField, ...], order: int, pairing: Blocks, samples: tuple[int, ...]
) -> Tensor:
    """The tensor with its fields sorted and its labels brought to their representative.

    That is the least pairing, then the least labels, of all orders of equal fields. For each order
    of the others it is known where fields of one index go that come first: those paired with one
    another by their labels, and then those paired with the others, in the order of these.
    """
    ranked = sorted(range(len(fields)), key=lambda f: fields[f].rank)
    alike = fields[0].nodes == 1 and fields.count(fields[0]) == len(fields)
    if alike:
        blocks = sorted((len(block), sorted(samples[slot] for slot in block)) for block in pairing)
        ends = [0, *accumulate(size for size, _ in blocks)]
        own = tuple(tuple(range(a, b)) for a, b in pairwise(ends))
        return Tensor(fields, order, own, tuple(s for _, labels in blocks for s in labels))
    slots, single = slots_of(fields), list[int]()
    first = fields[ranked[0]]
    if len(pairing) * 2 == len(samples) and first.nodes == 1:
        single = [slots[f][0] for f in ranked[: fields.count(first)]]
    partner = {a: b for pair in pairing if single for a, b in (pair, pair[::-1])}
    inside = [pair for pair in pairing if single and set(pair) <= set(single)]
    inside = [(a, b) if samples[a] <= samples[b] else (b, a) for a, b in inside]
    inside.sort(key=lambda pair: [samples[slot] for slot in pair])
    joined = [slot for pair in inside for slot in pair]

    def candidate(others: tuple[int, ...]) -> tuple[Blocks, tuple[int, ...]]:
        ends = (partner[slot] for slot in others if partner.get(slot, -1) in single)
        order = *joined, *ends, *others
        return _moved(pairing, order), tuple(samples[slot] for slot in order)

    best = min(map(candidate, slot_orders(fields, ranked[len(single) :])))
    return Tensor(tuple(fields[f] for f in ranked), order, *best)


def slot_orders(fields: tuple[AnyField, ...], ranked: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The orders of the slots that exchange equal fields and keep each field.

    `ranked` lists the fields with those of one kind side by side.
    """
    own = slots_of(fields)
    groups = (tuple(group) for _, group in groupby(ranked, key=lambda f: fields[f]))
    for parts in product(*(tuple(permutations(group)) for group in groups)):
        ranking = [f for part in parts for f in part]
        for trees in product(*(automorphisms(fields[f]) for f in ranking)):
            chosen = zip(ranking, trees, strict=True)
            yield tuple(own[f][node] for f, tree in chosen for node in tree)


def _moved(pairing: Blocks, slots: Sequence[int]) -> Blocks:
    """The pairing of slots by the places that they take."""
    place = {slot: position for position, slot in enumerate(slots)}
    if len(pairing) * 2 < len(slots):
        return tuple(sorted(tuple(sorted(place[slot] for slot in block)) for block in pairing))
    return tuple(sorted(ordered(place[a], place[b]) for a, b in pairing))


class Name(NamedTuple):
    """A tensor: its label, its cumulant, its order, its pairing of slots, and its subscripts.

    The subscripts are the slots in the order in which the sample indices are written. A label is
    the literature's, or spells the cumulant: kappa(z,z,H|01 23;1), at relative order 1.
    """

    label: str
    fields: tuple[AnyField, ...]
    order: int
    pairing: Blocks
    subscripts: tuple[int, ...]

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"<tensor {self.label}: {self.cumulant}>"

    @property
    def pairs(self) -> int:
        """m, half the number of neural indices."""
        return len(self.subscripts) // 2

    @property
    def cumulant(self) -> str:
        """The cumulant, its pairing and its order, spelled out."""
        order = f" at relative order {self.order}" if self.order else ""
        return f"{_spelled(self.fields, self.pairing)}{order}"

    @property
    def meaning(self) -> str:
        """The tensor in words."""
        return meaning(self.fields, self.order, self.pairing)

    @property
    def normalisation(self) -> str:
        """n^{m−1+g}, by which the cumulant, or its part of relative order g, is multiplied."""
        return normalisation(self.pairs, self.order)

    def latex(self) -> str:
        """The tensor's symbol in LaTeX."""
        return component_latex(self.label, ())

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"

    @property
    def identifier(self) -> str:
        """The label as a name in Python."""
        return re.sub(r"\W+", "_", self.label).strip("_")


def _name(label: str, fields: tuple[Field, ...], order: int, pairs: str, slots: str = "") -> Name:
    """Read "01 23" as ((0, 1), (2, 3)); subscripts default to the slots pair by pair."""
    subscripts = tuple(int(slot) for slot in slots or pairs.replace(" ", ""))
    return Name(label, fields, order, read_pairing(pairs), subscripts)


def _spelled(fields: Sequence[AnyField], pairing: Blocks, order: int = 0) -> str:
    return str(Label(tuple(map(str, fields)), pairing, order))


_ALSO_CALLED = {"ntk": "Theta", "kernel": "K", "nngp": "K", "vertex": "V"}
"""Other names of tensors, in small letters."""

NAMES: dict[str, Name] = {
    name.label: name
    for name in (
        _name("K", (Z, Z), 0, "01"),
        _name("G1", (Z, Z), 1, "01"),
        _name("G2", (Z, Z), 2, "01"),
        _name("V", (Z,) * 4, 0, "01 23"),
        _name("V2", (Z,) * 4, 1, "01 23"),
        _name("U6", (Z,) * 6, 0, "01 23 45"),
        _name("Theta", (H,), 0, "01"),
        _name("Theta1", (H,), 1, "01"),
        _name("Theta2", (H,), 2, "01"),
        _name("D", (Z, Z, H), 0, "01 23"),
        _name("F", (Z, Z, H), 0, "02 13"),
        _name("A", (H, H), 0, "01 23"),
        _name("B", (H, H), 0, "02 13"),
        _name("P", (Z, DH), 0, "01 23", "1230"),
        _name("Q", (Z, DH), 0, "03 12", "1230"),
        _name("R", (DDH_I,), 0, "01 23"),
        _name("S", (DDH_II,), 0, "01 23"),
        _name("T", (DDH_II,), 0, "02 13"),
        _name("U", (DDH_II,), 0, "03 12"),
    )
}

MOST_ORDER = 12
"""Of a tensor in 1/n: a bound on what is counted, far above what can be derived."""

FIRST_ORDER = ("K", "G1", "V", "Theta", "Theta1", *"DFABPQRSTU")
"""The tensors of order 1/n, and what they are corrections to."""


def identify(atom: Tensor) -> tuple[Name, tuple[int, ...]]:
    """The tensor's name and its samples in the order of the name's subscripts.

    Where all of its variables are y, it has the name of the tensor of z, K_y for K.
    """
    kind = _common_kind(atom.fields)
    if kind:
        plain = tuple(
            Field(each.nodes, each.edges) for each in atom.fields if isinstance(each, Field)
        )
        name, samples = identify(atom._replace(fields=plain))
        if name.label in NAMES:
            label = f"{name.label}_{kind.name}"
            return Name(label, atom.fields, *name[2:]), samples
    alike = [each for each in NAMES.values() if each[1:3] == (atom.fields, atom.order)]
    for slots in slot_orders(atom.fields, range(len(atom.fields))) if alike else ():
        pairing = _moved(atom.pairing, slots)
        for name in alike:
            if name.pairing == pairing:
                return name, tuple(atom.samples[slots[slot]] for slot in name.subscripts)
    label = _spelled(atom.fields, atom.pairing, atom.order)
    subscripts = tuple(range(len(atom.samples)))
    return Name(label, atom.fields, atom.order, atom.pairing, subscripts), atom.samples


@cache
def _common_kind(fields: tuple[AnyField, ...]) -> Kind | None:
    """The variable at every node of every field, where it is one and not z."""
    if not any(isinstance(each, Field) and each.kinds for each in fields):
        return None
    kinds = {
        each.kind(node) for each in fields if isinstance(each, Field) for node in range(each.nodes)
    }
    return kinds.pop() if len(kinds) == 1 else None


def kernel_label(kind: Kind) -> str:
    """The label of the kernel of a variable: K of z, K_y of y."""
    return "K" if kind == STREAM else f"K_{kind.name}"


def kernel_of(one: Kind, other: Kind, samples: tuple[int, ...]) -> Tensor:
    """K of two variables, at a sample of each."""
    fields = tuple(Field(1, (), (kind,)) for kind in (one, other))
    return tensor(fields, 0, ((0, 1),), samples)


def kernel_name(kind: Kind) -> Name:
    """The kernel of a variable."""
    return identify(kernel_of(kind, kind, (0, 1)))[0]


def spell(atom: Tensor) -> tuple[str, tuple[int, ...]]:
    """The label of `identify`, and the samples."""
    name, samples = identify(atom)
    return name.label, samples


def named(label: str) -> Name:
    """The tensor of a label: one of NAMES, or kappa(…) of named fields."""
    if isinstance(label, str) and label in NAMES:
        return NAMES[label]
    read = Label.read(label) if isinstance(label, str) else None
    if read is None or not all(re.fullmatch(r"\w*", field) for field in read.fields):
        known = f"one of {', '.join(NAMES)}; or kappa(z,z,H|01 23), a cumulant and its pairing"
        meant = _ALSO_CALLED.get(str(label).lower(), str(label))
        near = did_you_mean(meant, NAMES)
        if isinstance(label, str) and set(several := re.split(r"[,\s]+", label)) <= NAMES.keys():
            near = f"; several are a list, {several}"
        raise InputError("tensor", label, known + near)
    return target(fields_by_name(read.fields), read.pairing, read.order)


def fields_by_name(given: Sequence[str]) -> list[AnyField]:
    """The fields of these names: z, H, dH, ddI, ddII."""
    by_name: dict[str, AnyField] = {name: field for field, name in FIELD_NAMES.items()}
    for field in given:
        if field not in by_name:
            raise InputError("fields", field, f"one of {', '.join(by_name)}, or a Field")
    return [by_name[field] for field in given]


def target(fields: Sequence[AnyField], pairing: Blocks | str | None, order: int) -> Name:
    """The tensor of these fields, in this order, and this pairing of their neural indices.

    The pairing, ((0, 1), (2, 3)) or "01 23", may be left out where all pairings are alike; "0123"
    is a set partition, of equal indices. Raises InputError.
    """
    wanted = f"a relative order in 1/n, 0 to {MOST_ORDER}"
    order = as_integer("order", order, 0, MOST_ORDER, wanted)
    total = sum(field.nodes for field in fields)
    _check_points(fields, total)
    ranked = sorted(range(len(fields)), key=lambda f: fields[f].rank)
    own = slots_of(fields)
    slots = [slot for f in ranked for slot in own[f]]
    place = {slot: position for position, slot in enumerate(slots)}
    sorted_fields = tuple(fields[f] for f in ranked)
    if pairing is None:
        classes = pairing_classes(fields)
        if len(classes) > 1:
            wanted = " or ".join(map(str, classes))
            raise InputError("pairing", None, f"one of the pairings that differ: {wanted}")
        pairing = classes[0]
    normal = _normal_pairing(pairing, total)
    moved = _moved(normal, slots)
    label = spell(tensor(sorted_fields, order, moved, tuple(range(total))))[0]
    return Name(label, sorted_fields, order, moved, tuple(place[slot] for slot in range(total)))


def _normal_pairing(pairing: Blocks | str, total: int) -> Blocks:
    """The partition of the slots 0 … total−1 as sorted even blocks, or an InputError."""
    try:
        given = read_pairing(pairing) if isinstance(pairing, str) else tuple(pairing)
        normal = tuple(sorted(tuple(sorted(int(slot) for slot in block)) for block in given))
    except (TypeError, ValueError):
        normal = ()
    slots = sorted(slot for block in normal for slot in block)
    if slots != list(range(total)) or any(len(block) % 2 or not block for block in normal):
        example = " ".join(f"{2 * k}{2 * k + 1}" for k in range(min(total // 2, 5)))
        wanted = f'a pairing of the slots 0 … {total - 1}, such as "{example}", or even blocks'
        raise InputError("pairing", pairing, wanted)
    return normal


@cache
def identified(name: Name) -> tuple[Name, tuple[int, ...]]:
    """`canonical`, and this name's slots in the order of its subscripts."""
    slots = tuple(range(len(name.subscripts)))
    return identify(tensor(name.fields, name.order, name.pairing, slots))


def canonical(name: Name) -> Name:
    """The same tensor with the subscripts that `identify` uses."""
    return identified(name)[0]


def oriented(name: Name) -> Tensor:
    """The tensor with the axis of each slot for its sample: equal where tables of it are."""
    axes = {slot: axis for axis, slot in enumerate(name.subscripts)}
    places = tuple(axes[slot] for slot in range(len(axes)))
    return tensor(name.fields, name.order, name.pairing, places)


def add_name(found: dict[str, Name], name: Name) -> bool:
    """Add a tensor, if it is new; an error if another has its label, or it has other axes."""
    if name.label not in found:
        found[name.label] = name
        return True
    before = found[name.label]
    if set(before.fields) != set(name.fields):
        raise InputError("fields", name.label, "fields that are told apart by their names")
    if oriented(before) != oriented(name):
        both = [f"{each.cumulant} with axes {each.subscripts}" for each in (before, name)]
        raise InputError("tensors", both, f"one order of the axes of {name.label}, their label")
    return False


def in_order(found: Mapping[str, Name]) -> tuple[Name, ...]:
    """Tensors by their labels: the literature's first."""
    known = [name for label, name in NAMES.items() if label in found]
    return (*known, *(found[label] for label in sorted(found.keys() - NAMES.keys())))


def pairing_classes(fields: Sequence[AnyField], group: str = "O") -> tuple[Blocks, ...]:
    """One pairing of the fields' slots for each tensor that their cumulant has.

    With the group "B", of laws that permutations alone keep, even set partitions as well.
    """
    total = sum(field.nodes for field in fields)
    _check_points(fields, total)
    found: dict[Tensor, Blocks] = {}
    for pairing in partitions(total, group):
        found.setdefault(tensor(tuple(fields), 0, pairing, (1,) * total), pairing)
    return tuple(found.values())


def _check_points(fields: Sequence[AnyField], total: int) -> None:
    if not fields or total % 2 or total > MOST_POINTS:
        wanted = f"an even number of indices, {MOST_POINTS} at most"
        raise InputError("fields", [str(field) for field in fields], wanted)
