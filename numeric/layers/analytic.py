"""Averages of analytic σ over all sets of as many samples: one, two, or more.

With one sample they are those of `one_sample`, with several of `several_samples`, or of
`many_inputs` where the samples are many, and of `large_variance` with two of large variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from fractions import Fraction
from functools import cached_property
from itertools import combinations, combinations_with_replacement, product
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from derive.activations.functions import Activation
from derive.gaussian.shapes import SingleShape, is_even, leibniz

from ..arrays import Array
from ..brackets import quadrature
from ..brackets.shapes import MAX_INPUTS
from . import large_variance, one_sample, several_samples, shared
from .several_samples import FEW
from .vectors import Places

if TYPE_CHECKING:
    from .many_inputs import Crowd

FOLLOWED = 2
"""Of many samples, averages over no more follow a kernel's change."""

Evaluate = Callable[[Array], tuple[Array, Array]]
"""Of a kernel, (m, m), or of variances, (c,): the averages, and the sizes of what is added up in
them. With kinks and several inputs, of kernels (copies, m, m) too."""

Change = Callable[[Array], Array]
"""Of how far kernels are away, (copies, m, m): what averages change by, (copies, averages),
to first order; those of the first averages, where the others' do not matter."""

Gradient = Callable[[Array], Change | None]
"""Of a kernel: the change around it; None where derivatives change too fast from one kernel to the
next to be of use."""


def at_each(average: Evaluate) -> Evaluate:
    """Averages at kernels (m, m), or (copies, m, m), from what gives them at one."""

    def evaluate(K: Array) -> tuple[Array, Array]:
        if K.ndim == 2:
            return average(K)
        values, sizes = zip(*map(average, K), strict=True)
        return np.array(values), np.array(sizes)

    return evaluate


Shapes: TypeAlias = tuple[SingleShape, ...]
"""The functions at each sample of a set."""


class Shared(NamedTuple):
    """An average over distinct samples: what stands at each, ascending, and its share of the
    bracket."""

    shapes: Shapes
    share: Fraction


def evaluators(
    activation: Activation, by_size: Sequence[Sequence[Shared]], m: int
) -> tuple[Evaluate, Gradient, list[Group]]:
    """Analytic σ: these averages of each number of samples, over all sets of so many; their
    gradient; and they by the number of samples.

    Of more than `FEW` samples the gradient is that of the averages over two at most: what
    rounding of K does to the others is far below the error that their rule has.
    """
    groups = [Group(activation, wanted, m, d) for d, wanted in enumerate(by_size) if wanted]

    def evaluate(K: Array) -> tuple[Array, Array]:
        both = np.concatenate([each(K) for each in groups], axis=1)
        return both[0], both[1]

    def gradient(K: Array) -> Change:
        most = FOLLOWED if m > FEW else m
        parts = [each.response(K) for each in groups if each.samples <= most]
        return lambda away: np.concatenate([part(away) for part in parts], axis=1)

    return evaluate, gradient, groups


def of_exchangeable(
    activation: Activation, by_size: Sequence[Sequence[Shared]], m: int
) -> Evaluate:
    """Analytic σ: these averages of each number of samples, over one set of so many.

    Kernels are (m, m) or (copies, m, m), of variances q and covariances p.
    """
    groups = [
        Group(activation, wanted, m, d, only_first=True)
        for d, wanted in enumerate(by_size)
        if wanted
    ]
    several = [each for each in groups if each.products]
    ends = np.cumsum([len(each.products) for each in several])
    every = [heads for each in several for heads in each.products]
    given = shared.of_analytic(activation, every) if every else None

    def at(K: Array) -> tuple[Array, Array]:
        q, p = float(K[0, 0]), float(K[0, -1])
        sums = given(q, p) if given and 0.0 <= p <= q else None
        if sums is None:
            both = np.concatenate([each(K) for each in groups], axis=1)
            return both[0], both[1]
        parts = dict(zip(several, np.split(sums, ends[:-1], axis=1), strict=True))
        if large_variance.is_broad(K[:2, :2]):
            parts = {each: part for each, part in parts.items() if each.samples > 2}
        both = np.concatenate([each(K, parts.get(each)) for each in groups], axis=1)
        return both[0], both[1]

    return at_each(at)


