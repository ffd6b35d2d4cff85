"""Brackets of analytic σ over two samples of which one, or both, vary far.

z_1 is that of the larger variance. Given z_1 the other is normal, z_2 = μ + t y with
μ = K_12 z_1/K_11 and t² = det K/K_11, and what it averages to varies where z_1 is near 0, on scales
from σ's own up to √K_11. So z_1 = c sinh u has evenly spaced u (`brackets.quadrature`), as with one
sample. Where t ≥ 1 and |μ| ≤ 8.5 t, so has z_2: nodes that are the same for every z_1, with the
normal density a matrix between both. Turned by θ into the complex plane the density grows by no
more than e^{(μ/t)² sin²θ/(2 cos 2θ)}, which the step allows for. Elsewhere y itself is evenly
spaced, for z_2 varies little or is far from where σ bends.

Outer derivatives go inside or, by parts, become a Hermite polynomial of both variables, sample by
sample: the form with the smallest sum of absolute values wins. At large K it is the one by parts,
where inside terms cancel but for 1/K with every two derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.gaussian.shapes import SingleShape, leibniz
from derive.work.caches import cache

from ..arrays import Array
from ..brackets import quadrature
from . import sigma
from .one_sample import product

Pair: TypeAlias = "tuple[SingleShape, SingleShape]"
"""The functions at each of the two samples."""

_FAR = 8.5
"""|μ|/t from which z_2 = 0 is out of reach: where the density is e^{−36}."""

_EVEN = 0.5
"""The widest step in y: the trapezoid rule of a normal density leaves e^{−79}."""

_HELD = 1 << 20
"""Numbers that are held at a time, more or less."""


class _Form(NamedTuple):
    """One way to compute a bracket: the rows of functions at each sample, and how many derivatives
    are by parts."""

    shape: int
    rows: tuple[int, int]
    degrees: tuple[int, int]


class Sums:
    """The brackets of these shapes, at kernels of two samples.

    Arguments:
        activation: an analytic σ.
        digits: log(1/ε) of the rule.
    """

    def __init__(self, activation: Activation, shapes: Sequence[Pair], digits: float) -> None:
        self._activation, self._count, self._digits = activation, len(shapes), digits
        self._heads: dict[SingleShape, int] = {}
        self._forms = [
            _Form(
                k,
                (self._row(first, inside[0]), self._row(second, inside[1])),
                (first.outer - inside[0], second.outer - inside[1]),
            )
            for k, (first, second) in enumerate(shapes)
            for inside in dict.fromkeys(
                (one, two)
                for one in (first.outer, _settled(activation, first))
                for two in (second.outer, _settled(activation, second))
            )
        ]
        self._degree = max((max(form.degrees) for form in self._forms), default=0)
        heads = tuple(self._heads)
        most = max((sum(form.degrees) for form in self._forms), default=0)
        self._step = _step(activation, heads, most, digits) if shapes else 0.0
        self._growth = np.array(_growth(activation, heads))
        self._terms = [leibniz(*head) for head in heads]
        self._orders = sigma.orders_of([key for terms in self._terms for key in terms])
        self._sigma = sigma.derivatives(activation, self._orders)
        powers = [
            sum(quadrature.degree(activation, order) for pair in shape for order in pair.orders)
            for shape in shapes
        ]
        self._reach = float(quadrature.reach(2, max(powers, default=0.0) + most))

    def _row(self, shape: SingleShape, inside: int) -> int:
        head = SingleShape(tuple(sorted(shape.orders)), inside)
        return self._heads.setdefault(head, len(self._heads))

    @property
    def exist(self) -> bool:
        """True if there is a step; none is for σ that oscillates, or is a polynomial."""
        return bool(self._step)

    def __call__(self, K: Array) -> Array:
        """The brackets at K, (2, 2), and their sizes: (2, brackets)."""
        swapped = bool(K[1, 1] > K[0, 0])
        at = _Kernel(K[::-1, ::-1] if swapped else K)
        c = quadrature.stretch(self._activation)
        z, weights = _stretched(self._step, c, self._reach * at.scale)
        weights = (
            weights * np.exp(-0.5 * (z / at.scale) ** 2) / (at.scale * math.sqrt(2.0 * math.pi))
        )
        near = (at.rest >= 1.0) & (np.abs(at.slope * z) <= _FAR * at.rest)
        total = np.zeros((2, len(self._forms)))
        if near.any():
            total += self._both_stretched(at, z[near], weights[near], swapped=swapped)
        if not near.all():
            total += self._one_stretched(at, z[~near], weights[~near], swapped=swapped)
        total[1] *= 1.0 + 0.02 * len(z) / 2.0  # where nodes are is rounded as well
        return self._chosen(total)

    def _chosen(self, total: Array) -> Array:
        """Of each bracket the form with the smallest size."""
        found = np.full((2, self._count), math.inf)
        for form, (value, size) in zip(self._forms, total.T, strict=True):
            if size < found[1, form.shape]:
                found[:, form.shape] = value, size
        return np.where(np.isfinite(found), found, math.nan)

    def _both_stretched(self, at: _Kernel, z: Array, weights: Array, *, swapped: bool) -> Array:
        """Sums over all pairs of nodes, (2, forms)."""
        c = quadrature.stretch(self._activation)
        inner, of_inner = _stretched(self._step, c, (_FAR + self._reach) * at.rest)
        y = (inner - at.slope * z[:, None]) / at.rest
        density = np.exp(-0.5 * y * y) * (weights[:, None] * of_inner)
        density /= at.rest * math.sqrt(2.0 * math.pi)
        outside = self._hermite(at, z[:, None], y, swapped=swapped)
        outer, other = self._functions(z), self._functions(inner)
        total = np.zeros((2, len(self._forms)))
        for degrees, forms in self._by_degrees():
            matrix = density * outside[degrees]
            for part, among in enumerate((matrix, np.abs(matrix))):
                sums = outer[part] @ among @ other[part].T
                for k, rows in forms:
                    total[part, k] = sums[rows[::-1] if swapped else rows]
        return total

    def _one_stretched(self, at: _Kernel, z: Array, weights: Array, *, swapped: bool) -> Array:
        """Sums over even nodes of y at each z_1, (2, forms)."""
        y, of_y = self._even(at.rest)
        total = np.zeros((2, len(self._forms)))
        held = max(1, _HELD // (len(y) * max(1, len(self._heads))))
        for first in range(0, len(z), held):
            part = slice(first, first + held)
            inner = at.slope * z[part, None] + at.rest * y
            outside = self._hermite(at, z[part, None], y[None], swapped=swapped)
            outer, other = self._functions(z[part]), self._functions(inner)
            for degrees, forms in self._by_degrees():
                both = np.broadcast_to(outside[degrees] * of_y, inner.shape)
                for which, among in enumerate((both, np.abs(both))):
                    given = np.einsum("rij,ij->ri", other[which], among) * weights[part]
                    sums = outer[which] @ given.T
                    for k, rows in forms:
                        total[which, k] += sums[rows[::-1] if swapped else rows]
        return total

    def _even(self, rest: float) -> tuple[Array, Array]:
        """Nodes y and their weights."""
        if rest == 0.0:
            return np.zeros(1), np.ones(1)
        h = _EVEN
        if rest < 1.0:
            strips = np.array(quadrature.strips(self._activation))
            digits, scale = self._digits, np.array(rest)
            h = float(
                quadrature.steps(scale, strips, self._growth, digits, _EVEN, 2 * self._degree)
            )
        count = math.ceil(self._reach / h)
        y = h * np.arange(-count, count + 1.0)
        return y, np.exp(-0.5 * y * y) * (h / math.sqrt(2.0 * math.pi))

    def _by_degrees(self) -> Iterator[tuple[tuple[int, int], list[tuple[int, tuple[int, int]]]]]:
        """The forms, by number and rows, with each polynomial."""
        for degrees in dict.fromkeys(form.degrees for form in self._forms):
            yield (
                degrees,
                [(k, form.rows) for k, form in enumerate(self._forms) if form.degrees == degrees],
            )

    def _hermite(
        self, at: _Kernel, z: Array, y: Array, *, swapped: bool
    ) -> dict[tuple[int, int], Array]:
        """(−∂_1)^a (−∂_2)^b of the density, in units of it, by (a, b) in the shapes' order."""
        wanted = {form.degrees for form in self._forms}
        one: Array = np.ones(np.broadcast_shapes(z.shape, y.shape))
        if wanted == {(0, 0)}:
            return {(0, 0): one}
        with np.errstate(all="ignore"):
            t = np.float64(at.rest)
            w = z / at.scale**2 - at.slope * y / t, y / t
            Q11, Q12, Q22 = 1.0 / at.scale**2 + (at.slope / t) ** 2, -at.slope / t**2, 1.0 / t**2
            known = {(0, 0): one}
            most = self._degree
            for b in range(most + 1):
                if b:
                    below = (b - 1) * Q22 * known[0, b - 2] if b > 1 else 0.0
                    known[0, b] = w[1] * known[0, b - 1] - below
                for a in range(1, most + 1):
                    value = w[0] * known[a - 1, b]
                    if a > 1:
                        value = value - (a - 1) * Q11 * known[a - 2, b]
                    if b:
                        value = value - b * Q12 * known[a - 1, b - 1]
                    known[a, b] = value
        return {(a, b): known[(b, a) if swapped else (a, b)] for a, b in wanted}

    def _functions(self, z: Array) -> tuple[Array, Array]:
        """The functions at these z, (rows, *z.shape), and the sums of their absolute terms."""
        at = dict(zip(self._orders, self._sigma(z), strict=True))
        sizes = {m: np.abs(each) for m, each in at.items()}
        found = []
        for values in (at, sizes):
            products: dict[tuple[int, ...], Array] = {(): np.ones_like(z)}
            rows = np.zeros((len(self._terms), *z.shape))
            for k, terms in enumerate(self._terms):
                for factors, coefficient in terms.items():
                    rows[k] += coefficient * product(products, values, factors)
            found.append(rows)
        return found[0], found[1]


