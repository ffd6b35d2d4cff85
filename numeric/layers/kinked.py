"""Brackets of piecewise analytic σ over several samples: panels that end where positions kink.

The positions are z = B y, K = B Bᵀ. Each y has Gauss and Legendre's rule on panels, which depend on
the y's before it: one ends where a position crosses a kink, or does so on average with a spread of
less than 1. A derivative goes inside where σ has no jump; the
others stay outside, ⟨∂^k F⟩ = ⟨F H_k(G z, G)⟩ with G = K⁻¹. A singular K says nothing about
derivatives across its range: there *all* stay outside, with any G for which K G K = K; their
contractions with tensors in the range of K are right, and a recursion asks for no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sympy

from derive.activations.functions import Activation, z
from derive.arithmetic import hermite
from derive.gaussian.shapes import Shape
from derive.work.caches import cache

from ..arrays import Array
from ..brackets import quadrature
from ..brackets.pieces import TRUNCATED, forms, powers
from ..brackets.quadrature import PANELS, Panels, legendre
from ..brackets.shapes import MAX_INPUTS, check_inputs
from .several_samples import factorise
from .sigma import Functions, compiled

_ON_PANELS = 1 << 16
"""Nodes that are held at a time, more or less."""


_ROUGH = 6
"""Nodes of a panel that leave some per mille, or less."""


def averages(
    activation: Activation, shapes: Sequence[Shape], K: Array, *, rough: bool = False
) -> tuple[Array, Array]:
    """Values and sizes, (shapes, t), at t covariances of the positions, (t, d, d); nan where there
    is none. Rough ones are for differences between covariances that all but agree."""
    panels = [each._replace(nodes=_ROUGH) for each in PANELS] if rough else PANELS
    return of_sigma(activation, tuple(shapes)).averages(shapes, K, panels)


@cache
def of_sigma(activation: Activation, shapes: tuple[Shape, ...]) -> Kinked:
    """The pieces of σ that brackets of these shapes need."""
    known = {shape: forms(activation, shape) for shape in shapes}
    used = {form for both in known.values() for form in both if form}
    orders = {order for form in used for order in form.orders}
    kinks = np.array([float(kink) for kink in activation.kinks])

    def derivative(order: int, at: Array) -> Array:
        piece, values = np.searchsorted(kinks, at), np.empty_like(at)
        for k, function in enumerate(_pieces(activation, order)):
            inside = piece == k
            (values[inside],) = function(at[inside])
        return values

    return Kinked(
        kinks,
        quadrature.smooth_width(activation),
        quadrature.rate(activation),
        derivative,
        _outside,
        tuple(order for order in sorted(orders) if 0 in activation.jumps(order)),
        known,
        {form: _reaches(powers(activation, form)) for form in sorted(used)},
    )


@cache
def _reaches(most: float) -> tuple[float, ...]:
    """By the rank of K, for integrands that grow as |y|^most."""
    return tuple(quadrature.panel_reach(rank, most) for rank in range(MAX_INPUTS + 1))


class Kinked(NamedTuple):
    """The pieces of σ that brackets of some shapes need.

    Attributes:
        kinks: ascending.
        width: of a panel in z, at most.
        rate: of e^{rate |z|}, as which σ grows.
        derivative: σ^{(order)} of an order, at these z.
        outside: of the derivatives outside a bracket at each position, Hermite's polynomial of
            u = M y, (d, nodes), and Q = M Mᵀ.
        jumping: the orders of derivatives that jump at 0.
        forms: of each shape, for regular and for singular K.
        reaches: of each form, by the rank of K, how far the nodes go.
    """

    kinks: Array
    width: float
    rate: float
    derivative: Callable[[int, Array], Array]
    outside: Callable[[tuple[int, ...]], Callable[[Array, Array], Array]]
    jumping: Sequence[int]
    forms: Mapping[Shape, tuple[Shape, Shape | None]]
    reaches: Mapping[Shape, Sequence[float]]

    def averages(
        self, shapes: Sequence[Shape], K: Array, panels: Sequence[Panels]
    ) -> tuple[Array, Array]:
        """Values and sizes, (shapes, t), at covariances of the positions, (t, d, d)."""
        found = np.array([self._at(shapes, each, panels) for each in K])
        return found[..., 0].T, found[..., 1].T

    def _at(self, shapes: Sequence[Shape], K: Array, panels: Sequence[Panels]) -> Array:
        """Values and sizes at one covariance, (shapes, 2)."""
        latent = _, B, rank = factorise(K)
        check_inputs(rank, "a combination of the others")
        found = np.full((len(shapes), 2), math.nan)
        chosen = [self.forms[each][0 if rank == len(K) else 1] for each in shapes]
        live = {k: form for k, form in enumerate(chosen) if form and self._exists(form, K)}
        if rank < 0 or not live:
            return found
        reach = max(self.reaches[form][rank] for form in live.values())
        reach = min(reach + self.rate * float(np.abs(B).sum()), 38.0)
        total = self._summed(list(live.values()), latent, panels[max(rank, 1) - 1], reach)
        total[:, 1] *= TRUNCATED[rank]
        found[list(live)] = total
        return found

    def _exists(self, form: Shape, K: Array) -> bool:
        """True if the average does: a factor that jumps at 0 has none at z = 0."""
        variances = K.diagonal()
        return not any(
            variances[p] == 0.0 and order in self.jumping for p, order in enumerate(form.orders)
        )

    def _summed(
        self,
        wanted: Sequence[Shape],
        latent: tuple[Sequence[int], Array, int],
        panels: Panels,
        reach: float,
    ) -> Array:
        """Values and sizes, (shapes, 2), at z = B y as `factorise` has it, |y| ≤ reach."""
        order, B, rank = latent
        M = inverse(order, B, rank)
        Q, total = M @ M.T, np.zeros((len(wanted), 2))
        for y, weights in _nodes(B[:, :rank], self.kinks, self.width, panels, reach):
            at = np.empty((len(B), len(weights)))
            at[order] = B[:, :rank] @ y
            known: dict[tuple[int, int], Array] = {}
            for row, (orders, outer) in enumerate(wanted):
                part = weights
                for each in enumerate(orders):
                    if each not in known:
                        known[each] = self.derivative(each[1], at[each[0]])
                    part = part * known[each]
                if any(outer):
                    part = part * self.outside(outer)(M @ y, Q)
                total[row] += part.sum(), np.abs(part).sum()
        return total


@cache
def _pieces(activation: Activation, order: int) -> tuple[Functions, ...]:
    return tuple(compiled((piece.expr.diff(z, order),)) for piece in activation.pieces)


@cache
def _outside(outer: tuple[int, ...]) -> Callable[[Array, Array], Array]:
    """Hermite's polynomial for these derivatives, of u = M y, (d, nodes), and Q = M Mᵀ."""
    polynomial, u, Q = hermite.polynomial(outer)
    evaluate = sympy.lambdify([u, list(Q.values())], polynomial, "numpy", cse=True)
    active = [p for p, count in enumerate(outer) if count]
    pairs = list(Q)

    def values(of_nodes: Array, among: Array) -> Array:
        return np.asarray(evaluate([of_nodes[p] for p in active], [among[pair] for pair in pairs]))

    return values


