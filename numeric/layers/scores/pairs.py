r"""Averages over scores of two tokens, by quadrature.

Only Δ_t = s_t1 − s_t2 enters softmax: A_t = (p, 1 − p), p = 1/(1 + e^{−Δ_t}). Given the keys

    (Δ_1, Δ_2) ~ N(0, gain·δ x S),  δ = S_11 + S_22 − 2 S_12,  x = χ²_d/d,

1 for infinitely large heads. Slopes are averages of derivatives: ∂E f = ½ Σ ∂Cov_tu E ∂_t∂_u f.
Derived here.
"""

from __future__ import annotations

import numpy as np
import scipy

from ...arrays import Array
from .moments import Moments, Scores
from .nodes import mean_square, normal

_COUNTS, _STEPS = (64, 96), (0.5, 0.4)
"""Nodes of χ², and steps of normal variables, of two rules that tell the error."""

_POLE = 2.0
"""Steps times the deviation of Δ at most: p has a pole at distance π."""


def moments(S: Array, scores: Scores) -> Moments:
    """The averages at this kernel, (2, 2)."""
    coarse, fine = (_by_rule(S, scores, *rule) for rule in zip(_COUNTS, _STEPS, strict=True))
    pairs = zip(fine[:3], coarse[:3], strict=True)
    mean, covariance, slopes = (
        np.abs(a - b) + 4.0 * np.finfo(float).eps * np.abs(a).max() for a, b in pairs
    )
    return fine._replace(errors=(mean, covariance, slopes))


def _by_rule(S: Array, scores: Scores, count: int, step: float) -> Moments:
    delta = S[0, 0] + S[1, 1] - 2.0 * S[0, 1]
    x, weights = mean_square(scores.size, count)
    variances, axes = np.linalg.eigh(S)
    L = axes * np.sqrt(np.maximum(variances, 0.0))
    mean, products, slopes = np.zeros((2, 2)), np.zeros((2,) * 4), np.zeros((2,) * 4)
    for own, weight in zip(x, weights, strict=True):
        scale = max(0.0, scores.gain * delta * own)
        deviation = np.sqrt(scale * max(S[0, 0], S[1, 1], 1e-300))
        nodes, w = normal(min(step, _POLE * step / max(deviation, 1e-9)))
        grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
        both = weight * np.outer(w, w).ravel()
        found = _at(np.sqrt(scale) * grid @ L.T, S, scores, both)
        B, squares, bends, apart = found
        mean += B
        products += squares
        # Cov = gain·x·δ S moves with S and with δ
        of_delta = np.array([[1.0, -1.0], [-1.0, 1.0]])
        turned = 0.5 * np.einsum("tucd,cd->tu", bends, S)
        slopes += scores.gain * own * delta * 0.5 * bends
        slopes += scores.gain * own * np.multiply.outer(turned, of_delta) + apart
    slopes = 0.5 * (slopes + slopes.swapaxes(2, 3))
    covariance = products - np.multiply.outer(mean, mean)
    return Moments(mean, covariance, slopes, (mean, covariance, slopes))


def _at(differences: Array, S: Array, scores: Scores, weights: Array) -> tuple[Array, ...]:
    """⟨B⟩, ⟨B B⟩, ⟨∂_c ∂_d B⟩ by Δ, and ⟨A_ta A_ub⟩."""
    rows, first, second = [], [], []
    for t in range(2):
        one, other = scores.bias[t]
        if np.isfinite(one) and np.isfinite(other):
            p = scipy.special.expit(differences[:, t] + one - other)
        else:
            p = np.full(len(differences), float(np.isfinite(one)))
        bend = p * (1.0 - p)
        rows.append(np.stack([p, 1.0 - p], axis=1))
        first.append(np.stack([bend, -bend], axis=1))
        second.append(first[-1] * (1.0 - 2.0 * p)[:, None])
    A, dA, ddA = (np.stack(each, axis=1) for each in (rows, first, second))

    def between(x: Array, y: Array) -> Array:
        return np.asarray(np.einsum("nta,ab,nub->ntu", x, S, y, optimize=True))

    B = between(A, A)
    flat = B.reshape(-1, 4)
    products = ((weights[:, None] * flat).T @ flat).reshape((2,) * 4)
    bends = np.zeros((2,) * 4)
    twice, crossed = (np.tensordot(weights, between(x, y), 1) for x, y in ((ddA, A), (dA, dA)))
    for t in range(2):
        for u in range(2):
            bends[t, u, t, t] += twice[t, u]
            bends[t, u, u, u] += twice[u, t]
            bends[t, u, t, u] += crossed[t, u]
            bends[t, u, u, t] += crossed[t, u]
    apart = np.einsum("n,nta,nub->tuab", weights, A, A, optimize=True)
    return np.tensordot(weights, B, 1), products, bends, apart
