"""Brackets of a function of all samples, at exchangeable samples of any number m.

K has q for one sample and p for two. Of the samples in a bracket's factors φ, k in number, the
values span k directions of z, or k + 1 with the mean of all; in them stands w ~ N(0, 1). What the
other samples add to Σ z² is (q − p) R², with R² a χ² of the c directions that are left. So an
average is an integral over w and R:

    w = τ ω, ω on a rule between kinks (`directions`), and log τ and log R on trapezoids;

if φ is scale-invariant but for an ε, which is added to the mean of z², only over ω and one length.
The derivatives outside are Wick-ordered products of u along the samples; along the directions that
are left, u is R times a vector on a sphere, whose moments are known. So are those of z of a sample
by which a factor is differentiated: φ is a function of its own z and of two means, and ∂_x of the
mean of z² is 2 z_x/m. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.batches import BatchFunction, slope
from derive.activations.functions import Activation
from derive.errors import InputError
from derive.gaussian.brackets import slopes_of
from derive.symbols import z
from derive.work.caches import cache

from ..arrays import Array
from .batches import (
    FAR,
    SHOWN,
    STEP,
    Factor,
    Wanted,
    check_kinks,
    chi,
    degree,
    diverging,
    exponents_of,
    length_moment,
    names,
    remaining,
)
from .directions import cones, directions

_Component: TypeAlias = tuple[int, int, int]
"""How often φ is differentiated by z, and by the means of z and of z² over all samples."""

_Product: TypeAlias = tuple[tuple[int, _Component], ...]
"""Of each factor its sample and its component."""

_POINTS = (4, 6, 8, 12, 16, 24, 32)
"""Along each edge of a simplex, until two rules agree."""

_AGREE, _NODES, _CHUNK = 1e-11, 12_000_000, 1 << 17
"""The agreement that ends the search, relative to the size; most nodes of a rule; nodes at once."""

_FEW, _RULE = 4, 32
"""Directions that are left from which on R² is on Gauss's rule, of so many points."""

_TERMS = 4096
"""Terms of averages at a time."""

_ROUGH = 6
"""Points of a rule for differences between kernels."""

_DIFFER = "samples that differ, or an eps: the norm of a batch is 0"


class _Group(NamedTuple):
    """Products of components that are averaged together.

    Attributes:
        k: the samples of their factors.
        most: the degree of the moments that are wanted of them.
        products: the components of φ in each.
        is_symmetric: True if a permutation of the samples keeps the only one.
    """

    k: int
    most: int
    products: tuple[_Product, ...]
    is_symmetric: bool


class _Terms(NamedTuple):
    """Terms of averages that have one group, and as many samples.

    Attributes:
        group: their products' group.
        outer: how many derivatives are outside; other samples are those of values z.
        averages, rows: of each term the average and the product.
        samples: of each the samples, (terms, samples).
        coefficients: of each.
    """

    group: int
    outer: int
    averages: NDArray[np.int64]
    rows: NDArray[np.int64]
    samples: NDArray[np.int64]
    coefficients: Array

    def part(self, begin: int) -> _Terms:
        """Some of them."""
        own = slice(begin, begin + _TERMS)
        return self._replace(
            averages=self.averages[own],
            rows=self.rows[own],
            samples=self.samples[own],
            coefficients=self.coefficients[own],
        )


