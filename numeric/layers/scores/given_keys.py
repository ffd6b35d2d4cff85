r"""Averages of pairs of scores through an elementwise function f, for heads of d neurons.

Given the keys, scores s_ts and s_ur are normal with the covariances gain·S_tu G_sr, G = k·k/d. That
leaves an average over G, a Wishart matrix of two tokens. Queries and keys change places: slopes by
S_sr are averages given the queries. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from derive.activations.functions import Activation
from derive.gaussian.shapes import Shape

from ...arrays import Array
from .. import piecewise_linear, sigma
from ..one_sample import normalized_hermite
from .nodes import grams_of_two, mean_square
from .seen import ROUNDING, Pairs, Seen

_REACH = 14.0
"""How far normal variables go that Hermite polynomials of high degree are averaged over."""


class _Rule(NamedTuple):
    """How fine an average is: nodes of each part of a Gram matrix that are added; and of smooth f,
    terms of Mehler's series, and the spacing of normal variables."""

    more: int
    terms: int = 0
    spacing: float = 1.0


_OF_SMOOTH = _Rule(4, 50, 0.28), _Rule(8, 80, 0.2)
_OF_LINES = _Rule(4), _Rule(10)

_LINES = [Shape((0, 0), outer) for outer in ((0, 0), (1, 1), (2, 0), (0, 2))]

Brackets = Callable[[Array], Array]
"""⟨f f⟩, ⟨f' f'⟩, ⟨f'' f⟩ and ⟨f f''⟩ at covariances (nodes, 2, 2)."""


def pairs(S: Array, gain: float, size: int, seen: Seen, function: Activation) -> Pairs:
    """The averages for all pairs of scores, with errors by two rules."""
    rules = _OF_SMOOTH if function.is_smooth else _OF_LINES
    coarse, fine = (_by_rule(S, gain, size, seen, function, rule) for rule in rules)
    errors = np.abs(fine[0] - coarse[0]) + ROUNDING * np.abs(fine[0]).max()
    return Pairs(fine[0], fine[1], fine[2], fine[3], fine[4], errors)


def _by_rule(
    S: Array, gain: float, size: int, seen: Seen, function: Activation, rule: _Rule
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


def _lines(function: Activation) -> Brackets:
    return lambda K: piecewise_linear.averages(function, _LINES, K)[0]


def _smooth(function: Activation, rule: _Rule) -> Brackets:
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
