"""Brackets of functions of all samples at one neuron, ⟨∂_{s…} Π_p φ_{s_p}(z)⟩_K with z ~ N(0, K).

z = L u with K = L Lᵀ and u ~ N(0, 1) in as many directions as K has. φ is not differentiated:
∂_s = Σ_a L⁺_{as} ∂/∂u_a, and by parts ⟨∂_{a…} F⟩ = ⟨He_{a…}(u) F⟩. That holds for kinks, and for
norms without ε, whose φ has no limit at z = 0. If φ does not change with the mean of the samples,
only K's part without that mean counts.

u = τ ω: the directions ω are on a rule between the planes where σ has its kink (`directions`), and
log τ on a trapezoid, which converges exponentially for every ε; if φ is scale-invariant, the
moments of τ are known. The error is estimated by a rule with fewer points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations_with_replacement, product, takewhile
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.polynomial import hermite_e
from numpy.typing import NDArray

from derive.activations.batches import BatchFunction, slope
from derive.activations.functions import Activation
from derive.errors import InputError
from derive.gaussian.brackets import slopes_of
from derive.symbols import real, z
from derive.work.caches import cache

from ..arrays import Array
from ..brackets.functions import OWN
from . import sigma
from .directions import Directions, cones, directions

_POINTS = (6, 12, 18, 24, 32, 40)
"""Along each edge of a simplex, until two rules agree."""

_AGREE, _NODES = 1e-11, 1 << 21
"""The agreement that ends the search, relative to the size; most nodes of a rule."""

FAR, STEP = 33.0, 0.11
"""Where a trapezoid ends: e^{−33} of the largest weight; its step."""

_RANK, _CHUNK = 1e-13, 1 << 14
"""The least variance of a direction, relative to the largest; nodes at once, of
which a product fits into a processor's cache."""

SHOWN = 0.125 / float(np.finfo(float).eps)
"""The rule's error in units of an average's size, whose roundings the flow's error is made of
(`accuracy`)."""

_DIFFER = "samples that differ, and an eps where values of one neuron may be alike"


Factor: TypeAlias = tuple[int, int]
"""φ of a sample, and 0 or the samples that it is differentiated by (`by_samples`)."""

Wanted: TypeAlias = tuple[tuple[Factor, ...], tuple[int, ...]]
"""The factors, and the samples of the derivatives outside, ascending."""


class Compiled(NamedTuple):
    """The means' expressions and φ, and their derivatives by z and by the means before them: of z
    and of all means, of which those that do not occur may be 0."""

    values: list[Callable[..., Array]]
    by_z: list[Callable[..., Array]]
    by_means: list[list[Callable[..., Array]]]


@cache
def expressions(function: BatchFunction, activation: Activation) -> Compiled:
    """The parts of φ, compiled."""
    symbols = [symbol for symbol, _ in function.means]
    modules = names(activation)

    def made(expr: sympy.Expr) -> Callable[..., Array]:
        evaluate = sympy.lambdify([z, *symbols], expr, modules, cse=True)

        def at_all(at: Array, *known: Array) -> Array:
            given = [*known, *[0.0] * (len(symbols) - len(known))]
            return np.asarray(np.broadcast_to(evaluate(at, *given), at.shape), float)

        return at_all

    every = [*(expr for _, expr in function.means), function.value]
    return Compiled(
        [made(expr) for expr in every],
        [made(slope(expr, z)) for expr in every],
        [[made(slope(expr, by)) for by in symbols[:k]] for k, expr in enumerate(every)],
    )


@cache
def compiled(function: BatchFunction, activation: Activation) -> Callable[[Array, int], Array]:
    """φ of arrays that have the samples along one axis."""
    *means, value = expressions(function, activation).values

    def evaluate(at: Array, axis: int) -> Array:
        known = list[Array]()
        for mean in means:
            known.append(mean(at, *known).mean(axis=axis, keepdims=True))
        return value(at, *known)

    return evaluate


