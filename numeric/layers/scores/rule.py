"""The best rule for averages over scores."""

from __future__ import annotations

import numpy as np

from ...arrays import Array
from . import elementwise, pairs, quasi
from .exchangeable import alike_mean
from .moments import Moments, Scores
from .nodes import FEW_SCALES

_ALIKE = 1e-13
"""How far entries of a kernel that are alike may differ, relative to the largest."""

_STEP = 1e-4
"""Of differences, relative to q − p."""


def moments(S: Array, scores: Scores) -> Moments:
    """The averages at a kernel: of two tokens by quadrature, of few that pass through an
    elementwise function by moments of normal variables, else by quasi-Monte Carlo.

    The mean of tokens that are alike comes from its integrals, unless heads are small.
    """
    exact = _exact(S, scores)
    if exact is not None:
        return exact
    found = quasi.moments(S, scores)
    if not _has_integrals(S, scores):
        return found
    mean, errors = _alike_mean(S, scores)
    return found._replace(mean=mean, errors=(errors, *found.errors[1:]))


def means(kernels: Array, scores: Scores) -> tuple[Array, Array]:
    """E B at a few kernels that are almost equal, (kernels, N, N), and its error at the first.

    Other averages, N² times as many, are left out where that spares time.
    """
    S = kernels[0]
    exact = _exact(S, scores)
    if exact is not None:
        return exact.moved(kernels), exact.errors[0]
    if not _has_integrals(S, scores):
        return quasi.means(kernels, scores)
    mean, errors = _alike_mean(S, scores)
    return mean + _alike_changes(kernels, scores), errors


def _exact(S: Array, scores: Scores) -> Moments | None:
    if scores.is_tied:
        return None
    if scores.function is not None:
        return elementwise.moments(S, scores)
    return pairs.moments(S, scores) if scores.tokens == 2 else None


def _has_integrals(S: Array, scores: Scores) -> bool:
    """True if the mean is an integral: of tokens that are alike."""
    plain = scores.function is None and scores.is_plain and not scores.is_tied
    return plain and (scores.size or FEW_SCALES) >= FEW_SCALES and _are_alike(S)


def _alike_mean(S: Array, scores: Scores) -> tuple[Array, Array]:
    values, errors = alike_mean(*_alike(S), scores.gain, scores.size)
    return _matrix(values, len(S)), _matrix(errors, len(S))


def _alike_changes(kernels: Array, scores: Scores) -> Array:
    """How the mean changes from the first kernel to each, by differences at large heads.

    Entries are moved as if all of their kind were moved alike: errors are carried on by it.
    """
    tokens, q, p = _alike(kernels[0])
    h = _STEP * max(q - p, _STEP * q)

    def at(q: float, p: float) -> Array:
        return alike_mean(tokens, q, p, scores.gain)[0]

    start, away = at(q, p), h if p < 0.0 else -h
    by_q, by_p = (at(q + h, p) - start) / h, (at(q, p + away) - start) / away
    dS = kernels - kernels[0]
    own = dS.diagonal(axis1=1, axis2=2)
    dq = 0.5 * (own[:, :, None] + own[:, None])
    dp = np.where(np.eye(tokens, dtype=bool), np.roll(dS, 1, axis=2), dS)
    return np.asarray(dq * _matrix(by_q, tokens) + dp * _matrix(by_p, tokens))


def _alike(S: Array) -> tuple[int, float, float]:
    """The number of tokens that are alike, and q and p of their kernel; of one alone p = q."""
    return len(S), float(S[0, 0]), float(S[0, -1])


def _matrix(values: Array, tokens: int) -> Array:
    """The first value on the diagonal, the second elsewhere."""
    return np.asarray(np.where(np.eye(tokens, dtype=bool), values[0], values[1]))


def _are_alike(S: Array) -> bool:
    tokens, q, p = _alike(S)
    return bool(np.allclose(S, _matrix(np.array([q, p]), tokens), 0.0, _ALIKE * q))
