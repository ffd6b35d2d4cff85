"""Brackets ⟨Π_s f_s(z_s)⟩ over all sets of two, three or four of many samples, compiled.

The nodes are those of `several_samples`, whose sums these are: z = B y, a trapezoid rule for each y
within a ball, and from the leaves up one sum for all brackets with the same factors below. There a
level is an array; here it is a loop, for m samples have C(m, 4) sets of four. The last of
three or four is in a table (`crowd_sums`), so that its nodes are not counted.

Four samples have as many digits as `NODES` of them allow. What that leaves out is seen at some of
the sets, which have all digits too, and is in the sizes that are returned, with which errors are
carried on (`accuracy`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.work.resources import number

from ..arrays import Array
from ..brackets import quadrature
from . import crowd_sums
from .crowd_sums import POINTS
from .several_samples import Orders, Suffix, Sums

FEW = 8
"""As many samples as have each set's sums to all digits, by `several_samples`."""

NODES = 12 * 10**6
"""Of all sets together: a second, more or less."""

DIGITS = (26.0, 22.0, 20.0, 18.0, 16.0, 14.0, 12.0)
"""log(1/ε) of the rule, from the best down, where the nodes of all digits are too many."""

_COARSEST, _SMALL, _FINEST = 0.5, 1e-6, 1e-15
"""The spacing of a table's points that is tried first, relative errors from which on they fall as
they should, and the least that is asked for."""

_SOME, _CAUTION = 32, 4.0
"""Sets that have all digits, to see what the others lack; what the largest difference is multiplied
by."""

LEVELS, _ROUND = 4, 4
"""Samples that a set has at most; the orders of derivatives are compiled by the four."""

_MOST = 4 * 10**9
"""Nodes that are refused: some minutes."""

Counts: TypeAlias = "NDArray[np.int64]"


