"""Brackets of a function of all samples, at exchangeable samples of any number m.

K has q for one sample and p for two. Of the samples in a bracket's factors φ, k in number, the
values span k directions of z, or k + 1 with the mean of all; in them stands w ~ N(0, 1). What the
other samples add to Σ z² is (q − p) R², with R² a χ² of the c directions that are left. So an
average is an integral over w and R:

    w = τ ω, ω on a rule between kinks (`directions`), and log τ and log R on trapezoids;

if φ is scale-invariant, over ω and log(τ/R) alone. The derivatives outside are Wick-ordered
products of u along the samples; along the directions that are left, u is R times a vector on a
sphere, whose moments are known. A factor that is differentiated by a sample without a factor is
linear in that sample's z, so such samples enter by their moments, too. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.batches import BatchFunction, slope
from derive.activations.functions import Activation
from derive.errors import InputError
from derive.gaussian.brackets import by_sample
from derive.symbols import z
from derive.work.caches import cache

from ..arrays import Array
from .batches import DIVERGES, check_kinks, names, remaining
from .directions import cones, directions

Factors: TypeAlias = tuple[tuple[int, int], ...]
"""Of each factor φ its sample, and 0, or `by_sample` of what it is differentiated by."""

Wanted: TypeAlias = tuple[Factors, tuple[int, ...]]
"""The factors, whose samples are 0, 1, …, and the samples of the derivatives outside."""

_POINTS = (4, 6, 8, 12, 16, 24, 32)
"""Along each edge of a simplex, until two rules agree."""

_AGREE, _NODES, _CHUNK = 1e-11, 12_000_000, 1 << 17
"""The agreement that ends the search, relative to the size; most nodes of a rule; nodes at once."""

_SHOWN = 0.125 / float(np.finfo(float).eps)
_FAR, _STEP = 33.0, 0.11
"""Where a trapezoid ends: e^{−33} of the largest weight; its step."""

_FEW, _RULE = 4, 32
"""Directions that are left from which on R² is on Gauss's rule, of so many points."""

_ROUGH = 6
"""Points of a rule for differences between kernels."""

_DIFFER = "samples that differ, or an eps: the norm of a batch is 0"


