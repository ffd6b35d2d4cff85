"""Functions of one or two Gaussian variables by their normalised Hermite coefficients.

A function of the z of two samples, or of one, is Σ_β f_β he_β(x), |β| ≤ N, in independent x of unit
variance, z = L x; he_β = Π He_{β_k}(x_k)/√β_k!. A Gaussian conditional average E[he_β(x')|x], where
E[x' xᵀ] = A, is Σ_α Γ(A)_{βα} he_α(x), |α| = |β|, and Γ(A) does not lengthen what it acts on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.symbols import z as variable
from derive.work.caches import cache

from ...arrays import Array
from .. import sigma
from ..one_sample import normalized_hermite

_REACH = 12.5
"""Where Gaussian weights end."""
_PANELS, _POINTS = {1: 0.5, 2: 1.0}, 20
"""Their widths, by the number of variables; he_N turns less often than 20 points see."""
_SHORTEST = 1e-6
_CHUNK = 1 << 13
"""Nodes at once, which fit into a processor's cache."""


class Basis(NamedTuple):
    """z = L x for one or two samples, x having as many entries as the kernel has rank.

    Arguments:
        samples: which.
        L: (samples, rank), a lower triangle.
        inverse: (rank, samples), so that x = L⁻¹ z.
        degree: N.
    """

    samples: tuple[int, ...]
    L: Array
    inverse: Array
    degree: int

    @property
    def rank(self) -> int:
        """How many x there are."""
        return int(self.L.shape[1])

    @property
    def size(self) -> int:
        """How many coefficients."""
        return len(degrees(self.rank, self.degree))


_ALIKE = 1e-13
"""1 − ρ² below which two samples are one."""


def basis(K: Array, samples: tuple[int, int], degree: int) -> Basis:
    """The basis of one sample, or of two, at a kernel (m, m): what has no variance has no x."""
    a, b = samples
    first = np.sqrt(K[a, a])
    if a == b:
        return Basis((a,), np.array([[first]]), np.array([[_inverse(first)]]), degree)
    cross = K[a, b] * _inverse(first)
    left = K[b, b] - cross**2
    if left <= _ALIKE * K[b, b]:
        L = np.array([[first], [cross]])
        return Basis((a, b), L, np.array([[_inverse(first), 0.0]]), degree)
    second = np.sqrt(left)
    L = np.array([[first, 0.0], [cross, second]])
    inverse = np.array([[_inverse(first), 0.0], [-cross * _inverse(first) / second, 1.0 / second]])
    return Basis((a, b), L, inverse, degree)


def _inverse(scale: float) -> float:
    return 1.0 / scale if scale > 0.0 else 0.0


@cache
def degrees(rank: int, N: int) -> NDArray[np.int64]:
    """The β, (size, rank), by |β|, and then by the second ascending."""
    if rank == 1:
        return np.arange(N + 1)[:, None]
    return np.array([(d - j, j) for d in range(N + 1) for j in range(d + 1)])


