"""Brackets over all tuples of samples, and positions: copied into modules of several inputs.

The averages are those that `flow` has; of σ they need numbers and its derivatives as a function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from derive.gaussian.shapes import Shape
from derive.work.caches import cache

from ..arrays import Array
from ..brackets.quadrature import PANELS
from ..layers.kinked import Kinked
from ..layers.piecewise_linear import of_pieces
from ..layers.several_samples import Derivatives, Orders, Rule, Suffix, over_tree
from ..layers.vectors import Places


class Smooth(NamedTuple):
    """Analytic σ.

    Attributes:
        derivatives: of σ.
        rules: of each product of them, by their orders, ascending.
        is_odd: whether σ is.
    """

    derivatives: Derivatives
    rules: Mapping[Orders, Rule]
    is_odd: bool

    def tables(self, K: Array, shapes: tuple[Shape, ...]) -> list[Array]:
        """The brackets of these shapes, those of one set of samples at the same nodes."""
        sets, places = planned(len(K), shapes, self.is_odd)
        values = [np.zeros(1)]
        for samples, products in sets:
            own = [self.rules[tuple(sorted(sum(each, ())))] for each in products]
            strips, *others = zip(*own, strict=True)
            nodes = Rule(strips[0], *(np.max(each, axis=0) for each in others)).nodes(
                K[np.ix_(samples, samples)]
            )
            if nodes is None:
                values.append(np.full(len(products), np.nan))
            else:
                found = over_tree(self.derivatives, products, nodes, half=self.is_odd)
                values.append(found[0])
        flat = np.concatenate(values)
        return [flat[each] for each in places]


@cache
def planned(
    m: int, shapes: tuple[Shape, ...], is_odd: bool
) -> tuple[list[tuple[tuple[int, ...], list[Suffix]]], list[Places]]:
    """For each set of samples the orders at each, of all brackets; and for each bracket where its
    entries are among those, behind a 0 for what is odd in z."""
    sets: dict[tuple[int, ...], dict[Suffix, int]] = {}
    found = []
    for orders, outer in shapes:
        total = [order + more for order, more in zip(orders, outer, strict=True)]
        own: list[tuple[tuple[int, ...], int] | None] = []
        for samples in itertools.product(range(m), repeat=len(total)):
            at: dict[int, Orders] = {}
            for sample, order in sorted(zip(samples, total, strict=True)):
                at[sample] = (*at.get(sample, ()), order)
            if is_odd and (sum(total) + len(total)) % 2:
                own.append(None)
                continue
            products = sets.setdefault(tuple(at), {})
            place = products.setdefault(tuple(at.values()), len(products))
            own.append((tuple(at), place))
        found.append(own)
    sizes = [len(products) for products in sets.values()]
    starts = dict(zip(sets, np.cumsum([1, *sizes]).tolist(), strict=False))
    places = [
        np.array([0 if each is None else starts[each[0]] + each[1] for each in own])
        for own in found
    ]
    shaped = [
        each.reshape((m,) * len(shape[0])) for each, shape in zip(places, shapes, strict=True)
    ]
    return [(samples, list(products)) for samples, products in sets.items()], shaped


class Straight(NamedTuple):
    """Piecewise linear σ: a row (lower end, constant, slope) for each piece."""

    pieces: Array

    def tables(self, K: Array, shapes: tuple[Shape, ...]) -> list[Array]:
        """The brackets of these shapes."""
        return tabulate(lambda own, at: of_pieces(self.pieces, own, at)[0], K, shapes)


class Panelled(NamedTuple):
    """Other σ with kinks."""

    sigma: Kinked

    def tables(self, K: Array, shapes: tuple[Shape, ...]) -> list[Array]:
        """The brackets of these shapes."""
        return tabulate(lambda own, at: self.sigma.averages(own, at, PANELS)[0], K, shapes)


def tabulate(
    averages: Callable[[Sequence[Shape], Array], Array], K: Array, shapes: tuple[Shape, ...]
) -> list[Array]:
    """Brackets for every tuple of samples; positions with as many derivatives are alike, so each
    set of samples is computed once."""
    K = np.maximum(K, K.T)  # one correlation, in either order of positions
    found: list[Array] = [K] * len(shapes)
    for own, rows, columns, members in positioned(len(K), shapes):
        values = averages(own, K[rows, columns])
        for value, (place, at) in zip(values, members, strict=True):
            found[place] = value[at]
    return found


@cache
def positioned(
    m: int, shapes: tuple[Shape, ...]
) -> list[tuple[list[Shape], Places, Places, list[tuple[int, Places]]]]:
    """For each number of positions: the shapes, where K has the covariances of each distinct
    tuple of samples, and which of all shapes each is, with the tuple of each of its entries."""
    found = []
    for rank in sorted({len(shape[0]) for shape in shapes}):
        chosen = [place for place, shape in enumerate(shapes) if len(shape[0]) == rank]
        own = [Shape(*shapes[place]) for place in chosen]
        grids = np.indices((m,) * rank).reshape(rank, -1).T
        ordered = np.array([grids] * len(own))
        for tuples, shape in zip(ordered, own, strict=True):
            kinds = list(zip(*shape, strict=True))
            for kind in set(kinds):
                alike = [place for place, each in enumerate(kinds) if each == kind]
                tuples[:, alike] = np.sort(grids[:, alike], axis=1)
        tuples, places = np.unique(ordered.reshape(-1, rank), axis=0, return_inverse=True)
        entries = [each.reshape((m,) * rank) for each in places.reshape(len(own), -1)]
        members = list(zip(chosen, entries, strict=True))
        found.append((own, tuples[:, :, None], tuples[:, None, :], members))
    return found


class Reader(NamedTuple):
    """The positions that a stage reads.

    Attributes:
        taps: by tap the matrix from the positions that are read to those of the result, s^{-1/2} A.
        past: the same matrix of a skip past them, of rows with sum 1. It also keeps constants.
    """

    taps: Array
    past: Array

    def over_taps(self, values: Array, blocks: Sequence[Sequence[int]]) -> Array:
        """The sum over one tap for each block of axes; a skip reads along all other axes."""
        signals = np.eye(len(values) // self.past.shape[1])

        def read(matrix: Array, values: Array, axis: int) -> Array:
            found = np.tensordot(np.kron(signals, matrix), values, (1, axis))
            return np.moveaxis(found, 0, axis)

        for axis in set(range(values.ndim)) - {axis for block in blocks for axis in block}:
            values = read(self.past, values, axis)
        for block in blocks:
            found = [values] * len(self.taps)
            for axis in block:
                found = [read(tap, each, axis) for tap, each in zip(self.taps, found, strict=True)]
            values = np.sum(found, axis=0)
        return values


def check_positions(read: Sequence[tuple[int, int]], samples: int) -> None:
    """Raise ValueError unless each layer reads as many positions as the layers before it give.

    Arguments:
        read: of layers 2, 3, … the positions that are read, and those of the result; (0, 0) for a
            layer that keeps any positions.
        samples: at layer 1.
    """
    known = 0
    for layer, (positions, results) in enumerate(read, start=2):
        if positions:
            if known != positions if known else samples % positions:
                got = f"{known} positions" if known else f"{samples} samples"
                raise ValueError(f"layer {layer} reads signals of {positions} positions, not {got}")
            known = results
