"""Brackets ⟨Π_s f_s(z_s)⟩ over all sets of two, three or four of many samples, compiled.

The nodes are those of `several_samples`, whose sums these are: z = B y, a trapezoid rule for each y
within a ball, and from the leaves up one sum for all brackets with the same factors below. There a
level is an array; here it is a loop, for m samples have C(m, 4) sets of four. The last of
three or four is in a table (`many_input_sums`), so that its nodes are not counted.

Four samples have as many digits as `NODES` of them allow. What that leaves out is seen at some of
the sets, which have all digits too, and is in the sizes that are returned, with which errors are
carried on (`accuracy`). So is what tables err by, at sets that are cheap without.
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

from ..arrays import Array
from ..brackets import quadrature
from . import many_input_sums
from .many_input_sums import POINTS
from .several_samples import Orders, Suffix, Sums

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

_CHECKED, _CHEAP = 2, 4 * 10**6
"""Sets that are summed without tables, too, where they have no more nodes together."""

_MOST = 4 * 10**9
"""Nodes that are refused: some minutes."""

_OF_NODE = 2.0 * POINTS + 4.0
"""Products of a table's entries with weights at a node, for each of its rows."""

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
        highest += -(highest + 1) % _ROUND
        self._sigma = many_input_sums.derivatives(activation, highest), highest + 1
        self._kernels = many_input_sums.kernels()
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

        Sizes of three or four are taken from tables on straight lines, and may be short by some
        thousandths. At a few of the sets the brackets are held to sums without tables, where those
        are cheap, and what is off is in the sizes of all; where a table overflows, its set is
        summed without. nan where K is no covariance, and where σ varies too fast for a rule.

        Raises InputError where few digits take more than some minutes.
        """
        d = self._d
        kernels = K[sets[:, :, None], sets[:, None]]
        order, B, rank = _factors(kernels)
        places = d ** np.arange(d)
        which = np.zeros(d**d, np.int64)
        which[self._orders @ places] = np.arange(len(self._orders))
        factorised = _Factorised(B, rank, which[order @ places])
        best = rule = self._rules(factorised, math.inf)
        for digits in DIGITS:
            if rule.nodes.sum() <= NODES:
                break
            rule = self._rules(factorised, digits)
        some = np.zeros(0, np.int64)
        if rule is not best:
            by_size = np.argsort(-np.abs(B).sum(axis=(1, 2)), kind="stable")
            some = by_size[:: -(-len(sets) // _SOME)]
        exact = factorised.part(some), best.part(some)
        _check_cost(K, rule.nodes.sum() + exact[1].nodes.sum())
        _check_cost(K, self._work(factorised, rule) + self._work(*exact))
        found = self._finite(K, kernels, factorised, rule)
        error = np.exp(-best.digits) * np.ones((len(found[1]), 1))
        if some.size:
            right = self._finite(K, kernels[some], *exact)
            error = error + _CAUTION * _largest(found[0][:, some], right)[:, None]
        cheap = self._cheap(factorised, best)
        if cheap.size:
            right = self._alone(kernels[cheap], rank[cheap])
            off = _largest(found[0][:, cheap], right)
            off[off <= math.exp(-float(best.digits.min()))] = 0.0  # as the rule itself may err
            error = error + _CAUTION * off[:, None]
        found[1] *= 1.0 + math.exp(quadrature.ACCURACY[0]) * error
        return found

    def _finite(self, K: Array, kernels: Array, factorised: _Factorised, rule: _Rules) -> Array:
        """The sums; without tables where these have overflown."""
        found = self._sums(factorised, rule)
        live = np.isfinite(rule.h).all(axis=1) & (factorised.rank >= 0)
        bad = np.flatnonzero(live & ~np.isfinite(found).all(axis=(0, 1)))
        if bad.size:
            _check_cost(K, self._without_tables(factorised, rule)[bad].sum())
            found[:, :, bad] = self._alone(kernels[bad], factorised.rank[bad])
        return found

    def _alone(self, kernels: Array, rank: Counts) -> Array:
        """The sums of each set by itself, to all digits and without tables, and those of absolute
        values: (2, brackets, sets)."""
        found = np.moveaxis(np.array([self._rule(each) for each in kernels]), 0, -1)
        digits = np.array([quadrature.accuracy(max(each, 0)) for each in rank.tolist()])
        found[1] /= 1.0 + np.exp(quadrature.ACCURACY[0] - digits)
        return found

    def _cheap(self, factorised: _Factorised, rule: _Rules) -> Counts:
        """A few of the sets of most latent variables, whose sums without tables have few nodes."""
        if self._d == 2:
            return np.zeros(0, np.int64)
        nodes = self._without_tables(factorised, rule)
        order = np.lexsort((nodes, -factorised.rank))
        usable = np.isfinite(rule.h).all(axis=1) & (factorised.rank > 1) & (nodes <= _CHEAP)
        order = order[usable[order]][:_CHECKED]
        return order[np.cumsum(nodes[order]) <= _CHEAP]

    def _without_tables(self, factorised: _Factorised, rule: _Rules) -> Array:
        """The nodes of each set where those of all latent variables are counted."""
        last = np.clip(factorised.rank - 1, 0, None)
        h = np.take_along_axis(rule.h, last[:, None], axis=1)[:, 0]
        in_table = (factorised.rank == self._d) & (self._d > 2)
        return np.asarray(rule.nodes * np.where(in_table, 2.0 * rule.reach / h, 1.0))

    def _work(self, factorised: _Factorised, rule: _Rules) -> float:
        """The nodes, and what is added up for tables in units of what is added up for a node."""
        B, rank, _ = factorised
        total, d = float(rule.nodes.sum()), self._d
        if d == 2 or not len(B):
            return total
        spacing = self._spacing(B, rule)
        slope = np.where(rank > d - 2, np.abs(B[:, d - 1, d - 2] * rule.h[:, d - 2]), 0.0)
        apart = np.where(
            slope > 0.25 * spacing, slope / np.maximum(np.ceil(slope / spacing), 1.0), spacing
        )
        far = rule.reach * np.sqrt((B[:, d - 1, : d - 1] ** 2).sum(axis=1)) / apart + POINTS
        wide = rule.reach * np.where(rank == d, np.abs(B[:, d - 1, d - 1]), 0.0) / apart
        products = 2.0 * (2.0 * wide + 4.0 * POINTS) * (2.0 * far)
        return total + float(np.nansum(products)) / _OF_NODE

    def _sums(self, factorised: _Factorised, rule: _Rules) -> Array:
        """The brackets, and the sums of absolute values: (2, brackets, sets)."""
        B, rank, tree = factorised
        values = np.empty((2, len(B), self._counts.max()))
        live = np.where(np.isfinite(rule.h).all(axis=1), rank, -1)
        shapes = self._heads, self._trees, self._counts
        half = self._rule.half
        spacing = self._spacing(B, rule)
        sums = self._kernels.pairs if self._d == 2 else self._kernels.sums
        used = np.arange(self._d) < live[:, None]
        nodes = np.where(used, rule.reach[:, None] / np.where(used, rule.h, 1.0), 0.0)
        centre = 1 + int(nodes.max(initial=0.0))
        given = B, live, rule.h, rule.reach, centre, tree
        sums(*self._sigma, *given, *shapes, half, spacing, values)
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
        self._kernels.on_grid(*self._sigma, 0.5 * spacing, half, self._heads, values)
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
        digits, nodes = np.full(len(B), quadrature.ACCURACY[0]), np.zeros(len(B))
        for live in set(rank.tolist()) - {-1}:
            rows = rank == live
            digits[rows] = kept = min(quadrature.accuracy(live), most)
            h[rows, :live] = self._rule.step(scale[rows, :live], live, kept)
            reach[rows] = self._rule.reach(live, size[rows], kept)
            deep = live if self._d == 2 else min(live, self._d - 1)  # the last one is in a table
            ball = math.pi ** (0.5 * deep) / math.gamma(0.5 * deep + 1.0) * reach[rows] ** deep
            nodes[rows] = np.nan_to_num(ball / np.prod(h[rows, :deep], axis=1))
        return _Rules(h, reach, digits, nodes * (0.5 if self._rule.half else 1.0))


def _factors(kernels: Array) -> tuple[Counts, Array, Counts]:
    """z = B y of each set, as `several_samples.factorise` has it for one: all sets at once,
    (sets, d, d).

    Returns the order of the samples (row k of B belongs to sample order[k]), B with its columns
    from the rank on zero, and the rank, which is -1 where K is not finite or a variance negative.
    """
    count, d = kernels.shape[:2]
    variances = np.einsum("tkk->tk", kernels)
    good = np.isfinite(kernels).all(axis=(1, 2)) & (variances >= 0).all(axis=1)
    scale = np.sqrt(np.where(good[:, None], variances, 0.0))
    below = np.where(scale > 0, scale, math.inf)
    left = np.where(good[:, None, None], kernels, 0.0) / below[:, :, None] / below[:, None]
    order, B = np.tile(np.arange(d), (count, 1)), np.zeros(kernels.shape)
    rank, live = np.where(good, 0, -1), np.flatnonzero(good)
    for level in range(d):
        best = np.full(len(live), level)
        for k in range(level + 1, d):
            most = left[live, best, best] + 1e-9
            best = np.where(left[live, k, k] > most, k, best)
        more = left[live, best, best] > 1e-13
        live, best = live[more], best[more]
        for each in (order, B, left, left.swapaxes(1, 2)):
            each[live, best], each[live, level] = each[live, level], each[live, best]
        root = np.sqrt(left[live, level, level])
        B[live, level:, level] = left[live, level:, level] / root[:, None]
        B[live, level, level] = root
        own = B[live, level + 1 :, level]
        left[live, level + 1 :, level + 1 :] -= own[:, :, None] * own[:, None]
        rank[live] += 1
    B *= np.take_along_axis(scale, order, axis=1)[:, :, None]
    return order, B, rank


class _Factorised(NamedTuple):
    """z = B y of each set, (sets, d, d), as many y as its rank, and which tree its order has."""

    B: Array
    rank: Counts
    tree: Counts

    def part(self, chosen: Counts) -> _Factorised:
        """Some of the sets."""
        return _Factorised(self.B[chosen], self.rank[chosen], self.tree[chosen])


class _Rules(NamedTuple):
    """Steps (sets, d), reach, log(1/ε) and how many nodes there are, of each set."""

    h: Array
    reach: Array
    digits: Array
    nodes: Array

    def part(self, chosen: Counts) -> _Rules:
        """Those of some sets."""
        return _Rules(self.h[chosen], self.reach[chosen], self.digits[chosen], self.nodes[chosen])


def _largest(found: Array, right: Array) -> Array:
    """Of each bracket the largest difference from these values and their sizes, (2, brackets,
    sets), in units of its largest size there; nan is what has no value."""
    known = np.isfinite(right).all(axis=(0, 1))
    off = np.abs(found - right[0])[:, known].max(axis=1, initial=0.0)
    sizes = right[1][:, known].max(axis=1, initial=0.0)
    return np.asarray(np.divide(off, sizes, out=np.zeros_like(off), where=sizes > 0))


def _check_cost(K: Array, nodes: float) -> None:
    """Refuse what takes more than some minutes."""
    if nodes > _MOST:
        wanted = f"kernels, or a σ, for which averages have fewer than {_digits(_MOST)} nodes: "
        given = f"{len(K)} inputs, with K up to {np.abs(K).max():.3g}"
        raise InputError("inputs", given, f"{wanted}here {_digits(nodes)}")


def _digits(count: float) -> str:
    """Two digits, rounded up: "4.1·10^9"."""
    power = math.floor(math.log10(count))
    tenths = math.ceil(count / 10.0 ** (power - 1) * (1.0 - 1e-12))
    return f"{tenths // 10}.{tenths % 10}·10^{power}" if tenths < 100 else f"1.0·10^{power + 1}"


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