class AlikeRule:
    """The averages over m samples: at q and p, values and sizes, (count,)."""

    def __init__(
        self, function: BatchFunction, activation: Activation, wanted: Sequence[Wanted], m: int
    ) -> None:
        check_kinks(activation)
        self._m, self._wanted = m, wanted
        self._phi = _compiled(function, activation)
        self._centred = function.is_shift_invariant
        self._homogeneous = function.is_scale_invariant(activation)
        bent = not activation.is_smooth
        self._kinks = function.centred_arguments if bent else ()
        self._known: dict[int, tuple[Array, Array, float]] = {}
        counts = sorted(set(map(_count, wanted)))
        self._most = {k: max(len(each[1]) for each in wanted if _count(each) == k) for k in counts}
        self._products = {
            k: list(dict.fromkeys(each[0] for each in wanted if _count(each) == k)) for k in counts
        }

    def __call__(self, q: float, p: float, *, rough: bool = False) -> tuple[Array, Array]:
        """Values and sizes; of few points if `rough`."""
        values, sizes = np.zeros(len(self._wanted)), np.zeros(len(self._wanted))
        for k, products in self._products.items():
            space = _Space.of(self._m, k, q, p, centred=self._centred)
            fixed = self._homogeneous and self._centred  # the moments have powers of q − p alone
            if not fixed or k not in self._known:
                points = _ROUGH if rough and not fixed else _POINTS[-1]
                self._known[k] = *self._moments(space, products, points), space.a
            moments, errors, scale = self._known[k]
            degrees = [sum(order < 0 for _, order in factors) for factors in products]
            moments, errors = (
                each * (scale / space.a) ** np.array(degrees) for each in (moments, errors)
            )
            for place, (factors, outer) in enumerate(self._wanted):
                if _count((factors, outer)) == k:
                    row = products.index(factors)
                    own = [each[:, row] for each in (moments, errors)]
                    most = self._most[k]
                    values[place] = space.average(outer, own[0], most)
                    sizes[place] = space.average(outer, np.abs(own[0]), most, absolute=True)
                    error = space.average(outer, own[1], most, absolute=True)
                    sizes[place] += _SHOWN * error
        return values, sizes

    def _moments(self, space: _Space, products: list[Factors], most: int) -> tuple[Array, Array]:
        """⟨w^b R^{2j} F⟩ for each (b, j) of `_exponents` and each product, and their errors."""
        parts = self._cones(space, products)
        r = space.explicit
        tau, R, weights = space.homogeneous() if self._homogeneous else space.lengths()
        found = self._sum(space, products, directions(parts, _POINTS[0]), (tau, R, weights))
        change, error = math.inf, np.full_like(found, np.inf)
        for points in _POINTS[1:]:
            nodes = len(parts) * points ** (r - 1) * len(tau)
            if points > most or (nodes > _NODES and math.isfinite(change)):
                break
            before = found
            found = self._sum(space, products, directions(parts, points), (tau, R, weights))
            error, change, left = remaining(before, found, change)
            if left <= _AGREE or r == 1:
                break
        if not np.isfinite(found).all():
            raise InputError("inputs", "samples without variance", _DIFFER)
        return found, error

    def _cones(self, space: _Space, products: list[Factors]) -> list[Array]:
        """Cones between kinks; of a product of k different samples those where z descends."""
        planes = space.planes(self._kinks)
        if (
            products != [tuple((a, 0) for a in range(space.k))]
            or self._most[space.k]
            or space.k < 3
        ):
            return cones(planes)
        ordered = space.differences()
        found = cones(np.concatenate([planes, ordered]))
        return [each for each in found if (np.diff(space.rows @ each.sum(axis=1)) <= 0.0).all()]

    def _sum(
        self,
        space: _Space,
        products: list[Factors],
        rule: tuple[Array, Array],
        lengths: tuple[Array, Array, Array],
    ) -> Array:
        tau, R, weights = lengths
        exponents = _exponents(space.explicit, self._most[space.k])
        total = np.zeros((len(exponents), len(products)))
        step = max(1, _CHUNK // len(tau))
        scales = np.array(
            [weights * tau ** sum(b) * R ** (2 * j) for *b, j in exponents.tolist()]
        )  # by (b, j): of the lengths
        for begin in range(0, len(rule[1]), step):
            omega = rule[0][begin : begin + step]
            zs, first, second = space.values(omega, tau, R)
            phi = self._phi.at(zs, first[..., None], second[..., None], self._m)
            monomials = rule[1][begin : begin + step] * np.prod(
                [omega[:, a] ** exponents[:, a, None] for a in range(space.explicit)], axis=0
            )
            for row, factors in enumerate(products):
                own = (phi(*factor) for factor in factors if _named(factor, space.k))
                F = reduce(np.multiply, own, _unnamed(factors, phi, space, (omega, tau, R)))
                total[:, row] += np.einsum("bd,dt,bt->b", monomials, F, scales, optimize=True)
        if self._homogeneous:
            degrees = exponents[:, :-1].sum(axis=1) + 2 * exponents[:, -1]
            slopes_of = [sum(order < 0 for _, order in factors) for factors in products]
            total *= space.powers(degrees[:, None] - slopes_of)
        return np.asarray(total / rule[1].sum())


def _count(wanted: Wanted) -> int:
    """How many samples are integrated over: those of the factors, and with derivatives outside all
    that they are differentiated by."""
    factors, outer = wanted
    by = [by_sample(order) for _, order in factors if order and outer]
    return 1 + max(*by, *(sample for sample, _ in factors), 0)


def _named(factor: tuple[int, int], k: int) -> bool:
    """True unless it is differentiated by a sample behind the first k."""
    return not factor[1] or by_sample(factor[1]) < k


def _unnamed(
    factors: Factors, phi: _Values, space: _Space, at: tuple[Array, Array, Array]
) -> Array:
    """The product of the factors that are differentiated by samples which are not integrated over,
    averaged over those: each is a number plus a multiple of such a sample's z."""
    own = [
        (each, by_sample(order)) for each, order in factors if not _named((each, order), space.k)
    ]
    total = np.zeros((len(at[0]), len(at[1])) if own else ())
    for taken in product((False, True), repeat=len(own)):
        others = tuple(by for (_, by), moved in zip(own, taken, strict=True) if moved)
        parts = (phi.part(each, moved) for (each, _), moved in zip(own, taken, strict=True))
        total += reduce(np.multiply, parts, space.mean_of(others, *at))
    return total


class _Function(NamedTuple):
    """φ and its derivatives by z and by the means of z and of z² over all samples, compiled."""

    value: Callable[..., Array]
    slopes: tuple[Callable[..., Array], ...]

    def at(self, zs: Array, first: Array, second: Array, m: int) -> _Values:
        """The factors at z of so many samples, (…, k)."""
        return _Values(self, (zs, first, second), m)


class _Values:
    """The factors at some nodes, by their samples and orders."""

    def __init__(self, function: _Function, at: tuple[Array, Array, Array], m: int) -> None:
        self._function, self._at, self._m = function, at, m
        self._phi = function.value(*at)

    @cached_property
    def _moves(self) -> list[Array]:
        """∂φ by z, by the mean of z and by that of z²."""
        return [each(*self._at) for each in self._function.slopes]

    def __call__(self, sample: int, order: int) -> Array:
        """φ, or its derivative by a sample among these."""
        if not order:
            return np.asarray(self._phi[..., sample])
        by = by_sample(order)
        found = self.part(sample, False) + self._at[0][..., by] * self.part(sample, True)
        return np.asarray(found + self._moves[0][..., sample] if by == sample else found)

    def part(self, sample: int, moved: bool) -> Array:
        """What the derivative by another sample has: the multiple of its z, or the rest."""
        found = 2.0 * self._moves[2] if moved else self._moves[1]
        return np.asarray(found[..., sample] / self._m)


@cache
def _compiled(function: BatchFunction, activation: Activation) -> _Function:
    first, second = sympy.Dummy(real=True), sympy.Dummy(real=True)
    value = function.by_moments(first, second)

    def made(expr: sympy.Expr) -> Callable[..., Array]:
        evaluate = sympy.lambdify([z, first, second], expr, names(activation), cse=True)

        def at_all(at: Array, *known: Array) -> Array:
            with np.errstate(all="ignore"):
                return np.asarray(np.broadcast_to(evaluate(at, *known), at.shape), float)

        return at_all

    return _Function(made(value), tuple(made(slope(value, by)) for by in (z, first, second)))


class _Space(NamedTuple):
    """The directions of z that a bracket's factors span, and what is left.

    Attributes:
        m, k: samples, and those of the factors.
        a, mean: √(q − p), and the deviation of the mean of all samples; 0 if that does not matter.
        basis: of each factor's centred direction its components, (k, directions).
        left: c.
    """

    m: int
    k: int
    a: float
    mean: float
    basis: Array
    left: int

    @classmethod
    def of(cls, m: int, k: int, q: float, p: float, *, centred: bool) -> _Space:
        """At q and p; InputError where all samples are one."""
        if not q - p > 1e-13 * q:
            raise InputError("inputs", "samples without variance", _DIFFER)
        variances, axes = np.linalg.eigh(np.eye(k) - 1.0 / m)
        seen = variances > 1e-9
        basis = axes[:, seen] * np.sqrt(variances[seen])
        mean = 0.0 if centred else math.sqrt(max(0.0, (q + (m - 1) * p) / m))
        mean = mean if mean > 1e-7 * math.sqrt(q) else 0.0
        return cls(m, k, math.sqrt(q - p), mean, basis, m - 1 - basis.shape[1])

    @property
    def explicit(self) -> int:
        """How many directions w has."""
        return int(self.basis.shape[1]) + (self.mean > 0.0)

    def _with_mean(self, centred: Array, mean: float) -> Array:
        """Components along the mean of all, and then these."""
        if not self.mean:
            return centred
        return np.concatenate([np.full((*centred.shape[:-1], 1), mean), centred], axis=-1)

    @property
    def rows(self) -> Array:
        """z of each factor by w, (k, directions)."""
        return self._with_mean(self.a * self.basis, self.mean)

    def differences(self) -> Array:
        """Normals of the planes where two factors have one z."""
        return np.array([self.rows[i] - self.rows[j] for j in range(self.k) for i in range(j)])

    def planes(self, kinks: Sequence[bool]) -> Array:
        """Normals, in w, of the planes where z of a factor is 0, or the mean of all (True)."""
        rows = [self._with_mean(self.a * self.basis, 0.0 if own else self.mean) for own in kinks]
        return np.concatenate([*rows, np.zeros((0, self.explicit))])

    def values(self, omega: Array, tau: Array, R: Array) -> tuple[Array, Array, Array]:
        """z of the factors, (directions, lengths, k), and the means of z and z² over all."""
        zs = (omega @ self.rows.T)[:, None, :] * tau[:, None]
        first = np.zeros(zs.shape[:-1])
        inside = (omega**2).sum(axis=1)
        if self.mean:
            first = self.mean * omega[:, :1] * tau
            inside = inside - omega[:, 0] ** 2
        second = self.a**2 * (inside[:, None] * tau**2 + R**2) / self.m + first**2
        return zs, first, second

    def mean_of(self, others: tuple[int, ...], omega: Array, tau: Array, R: Array) -> Array:
        """⟨Π z⟩ of samples that are not integrated over, given w and R, (directions, lengths)."""
        count = max((*others, self.k - 1)) + 1
        centred = np.eye(count) - 1.0 / self.m
        inside = centred[:, : self.k] @ np.linalg.pinv(self.basis).T
        rest = self.a**2 * (centred - inside @ inside.T)
        along = self._with_mean(self.a * inside, self.mean)
        if not others:
            return np.ones(())
        total = np.zeros((len(omega), len(tau)))
        for singles, wick, left in _matchings(others):
            if wick or (left and not self.left):
                continue
            scale = math.prod(rest[pair] / (self.left + 2 * j) for j, pair in enumerate(left))
            powers = tau ** len(singles) * R ** (2 * len(left))
            total += np.prod(omega @ along[[*singles]].T, axis=1)[:, None] * (scale * powers)
        return total

    def lengths(self) -> tuple[Array, Array, Array]:
        """τ and R on a grid, flat, and their weights."""
        tau, of_tau = _chi(self.explicit)
        if not self.left:
            return tau, np.zeros_like(tau), of_tau
        R, of_R = _chi(self.left) if self.left < _FEW else _laguerre(self.left)
        weights = of_tau[:, None] * of_R
        at = weights > 1e-16 * weights.max()
        grid = np.broadcast_arrays(tau[:, None], R)
        return grid[0][at], grid[1][at], weights[at]

    def homogeneous(self) -> tuple[Array, Array, Array]:
        """τ and R with τ² + R² = 1, and their weights."""
        if not self.left:
            return np.ones(1), np.zeros(1), np.ones(1)
        k, c = self.explicit, self.left
        peak = 0.5 * math.log(k / c)
        x = np.arange(peak - _FAR / k - 4.0, peak + _FAR / c + 4.0, _STEP)
        weights = np.exp(k * x - 0.5 * (k + c) * np.logaddexp(0.0, 2.0 * x))
        weights /= weights.sum()
        length = np.exp(-0.5 * np.logaddexp(0.0, 2.0 * x))
        return length * np.exp(x), length, weights

    def powers(self, degrees: NDArray[np.int64]) -> Array:
        """⟨ρ^n⟩ of a normal vector's length in all directions; InputError if one is infinite."""
        D = self.explicit + self.left
        if (D + degrees <= 0).any():
            raise InputError("inputs", f"{D} directions of a batch", DIVERGES)
        logs = [math.lgamma(0.5 * (D + n)) - math.lgamma(0.5 * D) for n in degrees.ravel().tolist()]
        return np.asarray(2.0 ** (0.5 * degrees) * np.exp(logs).reshape(degrees.shape))

    def average(
        self, outer: Sequence[int], moments: Array, most: int, absolute: bool = False
    ) -> float:
        """⟨∂…∂ F⟩ by these samples, from the moments of F."""
        steps = _steps(self.explicit, most)
        rows, gram, rest = self._samples(max((*outer, self.k - 1)) + 1)
        total = 0.0
        for singles, wick, left in _matchings(tuple(range(len(outer)))):
            scale = math.prod(-gram[outer[s], outer[t]] for s, t in wick)
            scale *= math.prod(rest[outer[s], outer[t]] for s, t in left)
            scale /= math.prod(self.left + 2 * j for j in range(len(left))) or 1.0
            if not scale:
                continue
            tensor = moments[steps[len(singles), len(left)]]
            for s in singles:
                tensor = (np.abs(rows) if absolute else rows)[outer[s]] @ tensor
            total += (abs(scale) if absolute else scale) * float(tensor)
        return total

    def _samples(self, count: int) -> tuple[Array, Array, Array]:
        """Of so many samples: ∂_s by w, (samples, directions); products of the ∂_s; and what of
        these is along the directions that are left."""
        centred = np.eye(count) - 1.0 / self.m
        inverse = np.linalg.pinv(self.basis)
        inside = centred[:, : self.k] @ inverse.T
        rest = (centred - inside @ inside.T) / self.a**2
        rest[: self.k] = rest[:, : self.k] = 0.0
        rows = inside / self.a
        gram = centred / self.a**2
        if self.mean:
            gram = gram + 1.0 / (self.m * self.mean) ** 2
            rows = self._with_mean(rows, 1.0 / (self.m * self.mean))
        return rows, gram, rest if self.left else 0.0 * rest


@cache(entries=512)
def _laguerre(c: int) -> tuple[Array, Array]:
    """The length of a normal vector in c dimensions, on Gauss's rule for functions of its square:
    that of Laguerre's polynomials, by Golub and Welsch."""
    i = np.arange(_RULE, dtype=float)
    off = np.sqrt(i[1:] * (i[1:] + 0.5 * c - 1.0))
    nodes, vectors = np.linalg.eigh(np.diag(2.0 * i + 0.5 * c) + np.diag(off, 1) + np.diag(off, -1))
    return np.sqrt(2.0 * nodes), vectors[0] ** 2


@cache(entries=512)
def _chi(c: int) -> tuple[Array, Array]:
    """The length of a normal vector in c dimensions, on a trapezoid in its logarithm."""
    step = min(_STEP, 0.45 / math.sqrt(c))
    peak = 0.5 * math.log(c)
    low = peak - _FAR / c - math.sqrt(_FAR / c)
    high = 0.5 * math.log(c + 2.0 * _FAR + 2.0 * math.sqrt(2.0 * _FAR * c))
    t = np.arange(low, high + step, step)
    weights = np.exp(c * (t - peak) - 0.5 * (np.exp(2.0 * t) - c))
    return np.exp(t), weights / weights.sum()


@cache(entries=64)
def _exponents(r: int, most: int) -> NDArray[np.int64]:
    """All (b, j) with |b| + 2j at most so large, a row for each: b of r directions, then j."""
    found = [
        (*b, j)
        for j in range(most // 2 + 1)
        for degree in range(most - 2 * j + 1)
        for b in _of_degree(r, degree)
    ]
    return np.array(found, np.int64).reshape(-1, r + 1)


def _of_degree(r: int, degree: int) -> Iterator[tuple[int, ...]]:
    if r == 0:
        if degree == 0:
            yield ()
        return
    for own in range(degree + 1):
        for rest in _of_degree(r - 1, degree - own):
            yield (own, *rest)


@cache(entries=64)
def _steps(r: int, most: int) -> dict[tuple[int, int], NDArray[np.int64]]:
    """For each number of w and of R² the row of `_exponents` of every tuple of directions."""
    number = {tuple(each): row for row, each in enumerate(_exponents(r, most).tolist())}
    found = {}
    for j in range(most // 2 + 1):
        for count in range(most - 2 * j + 1):
            every = product(range(r), repeat=count)
            rows = [number[(*(at.count(a) for a in range(r)), j)] for at in every]
            found[count, j] = np.array(rows, np.int64).reshape((r,) * count)
    return found


_Pairs: TypeAlias = "tuple[tuple[int, int], ...]"


@cache
def _matchings(places: tuple[int, ...]) -> list[tuple[tuple[int, ...], _Pairs, _Pairs]]:
    """The ways to leave places alone, to join them by Wick's theorem, and along what is left."""
    if not places:
        return [((), (), ())]
    first, rest = places[0], places[1:]
    found = [((first, *one), wick, left) for one, wick, left in _matchings(rest)]
    for k, other in enumerate(rest):
        pair = (first, other)
        for one, wick, left in _matchings(rest[:k] + rest[k + 1 :]):
            found += [(one, (pair, *wick), left), (one, wick, (pair, *left))]
    return found


def slopes(rule: AlikeRule, q: float, p: float) -> Callable[[Array], Array]:
    """Changes of the averages with those of K, (copies, m, m), by differences."""
    step = 1e-4 * (q - p)
    by_q, by_p = (
        (rule(q + dq, p + dp, rough=True)[0] - rule(q - dq, p - dp, rough=True)[0]) / (2.0 * step)
        for dq, dp in ((step, 0.0), (0.0, step))
    )

    def change(dK: Array) -> Array:
        return np.asarray(dK[:, 0, :1] * by_q + dK[:, 0, 1:2] * by_p)

    return change
