"""Paths of the Gram matrix at depth in proportion to width, by an exponential scheme; its moments.

K moves by dM = √(hΣ) ξ, for all entries K_ab with a ≤ b together, and by its drift. A step is

    K ↦ exp(Y) K exp(Y),    YK + KY = dM + h (b − Q),

so that K stays a covariance. Q is what the second order in dM adds to the mean, in the axes of K
with variances v: Q_ad = ½ Σ_b Σ_{(ab)(bd)} (1/(v_a + v_b) + 1/(v_b + v_d)). To first order in h it
is the scheme of Euler and Maruyama: the weak order is 1, and the strong order 1/2. For one input
and geometric Brownian motion it is exact. The same normals drive steps of 2h, two at a time: the
difference is the error of the steps.

Moments need no sampling where they are a closed system. For a polynomial f of K, d⟨f⟩/dr = ⟨𝓛f⟩
with 𝓛 = Σ_p b_p ∂_p + ½ Σ_pq Σ_pq ∂_p ∂_q over the entries p of K. If the drift is linear in K and
the diffusion quadratic, 𝓛 does not raise the degree of f.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm

from derive.citations import rests_on
from derive.deep import Diffusion, Function
from derive.errors import InputError, as_integer
from derive.gaussian.brackets import Component
from derive.work.defaults import DRAWS

from ..arrays import Array
from ..checks import draws as checked_draws
from .laws import checked_ratio

_MOST = 1e4
"""A path where K has grown by this much is stopped."""
_LEAST, _FAR = 1e-14, 25.0
"""The least variance of K beside its largest, and half of the most that log K moves in a step."""


class Mean(NamedTuple):
    """A mean over paths, extrapolated to h → 0; its standard error; the error of the steps."""

    value: Array
    error: Array
    step_error: Array


@dataclass(frozen=True, eq=False)
class Paths:
    """K at the end of the paths.

    Attributes:
        values: (draws, m, m), with steps of h.
        coarse: the same paths with steps of 2h.
        ratio: the time r at the end.
        steps: how many of h.
        stopped: the part of the paths that were stopped, where K had grown by a factor of 10⁴.
    """

    values: Array
    coarse: Array
    ratio: sympy.Expr
    steps: int
    stopped: float = 0.0

    @property
    def strong_error(self) -> float:
        """The root mean square of what halving the steps changes, over that of K."""
        change = np.square(self.values - self.coarse).mean()
        return float(np.sqrt(change / np.square(self.values).mean()))

    def mean(self, function: Callable[[Array], Array] = lambda K: K) -> Mean:
        """The mean of a function of K, which gets all K of shape (draws, m, m).

        The weak error of the scheme is of order h, so that 2⟨f⟩_h − ⟨f⟩_{2h} is without it.
        """
        fine, coarse = (np.asarray(function(K)) for K in (self.values, self.coarse))
        both = 2 * fine - coarse
        spread = both.std(axis=0, ddof=1) / np.sqrt(len(both))
        return Mean(both.mean(axis=0), spread, np.abs((fine - coarse).mean(axis=0)))


@rests_on("li2022", "noci2023")
def paths(
    diffusion: Diffusion,
    kernel: ArrayLike,
    ratio: sympy.Expr | float | str,
    draws: int = DRAWS,
    *,
    steps: int = 256,
    seed: int = 0,
) -> Paths:
    """Sample the Gram matrix of several inputs at L = ratio · n, in the limit n → ∞.

    Arguments:
        diffusion: of `recursion(["z", "z"]).diffusion(shape)`.
        kernel: (m, m), K of layer 1: a covariance, positive definite.
        ratio: r = (L − 1)/n.
        draws: paths.
        steps: of h = r/steps, an even number.
        seed: of NumPy's generator.

    A path stops where Σ K_aa has grown by 10⁴: behind attention the drift is of third degree in K,
    and paths explode.

    Derived here. Raises InputError for an open σ, and for a kernel that is no such matrix.

    >>> from derive import recursion
    >>> made = recursion(["z", "z"], "orthogonal").diffusion("sqrt(n)*tanh(z/sqrt(n))")
    >>> paths(made, [[2.0, 0.0], [0.0, 1.0]], 1, draws=2).mean().value[0, 0].round(3)  # no noise
    np.float64(1.073)
    """
    start = checked_kernel(kernel)
    if len(start) % checked_diffusion(diffusion).positions:
        wanted = f"K of sequences of {diffusion.positions} tokens"
        raise InputError("kernel", kernel, wanted)
    count = as_integer("steps", steps, 2)
    if count % 2:
        raise InputError("steps", steps, "an even number")
    time = checked_ratio(ratio)
    many = checked_draws(draws, 2)
    scheme = _Scheme.of(diffusion, start)
    h = float(time) / count
    rng = np.random.default_rng(seed)
    fine = np.repeat(start[None], many, axis=0)
    coarse = fine.copy()
    for _ in range(count // 2):
        first, second = rng.standard_normal((2, many, len(scheme.rows)))
        fine = scheme.moved(scheme.moved(fine, h, first), h, second)
        coarse = scheme.moved(coarse, 2 * h, (first + second) / np.sqrt(2))
    stopped = np.mean(np.trace(fine, axis1=1, axis2=2) > scheme.most)
    return Paths(fine, coarse, time, count, float(stopped))


def checked_diffusion(given: object) -> Diffusion:
    """One of several inputs and an activation; InputError for another."""
    if not isinstance(given, Diffusion) or given.shape is None:
        raise InputError("diffusion", given, "a diffusion of an activation")
    if given.made.is_single_input:
        raise InputError("diffusion", str(given), "that of two inputs, not of one")
    if given.symbols:
        raise InputError("diffusion", str(given), f"numbers for {given.symbols}")
    return given


def checked_kernel(given: ArrayLike) -> Array:
    """A covariance; InputError for another."""
    wanted = "a symmetric matrix (m, m), positive definite"
    try:
        start = np.asarray(given, float)
    except (TypeError, ValueError):
        raise InputError("kernel", given, wanted) from None
    square = start.ndim == 2 and start.shape[0] == start.shape[1] > 0
    if not square or not np.isfinite(start).all() or not _is_covariance(start):
        raise InputError("kernel", given, wanted)
    return start


def _is_covariance(matrix: Array) -> bool:
    return bool(np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix).min() > 0)


@dataclass(frozen=True, eq=False)
class _Scheme:
    """Drift and diffusion as functions of arrays."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    drift: Function
    noise: Function
    most: float

    @classmethod
    def of(cls, diffusion: Diffusion, start: Array) -> _Scheme:
        most = _MOST * np.trace(start)
        return cls(*np.triu_indices(len(start)), *diffusion.functions(), most)

    def moved(self, K: Array, h: float, normals: Array) -> Array:
        """K one step of h later."""
        a, b = self.rows, self.columns
        v, axes = np.linalg.eigh(K)
        v = np.maximum(v, _LEAST * v[:, -1:])
        sums = v[:, :, None] + v[:, None]
        noise = self.noise(K)
        random = _root(h * noise[:, a[:, None], b[:, None], a, b])
        step = h * self.drift(K)
        step[:, a, b] += np.einsum("dij,dj->di", random, normals)
        step[:, b, a] = step[:, a, b]
        along = [axes] * 4
        noise = np.einsum("zabcd,zai,zbj,zcj,zdl->zijl", noise, *along, optimize=True)
        second = np.einsum("zijl,zij->zil", noise, 0.5 / sums)
        own = axes.swapaxes(1, 2) @ step @ axes - h * (second + second.swapaxes(1, 2))
        rates, turned = np.linalg.eigh(own / sums)
        grown = np.exp(np.clip(rates, -_FAR, _FAR))
        root = axes @ (turned * grown[:, None]) @ turned.swapaxes(1, 2) * np.sqrt(v)[:, None]
        stopped = np.trace(K, axis1=1, axis2=2) > self.most
        return np.where(stopped[:, None, None], K, root @ root.swapaxes(1, 2))


