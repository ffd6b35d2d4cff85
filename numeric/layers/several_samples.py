"""Brackets ⟨Π_s f_s(z_s)⟩ over distinct samples s, f_s a product of derivatives of analytic σ.

With z = B y, K = B Bᵀ by Cholesky's method with pivots, z_s is fixed by the first y's alone, so the
nodes are a tree: each node of one level has those of the next y below it, within a ball. A bracket
is summed from the leaves up; those that share factors share their sums, whatever the rest is. The
rule is the trapezoid's on every level (`brackets.quadrature`): derivatives are all inside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import combinations_with_replacement
from itertools import product as product_of
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.errors import InputError, Words
from derive.gaussian.shapes import leibniz
from derive.work.caches import cache

from ..arrays import Array
from ..brackets import quadrature
from ..brackets.quadrature import accuracy, steps
from ..brackets.shapes import MAX_INPUTS, check_inputs
from . import sigma
from .one_sample import product
from .sigma import orders_of

Orders = tuple[int, ...]
"""Of the derivatives of σ at one sample, ascending."""

Suffix: TypeAlias = tuple[Orders, ...]
"""The orders at the samples from some level on."""

Derivatives = Callable[[Orders, Array], Sequence[Array]]
"""σ^{(order)} for each of these orders, at these points."""

Counts = NDArray[np.int64]

FEW = 7
"""Of more samples than these the sets are summed by `many_inputs`, and not each to all digits."""

ROUGH = 5.0
"""log(1/ε) of what errors are carried on with."""

_MOST = 2 * 10**9
"""Nodes that are summed: some minutes."""

_HELD = 1 << 15
"""Nodes that are held at a time, more or less: what fits a processor's cache."""


class Sums:
    """Sums for one set of samples.

    Arguments:
        activation: an analytic σ.
        products: for each bracket the orders at each of the samples, of which four or fewer are
            independent.

    Attributes:
        half: whether −y gives what y does.
    """

    def __init__(self, activation: Activation, products: Sequence[Suffix]) -> None:
        self._activation, self._products = activation, tuple(products)
        self._rule, self._powers = rule(activation, products), _powers(activation, products)
        even = all((sum(order + 1 for order in sum(each, ()))) % 2 == 0 for each in products)
        self.half = activation.is_odd and even

    def __call__(self, K: Array) -> Array:
        """The brackets at K, (d, d), and their sizes: (2, brackets)."""
        nodes = self._rule.nodes(K)
        if nodes is None:
            return np.full((2, len(self._products)), math.nan)
        self._check_cost(nodes.h, nodes.reach)
        values = over_tree(self._derivatives, self._products, nodes, half=self.half)
        values[1] *= 1.0 + math.exp(
            quadrature.ACCURACY[0] - accuracy(len(nodes.h))
        )  # the rule's own error
        return values

    def _derivatives(self, orders: Orders, at: Array) -> Sequence[Array]:
        return sigma.derivatives(self._activation, orders)(at)

    def response(self, K: Array) -> Array:
        """∂⟨F⟩/∂K_st = ½⟨∂_s ∂_t F⟩, s and t apart counted twice: (brackets, d, d).

        To some percent: with it errors in K are carried on.
        """
        order, B, rank = factorise(K)
        scale, size = np.abs(B).max(axis=0)[: max(rank, 0)], np.abs(B).sum()
        raised, coefficients = self._raised
        h = raised.step(scale, len(scale), ROUGH)
        if rank < 0 or np.isnan(h).any():
            return np.full((len(self._products), len(K), len(K)), math.nan)
        self._check_cost(self.step(scale, rank), float(self.reach(rank, size)))
        nodes = Latent(order, B, h, float(raised.reach(rank, size, ROUGH)))
        values, _ = over_tree(raised._derivatives, raised._products, nodes, half=raised.half)
        return np.asarray(np.einsum("kstp,p->kst", coefficients, values))

    @cached_property
    def _raised(self) -> tuple[Sums, Array]:
        """The sums of which ½⟨∂_s ∂_t F⟩ consists, and how often each is in that of each bracket:
        (brackets, d, d, sums)."""
        d, places = len(self._products[0]), dict[Suffix, int]()
        entries = []
        for k, factors in enumerate(self._products):
            for s, t in combinations_with_replacement(range(d), 2):
                parts = (_expanded(each)[(n == s) + (n == t)] for n, each in enumerate(factors))
                for terms in product_of(*(part.items() for part in parts)):
                    place = places.setdefault(tuple(key for key, _ in terms), len(places))
                    entries.append((k, s, t, place, math.prod(count for _, count in terms)))
        coefficients = np.zeros((len(self._products), d, d, len(places)))
        for k, s, t, place, count in entries:
            coefficients[k, s, t, place] += 0.5 * count
            coefficients[k, t, s, place] = coefficients[k, s, t, place]
        return Sums(self._activation, list(places)), coefficients

    def step(self, scale: Array, rank: int, digits: float | None = None) -> Array:
        """The step of each latent variable of `rank`, which the samples have at most these
        multiples of, to so many digits; nan where it is too fine."""
        digits = accuracy(rank) if digits is None else digits
        strips, growth = self._rule.strips, self._rule.growth
        return steps(scale, strips, growth, digits, 3.0 / math.sqrt(digits))

    def reach(self, rank: int, size: Array, digits: float | None = None) -> Array:
        """How far the nodes of `rank` latent variables go, for Σ |B| of this size, to so many
        digits."""
        far = quadrature.reach(rank, self._powers, digits) + self._rule.rate * np.asarray(size)
        return np.asarray(np.minimum(far, 38.0))

    def _check_cost(self, h: Array, reach: float) -> None:
        """Refuse what takes more than some minutes."""
        rank = len(h)
        ball = math.pi ** (0.5 * rank) / math.gamma(0.5 * rank + 1.0) * reach**rank
        nodes = ball / float(np.prod(h))
        if nodes > _MOST:
            wanted = f"kernels, or a σ, for which a sum over {rank} of them has fewer than "
            wanted += f"{_MOST:.0e} nodes: this one has {nodes:.0e}"
            raise InputError("inputs", Words(f"{len(self._products[0])} inputs"), wanted)