@cache
def with_slopes(function: BatchFunction, activation: Activation) -> Callable[[Array], Array]:
    """φ of arrays (…, m), and behind it ∂φ_a/∂z_s at the place m + m a + s: (…, m + m²)."""
    own, by_z, by_means = expressions(function, activation)

    def evaluate(at: Array) -> Array:
        m = at.shape[-1]
        known = list[Array]()  # the means, each the same for all samples
        moves = list[Array]()  # their derivatives by each sample, (…, m)
        for k in range(len(function.means)):
            move = by_z[k](at, *known) / m
            for j, each in enumerate(by_means[k]):
                move = move + each(at, *known).mean(axis=-1, keepdims=True) * moves[j]
            known.append(own[k](at, *known).mean(axis=-1, keepdims=True))
            moves.append(move)
        found = by_z[-1](at, *known)[..., None] * np.eye(m)
        for each, move in zip(by_means[-1], moves, strict=True):
            found = found + each(at, *known)[..., None] * move[..., None, :]
        flat = found.reshape(*at.shape[:-1], m * m)
        return np.concatenate([own[-1](at, *known), flat], axis=-1)

    return evaluate


def names(activation: Activation) -> list[Any]:
    """The functions in expressions of φ."""

    def slope_of(order: int, at: Array) -> Array:
        return sigma.derivatives(activation, (order,))(np.asarray(at, float))[0]

    own = {"s": partial(slope_of, 0), "Slope": slope_of}
    return [own, OWN, "scipy", "numpy"]


def factors_of(
    function: BatchFunction, activation: Activation, factors: Sequence[Factor], m: int
) -> Callable[[Array], Array]:
    """φ and its derivatives, of arrays (…, m): (…, factors).

    Raises InputError for second derivatives of an activation with kinks.
    """
    by = [(sample, slopes_of(order)) for sample, order in factors]
    plain, steep = compiled(function, activation), with_slopes(function, activation)
    if not activation.is_smooth and any(len(slopes) > 1 for _, slopes in by):
        wanted = "an activation without kinks, for tensors with second derivatives of it"
        raise InputError("activation", str(activation), wanted)
    low = [k for k, (_, slopes) in enumerate(by) if len(slopes) < 2]
    places = [m + m * s + slopes[0] if slopes else s for s, slopes in by if len(slopes) < 2]
    higher = {k: _turned(*each, m) for k, each in enumerate(by) if len(each[1]) > 1}
    is_steep = any(order for _, order in factors)

    def evaluate(at: Array) -> Array:
        found = np.empty((*at.shape[:-1], len(by)))
        found[..., low] = (steep(at) if is_steep else plain(at, -1))[..., places]
        for k, (pattern, turned) in higher.items():
            own = _derivative(function, activation, pattern, m)
            found[..., k] = own(*np.moveaxis(at[..., turned], -1, 0))
        return found

    return evaluate


def _turned(sample: int, slopes: Sequence[int], m: int) -> tuple[tuple[int, ...], list[int]]:
    """The samples of a derivative's slopes as those of sample 0, and the samples in that order."""
    order = list(dict.fromkeys((sample, *slopes, *range(m))))
    return tuple(sorted(map(order.index, slopes))), order


@cache
def _derivative(
    function: BatchFunction, activation: Activation, slopes: tuple[int, ...], m: int
) -> Callable[..., Array]:
    """A derivative of φ of sample 0 by these samples, of the values of all m."""
    values = [real(f"z_{sample}") for sample in range(m)]
    found = slope(function.at_samples(values), *(values[each] for each in slopes))
    compiled: Callable[..., Array] = sympy.lambdify(values, found, names(activation), cse=True)
    return compiled


def degree(factors: Sequence[Factor]) -> int:
    """How many derivatives the factors have."""
    return sum(len(slopes_of(order)) for _, order in factors)


