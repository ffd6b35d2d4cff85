"""Brackets with every position at one z ~ N(0, K), for many K at once and all shapes together.

The rules, their steps and the forms by parts are those of `brackets.one_input`, which prints them
as loops over z; here z is an array, and what is summed are the products of σ's derivatives.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.gaussian.distributions import distribution
from derive.gaussian.shapes import SingleShape, is_even

from ..arrays import Array
from ..brackets import quadrature
from ..brackets.one_input import Terms, smooth_sums
from . import sigma
from .resting import at_rest

Averages = Callable[[Array], tuple[Array, Array]]
"""Of K, (c,): the brackets, (shapes, c), and their sizes, the sums of the absolute values of what
is added up: the rounding error is machine epsilon times a small multiple of that."""

_WIDEST = 0.5
"""The widest step in x."""

_REACH = math.sqrt(2.0 * quadrature.ACCURACY[0]) + 0.5
_NEGLIGIBLE = 1e-17
_OF_PANELS = 4.0
"""How far the nodes and weights of panels are off, in units of rounding."""
_BOTH = np.array([0, 1])
"""Values and sizes."""
_HELD = 1 << 20
"""Numbers that are held at a time, more or less."""


def averages(activation: Activation, shapes: Sequence[SingleShape]) -> Averages:
    """The brackets of these shapes; at K = 0 their values at z = 0.

    They are nan if that value is undefined, and if σ varies too fast for the quadrature.
    """
    return (_Smooth if activation.is_smooth else _Kinked)(activation, shapes)


class _Row(NamedTuple):
    """A sum over the nodes: Π σ^{(order)} He_degree(z/√K)."""

    factors: tuple[int, ...]
    degree: int


class _Rule(NamedTuple):
    """Nodes for all scales between two powers of 2^{1/4}: z = scale x, or z itself, with the
    weights of the trapezoid rule. The nodes −k come before the k, k = 0, 1, …, and have the same
    weights; with an odd σ nothing that is summed is odd in z, and they are left out."""

    nodes: Array
    weights: Array
    he: Array
    is_stretched: bool
    rounding: float


class _Smooth:
    """For analytic σ: the trapezoid rule, each outer derivative inside and by parts."""

    def __init__(self, activation: Activation, shapes: Sequence[SingleShape]) -> None:
        self._odd = activation.is_odd
        kept = [k for k, each in enumerate(shapes) if not self._odd or is_even(*each)]
        self._kept = np.array(kept, np.int64)
        self._count = len(shapes)
        sums = smooth_sums(activation, [shapes[k] for k in kept])
        near = [(terms, 0) for terms in sums.integrands[: sums.near]]
        none: tuple[Terms, int] = Counter(), 0
        far = [(sums.integrands[part[0]], part[1]) if part else none for part in sums.far]
        self._near_rows, self._near = _rows(near)
        self._far_rows, self._far = _rows(far)
        self._far_degree = np.array([degree for _, degree in far])[:, None]
        self._degree = sums.degree
        self._orders = sigma.orders_of([row.factors for row in self._near_rows + self._far_rows])
        self._sigma = sigma.derivatives(activation, self._orders)
        self._strips = np.array(quadrature.strips(activation))
        self._growth = np.array(sums.growth)
        self._stretch, self._stretched_step = sums.stretch, sums.stretched_step
        self._rules: dict[int, _Rule | None] = {}
        self._smallest = self._scale_of_widest()

    def __call__(self, K: Array) -> tuple[Array, Array]:
        values = np.zeros((2, self._count, len(K)))
        if not self._kept.size:
            return values[0], values[1]
        scale = np.sqrt(K)
        exponents = np.ceil(4.0 * np.log2(np.maximum(scale, self._smallest)))
        smallest, largest = exponents.min(), exponents.max()
        if smallest == largest:
            values[:, self._kept] = self._averages(scale, largest)
        else:  # each alone, so that none depends on the others
            for each in np.unique(exponents):
                part = np.flatnonzero((exponents == each) | np.isnan(exponents) & np.isnan(each))
                values[np.ix_(_BOTH, self._kept, part)] = self._averages(scale[part], each)
        return values[0], values[1]

    def _averages(self, scale: Array, exponent: float) -> Array:
        """The kept brackets and their sizes, (2, kept, c), by the rule for 2^{exponent/4}."""
        rule = self._rule(int(exponent)) if math.isfinite(exponent) else None
        if rule is None:
            return np.full((2, len(self._kept), len(scale)), math.nan)
        rows = self._rows(exponent)
        step = max(1, _HELD // (len(rows) * len(rule.nodes)))
        parts = [
            self._summed(scale[first : first + step], rule, rows)
            for first in range(0, len(scale), step)
        ]
        total = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)
        split = len(self._near_rows)
        chosen = _combined(self._near, total[:, :split])
        if len(rows) > split:
            far = _combined(self._far, total[:, split:]) / scale**self._far_degree
            ahead = (self._far_degree > 0) & (far[1] < chosen[1])
            chosen = np.where(ahead, far, chosen)
        chosen[1] *= rule.rounding
        return chosen

    def _rows(self, exponent: float) -> list[_Row]:
        """The rows to sum; below scale 1 the factor K^{−m/2} of a form by parts is no help."""
        return self._near_rows + (self._far_rows if self._degree and exponent > 0 else [])

    def _summed(self, scale: Array, rule: _Rule, rows: Sequence[_Row]) -> Array:
        """The sums over the nodes, and of absolute values, (2, rows, c)."""
        terms, sizes, weights = self._terms(scale[:, None], rule, rows)
        axes = "rcn,cn->rc" if weights.ndim == 2 else "rcn,n->rc"
        return np.array([np.einsum(axes, each, weights) for each in (terms, sizes)])

    def _terms(self, scale: Array, rule: _Rule, rows: Sequence[_Row]) -> tuple[Array, Array, Array]:
        """The rows at the nodes k, with those at −k, and their sizes, (rows, c, n); the weights,
        (c, n), for scales (c, 1)."""
        half = len(rule.weights)
        if rule.is_stretched:
            z, x = np.broadcast_to(rule.nodes, (len(scale), len(rule.nodes))), rule.nodes / scale
            weights = rule.weights / scale * np.exp(-0.5 * x[:, -half:] ** 2)
            he = _hermite(self._degree, x)
        else:
            z, he = scale * rule.nodes, rule.he
            weights = rule.weights
        at = dict(zip(self._orders, self._sigma(z), strict=True))
        terms = _products(at, rows, he, z.shape)
        sizes = np.abs(terms)
        if self._odd:
            return terms, sizes, weights
        terms, sizes = (each[..., :half] + each[..., half:] for each in (terms, sizes))
        return terms, sizes, weights

    def _rule(self, exponent: int) -> _Rule | None:
        if exponent not in self._rules:
            self._rules[exponent] = self._made(2.0 ** (exponent / 4), self._rows(exponent))
        return self._rules[exponent]

    def _steps(self, scale: Array) -> Array:
        """The step in x for these scales, `_WIDEST` at most."""
        digits = quadrature.accuracy(1)
        return quadrature.steps(scale, self._strips, self._growth, digits, _WIDEST, self._degree)

    def _scale_of_widest(self) -> float:
        """A scale up to which one rule is for all, of the widest step: below, σ is straight."""
        scales = 2.0 ** -np.arange(0.0, 50.0)
        widest = np.flatnonzero(self._steps(scales) >= _WIDEST)
        return float(scales[widest[0]]) if len(widest) else 1e-300

    def _made(self, scale: float, rows: Sequence[_Row]) -> _Rule | None:
        """The rule for scales up to this one: as far as there is something to add."""
        h = float(self._steps(np.array(scale)))
        stretched = self._is_stretched(scale, h)
        if stretched:
            h = self._stretched_step
        elif math.isnan(h):
            return None
        reach = _REACH
        while True:
            rule = self._to(reach, scale, h, is_stretched=stretched)
            if reach >= 38.0:
                return rule
            scales = np.array([[scale], [scale * 2.0**-0.25]])
            _, sizes, weights = self._terms(scales, rule, rows)
            parts = sizes * weights
            if (parts[..., -1] <= _NEGLIGIBLE * parts.sum(axis=-1)).all():
                return rule
            reach = min(1.25 * reach, 38.0)

    def _is_stretched(self, scale: float, h: float) -> bool:
        """True if the sum over z = c sinh u has fewer nodes."""
        if not self._stretched_step or scale < quadrature.STRETCHED:
            return False
        nodes = self._reach_of(quadrature.NEAR_REACH, scale) / self._stretched_step
        return not nodes >= quadrature.NEAR_REACH / h

    def _reach_of(self, x: float, scale: float) -> float:
        """u where z = scale x = c sinh u."""
        return math.asinh(x * scale / self._stretch)

    def _to(self, reach: float, scale: float, h: float, *, is_stretched: bool) -> _Rule:
        """The rule as far as x = reach."""
        end = self._reach_of(reach, scale) if is_stretched else reach
        count = math.ceil(end / h)
        u: Array = h * np.arange(count + 1.0)
        weights = np.full(count + 1, (2.0 if self._odd else 1.0) * h / math.sqrt(2.0 * math.pi))
        weights[0] /= 2.0
        rounding = 1.0 + 0.02 * end / h  # where nodes are is rounded as well
        nodes = u if self._odd else np.concatenate([-u, u])
        if is_stretched:
            weights *= self._stretch * np.cosh(u)
            return _Rule(
                self._stretch * np.sinh(nodes), weights, np.zeros(0), is_stretched, rounding
            )
        weights *= np.exp(-0.5 * u * u)
        return _Rule(nodes, weights, _hermite(self._degree, nodes), is_stretched, rounding)


def _combined(coefficients: Array, total: Array) -> Array:
    """Linear combinations of sums, and of their sizes; not by a matrix product, whose rounding
    depends on how many columns there are."""
    both = np.array([coefficients, np.abs(coefficients)])
    return np.asarray((both[..., None] * np.asarray(total)[:, None]).sum(axis=2))


def _products(
    at: dict[int, Array], rows: Sequence[_Row], he: Array, shape: tuple[int, ...]
) -> Array:
    """The rows, given σ's derivatives, (rows, *shape)."""
    products: dict[tuple[int, ...], Array] = {(m,): each for m, each in at.items()}
    terms = np.empty((len(rows), *shape))
    for place, row in enumerate(rows):
        factor = product(products, at, row.factors) if row.factors else 1.0
        terms[place] = factor * he[row.degree] if row.degree else factor
    return terms


