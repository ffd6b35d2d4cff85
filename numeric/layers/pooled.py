"""Tensors at positions that are averaged or summed over, multiplied out before the monomials.

A norm over positions reads means over the positions of a signal, and attention sums over them with
its weights. In a recursion such a position has the label of the sample plus a multiple of
`derive.display.labels.POOLED`. A product of all tensors and weights that share such labels is an
array over the samples alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from derive.arithmetic.polynomials import Monomial, of_kind, power, times
from derive.display.labels import POOLED, relabelled
from derive.engine.score_averages import MEAN, ScoreAverage
from derive.engine.step import Step
from derive.engine.tensors import Name, Tensor, identify
from derive.engine.through import Weighting

from ..arrays import Array
from .program import Polynomial
from .scores import at_kernels

_LETTERS = "abcdefghijklmnopqrstuvwxy"

Factor: TypeAlias = Name | Weighting | ScoreAverage


class Pooled(NamedTuple):
    """A product of tensors and weights of attention; its samples have the labels 0, 1, …"""

    factors: tuple[tuple[Factor, tuple[int, ...]], ...]
    rank: int

    def value(self, known: Mapping[Factor, Array], m: int, positions: int) -> Array:
        """The product, (copies, m, …), of arrays (copies, m, …); of scalars where m is 1."""
        arrays = [known[of] for of, _ in self.factors]
        if m == 1:
            return np.asarray(np.multiply.reduce(arrays))
        pooled = sorted({at for _, labels in self.factors for at in labels if at >= POOLED})
        letter = dict(zip((*range(self.rank), *pooled), _LETTERS, strict=False))
        mean = np.kron(np.eye(m // positions), np.full((positions,) * 2, 1.0 / positions))
        parts = ["z" + "".join(letter[at] for at in labels) for _, labels in self.factors]
        given = (labels for of, labels in self.factors if not isinstance(of, Name))
        summed = {at for labels in given for at in labels}
        averaged = [at for at in pooled if at not in summed]
        parts += [letter[at % POOLED] + letter[at] for at in averaged]
        arrays += [mean] * len(averaged)
        to = "z" + _LETTERS[: self.rank]
        return np.asarray(np.einsum(f"{','.join(parts)}->{to}", *arrays, optimize=True))


def products_of(
    products: Sequence[Pooled], tensors: Mapping[Name, Array], m: int, positions: int
) -> list[Array]:
    """The products of tensors (copies, m, …), the last copy of which holds sizes."""
    factors = {of for product in products for of, _ in product.factors}
    averages = {of.what for of in factors if isinstance(of, ScoreAverage)}

    def array(of: Factor) -> Array:
        if isinstance(of, ScoreAverage):
            return at_kernels(of, tensors, m, positions, alone=averages == {MEAN})
        return _array(of, tensors, m, positions)

    known = {of: array(of) for of in factors}
    return [product.value(known, m, positions) for product in products]


def _array(of: Name | Weighting, tensors: Mapping[Name, Array], m: int, positions: int) -> Array:
    """A tensor, or weights over all samples, 0 between different signals."""
    if not isinstance(of, Weighting):
        return tensors[of]
    signals, order = m // positions, of.order
    limits = np.zeros((1, signals, positions, positions))
    if of.limits:
        name, _ = identify(of.limits[0])
        own = tensors[name].reshape(-1, signals, positions, signals, positions)
        limits = np.moveaxis(own[:, range(signals), :, range(signals)], 0, 1)
        limits = np.concatenate([limits[:-1], limits[:1]])
    weights = of.scores.weights(limits, order)
    weights = np.broadcast_to(weights, (len(next(iter(tensors.values()))), *weights.shape[1:]))
    if m == 1:
        found = weights.reshape(-1)
    else:
        found = np.zeros((len(weights), *(signals, positions) * (2 + order)))
        every = np.arange(signals)
        at = (slice(None), *(every, slice(None)) * (2 + order))
        found[at] = np.moveaxis(weights, 1, 0)
        found = found.reshape(len(weights), *(m,) * (2 + order))
    found = found.copy()
    found[-1] = np.abs(found[-1])
    return found


Moving: TypeAlias = Tensor | Weighting | ScoreAverage


class At(NamedTuple):
    """Such a product at these samples."""

    of: Pooled
    samples: tuple[int, ...]


def gathered(step: Step) -> tuple[Polynomial, set[Pooled]]:
    """A step's polynomial with each such product as one atom, and the products that occur."""
    terms = {(_gathered(mono), at): value for (mono, at), value in step.terms.items()}
    atoms = (atom for mono, _ in terms for atom, _ in mono)
    products = {atom.of for atom in atoms if isinstance(atom, At)}
    return Polynomial(step.target, step.samples, terms), products


def _gathered(mono: Monomial) -> Monomial:
    """A monomial with its tensors at averaged positions multiplied out."""
    exponents = dict(mono)
    moving: list[Moving] = [*of_kind(exponents, Tensor), *of_kind(exponents, Weighting)]
    moving = [each for each in moving if _labels(each)] + [*of_kind(exponents, ScoreAverage)]
    inside = {each: exponents[each] for each in moving}
    found: Monomial = frozenset(each for each in mono if each[0] not in inside)
    for group in _joined(inside):
        found = times(found, power(_product({each: inside[each] for each in group}), 1))
    return found


def _joined(atoms: Iterable[Moving]) -> Iterator[list[Moving]]:
    """The atoms in groups that share such positions."""
    left = sorted(atoms, key=repr)
    while left:
        group = [left.pop(0)]
        for each in group:
            own = [other for other in left if _labels(other) & _labels(each)]
            group += own
            left = [other for other in left if other not in own]
        yield group


def _product(exponents: Mapping[Moving, int]) -> At:
    every = [_identified(each) for each, count in exponents.items() for _ in range(count)]
    samples = tuple(sorted({at % POOLED for _, labels in every for at in labels}))
    own = ((name, relabelled(labels, samples.index)) for name, labels in every)
    factors = sorted(own, key=repr)
    return At(Pooled(tuple(factors), len(samples)), samples)


def _identified(atom: Moving) -> tuple[Factor, tuple[int, ...]]:
    """A tensor or weights, and the label of each axis of their array."""
    if not isinstance(atom, Tensor):
        return atom._replace(samples=tuple(range(len(atom.samples)))), atom.samples
    return identify(atom)


def _labels(atom: Moving) -> set[int]:
    """The averaged positions of a tensor."""
    return {at for at in atom.samples if at >= POOLED}


def over_positions(values: Array, axis: int, positions: int) -> Array:
    """The mean over the positions of each signal, at each of them."""
    moved = np.moveaxis(values, axis, -1)
    own = moved.reshape(*moved.shape[:-1], -1, positions)
    mean = np.broadcast_to(own.mean(axis=-1, keepdims=True), own.shape).reshape(moved.shape)
    return np.moveaxis(mean, -1, axis)