def _root(covariance: Array) -> Array:
    """A root of each covariance; 0 where there is no noise."""
    scale = np.einsum("dii->d", covariance) / covariance.shape[-1]
    if not scale.any():
        return covariance
    ridge = 1e-13 * scale[:, None, None] * np.eye(covariance.shape[-1])
    return np.linalg.cholesky(covariance + ridge)


Pair = tuple[int, int]


def moments(
    diffusion: Diffusion, kernel: ArrayLike, ratio: sympy.Expr | float | str, order: int = 2
) -> dict[tuple[Pair, ...], float]:
    """⟨Π K_ab⟩ of all products of up to `order` entries, exactly in the limit n → ∞.

    Arguments:
        diffusion, kernel, ratio: as of `paths`.
        order: how many factors, 1 or more.

    Returns a dictionary by the pairs, from 0: ((0, 1),) for ⟨K_12⟩ and ((0, 0), (0, 1)) for
    ⟨K_11 K_12⟩. Derived here. Raises InputError where no closed system exists: with a drift that is
    not linear in K, `paths` samples the moments.

    >>> from derive import recursion
    >>> linear = recursion(["z", "z"]).diffusion("z*(1 + 1/n)")
    >>> found = moments(linear, [[1.0, 0.5], [0.5, 1.0]], "1/2")
    >>> round(found[(0, 1),], 3), round(found[(0, 1), (0, 1)], 3)  # the mean stays
    (0.5, 1.208)
    """
    start = checked_kernel(kernel)
    made, time = checked_diffusion(diffusion), float(checked_ratio(ratio))
    most = as_integer("order", order, 1)
    closed = "a drift that is linear in K, and a quadratic diffusion (or use paths)"
    if made.positions > 1:
        raise InputError("diffusion", str(made), closed)
    pairs = list(combinations_with_replacement(range(len(start)), 2))
    entries = {pair: sympy.Dummy() for pair in pairs}
    products = [each for k in range(most + 1) for each in combinations_with_replacement(pairs, k)]
    basis = {sympy.Mul(*(entries[p] for p in each)): each for each in products}
    drift = {entries[p]: _placed(made.drift, p, entries) for p in pairs}
    noise = {
        (entries[p], entries[q]): _placed(made.noise, (*p, *q), entries)
        for p in pairs
        for q in pairs
    }
    places = {f: place for place, f in enumerate(basis)}
    generator = np.zeros((len(basis), len(basis)))
    for f, row in places.items():
        for each in sympy.Add.make_args(_moved(f, drift, noise)):
            number, term = each.as_independent(*entries.values(), as_Add=False)
            if term not in places and number != 0:
                raise InputError("diffusion", str(made), closed)
            generator[row, places.get(term, row)] += float(number)
    first = [np.prod([start[p] for p in each]) for each in products]
    found = dict(zip(products, map(float, expm(time * generator) @ first), strict=True))
    return {product: value for product, value in found.items() if product}


def _placed(
    expr: sympy.Expr, samples: tuple[int, ...], entries: Mapping[Pair, sympy.Dummy]
) -> sympy.Expr:
    """The expression with these samples for 1, 2, …"""
    known = {}
    for each in expr.atoms(Component):
        a, b = sorted(samples[int(k) - 1] for k in each.args[1])
        known[each] = entries[a, b]
    return sympy.sympify(expr).xreplace(known)


def _moved(
    f: sympy.Expr,
    drift: Mapping[sympy.Dummy, sympy.Expr],
    noise: Mapping[tuple[sympy.Dummy, sympy.Dummy], sympy.Expr],
) -> sympy.Expr:
    """𝓛f."""
    first = (b * f.diff(p) for p, b in drift.items())
    second = (each * f.diff(p, q) / 2 for (p, q), each in noise.items())
    return sympy.expand(sympy.Add(*first, *second))