class AlikeRule:
    """The averages over m samples: at q and p, values and sizes, (count,).

    The factors of those that are wanted are of samples 0, 1, ….
    """

    def __init__(
        self, function: BatchFunction, activation: Activation, wanted: Sequence[Wanted], m: int
    ) -> None:
        check_kinks(activation)
        self._m, self._wanted = m, wanted
        self._phi = _Components(function, activation)
        self.is_centred = function.is_shift_invariant
        self._offset = self._phi.offset
        bent = not activation.is_smooth
        self._kinks = function.centred_arguments if bent else ()
        self._known: dict[int, tuple[Array, Array, float]] = {}
        self._steepest = max(degree(factors) for factors, _ in wanted)
        expanded = [self._expanded(factors) for factors, _ in wanted]
        self._groups, places = _grouped(expanded, wanted)
        alike: dict[tuple[int, int, int], list[tuple[int, int, tuple[int, ...], float]]] = {}
        for number, ((_, outer), terms) in enumerate(zip(wanted, expanded, strict=True)):
            for (own, values), each in terms.items():
                group, row = places[own]
                key = group, len(outer), len(values)
                alike.setdefault(key, []).append((number, row, (*outer, *values), each))
        self._terms = [_terms(*key, every) for key, every in alike.items()]

    def _expanded(self, factors: Sequence[Factor]) -> dict[tuple[_Product, tuple[int, ...]], float]:
        """The factors by components of φ and values of z."""
        total: dict[tuple[_Product, tuple[int, ...]], float] = {((), ()): 1.0}
        for sample, order in factors:
            own = _differentiated(sample, slopes_of(order), self._m)
            total = _added(
                (((*product, (sample, component)), tuple(sorted(values + more))), one * other)
                for (product, values), one in total.items()
                for (component, more), other in own.items()
                if not self._phi.vanishes(component)
            )
        return _added(((tuple(sorted(p)), values), each) for (p, values), each in total.items())

    def __call__(self, q: float, p: float, *, rough: bool = False) -> tuple[Array, Array]:
        """Values and sizes; of few points if `rough`."""
        found = [self._at(number, q, p, rough=rough) for number in range(len(self._groups))]
        values, sizes = np.zeros(len(self._wanted)), np.zeros(len(self._wanted))
        for terms in self._terms:
            space, moments, errors = found[terms.group]
            most = self._groups[terms.group].most
            np.add.at(values, terms.averages, space.average(terms, most, moments))
            of_sizes = np.abs(moments) + SHOWN * errors
            np.add.at(sizes, terms.averages, space.average(terms, most, of_sizes, absolute=True))
        return values, sizes

    def _at(self, number: int, q: float, p: float, *, rough: bool) -> tuple[_Space, Array, Array]:
        """The moments of a group, and their errors."""
        group = self._groups[number]
        space = _Space.of(self._m, group.k, q, p, centred=self.is_centred)
        fixed = self.is_centred and self._offset == 0  # the moments have powers of q − p alone
        if not fixed or number not in self._known:
            points = _ROUGH if rough and not fixed else _POINTS[-1]
            self._known[number] = *self._moments(space, group, points), space.a
        moments, errors, scale = self._known[number]
        factor = (scale / space.a) ** np.array([_degree(each) for each in group.products])
        return space, moments * factor, errors * factor

    def _moments(self, space: _Space, group: _Group, most: int) -> tuple[Array, Array]:
        """⟨w^b R^{2j} F⟩ for each (b, j) of `_exponents` and each product, and their errors."""
        parts = self._cones(space, group)
        r = space.explicit
        if self._offset == 0 and space.explicit + space.left <= self._steepest:
            raise diverging(space.explicit + space.left, self._steepest)
        lengths = space.lengths(self._offset)
        found = self._sum(space, group, directions(parts, _POINTS[0]), lengths)
        change, error = math.inf, np.full_like(found, np.inf)
        for points in _POINTS[1:]:
            nodes = len(parts) * points ** (r - 1) * len(lengths.tau)
            if points > most or (nodes > _NODES and math.isfinite(change)):
                break
            before = found
            found = self._sum(space, group, directions(parts, points), lengths)
            error, change, left = remaining(before, found, change)
            if left <= _AGREE or r == 1:
                break
        if not np.isfinite(found).all():
            raise InputError("inputs", "samples without variance", _DIFFER)
        return found, error

    def _cones(self, space: _Space, group: _Group) -> list[Array]:
        """Cones between kinks; of a symmetric product those where z descends."""
        planes = space.planes(self._kinks)
        if not group.is_symmetric or space.k < 3:
            return cones(planes)
        ordered = space.differences()
        found = cones(np.concatenate([planes, ordered]))
        return [each for each in found if (np.diff(space.rows @ each.sum(axis=1)) <= 0.0).all()]

    def _sum(
        self, space: _Space, group: _Group, rule: tuple[Array, Array], lengths: _Lengths
    ) -> Array:
        exponents = _exponents(space.explicit, group.most)
        total = np.zeros((len(exponents), len(group.products)))
        step = max(1, _CHUNK // len(lengths.tau))
        kinds = [(sum(b), j) for *b, j in exponents.tolist()]
        every = list(dict.fromkeys(kinds))
        column = np.array([every.index(each) for each in kinds])
        for begin in range(0, len(rule[1]), step):
            omega = rule[0][begin : begin + step]
            zs, first, second = space.values(omega, lengths.tau, lengths.R)
            phi = self._phi.at(zs, first[..., None], second[..., None])
            monomials = rule[1][begin : begin + step] * np.prod(
                [omega[:, a] ** exponents[:, a, None] for a in range(space.explicit)], axis=0
            )
            for row, factors in enumerate(group.products):
                F = reduce(np.multiply, (phi(*factor) for factor in factors))
                along = F @ lengths.weights(every, _degree(factors))
                total[:, row] += np.einsum("bd,db->b", monomials, along[:, column])
        return np.asarray(total / rule[1].sum())


def _differentiated(
    sample: int, by: Sequence[int], m: int
) -> dict[tuple[_Component, tuple[int, ...]], float]:
    """φ of a sample, differentiated by samples: components of it times values z of samples.

    By the means of z and of z² over the batch, ∂_x acts as ∂_1/m + 2 z_x ∂_2/m.
    """
    found: dict[tuple[_Component, tuple[int, ...]], float] = {((0, 0, 0), ()): 1.0}
    for x in by:
        parts = []
        for (at, values), each in found.items():
            own, first, second = at
            parts.append((((own, first + 1, second), values), each / m))
            parts.append((((own, first, second + 1), (*values, x)), 2.0 * each / m))
            if x == sample:
                parts.append((((own + 1, first, second), values), each))
            for k, value in enumerate(values):
                if value == x:
                    parts.append(((at, values[:k] + values[k + 1 :]), each))
        found = _added(parts)
    return found


_T = TypeVar("_T")


def _added(terms: Iterable[tuple[_T, float]]) -> dict[_T, float]:
    """A sum, equal terms together."""
    found: dict[_T, float] = {}
    for key, value in terms:
        found[key] = found.get(key, 0.0) + value
    return found


def _grouped(
    expanded: Sequence[Mapping[tuple[_Product, tuple[int, ...]], float]], wanted: Sequence[Wanted]
) -> tuple[list[_Group], dict[_Product, tuple[int, int]]]:
    """The products in groups, and the group and the row of each."""
    most: dict[_Product, int] = {}
    for terms, (_, outer) in zip(expanded, wanted, strict=True):
        for own, values in terms:
            most[own] = max(most.get(own, 0), len(outer) + len(values))
    groups: dict[tuple[int, int, bool], list[_Product]] = {}
    for own, count in most.items():
        k = 1 + max(sample for sample, _ in own)
        symmetric = not count and own == tuple((a, (0, 0, 0)) for a in range(k))
        groups.setdefault((k, count, symmetric), []).append(own)
    found = [_Group(k, n, tuple(every), same) for (k, n, same), every in groups.items()]
    places = {
        own: (number, row)
        for number, group in enumerate(found)
        for row, own in enumerate(group.products)
    }
    return found, places


def _terms(
    group: int,
    outer: int,
    values: int,
    every: Sequence[tuple[int, int, tuple[int, ...], float]],
) -> _Terms:
    averages, rows, samples, coefficients = zip(*every, strict=True)
    at = np.array(samples, np.int64).reshape(len(every), outer + values)
    return _Terms(group, outer, np.array(averages), np.array(rows), at, np.array(coefficients))


def _degree(of: _Product) -> int:
    """The power of one over a length that a product falls with, if φ is scale-invariant."""
    return sum(own + first + 2 * second for _, (own, first, second) in of)


class _Components:
    """φ, and its derivatives by z and by the means of z and of z² over all samples, compiled.

    Attributes:
        offset: e, if φ does not change where z, the mean of z, and that of z² plus e are scaled by
            λ, λ and λ²; None if there is none.
    """

    def __init__(self, function: BatchFunction, activation: Activation) -> None:
        self._first, self._second = (sympy.Dummy(real=True) for _ in range(2))
        self._value = function.by_moments(self._first, self._second)
        self._names = names(activation)
        self._compiled: dict[_Component, Callable[..., Array] | None] = {}
        found = function.offset(activation)
        self.offset = None if found is None else float(found)

    def vanishes(self, component: _Component) -> bool:
        """True if a derivative is 0 everywhere."""
        return self._function(component) is None

    def _function(self, component: _Component) -> Callable[..., Array] | None:
        if component not in self._compiled:
            every = (z, self._first, self._second)
            by = [at for at, count in zip(every, component, strict=True) for _ in range(count)]
            expr = slope(self._value, *by)
            self._compiled[component] = (
                None if expr == 0 else sympy.lambdify([every], expr, self._names, cse=True)
            )
        return self._compiled[component]

    def at(self, zs: Array, first: Array, second: Array) -> Callable[[int, _Component], Array]:
        """A component at z of so many samples, (…, k), by its sample."""
        known: dict[_Component, Array] = {}

        def factor(sample: int, component: _Component) -> Array:
            if component not in known:
                function = self._function(component)
                assert function is not None
                with np.errstate(all="ignore"):
                    own = function((zs, first, second))
                known[component] = np.asarray(np.broadcast_to(own, zs.shape), float)
            return known[component][..., sample]

        return factor


class _Lengths(NamedTuple):
    """Values of τ and R, and the weights of them.

    Attributes:
        tau, R: (nodes,).
        weigh: of the power B of τ, that j of R², and the degree of a product: (nodes,).
    """

    tau: Array
    R: Array
    weigh: Callable[[int, int, int], Array]

    def weights(self, every: Sequence[tuple[int, int]], degree: int) -> Array:
        """For each (B, j) a column."""
        return np.stack([self.weigh(B, j, degree) for B, j in every], axis=1)


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
            wanted = "samples that differ, p < q: a batch of equal ones has no variance"
            raise InputError("inputs", "samples without variance", wanted)
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

    def lengths(self, offset: float | None) -> _Lengths:
        """τ and R on a grid, or on a line if φ is scale-invariant but for this offset."""
        if offset is None:
            return self._plane()
        return self._line(offset) if offset else self._circle()

    def _of_R(self) -> tuple[Array, Array]:
        if not self.left:
            return np.zeros(1), np.ones(1)
        return chi(self.left) if self.left < _FEW else _laguerre(self.left)

    def _plane(self) -> _Lengths:
        """τ and R on a grid, flat."""
        (tau, of_tau), (R, of_R) = chi(self.explicit), self._of_R()
        weights = of_tau[:, None] * of_R
        at = weights > 1e-16 * weights.max()
        tau, R = (each[at] for each in np.broadcast_arrays(tau[:, None], R))
        return _Lengths(tau, R, lambda B, j, degree: weights[at] * tau**B * R ** (2 * j))

    def _line(self, offset: float) -> _Lengths:
        """τ/A with A² = a² R²/m + offset, on which φ depends alone, at R = 0."""
        R, of_R = self._of_R()
        A = np.sqrt(self.a**2 * R**2 / self.m + offset)
        log_tau, k = np.log(chi(self.explicit)[0][[0, -1]]), self.explicit
        t = np.arange(log_tau[0] - math.log(A.max()), log_tau[1] - math.log(A.min()), STEP)
        at = A[:, None] * np.exp(t)
        normal = math.lgamma(0.5 * k) + (0.5 * k - 1.0) * math.log(2.0)
        density = STEP * np.exp(k * np.log(at) - 0.5 * at**2 - normal)

        def weigh(B: int, j: int, degree: int) -> Array:
            scale = of_R * R ** (2 * j) * (A / math.sqrt(offset)) ** -degree
            return np.asarray(scale @ (density * at**B))

        return _Lengths(math.sqrt(offset) * np.exp(t), np.zeros_like(t), weigh)

    def _circle(self) -> _Lengths:
        """τ and R with τ² + R² = 1, of a scale-invariant φ."""
        k, c = self.explicit, self.left
        tau, R, weights = np.ones(1), np.zeros(1), np.ones(1)
        if c:
            peak = 0.5 * math.log(k / c)
            x = np.arange(peak - FAR / k - 4.0, peak + FAR / c + 4.0, STEP)
            weights = np.exp(k * x - 0.5 * (k + c) * np.logaddexp(0.0, 2.0 * x))
            weights /= weights.sum()
            R = np.exp(-0.5 * np.logaddexp(0.0, 2.0 * x))
            tau = R * np.exp(x)

        def weigh(B: int, j: int, degree: int) -> Array:
            power = B + 2 * j - degree
            if k + c + power <= 0:  # infinite, and in no average
                return np.zeros_like(tau)
            return np.asarray(weights * tau**B * R ** (2 * j) * length_moment(k + c, power))

        return _Lengths(tau, R, weigh)

    def average(self, terms: _Terms, most: int, moments: Array, *, absolute: bool = False) -> Array:
        """⟨∂…∂ (z…z F)⟩ of each term, from the moments of the products."""
        begins = range(0, len(terms.rows), _TERMS)
        parts = [self._average(terms.part(begin), most, moments, absolute) for begin in begins]
        return np.concatenate(parts)

    def _average(self, terms: _Terms, most: int, moments: Array, absolute: bool) -> Array:
        steps, named = _steps(self.explicit, most), terms.samples
        count = named.shape[1]
        by, at, gram, rest = self._samples(max(named.max(initial=0), self.k - 1) + 1)
        rows = [(by if s < terms.outer else at)[named[:, s]].T for s in range(count)]
        lengths = [1.0 / self.a if s < terms.outer else self.a for s in range(count)]
        coefficients, total = terms.coefficients, np.zeros(len(named))
        if absolute:
            rows, coefficients = [np.abs(each) for each in rows], np.abs(coefficients)
        for singles, wick, left in _matchings(tuple(range(count)), terms.outer):
            scale = coefficients.copy()
            for s, t in wick:
                scale *= -gram[named[:, s], named[:, t]]
            for s, t in left:
                scale *= rest[named[:, s], named[:, t]] * (lengths[s] * lengths[t])
            if not scale.any():
                continue
            scale /= math.prod(self.left + 2 * j for j in range(len(left)))
            tensor = moments[steps[len(singles), len(left)]][..., terms.rows]
            for s in singles:
                tensor = np.einsum("an,a...n->...n", rows[s], tensor)
            total += (np.abs(scale) if absolute else scale) * tensor
        return total

    def _samples(self, count: int) -> tuple[Array, Array, Array, Array]:
        """Of so many samples: ∂_s by w and z_s by w, (samples, directions); products of the ∂_s;
        and what of these is along the directions that are left, in units of 1/a²."""
        centred = np.eye(count) - 1.0 / self.m
        inside = centred[:, : self.k] @ np.linalg.pinv(self.basis).T
        rest = centred - inside @ inside.T
        rest[: self.k] = rest[:, : self.k] = 0.0
        gram = centred / self.a**2
        by, at = inside / self.a, inside * self.a
        if self.mean:
            gram = gram + 1.0 / (self.m * self.mean) ** 2
            by = self._with_mean(by, 1.0 / (self.m * self.mean))
            at = self._with_mean(at, self.mean)
        return by, at, gram, rest if self.left else 0.0 * rest


@cache(entries=512)
def _laguerre(c: int) -> tuple[Array, Array]:
    """The length of a normal vector in c dimensions, on Gauss's rule for functions of its square:
    that of Laguerre's polynomials, by Golub and Welsch."""
    i = np.arange(_RULE, dtype=float)
    off = np.sqrt(i[1:] * (i[1:] + 0.5 * c - 1.0))
    nodes, vectors = np.linalg.eigh(np.diag(2.0 * i + 0.5 * c) + np.diag(off, 1) + np.diag(off, -1))
    return np.sqrt(2.0 * nodes), vectors[0] ** 2


@cache(entries=64)
def _exponents(r: int, most: int) -> NDArray[np.int64]:
    """All (b, j) with |b| + 2j at most so large, a row for each: b of r directions, then j."""
    parts = [exponents_of(r, most - 2 * j) for j in range(most // 2 + 1)]
    return np.concatenate([np.insert(b, r, j, axis=1) for j, b in enumerate(parts)])


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
def _matchings(places: tuple[int, ...], outer: int) -> list[tuple[tuple[int, ...], _Pairs, _Pairs]]:
    """The ways to leave places alone, to join those before `outer` by Wick's theorem, and to join
    any along what is left."""
    if not places:
        return [((), (), ())]
    first, rest = places[0], places[1:]
    found = [((first, *one), wick, left) for one, wick, left in _matchings(rest, outer)]
    for k, other in enumerate(rest):
        pair = (first, other)
        for one, wick, left in _matchings(rest[:k] + rest[k + 1 :], outer):
            found += [(one, (pair, *wick), left)] * (other < outer) + [(one, wick, (pair, *left))]
    return found


def slopes(rule: AlikeRule, q: float, p: float) -> Callable[[Array], Array]:
    """Changes of the averages with those of K, (copies, m, m), by differences."""
    step = 1e-4 * (q - p)

    def by(dq: float, dp: float) -> Array:
        both = (rule(q + sign * dq, p + sign * dp, rough=True)[0] for sign in (1.0, -1.0))
        return np.subtract(*both) / (2.0 * step)

    by_q = by(step, 0.0)
    by_p = -by_q if rule.is_centred else by(0.0, step)

    def change(dK: Array) -> Array:
        return np.asarray(dK[:, 0, :1] * by_q + dK[:, 0, 1:2] * by_p)

    return change
