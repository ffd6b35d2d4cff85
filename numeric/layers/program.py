"""Recursions as data: a table of monomials, and one evaluator for all of them.

What recursions multiply stands in one vector, entry by entry: hyperparameters, the tensors of the
layer below, the brackets. A monomial is a row of places in it, and an entry of a tensor the sum of
its monomials, each with a coefficient. Copies of the vector are evaluated side by side. Where the
entries are many, a monomial is a product of arrays instead, each along the axes of its labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product as product_of
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from derive.arithmetic.polynomials import Atom, Expansion, Monomial, atoms_in, of_kind
from derive.engine.step.derived import Kind, Step
from derive.engine.tensors import Name
from derive.groups.pairings import pattern_of, patterns
from derive.work.caches import cache

from ..arrays import Array
from .vectors import Estimate, Parts, Places

Find = Callable[[Atom, bool], tuple[int, Sequence[int]]]
"""Of an atom, or of its inverse: where its array begins in the vector, and the sample label of each
of its axes."""

Times = Callable[[Array, Array], Array]
"""A product of two arrays, entry by entry."""

GATHERED = 1 << 20
"""Numbers that are taken from a vector at a time, more or less."""

ONE = 0
"""The place that holds a 1."""

_MANY = 2000
"""Entries of a tensor from which on monomials are products of arrays."""

_LETTERS = "abcdefghijklmnopqrstuvwxy"
"""Of the axes of an entry, and of summed labels."""

_AT_ONCE = 1 << 12
"""Entries of such products that are held at a time, more or less."""


def product(factors: Array, axis: int) -> Array:
    """The product along an axis, with 0·nan = 0, as nan is an unknown number; 0·∞ stays nan."""
    found = np.multiply.reduce(factors, axis=axis)
    if np.isnan(found).any():
        silent = (factors == 0.0).any(axis=axis) & ~np.isinf(factors).any(axis=axis)
        found = np.where(silent & np.isnan(found), 0.0, found)
    return np.asarray(found)


def multiplied(factors: Sequence[Array]) -> Array:
    """The product of arrays that broadcast, with the same rules as `product`."""
    found = reduce(np.multiply, factors)
    return reduce(times, factors) if np.isnan(found).any() else found


def times(one: Array, other: Array) -> Array:
    """The product of two arrays, with the same rules as `product`."""
    silent = (one == 0.0) & np.isnan(other) | (other == 0.0) & np.isnan(one)
    return np.where(silent, 0.0, one * other)


class Polynomial(NamedTuple):
    """A tensor in terms of those before it; a `Step` has the same attributes.

    Attributes:
        target: the tensor.
        samples: the label of each of its axes.
        terms: {(monomial of atoms, 0): coefficient}.
    """

    target: Name
    samples: tuple[int, ...]
    terms: Expansion

    def atoms(self, kind: type[Kind]) -> set[Kind]:
        """The atoms of this kind."""
        return set(of_kind(atoms_in(self.terms), kind))


class Table:
    """The monomials of recursions whose tensors have as many axes, one for each distinct label.

    Arguments:
        steps: each T at the next layer, in terms of this one.
        m: inputs; the arrays in a vector are over tuples of them.
        find: where atoms are.
        exchangeable: True if entries that differ by a permutation of the inputs are equal. One of
            them is computed then.
    """

    def __init__(
        self, steps: Sequence[Step | Polynomial], m: int, find: Find, *, exchangeable: bool = False
    ) -> None:
        axes = [{label: axis for axis, label in enumerate(_labels(each))} for each in steps]
        rank = len(axes[0]) if m > 1 else 0
        self._shape = (len(steps), *(m,) * rank)
        self._orbits = _orbits(rank, m) if exchangeable else None
        rows: list[tuple[_Placed, float, dict[int, int]]] = []
        self._begins: list[int] = []
        for step, of_labels in zip(steps, axes, strict=True):
            self._begins.append(len(rows))
            terms = sorted(
                (_placed(mono, find), float(value)) for (mono, _), value in step.terms.items()
            )
            rows += [(factors, value, of_labels) for factors, value in terms or [((), 0.0)]]
        longest = max(1, *(len(factors) for factors, *_ in rows))
        self._first = np.full((len(rows), longest), ONE)
        self._strides = np.zeros((len(rows), longest, rank), np.int64)
        for row, (factors, _, of_labels) in enumerate(rows):
            for place, (first, labels) in enumerate(factors):
                self._first[row, place] = first
                for power, label in enumerate(reversed(labels) if rank else ()):
                    self._strides[row, place, of_labels[label]] += m**power
        self._coefficients = np.array([value for _, value, _ in rows])[:, None]
        self._step = max(1, GATHERED // self._first.size)
        self._whole = self._places(0) if self._step >= self.size else None

    @property
    def size(self) -> int:
        """Entries of each tensor that are computed."""
        return len(self._orbits[0]) if self._orbits else prod(self._shape[1:])

    @property
    def places(self) -> Places:
        """Of each factor of each monomial, (monomials, factors), for the first entry."""
        return np.asarray(self._first)

    @property
    def everywhere(self) -> Places:
        """`places` for every entry, (monomials, factors, entries)."""
        parts = [self._places(begin) for begin in range(0, self.size, self._step)]
        return np.concatenate(parts, axis=-1)

    @property
    def coefficients(self) -> Array:
        """Of each monomial."""
        return np.asarray(self._coefficients[:, 0])

    @property
    def begins(self) -> list[int]:
        """The first monomial of each tensor."""
        return self._begins

    def _places(self, begin: int) -> Places:
        """Of each factor of each monomial, for a stretch of the tensors' entries."""
        shape = self._shape[1:]
        entries = np.arange(begin, min(begin + self._step, self.size))
        entries = self._orbits[0][entries] if self._orbits else entries
        at = np.array(np.unravel_index(entries, shape)) if shape else np.zeros((0, 1), np.int64)
        return np.asarray(self._first[..., None] + self._strides @ at)

    def __call__(self, vectors: Array | Parts) -> tuple[Array, Array]:
        """The tensors, (copies, tensors, entries), from vectors (copies + 1, places); and from the
        last, which holds sizes, the sums of the terms' absolute values, (tensors, entries). Axes
        before these are kept."""
        parts = []
        for begin in range(0, self.size, self._step):
            places = self._places(begin) if self._whole is None else self._whole
            terms = product(vectors[..., places], -2) * self._coefficients
            np.abs(terms[..., -1, :, :], out=terms[..., -1, :, :])
            sums = np.add.reduceat(terms, self._begins, axis=-2)
            parts.append((sums[..., :-1, :, :], sums[..., -1, :, :]))
        whole: Sequence[Array] = parts[0]
        if len(parts) > 1:
            whole = [np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)]
        if self._orbits:
            whole = [each[..., self._orbits[1]] for each in whole]
        return whole[0], whole[1]


