"""Brackets of piecewise analytic σ over several samples: panels that end where positions kink.

The positions are z = B y, K = B Bᵀ. Each y has Gauss and Legendre's rule on panels, which depend on
the y's before it: one ends where a position crosses a kink, or does so on average with a spread of
less than 1. Which derivatives stay outside, with Hermite's polynomials, is told in
`brackets.several_inputs`, whose kernels have the same nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import sympy

from derive.activations.functions import Activation, z
from derive.arithmetic import hermite
from derive.gaussian.shapes import Shape
from derive.work.caches import cache

from ..arrays import Array
from ..brackets import quadrature
from ..brackets.pieces import TRUNCATED, forms, powers
from . import sigma
from .several_samples import factorise

_HELD = 1 << 16
"""Nodes that are held at a time, more or less."""


_ROUGH = 6
"""Nodes of a panel that leave some per mille, or less."""


def averages(
    activation: Activation, shapes: Sequence[Shape], K: Array, *, rough: bool = False
) -> tuple[Array, Array]:
    """Values and sizes, (shapes, t), at t covariances of the positions, (t, d, d); nan where there
    is none. Rough ones are for differences between covariances that all but agree."""
    found = np.array([_at(activation, shapes, each, rough=rough) for each in K])
    return found[..., 0].T, found[..., 1].T


def _at(activation: Activation, shapes: Sequence[Shape], K: Array, *, rough: bool) -> Array:
    """Values and sizes at one covariance, (shapes, 2)."""
    order, B, rank = factorise(K)
    found = np.full((len(shapes), 2), math.nan)
    both = [forms(activation, each) for each in shapes]
    chosen = [regular if rank == len(K) else singular for regular, singular in both]
    live = {k: form for k, form in enumerate(chosen) if form and _exists(activation, form, K)}
    if rank < 0 or not live:
        return found
    M = inverse(order, B, rank)
    Q = M @ M.T
    total = np.zeros((len(live), 2))
    most = max(powers(activation, form) for form in live.values())
    for y, weights in _nodes(activation, B, rank, most, rough=rough):
        at, u = np.empty((len(K), len(weights))), M @ y
        at[order] = B[:, :rank] @ y
        values = _Values(activation, at)
        for row, form in enumerate(live.values()):
            part = weights * values.product(form.orders)
            if any(form.outer):
                part = part * _outside(form.outer)(u, Q)
            total[row] += part.sum(), np.abs(part).sum()
    total[:, 1] *= TRUNCATED[rank]
    found[list(live)] = total
    return found


def _exists(activation: Activation, form: Shape, K: Array) -> bool:
    """Whether the average does: a factor that jumps at 0 has none at z = 0."""
    variances = K.diagonal()
    return not any(
        variances[p] == 0.0 and 0 in activation.jumps(order) for p, order in enumerate(form.orders)
    )


class _Values:
    """σ^{(order)} at the positions' z, (d, nodes), each computed once."""

    def __init__(self, activation: Activation, at: Array) -> None:
        self._activation, self._at = activation, at
        kinks = np.array([float(kink) for kink in activation.kinks])
        self._piece = np.searchsorted(kinks, at)
        self._known: dict[tuple[int, int], Array] = {}

    def product(self, orders: Sequence[int]) -> Array:
        """Π σ^{(order)}(z_p), (nodes,)."""
        total = self._of(0, orders[0])
        for position, order in enumerate(orders[1:], start=1):
            total = total * self._of(position, order)
        return total

    def _of(self, position: int, order: int) -> Array:
        if (position, order) not in self._known:
            at, piece = self._at[position], self._piece[position]
            values = np.empty_like(at)
            for k, function in enumerate(_pieces(self._activation, order)):
                inside = piece == k
                (values[inside],) = function(at[inside])
            self._known[position, order] = values
        return self._known[position, order]


@cache
def _pieces(activation: Activation, order: int) -> tuple[sigma.Functions, ...]:
    return tuple(sigma.compiled((piece.expr.diff(z, order),)) for piece in activation.pieces)


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
    activation: Activation, B: Array, rank: int, most: float, *, rough: bool
) -> Iterator[tuple[Array, Array]]:
    """The nodes y, (rank, nodes), and their weights, a part at a time, for integrands that grow as
    |y|^most."""
    panels = quadrature.PANELS[max(rank, 1) - 1]
    if rough:
        panels = panels._replace(nodes=_ROUGH)
    reach = quadrature.panel_reach(rank, most)
    reach = min(reach + quadrature.rate(activation) * float(np.abs(B).sum()), 38.0)
    rules = [
        _Level(B[:, : level + 1], B[:, level + 1 : rank], activation, panels)
        for level in range(rank)
    ]

    def below(y: Array, weights: Array) -> Iterator[tuple[Array, Array]]:
        level = len(y)
        if level == rank:
            yield y, weights
            return
        step = max(1, _HELD // (8 * panels.nodes))
        for first in range(0, len(weights), step):
            part = slice(first, first + step)
            parent, at, more = rules[level].children(y[:, part], reach)
            up = np.concatenate([y[:, part][:, parent], at[None]])
            yield from below(up, weights[part][parent] * more)

    yield from below(np.zeros((0, 1)), np.ones(1))


class _Level:
    """The rule of one latent variable, given those before it.

    A panel ends where a position crosses a kink. Where it only does so on average, with a spread
    of less than 1, panels resolve that spread; and likewise for the sharpest combination of two.
    """

    def __init__(
        self, B: Array, later: Array, activation: Activation, panels: quadrature.Panels
    ) -> None:
        self._before, self._slope, self._panels = B[:, :-1], B[:, -1], panels
        steepest = float(np.abs(self._slope).max())
        self._width = min(panels.width, quadrature.smooth_width(activation) / steepest)
        self._kinks = np.array([float(kink) for kink in activation.kinks])
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
        nodes, weights = quadrature.legendre(self._panels.nodes)
        x = (centre[:, None] + half[:, None] * nodes).ravel()
        w = (half[:, None] * weights).ravel() * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        parent = np.repeat(panel // widths.shape[1], len(nodes))
        return parent, x, w
