"""Brackets with every position at one z ~ N(0, K), for many K at once and all shapes together.

The rules, their steps and the forms by parts are those of `brackets.one_input`, which prints them
as loops over z; here z is an array, and what is summed are the products of σ's derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from derive.activations.functions import Activation

from ..arrays import Array
from ..brackets import quadrature
from ..brackets.one_input import Terms, distribution, limit, smooth_sums
from ..brackets.shapes import SingleShape, is_even
from . import sigma

Averages = Callable[[Array], tuple[Array, Array]]
"""Of K, (c,): the brackets, (shapes, c), and their sizes, the sums of the absolute values of what is
added up: the rounding error is machine epsilon times a small multiple of that."""

_REACH = math.sqrt(2.0 * quadrature.ACCURACY[0])
_BLOCK = 4096
"""Nodes that are summed at a time, at most."""


def averages(activation: Activation, shapes: Sequence[SingleShape]) -> Averages:
    """The brackets of these shapes. K = 0 gives the limit, ±inf where there is none; where σ
    varies too fast for the quadrature they are nan."""
    return (_Smooth if activation.is_smooth else _Kinked)(activation, shapes)


class _Row(NamedTuple):
    """A sum over the nodes: Π σ^{(order)} He_degree(z/√K)."""

    factors: tuple[int, ...]
    degree: int


class _Smooth:
    """For analytic σ: the trapezoid rule, each outer derivative inside and by parts."""

    def __init__(self, activation: Activation, shapes: Sequence[SingleShape]) -> None:
        self._odd = activation.is_odd
        self._kept = [k for k, each in enumerate(shapes) if not self._odd or is_even(*each)]
        self._count = len(shapes)
        sums = smooth_sums(activation, [shapes[k] for k in self._kept])
        near = [(terms, 0) for terms in sums.integrands[: sums.near]]
        far = [(sums.integrands[part[0]], part[1]) if part else None for part in sums.far]
        self._near_rows, self._near = _rows(near)
        self._far_rows, self._far = _rows([part or ({}, 0) for part in far])
        self._far_degree = np.array([part[1] if part else 0 for part in far])[:, None]
        self._degree = sums.degree
        self._orders = sigma.orders_of([row.factors for row in self._near_rows + self._far_rows])
        self._sigma = sigma.derivatives(activation, self._orders)
        self._strips = np.array(quadrature.strips(activation))
        self._growth = np.array(sums.growth)
        self._stretch, self._stretched_step = sums.stretch, sums.stretched_step

    def __call__(self, K: Array) -> tuple[Array, Array]:
        values = np.zeros((2, self._count, len(K)))
        if self._kept:
            values[:, :, ~((K >= 0.0) & (K < math.inf))] = math.nan
            live = np.flatnonzero((K >= 0.0) & (K < math.inf))
            scale = np.sqrt(K[live])
            h = quadrature.steps(scale, self._strips, self._growth, 0, 0.5, self._degree)
            stretched = self._is_stretched(scale, h)
            for part in np.flatnonzero(~stretched), np.flatnonzero(stretched):
                if part.size:
                    values[np.ix_((0, 1), self._kept, live[part])] = self._summed(
                        scale[part], h[part], is_stretched=bool(stretched[part[0]])
                    )
        return values[0], values[1]

    def _is_stretched(self, scale: Array, h: Array) -> Array:
        """Where the sum over z = c sinh u has fewer nodes."""
        if not self._stretched_step:
            return np.zeros(len(scale), bool)
        nodes = np.arcsinh(quadrature.NEAR_REACH * scale / self._stretch) / self._stretched_step
        fewer = ~(nodes >= quadrature.NEAR_REACH / h)
        return np.asarray((scale >= quadrature.STRETCHED) & fewer)

    def _summed(self, scale: Array, h: Array, *, is_stretched: bool) -> Array:
        """The kept brackets and their sizes, (2, kept, c)."""
        by_parts = bool(self._degree) and bool((scale >= 1.0).any())  # below, K^{-m/2} is no help
        rows = self._near_rows + (self._far_rows if by_parts else [])
        if is_stretched:
            h = np.full_like(h, self._stretched_step)
            ends, reach = (
                np.arcsinh(each * scale / self._stretch) / h for each in (38.0, _REACH + 0.5)
            )
        else:
            ends, reach = 38.0 / h, (_REACH + 0.5) / h
        lost = np.isnan(h)
        if lost.all():
            return np.full((2, len(self._kept), len(scale)), math.nan)
        count, block = (math.ceil(np.nanmax(each)) + 1 for each in (ends, reach))
        total = np.zeros((2, len(rows), len(scale)))
        first = 0
        while first < count:
            last = min(first + min(block, _BLOCK), count)
            parts = self._terms(rows, scale, h, np.arange(first, last), is_stretched=is_stretched)
            total[0] += parts.sum(axis=-1)
            sizes = np.abs(parts)
            total[1] += sizes.sum(axis=-1)
            done = (sizes[..., -1] <= 1e-17 * total[1]).all()
            first, block = last, max(block // 2, 16)
            if done and first >= np.nanmax(reach):
                break
        density = h / math.sqrt(2.0 * math.pi)
        total *= np.where(lost, math.nan, density)
        split = len(self._near_rows)
        chosen = _combined(self._near, total[:, :split])
        if by_parts:
            chosen = self._chosen(chosen, _combined(self._far, total[:, split:]), scale)
        chosen[1] *= 1.0 + 0.02 * reach  # where nodes are is rounded as well
        return chosen

    def _chosen(self, near: Array, far: Array, scale: Array) -> Array:
        """Of each bracket the form with the smaller size."""
        far = far / scale**self._far_degree
        ahead = (self._far_degree > 0) & (scale >= 1.0) & (far[1] < near[1])
        return np.where(ahead, far, near)

    def _terms(
        self, rows: Sequence[_Row], scale: Array, h: Array, k: Array, *, is_stretched: bool
    ) -> Array:
        """What is summed at the nodes ±k, (rows, c, nodes)."""
        x = h[:, None] * k
        w = np.where(k > 0, 1.0, 0.5)
        if is_stretched:
            ratio = self._stretch / scale[:, None]
            x = np.sinh(x) * ratio
            w = w * np.sqrt(x * x + ratio**2)  # cosh, bounded
        w = w * np.exp(-0.5 * x * x)
        if self._odd:
            w = 2.0 * w
        else:
            x, w = np.concatenate([-x, x], axis=1), np.concatenate([w, w], axis=1)
        at = dict(zip(self._orders, self._sigma(scale[:, None] * x), strict=True))
        he = hermite(self._degree, x)
        products: dict[tuple[int, ...], Array] = {(): w}
        terms = np.empty((len(rows), *x.shape))
        for place, row in enumerate(rows):
            known = product(products, at, row.factors)
            terms[place] = known * he[row.degree] if row.degree else known
        return terms if self._odd else _folded(terms)


def _combined(coefficients: Array, total: Array) -> Array:
    """Linear combinations of sums, and of their sizes."""
    return np.array([coefficients @ total[0], np.abs(coefficients) @ total[1]])


def _folded(terms: Array) -> Array:
    """The nodes −k and k added."""
    half = terms.shape[-1] // 2
    return np.asarray(terms[..., :half] + terms[..., half:])


def product(
    products: dict[tuple[int, ...], Array], at: dict[int, Array], factors: tuple[int, ...]
) -> Array:
    """`products[()]` times Π σ^{(order)}, over all factors; what has been multiplied is kept."""
    if factors not in products:
        products[factors] = product(products, at, factors[:-1]) * at[factors[-1]]
    return products[factors]


def hermite(degree: int, x: Array) -> list[Array]:
    """He_0(x) … He_degree(x)."""
    he = [np.ones_like(x), x]
    for m in range(1, degree):
        he.append(x * he[m] - m * he[m - 1])
    return he


def _rows(parts: Sequence[tuple[Terms, int]]) -> tuple[list[_Row], Array]:
    """The sums that these polynomials in σ's derivatives need, and the coefficients, (parts, rows)."""
    places: dict[_Row, int] = {}
    entries = [
        (k, places.setdefault(_Row(factors, degree), len(places)), coefficient)
        for k, (terms, degree) in enumerate(parts)
        for factors, coefficient in terms.items()
    ]
    matrix = np.zeros((len(parts), len(places)))
    for k, place, coefficient in entries:
        matrix[k, place] = coefficient
    return list(places), matrix