def inverse(order: Sequence[int], B: Array, rank: int) -> Array:
    """M with M Mᵀ the pseudo-inverse of K: the basis of B's range dual to its columns."""
    if rank == len(B):  # in units of each row, however far apart they are
        scale = np.abs(B).max(axis=1)[:, None]
        M = np.empty_like(B)
        M[list(order)] = np.linalg.inv(B / scale).T / scale
        return M
    Q, R = np.linalg.qr(B[:, :rank])
    M = np.empty((len(B), rank))
    M[list(order)] = np.linalg.solve(R, Q.T).T
    return M


def _nodes(
    B: Array, kinks: Array, width: float, panels: Panels, reach: float
) -> Iterator[tuple[Array, Array]]:
    """The nodes y, (rank, nodes), and their weights, a part at a time."""
    rank = B.shape[1]
    rules = [
        Level(B[:, : level + 1], B[:, level + 1 :], kinks, width, panels) for level in range(rank)
    ]

    def below(y: Array, weights: Array) -> Iterator[tuple[Array, Array]]:
        level = len(y)
        if level == rank:
            yield y, weights
            return
        step = max(1, _ON_PANELS // (8 * panels.nodes))
        for first in range(0, len(weights), step):
            part = slice(first, first + step)
            parent, at, more = rules[level].children(y[:, part], reach)
            up = np.concatenate([y[:, part][:, parent], at[None]])
            yield from below(up, weights[part][parent] * more)

    yield from below(np.zeros((0, 1)), np.ones(1))


class Level:
    """The rule of one latent variable, given those before it.

    A panel ends where a position crosses a kink. Where it only does so on average, with a spread
    of less than 1, panels resolve that spread; and likewise for the sharpest combination of two.
    """

    def __init__(self, B: Array, later: Array, kinks: Array, width: float, panels: Panels) -> None:
        self._before, self._slope, self._panels = B[:, :-1], B[:, -1], panels
        steepest = float(np.abs(self._slope).max())
        self._width = min(panels.width, width / steepest)
        self._kinks = kinks
        self._cuts = list(self._combinations(later))

    def _combinations(self, later: Array) -> Iterator[tuple[Array, float, Array]]:
        """For each combination c z_k + s z_m: its row (c, s) of the positions, the spread, and the
        values, times (c, s), that are a kink of either."""
        d, level = len(self._slope), self._before.shape[1]
        for k in range(level, d):
            for m in range(min(level + 1, k), k + 1):
                row = np.zeros(d)
                if m < k:
                    angle = 0.5 * math.atan2(
                        -2.0 * float(later[k] @ later[m]),
                        float(later[m] @ later[m] - later[k] @ later[k]),
                    )
                    row[k], row[m] = math.cos(angle), math.sin(angle)
                    at = (row[k] * self._kinks[:, None] + row[m] * self._kinks).ravel()
                else:
                    row[k], at = 1.0, self._kinks
                slope = float(row @ self._slope)
                whole = abs(self._slope[k]) + abs(self._slope[m])
                if abs(slope) <= 1e-12 * whole:
                    continue
                spread = math.sqrt(float(((row @ later) ** 2).sum())) / abs(slope)
                if spread < 1.0:
                    yield row / slope, spread, at / slope

    def children(self, y: Array, reach: float) -> tuple[Array, Array, Array]:
        """For parents y, (level, n): the parent of each node, the nodes and their weights."""
        left = np.sqrt(np.maximum(reach**2 - (y * y).sum(axis=0), 0.0))
        means = self._before @ y
        cuts = [-left, left]
        for row, spread, at in self._cuts:
            centre = at[:, None] - row @ means
            for side in range(-2, 3) if spread else (0,):
                cuts += list(np.clip(centre + 0.5 * side * reach * spread, -left, left))
        ends = np.sort(np.array(cuts), axis=0).T
        widths = np.diff(ends, axis=1)
        parts = np.ceil(widths / self._width).astype(np.int64)
        whole = parts.ravel()
        panel = np.repeat(np.arange(whole.size), whole)
        place = np.arange(len(panel)) - np.repeat(np.cumsum(whole) - whole, whole)
        half = 0.5 * (widths.ravel() / np.maximum(whole, 1))[panel]
        centre = ends[:, :-1].ravel()[panel] + (2 * place + 1) * half
        nodes, weights = legendre(self._panels.nodes)
        x = (centre[:, None] + half[:, None] * nodes).ravel()
        w = (half[:, None] * weights).ravel() * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        parent = np.repeat(panel // widths.shape[1], len(nodes))
        return parent, x, w