class Along:
    """A table of numbers, run through many layers at each of which some places follow from the one
    below: what else a monomial multiplies is multiplied for all layers together.

    Arguments:
        table: of one input.
        moving: the places that follow.
    """

    def __init__(self, table: Table, moving: Places) -> None:
        follows = np.isin(table.places, moving)
        self._known = np.where(follows, ONE, table.places)
        order = np.argsort(~follows, axis=1, kind="stable")
        most = max(1, int(follows.sum(axis=1).max()))
        last = np.take_along_axis(np.where(follows, table.places, ONE), order, axis=1)
        self._moving = list(last[:, :most].T.copy())
        self._coefficients, self._begins = table.coefficients, table.begins

    @property
    def size(self) -> int:
        """Numbers that are multiplied for one layer and copy."""
        return int(self._known.size)

    def known(self, vectors: Array) -> Array:
        """Fixed factors, (layers, copies + 1, monomials), from vectors as of `Table`."""
        found = product(vectors[..., self._known], -1) * self._coefficients
        np.abs(found[:, -1], out=found[:, -1])
        return np.asarray(found)

    def __call__(self, known: Array, vector: Array, times: Times) -> Array:
        """The tensors of one layer, and behind them the sums of their terms' absolute values,
        (copies + 1, tensors), by this product of two arrays."""
        terms = reduce(times, (vector.take(places, axis=1) for places in self._moving), known)
        return np.add.reduceat(terms, self._begins, axis=1)


