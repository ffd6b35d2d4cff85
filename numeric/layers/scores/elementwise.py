r"""Averages over scores that pass through an elementwise function f, A_ts = f(s_ts + B_ts).

B_tu = Σ_sr A_ts A_ur S_sr, so that moments of two and of four weights are all that is needed:

* f a polynomial: moments of products of normal variables at any size d of a head, by Wick's
  theorem. Pairings π of queries and σ of keys with c loops give (gain/d)^{k/2} d^c ΠS_π ΠS_σ.
* normal scores: brackets of f, with the covariance gain·S ⊗ S of all scores.

Slopes of polynomials are derivatives along imaginary steps. Derived here.
"""

from __future__ import annotations

from itertools import product
from math import factorial
from typing import NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.gaussian.brackets import Bracket
from derive.groups.pairings import Pairing, loops, ordered, pairings
from derive.symbols import z
from derive.work.caches import cache

from ...arrays import Array
from ...brackets.pieces import table
from .. import averages
from .moments import Moments, Scores

_OF_POLYNOMIAL, _OF_LINES, _OF_SMOOTH = (36, 36, 16), 16, 9
"""Scores up to which moments of four of them are taken: of polynomials by their degree, as four
cubes have 10⁸ pairs of pairings, of straight lines and of other smooth functions."""

_STEP, _ROUNDING = 1e-40, 64.0 * np.finfo(float).eps
"""An imaginary step; the error of a sum, relative to its terms."""


def moments(S: Array, scores: Scores) -> Moments | None:
    """The averages at this kernel; None where their sums have too many terms, or no rule."""
    function = scores.function
    assert function is not None
    seen = _Seen(*np.nonzero(scores.seen))
    shifts = scores.bias[seen.t, seen.s]
    if function.expr.is_polynomial(z):
        degree = max(0, int(sympy.degree(function.expr, z)))
        if degree >= len(_OF_POLYNOMIAL) or len(shifts) > _OF_POLYNOMIAL[degree]:
            return None
        return _of_polynomial(S, scores, seen, degree)
    most = _OF_SMOOTH if function.is_smooth else _OF_LINES
    has_rule = function.is_smooth or table(function) is not None
    if scores.size is not None or not has_rule or not 0 < len(shifts) <= most or np.ptp(shifts):
        return None
    return _of_brackets(S, scores.gain, seen, _shifted(function, float(shifts[0])))


class _Seen(NamedTuple):
    """The scores x that are not masked, s_ts at t = t[x], s = s[x]."""

    t: NDArray[np.int64]
    s: NDArray[np.int64]

    def values(self, S: Array) -> Array:
        """S_sr of two scores."""
        return np.asarray(S[np.ix_(self.s, self.s)])

    def queries(self, S: Array) -> Array:
        """S_tu of two scores."""
        return np.asarray(S[np.ix_(self.t, self.t)])

    def mean(self, products: Array, S: Array) -> Array:
        """E B, of the moments of two weights [x, y]."""
        at = np.eye(len(S))[self.t]
        return np.asarray(at.T @ (products * self.values(S)) @ at)

    def square(self, products: Array, S: Array) -> Array:
        """E B B, of the moments of four weights [x, y, x', y']."""
        at, values = np.eye(len(S))[self.t], self.values(S)
        found = products * values[:, :, None, None] * values
        for _ in range(4):
            found = np.tensordot(found, at, (0, 0))
        return np.asarray(found)


def _made(mean: Array, square: Array, slopes: Array, *sizes: Array) -> Moments:
    """With slopes in a and b alike, and errors from the sizes of the sums."""
    slopes = 0.5 * (slopes + slopes.swapaxes(2, 3))
    of_mean, of_square = (_ROUNDING * each for each in sizes)
    of_slopes = np.full_like(slopes, _ROUNDING * np.abs(slopes).max())
    covariance = square - np.multiply.outer(mean, mean)
    return Moments(mean, covariance, slopes, (of_mean, of_square, of_slopes))


def _of_polynomial(S: Array, scores: Scores, seen: _Seen, degree: int) -> Moments:
    assert scores.function is not None
    shifts, f = scores.bias[seen.t, seen.s], scores.function.expr
    taylor = [
        sympy.lambdify(z, sympy.diff(f, z, k) / factorial(k), "numpy")(shifts) + 0.0 * shifts
        for k in range(1 + degree)
    ]

    def mean(S: Array, terms: list[Array]) -> Array:
        return seen.mean(_wick(S, scores, seen, terms, 2), S)

    def square(S: Array, terms: list[Array]) -> Array:
        return seen.square(_wick(S, scores, seen, terms, 4), S)

    slopes = np.zeros((scores.tokens,) * 4)
    for a, b in np.ndindex(S.shape):
        moved = S.astype(complex)
        moved[a, b] += 1j * _STEP
        slopes[..., a, b] = mean(moved, taylor).imag / _STEP
    positive = np.abs(S), [np.abs(each) for each in taylor]
    return _made(mean(S, taylor), square(S, taylor), slopes, mean(*positive), square(*positive))


