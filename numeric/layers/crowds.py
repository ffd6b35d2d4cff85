"""Brackets ⟨Π_s f_s(z_s)⟩ over all sets of two, three or four of many samples, compiled.

The nodes are those of `several_samples`, whose sums these are: z = B y, a trapezoid rule for each y
within a ball, and from the leaves up one sum for all brackets with the same factors below. There a
level is an array; here it is a loop, for m samples have C(m, 4) sets of four.

Four samples have as many digits as `NODES` of them allow: what the rule leaves out is in the sizes
that are returned, with which errors are carried on (`accuracy`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import permutations
from types import ModuleType
from typing import TypeAlias

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
from .several_samples import Orders, Sums, Suffix

FEW = 8
"""As many samples as have each set's sums to all digits, by `several_samples`."""

NODES = 5 * 10**7
"""Of all sets together: a second, more or less."""

DIGITS = (26.0, 22.0, 18.0, 15.0, 12.0)
"""log(1/ε) of the rule, from the best down, where the nodes of all digits are too many."""

_MOST = 4 * 10**10
"""Nodes that are refused: some minutes."""

Counts: TypeAlias = "NDArray[np.int64]"


class Crowd:
    """Sums for sets of d of many samples.

    Arguments:
        activation: an analytic σ.
        products: for each bracket the orders at each of the d samples, ascending.
    """

    def __init__(self, activation: Activation, products: Sequence[Suffix]) -> None:
        self._rule = Sums(activation, products)
        d = len(products[0])
        heads = tuple(sorted({head for each in products for head in each}))
        self._kernels = _kernels(activation, d, heads)
        self._orders = np.array(list(permutations(range(d))))
        trees = [_tree(products, order, heads) for order in self._orders.tolist()]
        most = max(len(level) for levels, _ in trees for level in levels)
        self._trees = np.zeros((len(trees), d, most, 2), np.int64)
        self._counts = np.array([[len(level) for level in levels] for levels, _ in trees])
        for tree, (levels, _) in zip(self._trees, trees, strict=True):
            for place, level in enumerate(levels):
                tree[place, : len(level)] = level
        self._roots = np.array([roots for _, roots in trees])

    def __call__(self, K: Array, sets: Counts) -> Array:
        """The brackets at K, (m, m), of each set, (sets, d), and their sizes: (2, sets, brackets).

        nan where K is no covariance, and where σ varies too fast for a rule.

        Raises InputError where few digits take more than some minutes.
        """
        d = sets.shape[1]
        order, B, rank = np.empty(sets.shape, np.int64), np.empty((*sets.shape, d)), sets[:, 0] * 0
        self._kernels.factorise_all(K, sets, order, B, rank)
        h, reach, lost = self._nodes(B, rank)
        places = d ** np.arange(d)
        which = np.zeros(d**d, np.int64)
        which[self._orders @ places] = np.arange(len(self._orders))
        tree = which[order @ places]
        values = np.empty((2, len(sets), self._roots.shape[1]))
        live = np.where(np.isfinite(h).all(axis=1), rank, -1)
        kernel = self._kernels.sums
        kernel(B, live, h, reach, tree, self._trees, self._counts, self._rule.half, values)
        found = np.take_along_axis(values, self._roots[tree][None], axis=2)
        found[1] *= 1.0 + np.exp(quadrature.ACCURACY[0] - lost)[:, None]
        return np.asarray(found)

    def _nodes(self, B: Array, rank: Counts) -> tuple[Array, Array, Array]:
        """Steps (sets, d), reach and log(1/ε) of each set, as good as can be afforded."""
        scale, size = np.abs(B).max(axis=1), np.abs(B).sum(axis=(1, 2))
        nodes = math.inf
        for most in (math.inf, *DIGITS):
            h, reach, digits = np.ones(scale.shape), np.empty(len(B)), np.empty(len(B))
            nodes = 0.0
            for live in set(rank.tolist()) - {-1}:
                rows = rank == live
                digits[rows] = kept = min(quadrature.accuracy(live), most)
                h[rows, :live] = self._rule.step(scale[rows, :live], live, kept)
                reach[rows] = self._rule.reach(live, size[rows], kept)
                ball = math.pi ** (0.5 * live) / math.gamma(0.5 * live + 1.0) * reach[rows] ** live
                nodes += float(np.nansum(ball / np.prod(h[rows], axis=1)))
            nodes *= 0.5 if self._rule.half else 1.0
            if nodes <= NODES:
                break
        if nodes > _MOST:
            wanted = f"kernels, or a σ, for which averages have fewer than {number(_MOST)} nodes: "
            raise InputError("inputs", f"{len(B)} sets", f"{wanted}here {number(int(nodes))}")
        return h, reach, digits