class Group:
    """The averages over each set of so many samples; or over the first set.

    Attributes:
        samples: of a set.
        sets: (sets, samples).
    """

    def __init__(
        self,
        activation: Activation,
        wanted: Sequence[Shared],
        m: int,
        samples: int,
        *,
        only_first: bool = False,
    ) -> None:
        self.samples = samples
        every = combinations(range(m), samples)
        self.sets = np.array([next(every)] if only_first else list(every))
        self._shares = np.array([float(each.share) for each in wanted])
        shapes: dict[Shapes, int] = {}
        self._rows = [
            shapes.setdefault(each.shapes, len(shapes))
            if not activation.is_odd or are_even(each.shapes)
            else None
            for each in wanted
        ]
        self._live = [k for k, row in enumerate(self._rows) if row is not None]
        self._chosen = [row for row in self._rows if row is not None]
        self._joint = _Joint(activation, list(shapes)) if shapes and samples > 1 else None
        self.products = self._joint.products if self._joint else []
        self._crowded = m > FEW and 1 < samples <= MAX_INPUTS
        alone = [each[0] for each in shapes] if samples == 1 else []
        self._alone = one_sample.averages(activation, alone)
        twice = [SingleShape(each.orders, each.outer + 2) for each in alone]
        self._twice = one_sample.averages(activation, twice)

    def __call__(self, K: Array, sums: Array | None = None) -> Array:
        """Values and sizes, (2, averages · sets); of one set from the sums of its products."""
        found = np.zeros((2, len(self._rows), len(self.sets)))
        values: Array | None
        if self._joint is not None and sums is not None:
            values = self._joint.composed(sums)[..., None]
        elif self._joint is None:
            values = np.array(self._alone(K.diagonal()[self.sets[:, 0]])) if self._live else None
        elif self._crowded:
            values = self._joint.of_many(K, self.sets)
        else:
            each = [self._joint(K[np.ix_(members, members)]) for members in self.sets]
            values = np.moveaxis(np.array(each), 0, -1)
        if values is not None:
            found[:, self._live] = values[:, self._chosen]
        found *= self._shares[:, None]
        return found.reshape(2, -1)

    def over(self, sets: Places) -> Group:
        """The same over these sets, (sets, samples), of many samples."""
        other = copy(self)
        other.sets, other._crowded = sets, 1 < self.samples <= MAX_INPUTS
        return other

    def response(self, K: Array) -> Change:
        """Their change with the entries of K between the samples of the set of each."""
        rows, columns = self.sets[:, :, None], self.sets[:, None, :]
        slopes = np.zeros((len(self._rows), len(self.sets), self.samples, self.samples))
        if self._live:
            found = self._slopes(K)[self._chosen]
            slopes[self._live] = self._shares[self._live, None, None, None] * found

        def change(away: Array) -> Array:
            found = np.einsum("ksab,csab->cks", slopes, away[:, rows, columns])
            return np.asarray(found.reshape(len(away), -1))

        return change

    def _slopes(self, K: Array) -> Array:
        """The derivatives of each distinct average by K of its set, (averages, sets, d, d)."""
        if self._joint is None:
            return np.asarray(0.5 * self._twice(K.diagonal())[0][:, :, None, None])
        if self._crowded:
            by_pair = self._joint.raised.of_many(K, self.sets)[0].reshape(-1, 3, len(self.sets))
            return np.asarray(0.5 * by_pair[:, [[0, 1], [1, 2]]].transpose(0, 3, 1, 2))
        each = [self._joint.response(K[np.ix_(members, members)]) for members in self.sets]
        return np.moveaxis(np.array(each), 0, 1)