class Grids:
    """Recursions whose tensors have as many axes, and many entries: an array for each monomial.

    Arguments: as of `Table`, m > 1, of tensors with two axes or more.
    """

    def __init__(self, steps: Sequence[Step | Polynomial], m: int, find: Find) -> None:
        self._m, self._rank = m, len(steps[0].samples)
        self._steps: list[list[tuple[float, list[_Axed]]]] = []
        for step in steps:
            to = {label: axis for axis, label in enumerate(step.samples)}
            terms = sorted(
                (_placed(mono, find), float(value)) for (mono, _), value in step.terms.items()
            )
            placed = [
                (value, [(at, tuple(to[label] for label in labels)) for at, labels in factors])
                for factors, value in terms
            ]
            self._steps.append(placed)
        self._lead = m ** (self._rank - 2)
        self._slab = max(1, _AT_ONCE // m**2)

    def __call__(self, vectors: Parts) -> tuple[Array, Array]:
        """As `Table` has it, a slab of entries at a time: (entries of the first axes, m, m)."""
        m, count, rows = self._m, len(self._steps), len(vectors)
        values = np.zeros((rows - 1, count, self._lead, m, m))
        sizes = np.zeros(values.shape[1:])
        for begin in range(0, self._lead, self._slab):
            slab = slice(begin, min(begin + self._slab, self._lead))
            arrays = self._arrays(vectors, slab)
            for row, terms in enumerate(self._steps):
                for coefficient, factors in terms:
                    own = sorted((arrays(each) for each in factors), key=lambda each: each.size)
                    term = multiplied([np.full((rows, 1, 1, 1), coefficient), *own])
                    values[:, row, slab] += term[:-1]
                    sizes[row, slab] += np.abs(term[-1])
        return values.reshape(*values.shape[:2], -1), sizes.reshape(count, -1)

    def _arrays(self, vectors: Parts, slab: slice) -> Callable[[_Axed], Array]:
        """Of factors, their entries in a slab; 1 along axes that they do not have."""
        m, rank = self._m, self._rank
        lead, last = np.arange(slab.start, slab.stop), np.arange(m)
        first_axes = np.unravel_index(lead, (m,) * (rank - 2)) if rank > 2 else ()
        at_axes = [*(each[:, None, None] for each in first_axes), last[:, None], last]
        known: dict[_Axed, Array] = {}

        def array(factor: _Axed) -> Array:
            if factor not in known:
                first, axes = factor
                places = np.zeros((1, 1, 1), np.int64)
                for axis in axes:
                    places = places * m + at_axes[axis]
                known[factor] = vectors.array(first, places)
            return known[factor]

        return array


class Tables:
    """Recursions of any ranks: those of each rank in one table.

    Arguments: as of `Table`.

    Attributes:
        by_rank: which recursions, and their table.
    """

    def __init__(
        self, steps: Sequence[Step | Polynomial], m: int, find: Find, *, exchangeable: bool = False
    ) -> None:
        ranks = [0 if m == 1 else len(_labels(each)) for each in steps]
        self._shapes = [(m,) * rank for rank in ranks]
        groups = [[k for k, each in enumerate(ranks) if each == rank] for rank in set(ranks)]
        self.by_rank: list[tuple[list[int], Table | Grids]] = []
        for places in groups:
            own = [steps[k] for k in places]
            rank = ranks[places[0]]
            many = rank > 1 and m**rank >= _MANY and not exchangeable
            table = Grids(own, m, find) if many else Table(own, m, find, exchangeable=exchangeable)
            self.by_rank.append((places, table))

    def __call__(self, parts: Parts) -> Estimate:
        """The tensors, (copies, m, …) each, from vectors (copies + 1, places), and their sizes."""
        found: list[Array] = [np.zeros(())] * len(self._shapes)
        sizes = list(found)
        many = any(isinstance(table, Grids) for _, table in self.by_rank)
        vectors: Any = parts if many else parts.whole
        for places, table in self.by_rank:
            values, of_terms = table(vectors)
            for row, k in enumerate(places):
                found[k] = values[:, row].reshape(len(values), *self._shapes[k])
                sizes[k] = of_terms[row].reshape(self._shapes[k])
        return found, sizes


class Contractions:
    """Recursions with sums over samples: each monomial a product of arrays, label by label.

    Arguments: as of `Table`.
    """

    def __init__(self, steps: Sequence[Step | Polynomial], m: int, find: Find) -> None:
        self._m = m
        self._steps = []
        for step in steps:
            placed = (
                (_placed(mono, find), float(value)) for (mono, _), value in step.terms.items()
            )
            terms = [
                (value, *self._term(factors, step.samples)) for factors, value in sorted(placed)
            ]
            self._steps.append((len(step.samples), terms))

    def _term(self, factors: _Placed, kept: Sequence[int]) -> tuple[list[slice], str]:
        """Where the factors are, and the sum."""
        labels = dict.fromkeys(label for _, own in factors for label in own)
        letter = dict(zip(dict.fromkeys((*kept, *labels)), _LETTERS, strict=False))
        parts = ["".join(letter[label] for label in own) for _, own in factors]
        own = [slice(first, first + self._m ** len(labels)) for first, labels in factors]
        lacking = "".join(letter[label] for label in kept if label not in labels)
        if lacking:  # a term that does not depend on a sample
            own.append(slice(ONE, ONE + 1))
            parts.append(lacking)
        return own, f"{','.join(parts)}->{''.join(letter[label] for label in kept)}"

    def __call__(self, parts: Parts) -> Estimate:
        """As `Tables` has it."""
        whole = parts.whole
        vectors = np.concatenate([whole[:-1], np.abs(whole[-1:])])
        found, sizes = list[Array](), list[Array]()
        for rank, terms in self._steps:
            total = np.zeros((len(vectors), *(self._m,) * rank))
            for value, places, sums in terms:
                for row, vector in enumerate(vectors):
                    scale = value if row < len(vectors) - 1 else abs(value)
                    total[row] += scale * self._summed(vector, places, sums)
            found.append(total[:-1])
            sizes.append(total[-1])
        return found, sizes

    def _summed(self, vector: Array, places: Sequence[slice], sums: str) -> Array:
        arrays = []
        for at, labels in zip(places, sums.partition("->")[0].split(","), strict=True):
            shape = (self._m,) * len(labels)
            own = vector[at]
            is_whole = own.size == prod(shape)
            arrays.append(own.reshape(shape) if is_whole else np.broadcast_to(own, shape))
        return np.asarray(np.einsum(sums, *arrays, optimize="greedy"))


_Axed: TypeAlias = "tuple[int, tuple[int, ...]]"
"""Where a factor's array begins, and the axis of each of its labels."""

_Placed: TypeAlias = "tuple[tuple[int, tuple[int, ...]], ...]"
"""Of a monomial's factors, each as often as it occurs: where its array begins, and the labels."""


@cache
def _orbits(rank: int, m: int) -> tuple[Places, Places]:
    """One entry of each way in which samples coincide, and for every entry which of them it is."""
    known = [each for each in patterns(rank) if max(each, default=0) < m]
    number = {pattern: k for k, pattern in enumerate(known)}
    every = (number[pattern_of(at)] for at in product_of(range(m), repeat=rank))
    entries = [sum(at * m**power for power, at in enumerate(reversed(each))) for each in known]
    return np.array(entries, np.int64), np.fromiter(every, np.int64, m**rank)


def _labels(step: Step | Polynomial) -> tuple[int, ...]:
    """The labels of its axes, one for those that are equal."""
    return tuple(dict.fromkeys(step.samples))


def _placed(mono: Monomial, find: Find) -> _Placed:
    """In ascending order, for a set has none that two processes share, and sums are rounded."""
    found = []
    for atom, exponent in mono:
        first, labels = find(atom, exponent < 0)
        found += [(first, tuple(labels))] * abs(exponent)
    return tuple(sorted(found))
