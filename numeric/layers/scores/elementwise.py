r"""Averages over scores that pass through an elementwise function f, A_ts = f(s_ts + B_ts).

B_tu = Σ_sr A_ts A_ur S_sr, so that moments of two and of four weights are all that is needed:

* f a polynomial: moments of products of normal variables at any size d of a head, by Wick's
  theorem. Pairings π of queries and σ of keys with c loops give (gain/d)^{k/2} d^c ΠS_π ΠS_σ.
* normal scores: brackets of f, with the covariance gain·S ⊗ S of all scores.
* other f and finite d: moments of two weights given their keys, and points for those of four. Given
  the keys, s_ts and s_ur are normal with the covariances gain·S_tu G_sr, G = k·k/d. That leaves an
  average over G, a Wishart matrix of two tokens. Slopes by S_sr are averages given the queries.

Slopes of polynomials are derivatives along imaginary steps. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import factorial
from typing import NamedTuple

import numpy as np
import sympy

from derive.activations.functions import Activation
from derive.gaussian.brackets import Bracket
from derive.gaussian.shapes import Shape
from derive.groups.pairings import Pairing, loops, ordered, pairings
from derive.symbols import z
from derive.work.caches import cache

from ...arrays import Array
from ...brackets.pieces import table
from .. import averages, piecewise_linear, sigma
from ..one_sample import normalized_hermite
from . import quasi
from .moments import ROUNDING, Moments, Pairs, Scores, Seen
from .nodes import FEW_SCALES, grams_of_two, mean_square

_OF_POLYNOMIAL, _OF_LINES, _OF_SMOOTH, _OF_PAIRS = (36, 36, 16), 16, 9, 16
"""Scores up to which moments of four of them are taken: of polynomials by their degree, as four
cubes have 10⁸ pairs of pairings, of straight lines and of other smooth functions; and up to which
moments of two are, given the keys."""

_STEP = 1e-40
"""An imaginary step."""


def moments(S: Array, scores: Scores) -> Moments | None:
    """The averages at this kernel; None where their sums have too many terms, or no rule."""
    function = scores.function
    assert function is not None
    seen = Seen(*np.nonzero(scores.seen))
    shifts = scores.bias[seen.t, seen.s]
    if function.is_polynomial:
        degree = max(0, int(sympy.degree(function.expr, z)))
        if degree >= len(_OF_POLYNOMIAL) or len(shifts) > _OF_POLYNOMIAL[degree]:
            return None
        return _of_polynomial(S, scores, seen, degree)
    of_fours = _OF_SMOOTH if function.is_smooth else _OF_LINES
    most = of_fours if scores.size is None else _OF_PAIRS
    has_rule = function.is_smooth or table(function) is not None
    if not has_rule or not 0 < len(shifts) <= most or np.ptp(shifts):
        return None
    function = _shifted(function, float(shifts[0]))
    if scores.size is None:
        return _of_brackets(S, scores.gain, seen, function)
    if scores.size < FEW_SCALES:
        return None
    points = quasi.moments(S, scores)
    both = _pairs(S, scores.gain, scores.size, seen, function)
    found = both.moments(S, scores.gain, seen, (points.covariance, points.errors[1]))
    return found if found.errors[0].max() < points.errors[0].max() else points


def _of_polynomial(S: Array, scores: Scores, seen: Seen, degree: int) -> Moments:
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
    slopes = 0.5 * (slopes + slopes.swapaxes(2, 3))
    own, squares = mean(S, taylor), square(S, taylor)
    sizes = [each(np.abs(S), [np.abs(term) for term in taylor]) for each in (mean, square)]
    errors = sizes[0], sizes[1], np.full_like(slopes, np.abs(slopes).max())
    covariance = squares - np.multiply.outer(own, own)
    of_mean, of_square, of_slopes = (ROUNDING * each for each in errors)
    return Moments(own, covariance, slopes, (of_mean, of_square, of_slopes))


def _wick(S: Array, scores: Scores, seen: Seen, taylor: list[Array], count: int) -> Array:
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


def _of_brackets(S: Array, gain: float, seen: Seen, function: Activation) -> Moments:
    both, four = (tuple((k, 0) for k in range(count)) for count in (2, 4))
    wanted = [Bracket(both), Bracket(both, (0, 1)), Bracket(both, (0, 0)), Bracket(four)]
    values, queries = seen.values(S), seen.queries(S)
    rule = averages.of_several(function, wanted, len(values))
    found = rule(gain * queries * values)
    products, crossed, bent, squares = (_table(rule, each, found[0]) for each in wanted)
    sizes = _table(rule, wanted[0], found[1]), _table(rule, wanted[3], found[1])
    # Cov of scores x and y is gain S_tu S_sr; ∂⟨f f⟩ = ⟨∂_x ∂_y⟩ ∂Cov_xy + ½ ⟨∂_x²⟩ ∂Cov_xx + …
    slopes = crossed * values, crossed * queries
    own = bent * values.diagonal()[:, None], bent * queries.diagonal()[:, None]
    pairs = Pairs(products, *slopes, *own, ROUNDING * sizes[0])
    covariance = seen.square(squares, S) - np.multiply.outer(*[seen.mean(products, S)] * 2)
    error = seen.square(ROUNDING * sizes[1], np.abs(S))
    return pairs.moments(S, gain, seen, (covariance, error))


def _table(rule: averages.Averages, bracket: Bracket, found: Array) -> Array:
    """A bracket of all tuples of scores."""
    return np.asarray(np.append(found, 0.0)[rule.places[bracket]].sum(axis=0))


_REACH = 14.0
"""How far normal variables go that Hermite polynomials of high degree are averaged over."""


class _PairsRule(NamedTuple):
    """How fine an average is: nodes of each part of a Gram matrix that are added; and of smooth f,
    terms of Mehler's series, and the spacing of normal variables."""

    more: int
    terms: int = 0
    spacing: float = 1.0