def rule(activation: Activation, products: Sequence[Suffix]) -> Rule:
    """The rule for these brackets: the orders at each of the samples."""
    growths = [_growth(activation, tuple(sorted(sum(each, ())))) for each in products]
    most = max((len(orders) for each in products for orders in each), default=0)
    powers = _powers(activation, products)
    return Rule(
        np.array(quadrature.strips(activation)),
        np.max(growths, axis=0),
        quadrature.rate(activation) * most,
        [quadrature.reach(rank, powers) for rank in range(MAX_INPUTS + 1)],
    )


def _powers(activation: Activation, products: Sequence[Suffix]) -> float:
    """As which power of |y| the integrands grow at most."""
    return max(
        sum(quadrature.degree(activation, order) for order in sum(each, ())) for each in products
    )


@cache
def _expanded(orders: Orders) -> tuple[Counter[Orders], ...]:
    """Π σ^{(order)} and its first two derivatives, by Leibniz's rule."""
    return tuple(leibniz(orders, outer) for outer in range(3))


@cache
def _growth(activation: Activation, orders: Orders) -> Array:
    """Of a product of derivatives: the sum of its factors'."""
    columns = [quadrature.growth(activation, [{(order,): 1}]) for order in orders]
    return np.asarray(np.minimum(np.sum(columns, axis=0), quadrature.UNBOUNDED))


class Rule(NamedTuple):
    """The rule of some brackets, as numbers.

    Attributes:
        strips, growth: as `steps` takes them.
        rate: of e^{rate |z|}, as which the brackets' integrand grows at most.
        reaches: by the rank of K, how far the nodes go where it grows as a power.
    """

    strips: Array
    growth: Array
    rate: float
    reaches: Sequence[float]

    def nodes(self, K: Array) -> Latent | None:
        """The nodes at K, (d, d); None where it is no covariance, or where they are too many."""
        order, B, rank = factorise(K)
        check_inputs(rank, "a combination of the others")
        digits = accuracy(max(rank, 0))
        scale = np.abs(B).max(axis=0)[: max(rank, 0)]
        h = steps(scale, self.strips, self.growth, digits, 3.0 / math.sqrt(digits))
        if rank < 0 or np.isnan(h).any():
            return None
        return Latent(
            order, B, h, min(self.reaches[rank] + self.rate * float(np.abs(B).sum()), 38.0)
        )


