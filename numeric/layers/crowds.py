"""Brackets ⟨Π_s f_s(z_s)⟩ over all sets of two, three or four of many samples, compiled.

The nodes are those of `several_samples`, whose sums these are: z = B y, a trapezoid rule for each y
within a ball, and from the leaves up one sum for all brackets with the same factors below. There a
level is an array; here it is a loop, for m samples have C(m, 4) sets of four.

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

NODES = 10**8
"""Of all sets together: a second, more or less."""

DIGITS = (26.0, 22.0, 20.0, 18.0, 16.0, 14.0, 12.0)
"""log(1/ε) of the rule, from the best down, where the nodes of all digits are too many."""

_SOME, _CAUTION = 32, 4.0
"""Sets that have all digits, to see what the others lack; what the largest difference is multiplied
by."""

LEVELS, _ROUND = 4, 4
"""Samples that a set has at most; the orders of derivatives are compiled by the four."""

_MOST = 4 * 10**10
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
        self._kernels.sums(B, live, rule.h, rule.reach, tree, *shapes, half, values)
        found = np.take_along_axis(values, self._roots[tree][None], axis=2)
        return np.ascontiguousarray(np.swapaxes(found, 1, 2))

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
            ball = math.pi ** (0.5 * live) / math.gamma(0.5 * live + 1.0) * reach[rows] ** live
            nodes += float(np.nansum(ball / np.prod(h[rows], axis=1)))
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
        loops=_loops(),
    )
    return load_kernels("crowd", f"Averages of {activation.name} over sets.", (), source)


def _loops() -> list[str]:
    """Nested loops over the latent variables of a set."""
    last, lines = LEVELS - 1, list[str]()
    for j in range(LEVELS):
        mean = " + ".join([f"slopes[{j}, {k}] * i{k}" for k in range(j)] or ["0.0"])
        body = [f"n{j} = int(math.sqrt(left{j}) / steps[{j}]) if begin <= {j} < end else 0"]
        start = f"0 if half and begin == {j} else -n{j}"
        if j < last:
            body += [
                f"totals[{j}] = 0.0",
                f"for i{j} in range({start}, n{j} + 1):",
                f"    left{j + 1} = max(left{j} - (steps[{j}] * i{j}) ** 2, 0.0)",
            ]
        else:
            body += [
                f"first = {start}",
                f"count = n{j} + 1 - first",
                f"evaluate({mean}, slopes[{j}, {j}], first, count, heads, S, F, not single)",
                f"for k in range(counts[{j}]):",
                f"    head = tree[{j}, k, 0]",
                "    own = S[heads[head, 0]] if single else F[head]",
                f"    found = weighted(own, weights[{j}], centre + first, count)",
                f"    totals[{j}, 0, k], totals[{j}, 1, k] = found",
            ]
        lines += printer.indented(body, j)
    for j in reversed(range(last)):
        mean = " + ".join([f"slopes[{j}, {k}] * i{k}" for k in range(j)] or ["0.0"])
        body = [
            f"if begin <= {j}:",
            f"    evaluate({mean}, slopes[{j}, {j}], i{j}, 1, heads, S, F, True)",
            f"weight = weights[{j}, centre + i{j}]",
            f"for k in range(counts[{j}]):",
            f"    part = weight * F[tree[{j}, k, 0], 0] if begin <= {j} else 1.0",
            f"    rest = tree[{j}, k, 1]",
            f"    totals[{j}, 0, k] += part * totals[{j + 1}, 0, rest]",
            f"    totals[{j}, 1, k] += abs(part) * totals[{j + 1}, 1, rest]",
        ]
        lines += printer.indented(body, j + 1)
    return lines


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


@entry
def sums(B, ranks, h, reach, which, heads, trees, all_counts, half, out):
    """The sums of each set of samples, those of its tree on top, and of absolute values.

    The samples have the last levels; those before have one node.
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
    steps, slopes = np.empty(levels), np.empty((levels, levels))
    totals = np.zeros((levels, 2, trees.shape[2]))
    for t in range(len(B)):
        if ranks[t] < 0:
            out[:, t] = math.nan
            continue
        end, tree, counts = begin + ranks[t], trees[which[t]], all_counts[which[t]]
        place(B[t], ranks[t], h[t], half, begin, steps, slopes, weights, centre)
        left0 = reach[t] * reach[t]
        $loops
        out[:, t] = totals[0]
'''