def diverging(directions: int, slopes: int) -> InputError:
    """The error of averages of so many slopes, over a norm of so few directions."""
    wanted = (
        f"an eps, or a larger batch: averages of 1/r{'¹²³⁴⁵⁶⁷⁸'[slopes - 1]} over a norm r of so "
    )
    return InputError("inputs", f"{directions} directions of a batch", wanted + "few are infinite")


def check_kinks(activation: Activation) -> None:
    """Raise InputError for kinks elsewhere than at 0."""
    if not activation.is_smooth and tuple(activation.kinks) != (0,):
        wanted = "an activation without kinks, or with one at 0, such as relu"
        raise InputError("activation", str(activation), wanted)


def remaining(before: Array, found: Array, last: float) -> tuple[Array, float, float]:
    """The error of the finer of two rules, their largest relative change, and that of the error.

    Arguments:
        before, found: (moments, products), by either rule.
        last: the change before, infinite at first: changes fall geometrically.
    """
    error, size = np.abs(found - before), np.abs(found).max(axis=0)
    change = float((error / np.where(size > 0.0, size, 1.0)).max())
    falling = min(1.0, 10.0 * change / last) if math.isfinite(last) else 1.0
    return error * falling, change, change * falling


def length_moment(r: int, n: int) -> float:
    """⟨τ^n⟩ of a normal vector's length τ in r dimensions, nan where it is infinite."""
    if r + n <= 0:
        return math.nan
    log = math.lgamma(0.5 * (r + n)) - math.lgamma(0.5 * r)
    return float(2.0 ** (0.5 * n)) * math.exp(log)


def directions_of(K: Array, *, centred: bool, slopes: int) -> tuple[Array, Array]:
    """L and L⁺ᵀ, (m, directions), of z = L u; without the mean of the samples if `centred`.

    Raises InputError for a batch without variance, and for too few directions for averages of so
    many slopes of a scale-invariant φ.
    """
    basis, scale = _basis(len(K), centred), np.abs(K.diagonal()).max()
    if not np.isfinite(K).all():
        raise InputError("inputs", "samples without variance", _DIFFER)
    variances, axes = np.linalg.eigh(basis.T @ K @ basis)
    seen = variances > _RANK * scale
    if not seen.any():
        raise InputError("inputs", "samples without variance", _DIFFER)
    if slopes and seen.sum() <= slopes:
        raise diverging(int(seen.sum()), slopes)
    axes, lengths = axes[:, seen], np.sqrt(variances[seen])
    turn = axes.T if seen.all() else np.eye(len(lengths))  # a symmetric root moves little with K
    return basis @ (axes * lengths) @ turn, basis @ (axes / lengths) @ turn


@cache(entries=32)
def _basis(m: int, centred: bool) -> Array:
    """Directions of the samples, (m, directions): without that of their mean if `centred`."""
    if not centred:
        return np.eye(m)
    return np.asarray(np.linalg.qr(np.eye(m)[:, 1:] - 1.0 / m)[0])


class _Known(NamedTuple):
    """At one kernel, by the number of derivatives: ⟨∂…∂ F⟩ of each product F, (products, m, m, …),
    and the errors of the rule."""

    values: list[Array]
    errors: list[Array]
    sizes: list[Array]