class Crowd:
    """Sums for sets of d of many samples, d from 2 to 4.

    Arguments:
        activation: an analytic σ.
        products: for each bracket the orders at each of the d samples, ascending.
    """

    def __init__(self, activation: Activation, products: Sequence[Suffix]) -> None:
        self._rule = Sums(activation, products)
        self._d = d = len(products[0])
        heads = sorted({head for each in products for head in each})
        highest = max((order for head in heads for order in head), default=0)
        self._kernels = crowd_sums.kernels(activation, highest + -(highest + 1) % _ROUND)
        self._heads = np.full((len(heads), max(1, *map(len, heads))), -1)
        for row, head in zip(self._heads, heads, strict=True):
            row[: len(head)] = head
        self._orders = np.array(list(permutations(range(d))))
        trees = [_tree(products, order, heads) for order in self._orders.tolist()]
        most = max(len(level) for levels, _ in trees for level in levels)
        self._trees = np.zeros((len(trees), LEVELS, most, 2), np.int64)
        self._trees[:, : LEVELS - d, :, 0] = -1
        self._trees[:, : LEVELS - d, :, 1] = np.arange(most)
        self._counts = np.full((len(trees), LEVELS), most)
        for tree, counts, (levels, _) in zip(self._trees, self._counts, trees, strict=True):
            for place, level in enumerate(levels, start=LEVELS - d):
                tree[place, : len(level)] = level
                counts[place] = len(level)
            counts[: LEVELS - d] = len(levels[0])
        self._roots = np.array([roots for _, roots in trees])

    def __call__(self, K: Array, sets: Counts) -> Array:
        """The brackets at K, (m, m), of each set, (sets, d), and their sizes: (2, brackets, sets).

        nan where K is no covariance, and where σ varies too fast for a rule.

        Raises InputError where few digits take more than some minutes.
        """
        d = self._d
        order, B, rank = np.empty(sets.shape, np.int64), np.empty((*sets.shape, d)), sets[:, 0] * 0
        self._kernels.factorise_all(K, sets, order, B, rank)
        places = d ** np.arange(d)
        which = np.zeros(d**d, np.int64)
        which[self._orders @ places] = np.arange(len(self._orders))
        factorised = _Factorised(B, rank, which[order @ places])
        best = self._rules(factorised, math.inf)
        rules = [best, *(self._rules(factorised, digits) for digits in DIGITS)]
        rule = next((each for each in rules if each.nodes <= NODES), rules[-1])
        if rule.nodes > _MOST:
            wanted = f"kernels, or a σ, for which averages have fewer than {number(_MOST)} nodes: "
            raise InputError("inputs", f"{len(B)} sets", f"{wanted}here {number(int(rule.nodes))}")
        found = self._sums(factorised, rule)
        error = np.exp(-best.digits) * np.ones((len(found[1]), 1))
        if rule is not best:
            by_size = np.argsort(-np.abs(B).sum(axis=(1, 2)), kind="stable")
            some = by_size[:: -(-len(sets) // _SOME)]
            right, sizes = self._sums(factorised.part(some), best.part(some))
            with np.errstate(invalid="ignore"):
                off = np.abs(found[0][:, some] - right).max(axis=1) / sizes.max(axis=1)
            error = error + _CAUTION * np.nan_to_num(off)[:, None]
        found[1] *= 1.0 + math.exp(quadrature.ACCURACY[0]) * error
        return found

    def _sums(self, factorised: _Factorised, rule: _Rules) -> Array:
        """The brackets, and the sums of absolute values: (2, brackets, sets)."""
        B, rank, tree = factorised
        values = np.empty((2, len(B), self._counts.max()))
        live = np.where(np.isfinite(rule.h).all(axis=1), rank, -1)
        shapes = self._heads, self._trees, self._counts
        half = self._rule.half
        spacing = self._spacing(B, rule)
        sums = self._kernels.pairs if self._d == 2 else self._kernels.sums
        sums(B, live, rule.h, rule.reach, tree, *shapes, half, spacing, values)
        found = np.take_along_axis(values, self._roots[tree][None], axis=2)
        return np.ascontiguousarray(np.swapaxes(found, 1, 2))

    def _spacing(self, B: Array, rule: _Rules) -> float:
        """Of the tables' points, for as many digits as the rule has.

        The polynomials' error, which falls as a power of the spacing, is seen at some places.
        """
        if self._d == 2:
            return 1.0
        scale = np.sqrt((B**2).sum(axis=2)).max(axis=1, initial=0.0)
        far = float((rule.reach * scale).max(initial=0.0))
        wanted = max(0.1 * math.exp(-float(rule.digits.min(initial=math.inf))), _FINEST)
        spacing = _COARSEST
        while (off := self._off(spacing, far, float(scale.max(initial=0.0)))) > _SMALL:
            spacing /= 2.0
        return float(spacing * min(1.0, (wanted / max(off, _FINEST)) ** (1.0 / POINTS)))

    def _off(self, spacing: float, far: float, near: float) -> float:
        """The largest error halfway between points so far apart, for samples that go `far` and
        mostly are `near` 0, relative to what is there."""
        half = 2 * (math.ceil(far / spacing) + POINTS)
        values = np.empty((len(self._heads), 2 * half + 1))
        self._kernels.on_grid(0.5 * spacing, half, self._heads, values)
        windows = sliding_window_view(values[:, ::2], POINTS, axis=1)
        between = values[:, POINTS - 1 : 1 - POINTS : 2]
        at = np.arange(POINTS) - 0.5 * (POINTS - 1)
        weights = np.array(
            [np.prod(np.delete(at, k) / (np.delete(at, k) - at[k])) for k in range(POINTS)]
        )
        bulk = np.abs(values[:, abs(np.arange(-half, half + 1)) * spacing <= 2.0 * near]).max(
            axis=1
        )
        sizes = np.maximum(np.abs(windows).max(axis=2), bulk[:, None])
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(windows @ weights - between)
        seen = (sizes > 0) & np.isfinite(off)  # what overflows far out shows in the sums
        return float(np.divide(off, sizes, out=np.zeros_like(off), where=seen).max())

    def _rules(self, factorised: _Factorised, most: float) -> _Rules:
        """The nodes of each set to so many digits, or what `quadrature.accuracy` has."""
        B, rank, _ = factorised
        scale, size = np.abs(B).max(axis=1), np.abs(B).sum(axis=(1, 2))
        h, reach = np.ones(scale.shape), np.zeros(len(B))
        digits, nodes = np.full(len(B), quadrature.ACCURACY[0]), 0.0
        for live in set(rank.tolist()) - {-1}:
            rows = rank == live
            digits[rows] = kept = min(quadrature.accuracy(live), most)
            h[rows, :live] = self._rule.step(scale[rows, :live], live, kept)
            reach[rows] = self._rule.reach(live, size[rows], kept)
            deep = live if self._d == 2 else min(live, self._d - 1)  # the last one is in a table
            ball = math.pi ** (0.5 * deep) / math.gamma(0.5 * deep + 1.0) * reach[rows] ** deep
            nodes += float(np.nansum(ball / np.prod(h[rows, :deep], axis=1)))
        return _Rules(h, reach, digits, nodes * (0.5 if self._rule.half else 1.0))


class _Factorised(NamedTuple):
    """z = B y of each set, (sets, d, d), as many y as its rank, and which tree its order has."""

    B: Array
    rank: Counts
    tree: Counts

    def part(self, chosen: Counts) -> _Factorised:
        """Some of the sets."""
        return _Factorised(self.B[chosen], self.rank[chosen], self.tree[chosen])


class _Rules(NamedTuple):
    """Steps (sets, d), reach and log(1/ε) of each set, and how many nodes there are in all."""

    h: Array
    reach: Array
    digits: Array
    nodes: float

    def part(self, chosen: Counts) -> _Rules:
        """Those of some sets."""
        return _Rules(self.h[chosen], self.reach[chosen], self.digits[chosen], math.nan)


def _tree(
    products: Sequence[Suffix], order: Sequence[int], heads: Sequence[Orders]
) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """For samples in this order: at each level what is summed, as the place of its factor and that
    of the rest a level down; and the place of each product on top."""
    ordered = [tuple(each[place] for place in order) for each in products]
    below: dict[Suffix, int] = {(): 0}
    levels: list[list[tuple[int, int]]] = []
    for level in reversed(range(len(order))):
        suffixes = dict.fromkeys(each[level:] for each in ordered)
        here = {suffix: k for k, suffix in enumerate(suffixes)}
        levels.append([(heads.index(suffix[0]), below[suffix[1:]]) for suffix in here])
        below = here
    return levels[::-1], [below[each] for each in ordered]