def are_even(shapes: Shapes) -> bool:
    """True if the average does not vanish for an odd σ."""
    orders = [order for each in shapes for order in each.orders]
    return is_even(orders, sum(each.outer for each in shapes))


class _Joint:
    """Averages over one set of samples: what derivatives inside consist of, each product once; or,
    of two that vary far, as a whole."""

    def __init__(self, activation: Activation, shapes: Sequence[Shapes]) -> None:
        self._activation, self._shapes = activation, list(shapes)
        products: dict[tuple[several_samples.Orders, ...], int] = {}
        entries = [
            (row, products.setdefault(tuple(factors for factors, _ in terms), len(products)), terms)
            for row, each in enumerate(shapes)
            for terms in product(*(leibniz(*shape).items() for shape in each))
        ]
        self._coefficients = np.zeros((len(shapes), len(products)))
        for row, place, terms in entries:
            self._coefficients[row, place] += math.prod(count for _, count in terms)
        self.products = list(products)
        self._inside = several_samples.Sums(activation, self.products)
        self._broad: dict[bool, large_variance.Sums] = {}

    def __call__(self, K: Array) -> Array:
        """The averages at K, (d, d), and their sizes: (2, averages)."""
        if len(K) == 2 and large_variance.is_broad(K) and self._far(rough=False).exist:
            return self._far(rough=False)(K)
        return self.composed(self._inside(K))

    def composed(self, sums: Array) -> Array:
        """The averages and their sizes, from those of the products, (2, products)."""
        return np.asarray(np.einsum("kp,cp->ck", self._coefficients, sums))

    @cached_property
    def _many(self) -> Crowd:
        from .many_inputs import Crowd  # noqa: PLC0415  (numba: a fifth of a second to import)

        return Crowd(self._activation, self.products)

    def of_many(self, K: Array, sets: Places) -> Array:
        """The averages at K, (m, m), of all these sets, and their sizes: (2, averages, sets)."""
        found = np.tensordot(self._coefficients, self._many(K, sets), axes=(1, 1)).swapaxes(0, 1)
        if sets.shape[1] == 2:
            kernels = K[sets[:, :, None], sets[:, None]]
            for place in np.flatnonzero(large_variance.is_broad(kernels)).tolist():
                if self._far(rough=False).exist:
                    found[:, :, place] = self._far(rough=False)(kernels[place])
        return found

    @cached_property
    def raised(self) -> _Joint:
        """Of averages over two samples, what their second derivatives average to: ∂_a², ∂_a ∂_b,
        ∂_b² of each."""
        pairs = [(each[0], each[1]) for each in self._shapes]
        return _Joint(
            self._activation, [_raised(pair, s, t) for pair in pairs for s, t in _ENTRIES]
        )

    def response(self, K: Array) -> Array:
        """Their derivatives by K to some percent: (averages, d, d)."""
        if len(K) == 2 and large_variance.is_broad(K) and self._far(rough=True).exist:
            values = 0.5 * self._far(rough=True)(K)[0].reshape(-1, 3)
            return np.asarray(values[:, [[0, 1], [1, 2]]])
        return np.asarray(np.einsum("kp,pab->kab", self._coefficients, self._inside.response(K)))

    def _far(self, *, rough: bool) -> large_variance.Sums:
        if rough not in self._broad:
            pairs = [(each[0], each[1]) for each in self._shapes]
            if rough:
                pairs = [_raised(pair, s, t) for pair in pairs for s, t in _ENTRIES]
            digits = several_samples.ROUGH if rough else quadrature.accuracy(2)
            self._broad[rough] = large_variance.Sums(self._activation, pairs, digits)
        return self._broad[rough]


_ENTRIES = tuple(combinations_with_replacement(range(2), 2))


def _raised(pair: large_variance.Pair, s: int, t: int) -> large_variance.Pair:
    """∂_s ∂_t of it."""
    first, second = (
        SingleShape(each.orders, each.outer + (s == k) + (t == k)) for k, each in enumerate(pair)
    )
    return first, second