class Rule:
    """The averages, with what one kernel has kept: a flow asks for values and slopes there."""

    def __init__(
        self, function: BatchFunction, activation: Activation, wanted: Sequence[Wanted], m: int
    ) -> None:
        self._wanted, self._m = wanted, m
        own = sorted({factor for factors, _ in wanted for factor in factors})
        self._phi = factors_of(function, activation, own, m)
        self._places = {factor: k for k, factor in enumerate(own)}
        self._products = sorted({factors for factors, _ in wanted})
        self._rows = {factors: row for row, factors in enumerate(self._products)}
        self._degrees = np.array([degree(factors) for factors in self._products])
        self._most = 2 + max((len(outer) for _, outer in wanted), default=0)
        self._homogeneous = function.is_scale_invariant(activation)
        self._centred = function.is_shift_invariant
        bent = not activation.is_smooth
        means = function.centred_arguments if bent else ()
        check_kinks(activation)
        rows = [np.eye(m) - mean / m for mean in means]
        self._planes = np.concatenate([*rows, np.zeros((0, m))])
        self._at, self._known = np.zeros(0), _Known([], [], [])

    def evaluate(self, K: Array) -> tuple[Array, Array]:
        """Values and sizes at a kernel, (m, m)."""
        known = self._at_kernel(K)
        own = [
            [part[len(outer)][(self._rows[factors], *outer)] for part in known]
            for factors, outer in self._wanted
        ]
        values, errors, sizes = np.array(own).reshape(-1, 3).T
        return values, sizes + SHOWN * errors

    def gradient(self, K: Array) -> Callable[[Array], Array]:
        """½ Σ dK_{st} ⟨∂_s ∂_t …⟩ of changes dK, (copies, m, m)."""
        known = self._at_kernel(K)
        slopes = np.array(
            [
                known.values[len(outer) + 2][(self._rows[factors], *outer)]
                for factors, outer in self._wanted
            ]
        )
        return partial(np.einsum, "kst,cst->ck", 0.5 * slopes)

    def _at_kernel(self, K: Array) -> _Known:
        if self._at.shape != K.shape or not np.array_equal(self._at, K):
            self._known, self._at = self._averaged(K), K.copy()
        return self._known

    def _averaged(self, K: Array) -> _Known:
        steepest = int(self._degrees.max(initial=0)) if self._homogeneous else 0
        L, inverse = directions_of(K, centred=self._centred, slopes=steepest)
        parts = cones(self._planes @ L)
        r = L.shape[1]
        radial = 1 if self._homogeneous else len(chi(r)[0])
        moments = self._moments(L, directions(parts, _POINTS[0]))
        change, error = np.inf, np.full_like(moments, np.inf)
        for points in _POINTS[1:]:
            if len(parts) * points ** (r - 1) * radial > _NODES and np.isfinite(error).all():
                break
            before, moments = moments, self._moments(L, directions(parts, points))
            error, change, left = remaining(before, moments, change)
            if left <= _AGREE:
                break
        if not np.isfinite(moments).all():
            raise InputError("inputs", "samples some of whose values have no norm", _DIFFER)
        return _Known(
            [_derivatives(moments, inverse, k) for k in range(self._most + 1)],
            [_derivatives(error, np.abs(inverse), k, absolute=True) for k in range(self._most + 1)],
            [
                _derivatives(np.abs(moments), np.abs(inverse), k, absolute=True)
                for k in range(self._most + 1)
            ],
        )

    def _moments(self, L: Array, rule: Directions) -> Array:
        """⟨Π u^{b} F⟩ for each exponent b of `exponents_of` and each product F."""
        r = L.shape[1]
        exponents = exponents_of(r, self._most)
        total = np.zeros((len(exponents), len(self._products)))
        tau, weights = chi(r)
        powers = weights[:, None] * tau[:, None] ** np.arange(self._most + 1)
        step = max(1, _CHUNK // len(tau))
        lengths = _lengths(r, np.arange(self._most + 1)[:, None] - self._degrees)
        degree = exponents.sum(axis=1)
        for begin in range(0, len(rule.weights), step):
            omega = rule.vectors[begin : begin + step]
            own = omega @ L.T
            along = np.empty((self._most + 1, len(self._products), len(omega)))
            if self._homogeneous:
                for row, F in enumerate(self._product(self._phi(own))):
                    along[:, row] = lengths[:, row, None] * F
            else:
                for row, F in enumerate(self._product(self._phi(tau[:, None, None] * own))):
                    along[:, row] = powers.T @ F
            powers_of = np.cumprod(
                np.concatenate([np.ones((1, *omega.shape)), np.repeat(omega[None], self._most, 0)]),
                axis=0,
            )
            monomials = rule.weights[begin : begin + step] * np.prod(
                [powers_of[exponents[:, a], :, a] for a in range(r)], axis=0
            )
            for k in range(self._most + 1):
                rows = degree == k
                total[rows] += monomials[rows] @ along[k].T
        return total

    def _product(self, phi: Array) -> Iterator[Array]:
        """The products F of φ (…, factors) in turn: neighbours share their first factors."""
        values = np.ascontiguousarray(np.moveaxis(phi, -1, 0))
        before: tuple[Factor, ...] = ()
        running = [np.ones(phi.shape[:-1])]
        for factors in self._products:
            alike = (a == b for a, b in zip(before, factors, strict=False))
            shared = sum(1 for _ in takewhile(bool, alike))
            del running[shared + 1 :]
            for factor in factors[shared:]:
                own = values[self._places[factor]]
                running.append(running[-1] * own)
            before = factors
            yield running[-1]


@cache(entries=64)
def exponents_of(r: int, most: int) -> NDArray[np.int64]:
    """All exponents of r variables to this degree, (count, r)."""
    found = [
        [chosen.count(a) for a in range(r)]
        for degree in range(most + 1)
        for chosen in combinations_with_replacement(range(r), degree)
    ]
    return np.array(found, np.int64).reshape(len(found), r)


def _lengths(r: int, degrees: NDArray[np.int64]) -> Array:
    """`length_moment` of each of these degrees."""
    found = [length_moment(r, n) for n in degrees.ravel().tolist()]
    return np.array(found).reshape(degrees.shape)


@cache(entries=512)
def chi(c: int) -> tuple[Array, Array]:
    """The length of a normal vector in c dimensions, on a trapezoid in its logarithm."""
    step = min(STEP, 0.45 / math.sqrt(c))
    peak = 0.5 * math.log(c)
    low = peak - FAR / c - math.sqrt(FAR / c)
    high = 0.5 * math.log(c + 2.0 * FAR + 2.0 * math.sqrt(2.0 * FAR * c))
    t = np.arange(low, high + step, step)
    weights = np.exp(c * (t - peak) - 0.5 * (np.exp(2.0 * t) - c))
    return np.exp(t), weights / weights.sum()


def _derivatives(moments: Array, inverse: Array, order: int, *, absolute: bool = False) -> Array:
    """⟨∂…∂ F⟩ by so many samples, (products, m, m, …), from the moments of u.

    Arguments:
        inverse: L⁺ᵀ, (m, r).
        absolute: add up absolute values.
    """
    r = inverse.shape[1]
    by_parts, places = _hermite(r, order)
    by_parts = np.abs(by_parts) if absolute else by_parts
    found = (by_parts @ moments[: by_parts.shape[1]])[places].T.reshape(-1, *(r,) * order)
    for axis in range(1, order + 1):
        found = np.moveaxis(np.tensordot(found, inverse, axes=(axis, 1)), -1, axis)
    return found


@cache(entries=64)
def _hermite(r: int, order: int) -> tuple[Array, NDArray[np.int64]]:
    """He_{a…} of so many directions by the monomials of `exponents_of`, (rows, monomials), and the
    row of each tuple of directions."""
    exponents = exponents_of(r, order)
    number = {tuple(each): k for k, each in enumerate(exponents.tolist())}
    chosen = list(combinations_with_replacement(range(r), order))
    found = np.zeros((len(chosen), len(exponents)))
    for row, at in enumerate(chosen):
        terms = [hermite_e.herme2poly([0.0] * at.count(a) + [1.0]) for a in range(r)]
        for powers in product(*(range(len(term)) for term in terms)):
            scale = math.prod(term[k] for term, k in zip(terms, powers, strict=True))
            found[row, number[powers]] += scale
    rows = {at: row for row, at in enumerate(chosen)}
    every = product(range(r), repeat=order)
    return found, np.array([rows[tuple(sorted(at))] for at in every], np.int64)