def block(rank: int, degree: int) -> slice:
    """Where the β with |β| = degree are."""
    if rank == 1:
        return slice(degree, degree + 1)
    return slice(degree * (degree + 1) // 2, (degree + 1) * (degree + 2) // 2)


class Contraction:
    """Γ(A), from coefficients of a basis to those of another.

    Arguments:
        A: (rank', rank), of norm 1 or less.
        N: the highest degree.
    """

    def __init__(self, A: Array, N: int) -> None:
        self.A, self._degree = A, N
        self._to, self._from = A.shape
        if A.size == 1:
            self._powers = A[0, 0] ** np.arange(N + 1)
            return
        found = [np.ones((1, 1))]
        for degree in range(1, N + 1):
            found.append(self._next(found[-1], degree))
        self._blocks = found

    def _next(self, before: Array, degree: int) -> Array:
        """⟨he_β, Γ he_α⟩ at this degree: an x'_k apart, the block of one degree less. k is the
        first variable, but of β = (0, degree) the second."""
        columns = _of_degree(self._from, degree)
        empty = np.zeros((len(before), len(columns) - before.shape[1]))
        lower = [np.hstack(each) for each in ((before, empty), (empty, before))][: self._from]
        by = [
            sum(
                A * np.sqrt(columns[:, axis]) * each
                for axis, (A, each) in enumerate(zip(row, lower, strict=True))
            )
            for row in self.A
        ]
        first = by[0] / np.sqrt(degree - np.arange(len(before)))[:, None]
        if self._to == 1:
            return np.asarray(first)
        return np.vstack([first, by[1][-1:] / np.sqrt(degree)])

    def __call__(self, values: Array) -> Array:
        """Γ(A) of coefficients, (…, size), as (…, size')."""
        if self.A.size == 1:
            return np.asarray(self._powers * values)
        result = np.zeros((*values.shape[:-1], len(degrees(self._to, self._degree))))
        for degree, each in enumerate(self._blocks):
            to, own = block(self._to, degree), block(self._from, degree)
            result[..., to] = values[..., own] @ each.T
        return result


@cache
def _of_degree(rank: int, degree: int) -> NDArray[np.int64]:
    return degrees(rank, degree)[block(rank, degree)]


@cache
def removal(rank: int, N: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """∂_k he_β = scale · he_lower: which β have one, the place of the lower, and the scale."""
    all_of = degrees(rank, N)
    lower = all_of.copy()
    lower[:, k] -= 1
    rows = np.flatnonzero(lower[:, k] >= 0)
    degree = lower.sum(axis=1)
    place = degree if rank == 1 else degree * (degree + 1) // 2 + lower[:, -1]
    return rows, place[rows], np.sqrt(all_of[rows, k])


def raised(own: Basis, a: int, values: Array) -> Array:
    """The coefficients of f ↦ X(∂_a f), from those of X, (…, size); a is a place in the basis'
    samples."""
    result = np.zeros(values.shape)
    for k in range(own.rank):
        rows, places, scale = removal(own.rank, own.degree, k)
        result[..., rows] += own.inverse[k, a] * scale * values[..., places]
    return result


def of_tensor(own: Basis, tensor: Array, rank: int) -> Array:
    """The coefficients of degree `rank` of a functional with X(:z_a z_b …:) = tensor[…, a, b, …],
    over the basis' samples."""
    for _ in range(rank):
        tensor = np.tensordot(tensor, own.inverse, axes=([tensor.ndim - rank], [1]))
    rows = _of_degree(own.rank, rank)
    found = np.empty((*tensor.shape[: tensor.ndim - rank], len(rows)))
    for row, beta in enumerate(rows):
        at: tuple[Any, ...] = tuple(a for a, count in enumerate(beta) for _ in range(count))
        norm = math.prod(math.factorial(count) for count in beta)
        found[..., row] = tensor[(..., *at)] / math.sqrt(norm)
    return found


Orders = tuple[tuple[int, ...], ...]
"""Of the σ's derivatives in a product, z itself being of order −1: those of each sample."""


class Products:
    """Products of functions of the z of one or two samples, by Hermite coefficients.

    Arguments:
        activation: σ.
        orders: of what stands at each.
    """

    def __init__(self, activation: Activation, orders: Orders = ((0,), (0,))) -> None:
        self._pieces = [
            [
                [
                    sigma.compiled(
                        (variable if order < 0 else sympy.diff(piece.expr, variable, order),)
                    )
                    for piece in activation.pieces
                ]
                for order in own
            ]
            for own in orders
        ]
        self._kinks = np.array([float(each) for each in activation.kinks])

    def __call__(self, own: Basis) -> tuple[Array, float]:
        """The coefficients, (size,), and the length of what is left out."""
        return self._of_one(own) if own.rank == 1 else self._of_two(own)

    def _at(self, place: int, z: Array) -> Array:
        """The functions at the first sample, or the second."""
        first, *others = (self._sigma(pieces, z) for pieces in self._pieces[place])
        for each in others:
            first = first * each
        return first

    def _sigma(self, pieces: Sequence[Callable[[Array], list[Array]]], z: Array) -> Array:
        if len(pieces) == 1:
            return pieces[0](z)[0]
        which = np.searchsorted(self._kinks, z)
        with np.errstate(all="ignore"):
            values = np.array([each(z)[0] for each in pieces])
        return np.asarray(np.take_along_axis(values, which[None], axis=0)[0])

    def _of_one(self, own: Basis) -> tuple[Array, float]:
        scales = own.L[:, 0]
        x, weights = _rule(own, self._kinks)
        values = self._at(0, scales[0] * x)
        if len(self._pieces) > 1:
            values = values * self._at(1, scales[-1] * x)
        found = normalized_hermite(own.degree, x) @ (weights * values)
        return found, _left_out(found, weights @ values**2)

    def _of_two(self, own: Basis) -> tuple[Array, float]:
        N = own.degree
        x, outer = _rule(own, self._kinks)
        y, inner = _nested(own.L[1], x, self._kinks)
        second = self._at(1, own.L[1, 0] * x[:, None] + own.L[1, 1] * y)
        first = self._at(0, own.L[0, 0] * x)
        length = outer @ (first**2 * (inner * second**2).sum(axis=1))
        rows = normalized_hermite(N, x) * (outer * first)
        given = np.empty((len(x), N + 1))  # of each x the averages over y with He_j(y)/√j!
        step = max(1, _CHUNK // y.shape[1])
        for at in (slice(k, k + step) for k in range(0, len(x), step)):
            now = inner[at] * second[at]
            before, ahead = np.zeros(now.shape), np.empty(now.shape)
            for j in range(N + 1):
                given[at, j] = now.sum(axis=1)
                np.multiply(y[at], now, out=ahead)
                before *= math.sqrt(j)
                ahead -= before
                ahead /= math.sqrt(j + 1)
                before, now, ahead = now, ahead, before
        table = rows @ given
        found = table[tuple(degrees(2, N).T)]
        return found, _left_out(found, length)


def _left_out(found: Array, square: Array) -> float:
    """The length beyond the coefficients, by Parseval's theorem, to rounding."""
    return math.sqrt(max(float(square - found @ found), 1e-15 * float(square)))


def _rule(own: Basis, kinks: Array) -> tuple[Array, Array]:
    """Nodes and weights of a Gaussian average over x_1: panels that end at kinks, and shrink
    towards where σ, or its average over x_2, varies fast."""
    panel, scales = _PANELS[own.rank], own.L[:, 0]
    scales = scales[scales != 0.0]
    marks = np.concatenate([[0.0], *(kinks / each for each in scales)])
    widths = [] if len(kinks) else [1.0 / np.abs(scales).max(initial=1e-300)]
    if own.rank == 2 and own.L[1, 0]:
        widths.append(abs(own.L[1, 1] / own.L[1, 0]))
    edges = [np.arange(-_REACH, _REACH + 0.1, panel), marks]
    for width in widths:
        edges.append((marks[:, None] + np.array(_steps(panel, width))).ravel())
    found = np.unique(np.concatenate(edges))
    return _gauss(found[np.abs(found) <= _REACH][None])


def _steps(panel: float, width: float) -> list[float]:
    """0, and where panels end around it that halve until they are as short as a width."""
    count = int(np.ceil(np.log2(panel / max(width, _SHORTEST)))) + 1
    sizes = [panel * 0.5**k for k in range(1, count + 1)] if count > 1 else []
    return [0.0, *sizes, *(-each for each in sizes)]


def _gauss(edges: Array) -> tuple[Array, Array]:
    """Nodes and weights on panels, (rows, nodes) of (rows, edges); one row without its axis."""
    t, w = np.polynomial.legendre.leggauss(_POINTS)
    half = 0.5 * np.diff(edges, axis=1)[..., None]
    x = (edges[:, :-1, None] + half * (1.0 + t)).reshape(len(edges), -1)
    weights = (half * w).reshape(len(edges), -1) * np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)
    return (x[0], weights[0]) if len(edges) == 1 else (x, weights)


def _nested(row: Array, x: Array, kinks: Array) -> tuple[Array, Array]:
    """Nodes and weights, (x, y), of an average over y, of functions of row[0] x + row[1] y."""
    own = np.arange(-_REACH, _REACH + 0.1, _PANELS[2])
    edges = np.broadcast_to(own, (len(x), len(own)))
    steps = [0.0] if len(kinks) else _steps(_PANELS[2], 1.0 / row[1])
    marks = kinks if len(kinks) else np.zeros(1)
    if len(kinks) or len(steps) > 1:
        at = ((marks - row[0] * x[:, None]) / row[1])[..., None] + np.array(steps)
        inside = np.clip(at.reshape(len(x), -1), -_REACH, _REACH)
        edges = np.sort(np.concatenate([edges, inside], axis=1), axis=1)
    return _gauss(edges)