def _tree(
    products: Sequence[Suffix], order: Sequence[int], heads: Sequence[Orders]
) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """For samples in this order: at each level what is summed, as the place of its factor and that
    of the rest a level down; and the place of each product on top."""
    ordered = [tuple(each[place] for place in order) for each in products]
    below: dict[Suffix, int] = {(): 0}
    levels: list[list[tuple[int, int]]] = []
    for level in reversed(range(len(order))):
        here = {suffix: k for k, suffix in enumerate(dict.fromkeys(e[level:] for e in ordered))}
        levels.append([(heads.index(suffix[0]), below[suffix[1:]]) for suffix in here])
        below = here
    return levels[::-1], [below[each] for each in ordered]


@cache
def _kernels(activation: Activation, d: int, heads: tuple[Orders, ...]) -> ModuleType:
    """The compiled loops of d samples."""
    highest = max((order for head in heads for order in head), default=0)
    factors = [
        f"F[{k}, i] = {' * '.join(f's[{order}]' for order in head) or '1.0'}"
        for k, head in enumerate(heads)
    ]
    source = printer.filled(
        _SUMS,
        sigma=sigma_source(activation, highest + 1).splitlines(),
        factors=factors,
        factorise=quadrature.FACTORISE_SOURCE.splitlines(),
        most=len(heads),
        d=d,
        loops=_loops(d),
    )
    return load_kernels("crowd", f"Averages of {activation.name} over {d} samples.", (), source)


def _loops(d: int) -> list[str]:
    """Nested loops over the latent variables of a set."""
    lines: list[str] = []
    for j in range(d):
        body = [
            f"totals[{j}, :, :] = 0.0",
            f"n{j} = int(math.sqrt(left{j}) / h[t, {j}]) if {j} < rank else 0",
        ]
        if j == d - 1:
            mean = " + ".join([f"B[t, {j}, {k}] * v{k}" for k in range(j)] or ["0.0"])
            body += [
                f"first = centre - n{j} if not (half and {j} == 0) else centre",
                f"count = centre + n{j} + 1 - first",
                f"mean, slope = {mean}, B[t, {j}, {j}] * h[t, {j}]",
                "for i in range(count):",
                "    factors(mean + slope * (first - centre + i), F, i)",
                f"for k in range(counts[at, {j}]):",
                f"    value, size = weighted(F[trees[at, {j}, k, 0]], weights[{j}], first, count)",
                f"    totals[{j}, 0, k], totals[{j}, 1, k] = value, size",
            ]
        else:
            mean = "".join(f"B[t, {j}, {k}] * v{k} + " for k in range(j))
            body += [
                f"for i{j} in range(0 if half and {j} == 0 else -n{j}, n{j} + 1):",
                f"    v{j} = h[t, {j}] * i{j}",
                f"    left{j + 1} = max(left{j} - v{j} * v{j}, 0.0)",
            ]
        lines += printer.indented(body, j)
    for j in reversed(range(d - 1)):
        mean = "".join(f"B[t, {j}, {k}] * v{k} + " for k in range(j))
        body = [
            f"factors({mean}B[t, {j}, {j}] * v{j}, G, {j})",
            f"weight = weights[{j}, centre + i{j}]",
            f"for k in range(counts[at, {j}]):",
            f"    part = weight * G[trees[at, {j}, k, 0], {j}]",
            f"    rest = trees[at, {j}, k, 1]",
            f"    totals[{j}, 0, k] += part * totals[{j + 1}, 0, rest]",
            f"    totals[{j}, 1, k] += abs(part) * totals[{j + 1}, 1, rest]",
        ]
        lines += printer.indented(body, j + 1)
    return lines


_SUMS = '''\
$sigma


@scalar
def factors(z, F, i):
    """What the products have at one sample."""
    s = sigma(z)
    $factors


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


@entry
def sums(B, ranks, h, reach, tree, trees, counts, half, out):
    """The sums of each set of samples, those of its tree on top, and of absolute values."""
    wide_vectors()
    most = 0
    for t in range(len(B)):
        for j in range(ranks[t]):
            most = max(most, int(reach[t] / h[t, j]) + 1)
    centre = most
    weights = np.empty(($d, 2 * most + 1))
    F, G = np.empty(($most, 2 * most + 1)), np.empty(($most, $d))
    totals = np.zeros(($d, 2, trees.shape[2]))
    for t in range(len(B)):
        rank, at = ranks[t], tree[t]
        if rank < 0:
            out[:, t] = math.nan
            continue
        for j in range($d):
            if j >= rank:
                weights[j] = 1.0
                continue
            for i in range(-most, most + 1):
                y = h[t, j] * i
                weight = h[t, j] / math.sqrt(2.0 * math.pi) * math.exp(-0.5 * y * y)
                weights[j, centre + i] = weight * (2.0 if half and j == 0 and i > 0 else 1.0)
        left0 = reach[t] * reach[t]
        $loops
        for k in range(counts[at, 0]):
            out[0, t, k], out[1, t, k] = totals[0, 0, k], totals[0, 1, k]
'''
