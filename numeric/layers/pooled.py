"""Tensors at positions that are averaged over, multiplied out before a stage's monomials.

A norm over positions reads means over the positions of a signal. In a recursion such a position has
the label of the sample plus a multiple of `derive.display.labels.POOLED`. A product of all tensors
that share such labels is an array over the samples alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from derive.arithmetic.polynomials import Expansion, Monomial, of_kind, power, times
from derive.display.labels import POOLED
from derive.engine.step.derived import Kind, Step
from derive.engine.tensors import Name, Tensor, identify

from ..arrays import Array

_LETTERS = "abcdefghijklmnopqrstuvwxy"


class Pooled(NamedTuple):
    """A product of tensors, each as often as it occurs; its samples have the labels 0, 1, …"""

    factors: tuple[tuple[Name, tuple[int, ...]], ...]
    rank: int

    def value(self, tensors: Mapping[Name, Array], m: int, positions: int) -> Array:
        """The product, (copies, m, …), of tensors (copies, m, …); of scalars where m is 1."""
        if m == 1:
            return np.asarray(np.multiply.reduce([tensors[name] for name, _ in self.factors]))
        pooled = sorted({at for _, labels in self.factors for at in labels if at >= POOLED})
        letter = dict(zip((*range(self.rank), *pooled), _LETTERS, strict=False))
        mean = np.kron(np.eye(m // positions), np.full((positions,) * 2, 1.0 / positions))
        parts = ["z" + "".join(letter[at] for at in labels) for _, labels in self.factors]
        parts += [letter[at % POOLED] + letter[at] for at in pooled]
        arrays = [*(tensors[name] for name, _ in self.factors), *[mean] * len(pooled)]
        to = "z" + _LETTERS[: self.rank]
        return np.asarray(np.einsum(f"{','.join(parts)}->{to}", *arrays, optimize=True))


class At(NamedTuple):
    """Such a product at these samples."""

    of: Pooled
    samples: tuple[int, ...]


@dataclass(frozen=True)
class Gathered:
    """A step's polynomial with each such product as one atom."""

    step: Step

    @property
    def target(self) -> Name:
        """The tensor."""
        return self.step.target

    @property
    def samples(self) -> tuple[int, ...]:
        """The label of each of its axes."""
        return self.step.samples

    @cached_property
    def terms(self) -> Expansion:
        """{(monomial of atoms, 0): coefficient}."""
        return {(_gathered(mono), at): value for (mono, at), value in self.step.terms.items()}

    @property
    def products(self) -> set[Pooled]:
        """The products that occur."""
        atoms = (atom for mono, _ in self.terms for atom, _ in mono)
        return {atom.of for atom in atoms if isinstance(atom, At)}

    def atoms(self, kind: type[Kind]) -> set[Kind]:
        """The atoms of the step of this kind."""
        return self.step.atoms(kind)


def _gathered(mono: Monomial) -> Monomial:
    """A monomial with its tensors at averaged positions multiplied out."""
    exponents = dict(mono)
    inside = {each: exponents[each] for each in of_kind(exponents, Tensor) if _labels(each)}
    found: Monomial = frozenset(each for each in mono if each[0] not in inside)
    for group in _joined(inside):
        found = times(found, power(_product({each: inside[each] for each in group}), 1))
    return found


def _joined(atoms: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The atoms in groups that share such positions."""
    left = sorted(atoms, key=repr)
    while left:
        group = [left.pop(0)]
        for each in group:
            own = [other for other in left if _labels(other) & _labels(each)]
            group += own
            left = [other for other in left if other not in own]
        yield group


def _product(exponents: Mapping[Tensor, int]) -> At:
    every = [identify(each) for each, count in exponents.items() for _ in range(count)]
    samples = tuple(sorted({at % POOLED for _, labels in every for at in labels}))

    def own(labels: Sequence[int]) -> tuple[int, ...]:
        return tuple(samples.index(at % POOLED) + at // POOLED * POOLED for at in labels)

    factors = sorted(((name, own(labels)) for name, labels in every), key=repr)
    return At(Pooled(tuple(factors), len(samples)), samples)


def _labels(atom: Tensor) -> set[int]:
    """The averaged positions of a tensor."""
    return {at for at in atom.samples if at >= POOLED}


def over_positions(values: Array, axis: int, positions: int) -> Array:
    """The mean over the positions of each signal, at each of them."""
    moved = np.moveaxis(values, axis, -1)
    own = moved.reshape(*moved.shape[:-1], -1, positions)
    mean = np.broadcast_to(own.mean(axis=-1, keepdims=True), own.shape).reshape(moved.shape)
    return np.moveaxis(mean, -1, axis)