_SMOOTH_RULES = _PairsRule(4, 50, 0.28), _PairsRule(8, 80, 0.2)
_LINES_RULES = _PairsRule(4), _PairsRule(10)

_LINES = [Shape((0, 0), outer) for outer in ((0, 0), (1, 1), (2, 0), (0, 2))]

_Brackets = Callable[[Array], Array]
"""⟨f f⟩, ⟨f' f'⟩, ⟨f'' f⟩ and ⟨f f''⟩ at covariances (nodes, 2, 2)."""


def _pairs(S: Array, gain: float, size: int, seen: Seen, function: Activation) -> Pairs:
    """The averages for all pairs of scores, with errors by two rules."""
    rules = _SMOOTH_RULES if function.is_smooth else _LINES_RULES
    coarse, fine = (_pairs_by_rule(S, gain, size, seen, function, rule) for rule in rules)
    errors = np.abs(fine[0] - coarse[0]) + ROUNDING * np.abs(fine[0]).max()
    return Pairs(fine[0], fine[1], fine[2], fine[3], fine[4], errors)


def _pairs_by_rule(
    S: Array, gain: float, size: int, seen: Seen, function: Activation, rule: _PairsRule
) -> Array:
    """The arrays of `Pairs`."""
    brackets = _smooth(function, rule) if function.is_smooth else _lines(function)
    known: dict[tuple[bytes, bytes, bool], Array] = {}

    def given(normals: Array, drawn: Array, alike: bool) -> Array:
        """Of scores that are normal with the first matrix given those of the second."""
        key = normals.tobytes(), drawn.tobytes(), alike
        if key not in known:
            weights, grams = _grams(drawn, size, rule.more, alike)
            parts = brackets(gain * normals * grams)
            parts[1:] *= [grams[:, 0, 1], grams[:, 0, 0], grams[:, 1, 1]]
            known[key] = parts @ weights
        return known[key]

    count = len(seen.t)
    found = np.zeros((5, count, count))
    for x in range(count):
        for y in range(x, count):
            t, s = seen.t[[x, y]], seen.s[[x, y]]
            queries, keys = (S[np.ix_(each, each)] for each in (t, s))
            product, of_queries, *own = given(queries, keys, s[0] == s[1])
            _, of_keys, *others = given(keys, queries, t[0] == t[1])
            for at, k in (((x, y), 0), ((y, x), 1)):
                found[:, *at] = product, of_queries, of_keys, own[k], others[k]
    return found


def _grams(S: Array, size: int, more: int, alike: bool) -> tuple[Array, Array]:
    """Weights and Gram matrices over d of two vectors of covariance S, which may be one."""
    if alike:
        x, weights = mean_square(size, 64 + 8 * more)
        return weights, x[:, None, None] * S
    return grams_of_two(S, size, more)


def _lines(function: Activation) -> _Brackets:
    return lambda K: piecewise_linear.averages(function, _LINES, K)[0]


def _smooth(function: Activation, rule: _PairsRule) -> _Brackets:
    """By Mehler's series: with b_k = E f(√v g) He_k(g)/√k!, ⟨f f⟩ = Σ b_k b'_k ρ^k."""
    derivatives = sigma.derivatives(function, (0, 1, 2))
    g = rule.spacing * np.arange(-_REACH // rule.spacing, 1.0 + _REACH // rule.spacing)
    he = normalized_hermite(rule.terms - 1, g)
    rows = he * np.exp(-0.5 * g**2) * rule.spacing / np.sqrt(2.0 * np.pi)

    def at(K: Array) -> Array:
        x, y = (np.sqrt(np.maximum(K[:, i, i], 0.0)) for i in (0, 1))
        b, c = (np.asarray(derivatives(each[:, None] * g)) @ rows.T for each in (x, y))
        along = np.clip(K[:, 0, 1] / np.maximum(x * y, 1e-300), -1.0, 1.0)
        powers = along[:, None] ** np.arange(rule.terms)
        orders = [shape.outer for shape in _LINES]
        return np.array([(b[i] * c[j] * powers).sum(axis=1) for i, j in orders])

    return at