class _Kinked:
    """For piecewise analytic σ: panels that end at the kinks, and what sits on them."""

    def __init__(self, activation: Activation, shapes: Sequence[SingleShape]) -> None:
        found = [distribution(activation, shape) for shape in shapes]
        self._kinks = np.array([float(kink) for kink in activation.kinks])
        self._regular = np.array([any(each.pieces) for each in found])
        self._pieces = [
            sigma.compiled(tuple(each.pieces[k] for each in found if any(each.pieces)))
            for k in range(len(activation.pieces))
            if self._regular.any()
        ]
        places = list(dict.fromkeys(at for each in found for at in each.deltas))
        self._deltas = [(float(kink), order) for kink, order in places]
        self._jumps = np.array(
            [[float(each.deltas.get(at, 0)) for at in places] for each in found]
        ).reshape(len(shapes), len(places))
        self._limits = np.array([float(limit(activation, each)) for each in found])
        self._widest = quadrature.smooth_width(activation)
        self._farther = quadrature.rate(activation) * max(len(each.orders) for each in shapes)

    def __call__(self, K: Array) -> tuple[Array, Array]:
        values = np.full((2, len(self._limits), len(K)), math.nan)
        values[:, :, K == 0.0] = np.array([self._limits, np.abs(self._limits)])[..., None]
        scale = np.sqrt(K)
        live = np.flatnonzero((K > 0.0) & (scale * quadrature.FINEST <= self._widest))
        if live.size:
            values[..., live] = self._at_kinks(scale[live])
            if self._pieces:
                values[np.ix_((0, 1), self._regular, live)] += self._between(scale[live])
        return values[0], values[1]

    def _at_kinks(self, scale: Array) -> Array:
        """Σ c ⟨δ^{(m)}(z − κ)⟩, and the sum of absolute values."""
        if not self._deltas:
            return np.zeros((2, len(self._limits), len(scale)))
        density = []
        for kink, order in self._deltas:
            x = kink / scale
            he = hermite(order, x)[order]
            value = he * np.exp(-0.5 * x * x) / scale ** (order + 1) / math.sqrt(2.0 * math.pi)
            density.append(np.where(np.abs(x) < 38.0, value, 0.0))
        return _combined(self._jumps, np.array([density, np.abs(density)]))

    def _between(self, scale: Array) -> Array:
        """The integrals over the pieces."""
        panels = quadrature.PANELS[0]
        rules = []
        for each in scale.tolist():
            reach = min(panels.reach + self._farther * each, 38.0) if self._farther else panels.reach
            edges = quadrature.edges(self._kinks / each, reach, min(panels.width, self._widest / each))
            rules.append(quadrature.nodes_between(edges, panels.nodes))
        lengths = [len(x) for x, _ in rules]
        at = np.concatenate([s * x for s, (x, _) in zip(scale.tolist(), rules, strict=True)])
        w = np.concatenate([w for _, w in rules])
        terms = np.empty((int(self._regular.sum()), len(at)))
        piece = np.searchsorted(self._kinks, at)
        for k, values in enumerate(self._pieces):
            inside = piece == k
            terms[:, inside] = values(at[inside])
        terms *= w
        starts = np.cumsum([0, *lengths[:-1]])
        return np.array([np.add.reduceat(each, starts, axis=1) for each in (terms, np.abs(terms))])