def _wick(S: Array, scores: Scores, seen: _Seen, taylor: list[Array], count: int) -> Array:
    """E Π_i A(x_i) of so many weights, [x_1, x_2, …], A = Σ_k taylor[k] s^k."""
    places = np.indices((len(seen.t),) * count)
    found = np.zeros(places.shape[1:])
    both = [np.asarray(each(S)) for each in (seen.queries, seen.values)]
    for orders in product([k for k, each in enumerate(taylor) if each.any()], repeat=count):
        ways, weights = _ways(orders, scores.size)
        queries, keys = (
            [np.prod([x[places[i], places[j]] for i, j in way], axis=0) for way in ways]
            for x in both
        )
        moment = sum(
            weights[a, b] * (queries[a] * keys[b])
            for a, b in zip(*np.nonzero(weights), strict=True)
        )
        for place, order in zip(places, orders, strict=True):
            moment = moment * taylor[order][place]
        found = found + scores.gain ** (sum(orders) / 2) * moment
    return found


@cache(entries=256)
def _ways(orders: tuple[int, ...], size: int | None) -> tuple[list[Pairing], Array]:
    """The ways to pair normal variables, orders[i] of them at i; and Σ d^{c − k/2} of two ways."""
    at = [i for i, order in enumerate(orders) for _ in range(order)]
    every = list(pairings(len(at))) if len(at) % 2 == 0 else []
    number: dict[Pairing, int] = {}
    rows = [
        number.setdefault(tuple(sorted(ordered(at[i], at[j]) for i, j in way)), len(number))
        for way in every
    ]
    weights = np.zeros((len(number),) * 2)
    for (a, one), (b, other) in product(zip(rows, every, strict=True), repeat=2):
        if size is not None:
            weights[a, b] += float(size) ** (loops(one, other) - len(at) // 2)
        elif one == other:
            weights[a, b] += 1.0
    return list(number), weights


def _shifted(function: Activation, shift: float) -> Activation:
    """f(z + shift)."""
    if not shift:
        return function
    by = sympy.Rational(shift)
    return Activation(f"{function.name} at z + {by}", function.expr.subs(z, z + by))


def _of_brackets(S: Array, gain: float, seen: _Seen, function: Activation) -> Moments:
    both, four = (tuple((k, 0) for k in range(count)) for count in (2, 4))
    wanted = [Bracket(both), Bracket(both, (0, 1)), Bracket(both, (0, 0)), Bracket(four)]
    values, queries = seen.values(S), seen.queries(S)
    rule = averages.of_several(function, wanted, len(values))
    found = rule(gain * queries * values)
    products, crossed, bent, squares = (_table(rule, each, found[0]) for each in wanted)
    sizes = _table(rule, wanted[0], found[1]), _table(rule, wanted[3], found[1])
    # Cov of scores x and y is gain S_tu S_sr; ∂⟨f f⟩ = ⟨∂_x ∂_y⟩ ∂Cov_xy + ½ ⟨∂_x²⟩ ∂Cov_xx + …
    t, s = np.eye(len(S))[seen.t], np.eye(len(S))[seen.s]
    cross, bent = gain * crossed * values, gain * bent * values

    def at(terms: Array, *ends: Array) -> Array:
        return np.asarray(np.einsum("xy,xt,yu,xya,xyb->tuab", terms, t, t, *ends, optimize=True))

    x, y = (np.broadcast_to(each, (*values.shape, len(S))) for each in (s[:, None], s))
    first, second = (np.broadcast_to(each, x.shape) for each in (t[:, None], t))
    slopes = at(products + cross * queries, x, y) + at(cross * values, first, second)
    own = at(bent * values.diagonal()[:, None], first, first)
    own += at(bent * queries.diagonal()[:, None], x, x)
    slopes += 0.5 * (own + own.swapaxes(0, 1))
    positive = np.abs(S)
    moved = seen.mean(products, S), seen.square(squares, S), slopes
    return _made(*moved, seen.mean(sizes[0], positive), seen.square(sizes[1], positive))


def _table(rule: averages.Averages, bracket: Bracket, found: Array) -> Array:
    """A bracket of all tuples of scores."""
    return np.asarray(np.append(found, 0.0)[rule.places[bracket]].sum(axis=0))
