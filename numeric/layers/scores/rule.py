"""The best rule for averages over scores."""

from __future__ import annotations

import numpy as np

from ...arrays import Array
from . import elementwise, pairs, quasi
from .exchangeable import alike_mean
from .moments import Moments, Scores

_ALIKE = 1e-13
"""How far entries of a kernel that are alike may differ, relative to the largest."""

_SMALL = 8
"""Heads below this size have scores of so many scales that their integrals take seconds."""


def moments(S: Array, scores: Scores) -> Moments:
    """The averages at a kernel: of two tokens by quadrature, of few that pass through an
    elementwise function by moments of normal variables, else by quasi-Monte Carlo.

    The mean of tokens that are alike comes from its integrals, unless heads are small.
    """
    if scores.is_tied:
        return quasi.moments(S, scores)
    if scores.function is None and scores.tokens == 2:
        return pairs.moments(S, scores)
    exact = None if scores.function is None else elementwise.moments(S, scores)
    if exact is not None:
        return exact
    found = quasi.moments(S, scores)
    plain = scores.function is None and scores.is_plain
    if not plain or (scores.size or _SMALL) < _SMALL or not _are_alike(S):
        return found
    of_both = alike_mean(*_alike(S), scores.gain, scores.size)
    mean, errors = (_matrix(each, len(S)) for each in of_both)
    return found._replace(mean=mean, errors=(errors, *found.errors[1:]))


def _alike(S: Array) -> tuple[int, float, float]:
    return len(S), float(S[0, 0]), float(S[0, 1])


def _matrix(values: Array, tokens: int) -> Array:
    """The first value on the diagonal, the second elsewhere."""
    return np.asarray(np.where(np.eye(tokens, dtype=bool), values[0], values[1]))


def _are_alike(S: Array) -> bool:
    q, p = S[0, 0], S[0, -1]
    return bool(np.allclose(S, _matrix(np.array([q, p]), len(S)), 0.0, _ALIKE * q))