class Latent(NamedTuple):
    """z = B y as `factorise` has it, the step of each y, and how far its nodes go."""

    order: Sequence[int]
    B: Array
    h: Array
    reach: float


def over_tree(
    derivatives: Derivatives, products: Sequence[Suffix], nodes: Latent, *, half: bool
) -> Array:
    """The brackets of these orders at each sample, and their sizes: (2, brackets)."""
    in_order = [tuple(each[place] for place in nodes.order) for each in products]
    tree = _Tree(derivatives, nodes.B, nodes.h, in_order, half=half)
    root = _Nodes([np.zeros(1)] * len(nodes.order), np.array([nodes.reach**2]))
    below = tree.below(0, root)
    return np.array([below[each] for each in in_order])[:, :, 0].T


class _Nodes(NamedTuple):
    """Nodes of one level: the means of z_s given the latent variables so far, for each sample from
    this level on, and what is left of the ball's squared radius."""

    means: list[Array]
    left: Array

    def part(self, chosen: slice | Counts) -> _Nodes:
        """Some of them."""
        return _Nodes([each[chosen] for each in self.means], self.left[chosen])


class _Tree:
    """The sums over the nodes below those of a level.

    Arguments:
        B: row s gives z_s of the latent variables.
        h: the step of each latent variable.
        products: the orders at each sample, in the order of B's rows.
        half: whether −y gives what y does.
    """

    def __init__(
        self,
        derivatives: Derivatives,
        B: Array,
        h: Array,
        products: Iterable[Suffix],
        *,
        half: bool,
    ) -> None:
        self._derivatives, self._B, self._h, self._half = derivatives, B, h, half
        wanted = list(dict.fromkeys(products))
        self._suffixes = [
            list(dict.fromkeys(each[level:] for each in wanted)) for level in range(len(B) + 1)
        ]

    def below(self, level: int, nodes: _Nodes) -> dict[Suffix, Array]:
        """For each product of the factors from this level on, its sum over the nodes below each of
        these, and the sum of absolute values: (2, nodes)."""
        if level >= len(self._h):
            y, weights = np.zeros(1), np.ones(1)
            return self._leaves(level, nodes, y, weights)
        counts = (np.sqrt(nodes.left) / self._h[level]).astype(np.int64)
        if level == len(self._h) - 1:
            return self._last(level, nodes, counts)
        if len(counts) > 1 and 2 * int(counts.sum()) > _HELD:
            middle = len(counts) // 2
            ends = (0, middle), (middle, len(counts))
            parts = [self.below(level, nodes.part(slice(*each))) for each in ends]
            return {key: np.concatenate([part[key] for part in parts], axis=1) for key in parts[0]}
        return self._inner(level, nodes, counts)

    def _rule(self, level: int, count: int) -> tuple[Array, Array]:
        """Nodes and weights of one latent variable; half of them where the others are alike."""
        half = self._half and level == 0
        y = self._h[level] * np.arange(0 if half else -count, count + 1)
        weights = np.exp(-0.5 * y * y) * (self._h[level] / math.sqrt(2.0 * math.pi))
        if half:
            weights[1:] *= 2.0
        return y, weights

    def _inner(self, level: int, nodes: _Nodes, counts: Counts) -> dict[Suffix, Array]:
        """A level with others below it: as many nodes under each as the ball has room for."""
        most = int(counts.max())
        y, weights = self._rule(level, most)
        centre = most if len(y) > most + 1 else 0
        lengths = 2 * counts + 1 if centre else counts + 1
        starts = np.cumsum(lengths) - lengths
        shift = np.repeat(starts + (counts if centre else 0) - centre, lengths)
        k = np.arange(int(lengths.sum())) - shift
        y, weights = y[k], weights[k]
        means = [
            np.repeat(mean, lengths) + self._B[level + place, level] * y
            for place, mean in enumerate(nodes.means)
        ]
        left = np.maximum(np.repeat(nodes.left, lengths) - y * y, 0.0)
        deeper = self.below(level + 1, _Nodes(means[1:], left))
        factor = self._factors(level, 0, means[0])
        return {
            each: np.add.reduceat(
                weights * _both(factor[each[0]]) * deeper[each[1:]], starts, axis=1
            )
            for each in self._suffixes[level]
        }

    def _last(self, level: int, nodes: _Nodes, counts: Counts) -> dict[Suffix, Array]:
        """The last latent variable: nodes with about as many below them are taken together."""
        if len(counts) * (2 * int(counts.max()) + 1) <= _HELD:
            return self._leaves(level, nodes, *self._rule(level, int(counts.max())))
        order = np.argsort(counts, kind="stable")
        found = {each: np.empty((2, len(counts))) for each in self._suffixes[level]}
        first = 0
        while first < len(order):
            most = int(counts[order[min(first + _HELD // 8, len(order)) - 1]])
            last = min(first + max(1, _HELD // (2 * most + 1)), len(order))
            part = order[first:last]
            most = int(counts[order[last - 1]])
            sums = self._leaves(level, nodes.part(part), *self._rule(level, most))
            for each, values in sums.items():
                found[each][:, part] = values
            first = last
        return found

    def _leaves(self, level: int, nodes: _Nodes, y: Array, weights: Array) -> dict[Suffix, Array]:
        """The same rule below each of these nodes, which fixes all positions that are left."""
        factors = [
            self._factors(level, place, mean[:, None] + self._slope(level + place, level) * y)
            for place, mean in enumerate(nodes.means)
        ]
        known: dict[Suffix, Array] = {(): np.ones((len(nodes.left), len(y)))}
        for each in self._suffixes[level]:
            for start in reversed(range(len(each))):
                tail, rest = each[start:], each[start + 1 :]
                if tail not in known:
                    factor = factors[start - len(each)][tail[0]]
                    known[tail] = factor * known[rest] if rest else factor
        return {
            each: np.array([np.einsum("pk,k->p", part, weights) for part in (value, np.abs(value))])
            for each in self._suffixes[level]
            for value in (known[each],)
        }

    def _slope(self, row: int, level: int) -> float:
        return float(self._B[row, level]) if level < len(self._h) else 0.0

    def _factors(self, level: int, place: int, at: Array) -> dict[Orders, Array]:
        """At these z, each product of derivatives of σ that sample level + place has."""
        heads = sorted({each[place] for each in self._suffixes[level]})
        orders = orders_of(heads)
        derivatives = dict(zip(orders, self._derivatives(orders, at), strict=True))
        products: dict[Orders, Array] = {(): np.ones_like(at)}
        for order in orders:
            products[(order,)] = derivatives[order]
        return {head: product(products, derivatives, head) for head in heads}


def _both(values: Array) -> Array:
    """The values and their absolute values."""
    return np.array([values, np.abs(values)])


def factorise(K: Array) -> tuple[list[int], Array, int]:
    """z = B y for independent normal y, by Cholesky's method with pivots.

    Returns the order (row k of B belongs to sample order[k]), B with its columns from the rank on
    zero, and the rank: −1 where K is not finite or a variance is negative.
    """
    d = len(K)
    order, B = list(range(d)), np.zeros((d, d))
    if not np.isfinite(K).all() or (np.diagonal(K) < 0.0).any():
        return order, B, -1
    scale = np.sqrt(np.diagonal(K))
    inverse = np.divide(1.0, scale, out=np.zeros(d), where=scale > 0.0)
    left = (K * inverse[:, None] * inverse).tolist()
    rows = [[0.0] * d for _ in range(d)]
    rank = 0
    for level in range(d):
        best = level
        for k in range(level + 1, d):
            if left[order[k]][order[k]] > left[order[best]][order[best]] + 1e-9:
                best = k
        pivot = order[best]
        if left[pivot][pivot] <= 1e-13:
            break
        order[level], order[best] = order[best], order[level]
        rows[level], rows[best] = rows[best], rows[level]
        root = math.sqrt(left[pivot][pivot])
        rows[level][level] = root
        for k in range(level + 1, d):
            rows[k][level] = left[order[k]][pivot] / root
        for k in range(level + 1, d):
            for j in range(level + 1, d):
                left[order[k]][order[j]] -= rows[k][level] * rows[j][level]
        rank += 1
    return order, np.array(rows) * scale[order][:, None], rank