def product(
    products: dict[tuple[int, ...], Array], at: dict[int, Array], factors: tuple[int, ...]
) -> Array:
    """`products[()]` times Π σ^{(order)}, over all factors; what has been multiplied is kept."""
    if factors not in products:
        products[factors] = product(products, at, factors[:-1]) * at[factors[-1]]
    return products[factors]


def _hermite(degree: int, x: Array) -> Array:
    """He_0(x) … He_degree(x), along the first axis."""
    return np.moveaxis(np.asarray(hermevander(x, degree), float), -1, 0)


def normalized_hermite(degree: int, x: Array) -> Array:
    """He_k(x)/√k! of k = 0 … degree, (degree + 1, points), degree ≥ 1."""
    he = np.empty((degree + 1, len(x)))
    he[0], he[1] = 1.0, x
    for k in range(1, degree):
        he[k + 1] = (x * he[k] - np.sqrt(k) * he[k - 1]) / np.sqrt(k + 1)
    return he


def _rows(parts: Sequence[tuple[Terms, int]]) -> tuple[list[_Row], Array]:
    """The sums that polynomials in σ's derivatives need, and the coefficients, (parts, rows)."""
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
        self._at_rest = np.array([float(at_rest(activation, *each)) for each in shapes])
        self._widest = quadrature.smooth_width(activation)
        most = max((len(each.orders) for each in shapes), default=0)
        self._farther = quadrature.rate(activation) * most

    def __call__(self, K: Array) -> tuple[Array, Array]:
        values = np.full((2, len(self._at_rest), len(K)), math.nan)
        values[:, :, K == 0.0] = np.array([self._at_rest, np.abs(self._at_rest)])[..., None]
        scale = np.sqrt(K)
        fine = np.isfinite(K) & (scale * quadrature.FINEST <= self._widest)
        live = np.flatnonzero((K > 0.0) & fine)
        if live.size:
            values[..., live] = self._at_kinks(scale[live])
            if self._pieces:
                values[np.ix_(_BOTH, self._regular, live)] += self._between(scale[live])
        return values[0], values[1]

    def _at_kinks(self, scale: Array) -> Array:
        """Σ c ⟨δ^{(m)}(z − κ)⟩, and the sum of absolute values."""
        if not self._deltas:
            return np.zeros((2, len(self._at_rest), len(scale)))
        density = []
        for kink, order in self._deltas:
            x = kink / scale
            he = _hermite(order, x)[order]
            value = he * np.exp(-0.5 * x * x) / scale ** (order + 1) / math.sqrt(2.0 * math.pi)
            density.append(np.where(np.abs(x) < 38.0, value, 0.0))
        return _combined(self._jumps, np.array([density, np.abs(density)]))

    def _between(self, scale: Array) -> Array:
        """The integrals over the pieces."""
        x, w, lengths = self._panels(scale)
        at = np.repeat(scale, lengths) * x
        terms = np.empty((int(self._regular.sum()), len(at)))
        piece = np.searchsorted(self._kinks, at)
        for k, values in enumerate(self._pieces):
            inside = piece == k
            terms[:, inside] = values(at[inside])
        terms *= w
        starts = np.cumsum([0, *lengths[:-1]])
        sizes = _OF_PANELS * np.abs(terms)
        return np.array([np.add.reduceat(each, starts, axis=1) for each in (terms, sizes)])

    def _panels(self, scale: Array) -> tuple[Array, Array, NDArray[np.int64]]:
        """Nodes and weights for all scales in a row, and how many each has: panels from −reach to
        reach that end at the kinks."""
        panels = quadrature.PANELS[0]
        reach = np.full(len(scale), panels.reach)
        if self._farther:
            reach = np.minimum(panels.reach + self._farther * scale, 38.0)
        ends = np.clip(self._kinks / scale[:, None], -reach[:, None], reach[:, None])
        ends = np.concatenate([-reach[:, None], ends, reach[:, None]], axis=1)
        widths = np.diff(ends, axis=1)
        widest = np.minimum(panels.width, self._widest / scale)
        parts = np.ceil(widths / widest[:, None]).astype(np.int64)
        counts = parts.ravel()
        place = np.repeat(np.arange(counts.size), counts)
        first = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        left, width, count = ends[:, :-1].ravel()[place], widths.ravel()[place], counts[place]
        right = ends[:, 1:].ravel()[place]
        begin = left + width * first / count
        end = np.where(first + 1 < count, left + width * (first + 1) / count, right)
        nodes, weights = quadrature.legendre(panels.nodes)
        x = (0.5 * (end + begin)[:, None] + 0.5 * (end - begin)[:, None] * nodes).ravel()
        w = (0.5 * (end - begin)[:, None] * weights).ravel()
        w *= np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        return x, w, np.asarray(parts.sum(axis=1) * panels.nodes, np.int64)