class _Kernel:
    """z_1 ~ N(0, scale²), z_2 = slope z_1 + rest y: the variance that is left is computed exactly,
    for it is what differs where samples are all but alike."""

    def __init__(self, K: Array) -> None:
        a, b, c = (Fraction(float(each)) for each in (K[0, 0], K[0, 1], K[1, 1]))
        self.scale = math.sqrt(a)
        self.slope = float(b / a)
        self.rest = math.sqrt(max(c - b * b / a, Fraction(0)))


def is_broad(K: Array) -> NDArray[np.bool_]:
    """True if z varies so far that nodes are stretched, of kernels (…, d, d)."""
    variances = K.diagonal(axis1=-2, axis2=-1)
    known = np.isfinite(K).all(axis=(-2, -1)) & (variances >= 0.0).all(axis=-1)
    return np.asarray(known & (variances.max(axis=-1) >= quadrature.STRETCHED**2))


def _stretched(step: float, c: float, end: float) -> tuple[Array, Array]:
    """z = c sinh u from −end to end, and dz."""
    count = math.ceil(math.asinh(end / c) / step)
    u = step * np.arange(-count, count + 1.0)
    return c * np.sinh(u), step * c * np.cosh(u)


@cache(entries=4096)
def _settled(activation: Activation, shape: SingleShape) -> int:
    return quadrature.settled(activation, shape.orders, shape.outer)


@cache(entries=256)
def _step(
    activation: Activation, heads: tuple[SingleShape, ...], degree: int, digits: float
) -> float:
    """In u, for all of these functions, beside polynomials of a degree up to this; 0 where there is
    none, as for σ that oscillates."""
    if activation.is_polynomial:
        return 0.0  # whose own steps are wide
    parts = [(leibniz(*head), m) for head in heads for m in dict.fromkeys((0, degree))]
    return quadrature.stretched_step(activation, parts, digits, _FAR)


@cache(entries=256)
def _growth(activation: Activation, heads: tuple[SingleShape, ...]) -> tuple[float, ...]:
    return quadrature.growth(activation, [leibniz(*head) for head in heads])
