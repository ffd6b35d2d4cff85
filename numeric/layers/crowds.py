"""Brackets ⟨Π_s f_s(z_s)⟩ over all sets of two, three or four of many samples, compiled.

The nodes are those of `several_samples`, whose sums these are: z = B y, a trapezoid rule for each y
within a ball, and from the leaves up one sum for all brackets with the same factors below. There a
level is an array; here it is a loop, for m samples have C(m, 4) sets of four. Of three or four samples the last is averaged over
its own y beforehand, as a function of its mean: a table, from which the nodes of the others take it
by polynomials. Where those of the last but one are a whole number of points apart, they share their
polynomials' weights.

Four samples have as many digits as `NODES` of them allow. What that leaves out is seen at some of
the sets, which have all digits too, and is in the sizes that are returned, with which errors are
carried on (`accuracy`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import permutations
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.work.resources import number

from ..arrays import Array
from ..brackets import quadrature
from ..emit import printer
from ..emit.kernels import load_kernels
from ..emit.templates import sigma_source
from .several_samples import Orders, Suffix, Sums

FEW = 8
"""As many samples as have each set's sums to all digits, by `several_samples`."""

NODES = 12 * 10**6
"""Of all sets together: a second, more or less."""

POINTS = 16
"""Of the polynomial between the points of a table."""

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
        self._kernels = _kernels(activation, highest + -(highest + 1) % _ROUND)
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
        self._kernels.sums(B, live, rule.h, rule.reach, tree, *shapes, half, spacing, values)
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
        weights = np.array([np.prod(np.delete(at, k) / (np.delete(at, k) - at[k])) for k in range(POINTS)])
        bulk = np.abs(values[:, abs(np.arange(-half, half + 1)) * spacing <= 2.0 * near]).max(axis=1)
        sizes = np.maximum(np.abs(windows).max(axis=2), bulk[:, None])
        off = np.abs(windows @ weights - between)
        return float(np.divide(off, sizes, out=np.zeros_like(off), where=sizes > 0).max())

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


@cache
def _kernels(activation: Activation, highest: int) -> ModuleType:
    """The compiled loops, for derivatives up to this order."""
    source = printer.filled(
        _SUMS,
        sigma=sigma_source(activation, highest + 1),
        derivatives=[f"S[{order}, i] = s[{order}]" for order in range(highest + 1)],
        factorise=quadrature.FACTORISE_SOURCE,
        orders=highest + 1,
        points=POINTS,
        before=POINTS // 2 - 1,
        scales=str([1 / math.prod(k - j for j in range(POINTS) if j != k) for k in range(POINTS)]),
    )
    return load_kernels("crowd", f"Averages of {activation.name} over sets.", (), source)


