r"""Averages over scores by quasi-Monte Carlo: any function, kernel, mask and number of tokens.

With S = L Lᵀ and keys' Wishart matrix F Fᵀ (Bartlett), scores are √(gain/d) L Z Fᵀ Lᵀ, Z standard
normal. A change dS moves L by ½ dS S⁻¹ L, up to rotations, which keep the law of Z and F: so

    ds = ½ (D s + s Dᵀ),  D = dS S⁻¹,

and slopes are averages at the same points. Where S is singular its pseudoinverse is taken: tokens
that are linear combinations of others stay so. The points are scrambled Sobol sequences, and errors
are those of their mean. Derived here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy

from derive.work.caches import cache

from ...arrays import Array
from .. import sigma
from ..sobol import scrambled
from .moments import Moments, Scores

REPEATS = 8
"""Scrambled sequences, whose means differ by the error."""

_POINTS, _FEWEST, _NUMBERS = 11, 8, 1 << 23
"""log₂ of points in a sequence, most and least; numbers held at a time."""

_MANY = 64
"""Scores of all heads from which on half of the points do: these take the seconds of a flow, and K
is known to some 10⁻³."""

_RANK = 1e-12
"""The least variance of a direction, relative to the largest."""


def moments(S: Array, scores: Scores) -> Moments:
    """The averages at this kernel."""
    found = [_at_points(S, scores, *part) for part in _points(scores.tokens, scores.size)]
    values = [np.array(each) for each in zip(*found, strict=True)]
    mean, covariance, slopes = (each.mean(axis=0) for each in values)
    of_mean, of_covariance, of_slopes = map(_error, values)
    return Moments(mean, covariance, slopes, (of_mean, of_covariance, of_slopes))


def _error(values: Array) -> Array:
    """The error of the mean over sequences, the first axis."""
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(REPEATS))


@cache(entries=8, most_bytes=1 << 28)
def _points(tokens: int, size: int | None, heads: int = 1) -> tuple[tuple[Array, ...], ...]:
    """Zᵀ of each head and Fᵀ/√d, (points, rank, tokens) each, of every sequence."""
    rank = tokens if size is None else min(tokens, size)
    below = [(t, a) for a in range(rank) for t in range(a + 1, tokens)]
    normals = heads * tokens * rank
    dimension = normals if size is None else normals + len(below) + rank
    held = REPEATS * 2 * normals
    most = _POINTS - (normals >= _MANY)
    log_points = int(np.clip(np.log2(_NUMBERS / held), _FEWEST, most))
    made = []
    for seed in range(REPEATS):
        uniform = scrambled(dimension, log_points, seed)
        normal = scipy.special.ndtri(uniform)
        Z = normal[:, :normals].reshape(-1, heads, tokens, rank).swapaxes(0, 1)
        F = np.zeros_like(Z[0])
        if size is None:
            F[:] = np.eye(tokens)
        else:
            for a in range(rank):  # χ² of size − a degrees
                half = 0.5 * (size - a)
                F[:, a, a] = np.sqrt(2.0 * scipy.special.gammaincinv(half, uniform[:, normals + a]))
            for number, (t, a) in enumerate(below):
                F[:, t, a] = normal[:, normals + rank + number]
            F /= np.sqrt(size)
        made.append(tuple(each.swapaxes(1, 2).copy() for each in (*Z, F)))
    return tuple(made)


def means(kernels: Array, scores: Scores) -> tuple[Array, Array]:
    """E B at some kernels, (kernels, N, N), at the same points, and its error at the first."""
    found = np.array(
        [
            [_attended(S, scores, *part)[2].mean(axis=0) for S in kernels]
            for part in _points(scores.tokens, scores.size)
        ]
    )
    return found.mean(axis=0), _error(found[:, 0])


class _Weights(NamedTuple):
    """A of scores, and what moves it: ∂A_ts/∂c_tr = bend_tr (δ_sr − A_ts), without A_ts if f acts
    on each score."""

    A: Array
    bend: Array
    is_normalized: bool


def _attended(S: Array, scores: Scores, Z: Array, F: Array) -> tuple[Array, _Weights, Array]:
    """The scores, (points, N, N), the weights, and B."""
    s = _drawn(_root(S), scores, Z, F)
    weights = _weights(s, scores)
    return s, weights, _times(weights.A, S) @ weights.A.swapaxes(1, 2)


def _root(S: Array) -> Array:
    """L with L Lᵀ = S."""
    variances, axes = np.linalg.eigh(S)
    kept = variances > _RANK * variances[-1]
    if kept.all():
        return np.asarray(np.linalg.cholesky(S), float)
    return np.asarray(axes * np.sqrt(np.where(kept, variances, 0.0)))


def _drawn(L: Array, scores: Scores, Z: Array, F: Array) -> Array:
    """Scores √(gain/d) L Z Fᵀ Lᵀ; of tied keys Z is F."""
    if scores.is_tied:
        assert scores.size is not None
        Z = np.sqrt(scores.size) * F
    return _times(Z, np.sqrt(scores.gain) * L.T).swapaxes(1, 2) @ _times(F, L.T)


def _times(stack: Array, matrix: Array) -> Array:
    """All matrices of a stack times one, as one product."""
    return (stack.reshape(-1, len(matrix)) @ matrix).reshape(*stack.shape[:-1], -1)


def _at_points(S: Array, scores: Scores, Z: Array, F: Array) -> tuple[Array, Array, Array]:
    """Means over the points of one sequence: B, its covariance, and its slopes."""
    s, weights, B = _attended(S, scores, Z, F)
    inverse = np.linalg.pinv(S, rcond=_RANK, hermitian=True)
    (count, tokens, _), A = s.shape, weights.A
    flat = B.reshape(count, -1)
    flat = flat - flat.mean(axis=0)
    covariance = (flat.T @ flat / count).reshape((tokens,) * 4)
    # dB_tu = Σ_r ds_tr U_tru + the same of u + A dS Aᵀ, with ds = ½ (D s + s Dᵀ), D = dS S⁻¹
    slopes = np.zeros((tokens,) * 4)
    M = _times(A, S).swapaxes(1, 2).copy()
    by_key = s.transpose(1, 0, 2).reshape(tokens, -1)
    for t in range(tokens):
        U = M - B[:, None, t] if weights.is_normalized else M.copy()
        U *= weights.bend[:, t, :, None]
        of_keys = (s[:, t].T @ U.reshape(count, -1)).reshape((tokens,) * 3)  # times D_rp/2
        slopes[t] += 0.5 * of_keys.transpose(2, 1, 0) @ inverse
        of_query = by_key @ U.reshape(-1, tokens)  # times D_tp/2
        slopes[t, :, t] += 0.5 * of_query.T @ inverse
    slopes += slopes.swapaxes(0, 1)
    flat = A.reshape(count, -1)
    slopes += (flat.T @ flat).reshape((tokens,) * 4).swapaxes(1, 2)
    slopes /= count
    return B.mean(axis=0), covariance, 0.5 * (slopes + slopes.swapaxes(2, 3))


def _weights(s: Array, scores: Scores) -> _Weights:
    """A of scores (…, N, N), and its slopes."""
    seen = scores.seen
    given = s + np.where(seen > 0.0, scores.bias, 0.0)
    if scores.function is None:
        A = scipy.special.softmax(np.where(seen > 0.0, given, -np.inf), axis=-1)
        return _Weights(A, A, is_normalized=True)
    value, slope = sigma.derivatives(scores.function, (0, 1))(given)
    return _Weights(seen * value, seen * slope, is_normalized=False)


def shared_source(S: Array, scores: Scores, size: float, gain: float) -> tuple[Array, Array]:
    """n Cov(R_tu, R_vw) of two sets of heads of this size with the same keys and values, and its
    error: d Cov(B_tu, B'_vw) + E(M_tv M_uw + M_tw M_uv), M = A S A'ᵀ.

    Arguments:
        gain: that of A'.
    """
    both = scores, replace(scores, gain=gain)
    found = np.array(
        [_shared(S, both, size, *part) for part in _points(scores.tokens, scores.size, 2)]
    )
    return found.mean(axis=0), _error(found)


def _shared(
    S: Array, both: tuple[Scores, Scores], size: float, Z: Array, other: Array, F: Array
) -> Array:
    """A mean over the points of one sequence."""
    L = _root(S)
    A, A2 = (
        _weights(_drawn(L, scores, each, F), scores).A
        for scores, each in zip(both, (Z, other), strict=True)
    )
    B, B2, M = (x @ S @ y.swapaxes(1, 2) for x, y in ((A, A), (A2, A2), (A, A2)))
    covariance = np.einsum("ntu,nvw->tuvw", B - B.mean(axis=0), B2) / len(B)
    products = np.einsum("ntv,nuw->tuvw", M, M) / len(B)
    return np.asarray(size * covariance + products + products.swapaxes(2, 3))
