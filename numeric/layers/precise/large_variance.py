"""Averages ⟨F_1(z_1) F_2(z_2)⟩ over two samples of which one, or both, vary far, to many digits.

The nodes are those of `layers.broad`: z_1 = c sinh u with even u; z_2 likewise where its spread t
given z_1 is 1 or more and its mean μ is not far from 0, else evenly spaced around μ. Their number
grows as log K, that of a lattice in proportion to K. Rounding is in the balls. What the rule itself
leaves out is not proved: twice the difference to a sum with wider steps is added to the radius,
which errs by e^{−goal/1.06} where the rule errs by e^{−goal}.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
from flint import arb, arb_mat, ctx

from derive.activations.functions import Activation
from derive.arithmetic.balls import Matrix
from derive.work.caches import cache

from ...brackets import quadrature
from . import functions

Orders: TypeAlias = "tuple[int, ...]"
Pair: TypeAlias = "tuple[Orders, ...]"
"""For each of two samples the orders of the derivatives of σ that are multiplied."""

_WIDER = 1.0625
_ENTRY, _NODE = 2e-6, 6e-7
"""Seconds of an entry of the matrix between two stretched samples, and of a node's functions, at
some 50 digits."""
_MARGIN = 8.0
"""The part beyond the last node, in units of the goal: log of the inverse."""
_FRACTION = 40
"""Steps are multiples of 2^{−40}, so that they are exact."""


class Sums:
    """The averages of these products.

    Arguments:
        activation: analytic.
        products: none whose average vanishes because σ is odd.
    """

    def __init__(self, activation: Activation, products: Sequence[Pair]) -> None:
        self._activation, self._products = activation, list(products)
        self._heads = [list(dict.fromkeys(each[k] for each in products)) for k in (0, 1)]
        self._every = tuple(sorted({head for heads in self._heads for head in heads}))
        self._power = max(
            sum(quadrature.degree(activation, order) for order in chain(*each)) for each in products
        )

    def fits(self, K: Matrix) -> bool:
        """True if a sample varies so far, and σ settles far out."""
        widest = max(float(K[k][k].mid()) for k in (0, 1))
        goal = quadrature.ACCURACY[1]
        return widest >= quadrature.STRETCHED**2 and bool(
            _step(self._activation, self._every, goal)
        )

    def seconds(self, K: Matrix, goal: float) -> float:
        """How long the sums take at some 50 digits, more or less."""
        at = _Kernel(K)
        goal = self._goal(at, goal)
        step = _step(self._activation, self._every, goal)
        outer = len(_stretched(self._activation, step, at.reach(goal) * float(at.scale)))
        inner = 2.0 * at.reach(goal) * math.sqrt(2.0 * goal) / (0.8 * 2.0 * math.pi)
        entries = outer * _ENTRY if float(at.rest) >= 1.0 else 0.0
        heads = sum(map(len, self._heads))
        each = entries + inner * _NODE * (2 + heads)
        return 2.0 * outer * each / (1 + self._activation.is_odd)

    def _goal(self, at: _Kernel, goal: float) -> float:
        """Of a function that grows as a power of z, absolutely."""
        return goal + self._power * math.log1p(float(at.scale)) + 2.0

    def __call__(self, K: Matrix, goal: float) -> list[arb]:
        """The averages at a kernel of rank two: its middle.

        Arguments:
            goal: log of the inverse of the error.
        """
        at = _Kernel(K)
        goal = self._goal(at, goal)
        with ctx.workprec(ctx.prec + at.lost):
            fine, wide = (self._summed(at, goal, wider) for wider in (1.0, _WIDER))
        heads = self._heads[::-1] if at.swapped else self._heads
        found = []
        for each in self._products:
            one, two = each[::-1] if at.swapped else each
            place = heads[0].index(one), heads[1].index(two)
            value = +fine[place]
            found.append(value + arb(0, (2 * abs(fine[place] - wide[place])).upper()))
        return found

    def _summed(self, at: _Kernel, goal: float, wider: float) -> arb_mat:
        """The sums for all pairs of heads of the broader sample and of the other."""
        step = _floored(wider * _step(self._activation, self._every, goal))
        far, reach = math.sqrt(2.0 * goal), at.reach(goal)
        outer = _stretched(self._activation, step, reach * float(at.scale))
        if self._activation.is_odd:  # every product is even in both together
            outer = [(z, w if z.is_zero() else 2 * w) for z, w in outer if z >= 0]
        rest, slope = float(at.rest), float(at.slope)
        density = 1 / ((2 * arb.pi()).sqrt() * at.scale)
        rate = -1 / (2 * at.scale**2)
        outer = [(z, w * density * (rate * z * z).exp()) for z, w in outer]
        near = [each for each in outer if rest >= 1.0 and abs(slope * float(each[0])) <= far * rest]
        others = [each for each in outer if rest < 1.0 or abs(slope * float(each[0])) > far * rest]
        heads = self._heads[::-1] if at.swapped else self._heads
        total = arb_mat(len(heads[0]), len(heads[1]))
        if near:
            inner = _stretched(self._activation, step, (far + reach) * rest)
            total += self._both_stretched(at, near, inner, heads, reach)
        if others:
            total += self._one_stretched(at, others, self._even(rest, goal, wider, reach), heads)
        return total

    def _both_stretched(
        self,
        at: _Kernel,
        outer: Sequence[tuple[arb, arb]],
        inner: Sequence[tuple[arb, arb]],
        heads: Sequence[Sequence[Orders]],
        reach: float,
    ) -> arb_mat:
        rate, most = -1 / (2 * at.rest**2), reach * float(at.rest)
        density = 1 / ((2 * arb.pi()).sqrt() * at.rest)
        xs = [(x, float(x)) for x, _ in inner]
        zero, rows = arb(0), []
        for z, _ in outer:
            mean = at.slope * z
            middle = float(mean)
            rows.append(
                [
                    (rate * (d := x - mean) * d).exp() if abs(near - middle) < most else zero
                    for x, near in xs
                ]
            )
        left = self._weighted(heads[0], [z for z, _ in outer], [w for _, w in outer])
        right = self._weighted(heads[1], [x for x, _ in inner], [density * w for _, w in inner])
        return left * (arb_mat(rows) * right.transpose())

    def _one_stretched(
        self,
        at: _Kernel,
        outer: Sequence[tuple[arb, arb]],
        inner: Sequence[tuple[arb, arb]],
        heads: Sequence[Sequence[Orders]],
    ) -> arb_mat:
        ys, weights = [at.rest * y for y, _ in inner], [w for _, w in inner]
        ones = arb_mat(len(ys), 1, [arb(1)] * len(ys))
        given = []
        for z, _ in outer:
            mean = at.slope * z
            given += (self._weighted(heads[1], [mean + y for y in ys], weights) * ones).entries()
        left = self._weighted(heads[0], [z for z, _ in outer], [w for _, w in outer])
        return left * arb_mat(len(outer), len(heads[1]), given)

    def _even(self, rest: float, goal: float, wider: float, reach: float) -> list[tuple[arb, arb]]:
        """Nodes y and weights of a normal variable."""
        step = 0.8 * 2.0 * math.pi / math.sqrt(2.0 * goal)
        if rest < 1.0:
            strips = np.array(quadrature.strips(self._activation))
            growth = np.array(_growth(self._activation, self._every))
            step = float(quadrature.steps(np.array(rest), strips, growth, goal, step))
        step = _floored(wider * step)
        scale = step / (2 * arb.pi()).sqrt()
        most = math.ceil(reach / step)
        return [
            (y, scale * (-y * y / 2).exp()) for y in (k * arb(step) for k in range(-most, most + 1))
        ]

    def _weighted(
        self, heads: Sequence[Orders], nodes: Sequence[arb], weights: Sequence[arb]
    ) -> arb_mat:
        """Each product of derivatives of σ at the nodes, times their weights."""
        values = functions.products(self._activation, tuple(heads), ctx.prec)
        columns = ([w * each for each in values(z)] for z, w in zip(nodes, weights, strict=True))
        return arb_mat(list(columns)).transpose()


class _Kernel:
    """z_1 ~ N(0, scale²), z_2 = slope z_1 + rest y, z_1 the broader one; `swapped` if that is the
    second. `lost` are the bits that the variance that is left has fewer than both."""

    def __init__(self, K: Matrix) -> None:
        (a, b), (_, c) = [[each.mid() for each in row] for row in K]
        self.swapped = bool(c > a)
        a, c = (c, a) if self.swapped else (a, c)
        self.scale, self.slope = a.sqrt(), b / a
        left = c - b * self.slope
        self.rest = left.lower().max(arb(0)).sqrt() if not left > 0 else left.sqrt()
        self.lost = 20 + max(0, math.ceil(math.log2(max(float(c / left.abs_lower()), 1.0))))

    def reach(self, goal: float) -> float:
        """How many standard deviations the nodes go."""
        return math.sqrt(2.0 * (goal + _MARGIN + 2.0 * math.log1p(float(self.scale))))


def _stretched(activation: Activation, step: float, end: float) -> list[tuple[arb, arb]]:
    """z = c sinh u as far as |z| = end, and dz."""
    near = quadrature.stretch(activation)
    count = math.ceil(math.asinh(end / near) / step)
    c, h = arb(near), arb(step)
    us = [k * h for k in range(-count, count + 1)]
    return [(c * u.sinh(), c * h * u.cosh()) for u in us]


def _floored(step: float) -> float:
    return math.floor(math.ldexp(step, _FRACTION)) * 2.0**-_FRACTION


@cache(entries=1024)
def _step(activation: Activation, heads: tuple[Orders, ...], goal: float) -> float:
    """In u, for all of these functions; 0 where there is none, as for σ that oscillates."""
    if activation.is_polynomial:
        return 0.0
    parts = [({head: 1}, 0) for head in heads]
    return quadrature.stretched_step(activation, parts, goal, math.sqrt(2.0 * goal))


@cache(entries=256)
def _growth(activation: Activation, heads: tuple[Orders, ...]) -> tuple[float, ...]:
    return quadrature.growth(activation, [{head: 1} for head in heads])