_SUMS = '''\
$sigma


@driver
def evaluate(mean, slope, first, count, heads, S, F, wanted):
    """σ's derivatives at some z of one sample, and if wanted what the products have there."""
    for i in range(count):
        s = sigma(mean + slope * (first + i))
        $derivatives
    if not wanted:
        return
    for k in range(heads.shape[0]):
        for i in range(count):
            F[k, i] = S[heads[k, 0], i] if heads[k, 0] >= 0 else 1.0
        for j in range(1, heads.shape[1]):
            if heads[k, j] >= 0:
                for i in range(count):
                    F[k, i] *= S[heads[k, j], i]


@reduction
def weighted(F, weights, first, count):
    """A sum, and that of absolute values."""
    value, size = 0.0, 0.0
    for i in range(count):
        part = weights[first + i] * F[i]
        value += part
        size += abs(part)
    return value, size


$factorise


@entry
def factorise_all(K, sets, order, B, rank):
    """`factorise` for each set of samples."""
    d = sets.shape[1]
    own = np.empty((d, d))
    for t in range(len(sets)):
        for k in range(d):
            for j in range(d):
                own[k, j] = K[sets[t, k], sets[t, j]]
        order[t], B[t], rank[t] = factorise(own)


@driver
def place(B, rank, h, half, begin, steps, slopes, weights, centre):
    """The steps of each level, those of z with them, and the weights of the nodes."""
    levels = len(steps)
    for j in range(levels):
        live = begin <= j < begin + rank
        steps[j] = h[j - begin] if live else 1.0
        for k in range(levels):
            slopes[k, j] = B[k - begin, j - begin] * steps[j] if live and k >= begin else 0.0
        for i in range(-centre, centre + 1):
            y = steps[j] * i
            weight = steps[j] / math.sqrt(2.0 * math.pi) * math.exp(-0.5 * y * y) if live else 1.0
            weights[j, centre + i] = weight * (2.0 if half and j == begin and i > 0 else 1.0)


@reduction
def joined(weights, F, G, A):
    """A sum of products of two samples, the last of which is averaged, and of absolute values."""
    value, size = 0.0, 0.0
    for i in range(len(weights)):
        part = weights[i] * F[i]
        value += part * G[i]
        size += abs(part) * A[i]
    return value, size


@driver
def weighed(line, begins, weights, count, out):
    """out[n] = Σ_j weights[j] line[begins[j] + n], by eights; unsigned, for no n is from the end."""
    for block in range(np.uint64(0), np.uint64(count), np.uint64(8)):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for j in range(len(weights)):
            w, n = weights[j], begins[j] + block
            s0 += w * line[n]
            s1 += w * line[n + np.uint64(1)]
            s2 += w * line[n + np.uint64(2)]
            s3 += w * line[n + np.uint64(3)]
            s4 += w * line[n + np.uint64(4)]
            s5 += w * line[n + np.uint64(5)]
            s6 += w * line[n + np.uint64(6)]
            s7 += w * line[n + np.uint64(7)]
        out[block] = s0
        out[block + np.uint64(1)] = s1
        out[block + np.uint64(2)] = s2
        out[block + np.uint64(3)] = s3
        out[block + np.uint64(4)] = s4
        out[block + np.uint64(5)] = s5
        out[block + np.uint64(6)] = s6
        out[block + np.uint64(7)] = s7


_SCALES = np.array($scales)


@driver
def lagrange(u, weights):
    """Of the polynomial through $points points side by side, at u from 0 to 1 behind number $before."""
    product = 1.0
    for k in range($points):
        weights[k] = product * _SCALES[k]
        product *= u + ($before - k)
    product = 1.0
    for k in range($points - 1, -1, -1):
        weights[k] *= product
        product *= u + ($before - k)


@driver
def stepped(slope, spacing):
    """How far apart the points of a table are, and how many of them a step is: 0 where that is no
    whole number, of steps that are small."""
    stride = math.ceil(abs(slope) / spacing) if abs(slope) > 0.25 * spacing else 0
    return (slope / stride if stride else spacing), stride


@driver
def laid(row, count, stride, out):
    """A table's points a step apart, side by side."""
    apart = max(stride, 1)
    length = count // apart + 1
    for n in range(count):
        out[n % apart * length + n // apart] = row[n]


@driver
def along(table, before, size, stride, at, slope, count, weights, begins, out):
    """A table's values at `at` and steps from there, by lines, of two points, or by polynomials."""
    length = size // max(stride, 1) + 1
    for i in range(1 if stride else count):
        place = at + slope * i
        first = math.floor(place)
        if len(weights) == 2:
            weights[0], weights[1] = 1.0 - (place - first), place - first
        else:
            lagrange(place - first, weights)
        if stride:
            row, column = (first - before) % stride, (first - before) // stride
            for j in range(len(weights)):
                begins[j] = row * length + column
                row += 1
                if row == stride:
                    row, column = 0, column + 1
            for k in range(len(table)):
                weighed(table[k], begins, weights, count, out[k])
            continue
        for k in range(len(table)):
            total = 0.0
            for j in range(len(weights)):
                total += weights[j] * table[k, first - before + j]
            out[k, i] = total


@entry
def on_grid(distance, half, heads, F):
    """The products at points so far apart, `half` of them on each side of 0."""
    S = np.empty(($orders, 2 * half + 1))
    evaluate(0.0, distance, -half, 2 * half + 1, heads, S, F, True)


@driver
def climb(level, count, weight, F, is_live, below, totals):
    """Add what is below one node of a level."""
    for k in range(count):
        part = weight * F[level[k, 0], 0] if is_live else 1.0
        totals[0, k] += part * below[0, level[k, 1]]
        totals[1, k] += abs(part) * below[1, level[k, 1]]


@driver
def norm(row, count):
    """The length of a row's first entries."""
    total = 0.0
    for k in range(count):
        total += row[k] * row[k]
    return math.sqrt(total)


@entry
def sums(B, ranks, h, reach, which, heads, trees, all_counts, half, spacing, out):
    """The sums of each set of samples, those of its tree on top, and of absolute values.

    The samples have the last levels; those before have one node. Of more than two samples the last
    is averaged over its own latent variable in a table, and the last but one has a table too.
    """
    levels, single = trees.shape[1], heads.shape[1] == 1
    for k in range(len(heads)):
        single = single and heads[k, 0] >= 0
    begin = levels - B.shape[1]
    centre = 0
    for t in range(len(B)):
        for j in range(ranks[t]):
            centre = max(centre, int(reach[t] / h[t, j]) + 1)
    weights = np.empty((levels, 2 * centre + 1))
    S, F = np.empty(($orders, 2 * centre + 1)), np.empty((len(heads), 2 * centre + 1))
    room = len(heads), 2 * centre + 9
    C, G, A, of_row = np.zeros(room), np.zeros(room), np.zeros(room), np.zeros(2 * centre + 9)
    steps, slopes = np.empty(levels), np.empty((levels, levels))
    of_points, of_line, begins = np.empty($points), np.empty(2), np.empty($points, np.uint64)
    totals = np.zeros((levels, 2, trees.shape[2]))
    for t in range(len(B)):
        if ranks[t] < 0:
            out[:, t] = math.nan
            continue
        end, tree, counts = begin + ranks[t], trees[which[t]], all_counts[which[t]]
        place(B[t], ranks[t], h[t], half, begin, steps, slopes, weights, centre)
        n3 = int(reach[t] / steps[3]) if begin <= 3 < end else 0
        (own, own_stride), (last, last_stride) = (1.0, 1), (1.0, 1)
        own_half, last_half = 1, 1
        own_table = last_table = last_sizes = C
        if begin < 2:
            own, own_stride = stepped(slopes[2, 2], spacing)
            own_half = int(reach[t] * norm(B[t, 2 - begin], 3 - begin) / abs(own)) + $points
            own_table = np.zeros((len(heads), 2 * own_half + 10 + 2 * max(own_stride, 1)))
            last, last_stride = stepped(slopes[3, 2], spacing)
            last_half = int(reach[t] * norm(B[t, 3 - begin], 3 - begin) / abs(last)) + $points
            wider = int(n3 * abs(slopes[3, 3] / last)) + $points
            last_table = np.zeros((len(heads), 2 * last_half + 10 + 2 * max(last_stride, 1)))
            last_sizes = np.zeros(last_table.shape)
            smooth, rough = np.zeros(2 * wider + 1), np.zeros(2 * wider + 1)
            for i in range(-n3, n3 + 1):
                weight = weights[3, centre + i] if n3 else 1.0
                at = slopes[3, 3] / last * i
                first = math.floor(at)
                lagrange(at - first, of_points)
                for j in range($points):
                    smooth[wider + first - $before + j] += weight * of_points[j]
                rough[wider + first] += weight * (1.0 - (at - first))
                rough[wider + first + 1] += weight * (at - first)
            most = 2 * max(own_half, last_half + wider) + 9
            of_orders, products = np.empty(($orders, most)), np.empty((len(heads), most))
            row, of_average = np.empty(2 * last_half + 9), np.empty(2 * wider + 1, np.uint64)
            of_average[:] = np.arange(2 * wider + 1)
            evaluate(0.0, own, -own_half, 2 * own_half + 1, heads, of_orders, products, True)
            for k in range(len(heads)):
                laid(products[k], 2 * own_half + 1, own_stride, own_table[k])
            whole = last_half + wider
            evaluate(0.0, last, -whole, 2 * whole + 1, heads, of_orders, products, True)
            for k in range(len(heads)):
                weighed(products[k], of_average, smooth, 2 * last_half + 1, row)
                laid(row, 2 * last_half + 1, last_stride, last_table[k])
                for n in range(2 * whole + 1):
                    products[k, n] = abs(products[k, n])
                weighed(products[k], of_average, rough, 2 * last_half + 1, row)
                laid(row, 2 * last_half + 1, last_stride, last_sizes[k])
        left0 = reach[t] * reach[t]
        n0 = int(reach[t] / steps[0]) if begin <= 0 < end else 0
        totals[0] = 0.0
        for i0 in range(0 if half and begin == 0 else -n0, n0 + 1):
            left1 = max(left0 - (steps[0] * i0) ** 2, 0.0)
            n1 = int(math.sqrt(left1) / steps[1]) if begin <= 1 < end else 0
            totals[1] = 0.0
            for i1 in range(0 if half and begin == 1 else -n1, n1 + 1):
                left2 = max(left1 - (steps[1] * i1) ** 2, 0.0)
                n2 = int(math.sqrt(left2) / steps[2]) if begin <= 2 < end else 0
                first = 0 if half and begin == 2 else -n2
                count = n2 + 1 - first
                if begin < 2:
                    mean = slopes[2, 0] * i0 + slopes[2, 1] * i1 + slopes[2, 2] * first
                    at, slope, size = mean / own + own_half, slopes[2, 2] / own, 2 * own_half + 1
                    along(own_table, $before, size, own_stride, at, slope, count, of_points, begins, C)
                    mean = slopes[3, 0] * i0 + slopes[3, 1] * i1 + slopes[3, 2] * first
                    at, slope, size = mean / last + last_half, slopes[3, 2] / last, 2 * last_half + 1
                    along(
                        last_table, $before, size, last_stride, at, slope, count, of_points, begins, G
                    )
                    along(last_sizes, 0, size, last_stride, at, slope, count, of_line, begins, A)
                    by_eight = -(-count // 8) * 8
                    for i in range(by_eight):
                        of_row[i] = weights[2, centre + first + i] if i < count else 0.0
                    for k in range(counts[2]):
                        one, other = tree[2, k, 0], tree[3, tree[2, k, 1], 0]
                        found = joined(of_row[:by_eight], C[one], G[other], A[other])
                        totals[2, 0, k], totals[2, 1, k] = found
                else:
                    totals[2] = 0.0
                    for i2 in range(first, n2 + 1):
                        left3 = max(left2 - (steps[2] * i2) ** 2, 0.0)
                        n3 = int(math.sqrt(left3) / steps[3]) if end == 4 else 0
                        mean, each = slopes[3, 2] * i2, 2 * n3 + 1
                        evaluate(mean, slopes[3, 3], -n3, each, heads, S, F, not single)
                        for k in range(counts[3]):
                            head = tree[3, k, 0]
                            row = S[heads[head, 0]] if single else F[head]
                            found = weighted(row, weights[3], centre - n3, each)
                            totals[3, 0, k], totals[3, 1, k] = found
                        evaluate(0.0, slopes[2, 2], i2, 1, heads, S, F, True)
                        climb(tree[2], counts[2], weights[2, centre + i2], F, True, totals[3], totals[2])
                if begin <= 1:
                    evaluate(slopes[1, 0] * i0, slopes[1, 1], i1, 1, heads, S, F, True)
                climb(
                    tree[1], counts[1], weights[1, centre + i1], F, begin <= 1, totals[2], totals[1]
                )
            if begin <= 0:
                evaluate(0.0, slopes[0, 0], i0, 1, heads, S, F, True)
            climb(tree[0], counts[0], weights[0, centre + i0], F, begin <= 0, totals[1], totals[0])
        out[:, t] = totals[0]
'''
