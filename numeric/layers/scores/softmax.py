r"""Averages over scores of softmax: of two tokens, by quadrature, and of tokens that are alike.

Of two tokens only Δ_t = s_t1 − s_t2 enters: A_t = (p, 1 − p), p = 1/(1 + e^{−Δ_t}). Given the keys

    (Δ_1, Δ_2) ~ N(0, gain·δ x S),  δ = S_11 + S_22 − 2 S_12,  x = χ²_d/d,

1 for infinitely large heads. Slopes are averages of derivatives: ∂E f = ½ Σ ∂Cov_tu E ∂_t∂_u f.

Tokens are alike where S_tt = q, S_st = p. Parts of a score that all keys share drop out. Given two
queries, (s_ts, s_us) are independent over s, with covariance gain·(q − p) G, G their Gram matrix
over d. So

    E B_tu = p + (q − p) T E e^{x + y}/(Σ e^{x_s} Σ e^{y_s}),    1/Z = ∫ e^{−λ Z} dλ,

are integrals over λ and μ of ψ₁ ψ₀^{T−1} with ψ_k = E e^{k(x+y)} exp(−λ e^x − μ e^y). On the
diagonal x = y, and 1/Z² = ∫ λ e^{−λZ} dλ. Derived here.
"""

from __future__ import annotations

import numpy as np
import scipy

from derive.errors import InputError

from ...arrays import Array
from .moments import Moments, Scores
from .nodes import grams_of_two, mean_square, normal

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


_ALIKE_STEPS = ((0.45, 0.5), (0.36, 0.42))
"""Of two rules: steps of normal variables and of log λ."""

_FINE = 4
"""Nodes of each part of a Gram matrix that the finer rule has more."""

_NEAR = 0.9
"""Correlations from which on x and y are integrated one after the other."""


def alike_mean(
    tokens: int, q: float, p: float, gain: float, size: int | None = None
) -> tuple[Array, Array]:
    """E B on and off the diagonal, and the estimated errors of the two.

    Arguments:
        tokens: T, all of which every token sees.
        q, p: the kernel, q > 0 and −q/(T − 1) ≤ p ≤ q.
        gain: C_Q C_K.
        size: d; None for infinitely large heads.

    Raises InputError for other kernels.
    """
    most = q * (1.0 + 1e-12)
    if not (q > 0.0 and -most <= p * max(1, tokens - 1) and p <= most):
        raise InputError("kernel", f"q = {q}, p = {p}", "q > 0 and -q/(T - 1) <= p <= q")
    if tokens == 1 or gain == 0.0:
        value = p + (q - p) / tokens
        return np.full(2, value), np.zeros(2)
    rules = [(*steps, _FINE * k) for k, steps in enumerate(_ALIKE_STEPS)]
    coarse, fine = (_alike_by_rule(tokens, (q, p), gain, size, rule) for rule in rules)
    return fine, np.abs(fine - coarse) + 4.0 * np.finfo(float).eps * q


def _alike_by_rule(
    tokens: int,
    kernel: tuple[float, float],
    gain: float,
    size: int | None,
    rule: tuple[float, float, int],
) -> Array:
    (q, p), steps = kernel, rule[:2]
    apart = max(0.0, q - p)
    own, both = 0.0, 0.0
    for x, weight in zip(*mean_square(size, 64 + 8 * rule[2]), strict=True):
        own += float(weight) * _diagonal(tokens, np.sqrt(gain * apart * q * float(x)), steps)
    queries = np.array([[q, p], [p, q]])
    for weight, gram in zip(*grams_of_two(queries, size, rule[2]), strict=True):
        both += float(weight) * _off_diagonal(tokens, gain * apart * gram, steps)
    return p + apart * np.array([own, both])


def _logs(tokens: int, deviation: float, step: float) -> Array:
    """Nodes of log λ."""
    low, high = -23.0 - deviation**2 - np.log(tokens), 4.5 + 6.5 * deviation
    return np.arange(low, high, step)


def _diagonal(tokens: int, deviation: float, steps: tuple[float, float]) -> float:
    """T E e^{2x}/(Σ e^{x_s})²."""
    nodes, weights = normal(steps[0] / max(1.0, deviation))
    log = _logs(tokens, deviation, steps[1])
    x = log[:, None] + deviation * nodes
    damped = np.exp(-np.exp(x))
    one, two = damped @ weights, (damped * np.exp(2.0 * x)) @ weights
    return float(tokens * steps[1] * (two * one ** (tokens - 1)).sum())


def _off_diagonal(tokens: int, gram: Array, steps: tuple[float, float]) -> float:
    """T E e^{x + y}/(Σ e^{x_s} Σ e^{y_s}) for one covariance of x and y."""
    deviations = np.sqrt(np.maximum(gram.diagonal(), 1e-300))
    along = float(np.clip(gram[0, 1] / deviations.prod(), -1.0, 1.0))
    nodes, weights = normal(steps[0] / max(1.0, deviations.max()))
    logs = [_logs(tokens, each, steps[1]) for each in deviations]
    x = logs[0][:, None] + deviations[0] * nodes
    damped = np.exp(-np.exp(x))
    if abs(along) < _NEAR:
        rest = 1.0 - along**2
        joint = np.exp(-0.5 * (nodes[:, None] ** 2 - 2.0 * along * np.outer(nodes, nodes)) / rest)
        joint *= np.exp(-0.5 * nodes**2 / rest)
        y = logs[1][:, None] + deviations[1] * nodes
        other = np.exp(-np.exp(y)) @ joint.T, np.exp(y - np.exp(y)) @ joint.T
        other = other[0] / joint.sum(), other[1] / joint.sum()
        psi0, psi1 = damped @ other[0].T, np.exp(x) * damped @ other[1].T
    else:  # y = b (r g + √(1 − r²) h) at each x = a g
        rest = np.sqrt(1.0 - along**2)
        h, of_h = normal(steps[0] / max(0.6, rest * deviations[1]))
        y = logs[1][:, None, None] + deviations[1] * (along * nodes[:, None] + rest * h)
        zero, one = np.exp(-np.exp(y)) @ of_h, np.exp(y - np.exp(y)) @ of_h
        psi0, psi1 = (damped * weights) @ zero.T, (np.exp(x) * damped * weights) @ one.T
    return float(tokens * steps[1] ** 2 * (psi1 * psi0 ** (tokens - 1)).sum())
