"""The best rule for averages over scores, where the recursions of a network ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

import numpy as np

from derive.activations.functions import Activation
from derive.engine.score_averages import COMMON, MEAN, OTHERS, SHARED, SLOPE, ScoreAverage
from derive.engine.scores import Scores as Attention
from derive.engine.tensors import Name, identify
from derive.errors import InputError, Words
from derive.work.caches import cache

from ...arrays import Array
from . import elementwise, quasi, softmax
from .moments import Moments, Scores
from .nodes import FEW_SCALES
from .quasi import shared_source
from .softmax import alike_mean

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
    return softmax.moments(S, scores) if scores.tokens == 2 else None


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


_SHOWN = 0.125
"""How far an average of a copy is moved, in units of its error: a flow multiplies departures of
copies by 16 (`accuracy`)."""


def at_kernels(
    of: ScoreAverage, tensors: Mapping[Name, Array], m: int, positions: int, *, alone: bool
) -> Array:
    """An average over scores, at the first copy's kernels; those of the other copies are moved by
    their estimated errors, and means follow their kernels.

    Arguments:
        alone: True if no average but the mean is asked for.
    """
    query, key, S, *others = (tensors[identify(limit)[0]].reshape(-1, m, m) for limit in of.limits)
    scores = _scores(of.scores, (query[0], key[0], S[0]), positions)
    gains = [_scores(of.scores, (each[0], key[0], S[0]), positions).gain for each in others]
    if of.what == MEAN:
        values, error = _means(S[:-1], scores, alone=alone)
    else:
        value, error = _at_first(of, S[0], scores, *gains)
        values = np.broadcast_to(value, (len(S) - 1, *value.shape))
    amounts = np.random.default_rng(0).uniform(-_SHOWN, _SHOWN, (len(values), *error.shape))
    amounts[0] = 0.0
    return np.concatenate([values + amounts * error, np.abs(values[:1])])


def _means(kernels: Array, scores: Scores, *, alone: bool) -> tuple[Array, Array]:
    if alone:
        return means(kernels, scores)
    found = _known(*_key(kernels[0], scores))
    return found.moved(kernels), found.errors[0]


def _at_first(of: ScoreAverage, S: Array, scores: Scores, *gains: float) -> tuple[Array, Array]:
    """Slopes, or a source of V, and the errors."""
    size = of.scores.size
    assert size is not None
    if of.what == SHARED:
        return _known_shared(size, *gains, *_key(S, scores))
    found = _known(*_key(S, scores))
    if of.what == SLOPE:
        return found.slopes, found.errors[2]
    return found.source(size), found.error_of_source(size)


def _scores(attention: Attention, kernels: tuple[Array, ...], positions: int) -> Scores:
    """The scores at these kernels of queries, keys and values."""
    query, key, S = kernels
    if not S.any():
        wanted = "C_V > 0 and an input other than 0, for scores over the root of d"
        raise InputError("net", Words("values that are 0"), wanted)
    ratios = [np.trace(each) / np.trace(S) for each in (query, key)]
    alike = (np.allclose(a * S, each, 1e-9, 0.0) for a, each in zip(ratios, kernels, strict=False))
    if not all(alike):
        raise InputError("layer", OTHERS, COMMON)
    signals = len(S) // positions
    table = attention.bias(positions)
    bias = np.full(S.shape, -np.inf)
    for k in range(signals):
        own = slice(k * positions, (k + 1) * positions)
        bias[own, own] = table
    gain = float(ratios[0] * ratios[1])
    return Scores(bias, gain, attention.key_size, attention.function, attention.is_tied)


_Key = tuple[bytes, bytes, float, int | None, Activation | None, bool]


def _key(S: Array, scores: Scores) -> _Key:
    how = scores.gain, scores.size, scores.function, scores.is_tied
    return S.tobytes(), scores.bias.tobytes(), *how


def _read(kernel: bytes, bias: bytes, *how: Any) -> tuple[Array, Scores]:
    tokens = isqrt(len(kernel) // 8)
    S, B = (np.frombuffer(each).reshape(tokens, tokens) for each in (kernel, bias))
    return S, Scores(B, *how)


@cache(entries=16, most_bytes=1 << 26)
def _known(*key: Any) -> Moments:
    return moments(*_read(*key))


@cache(entries=16, most_bytes=1 << 26)
def _known_shared(size: float, gain: float, *key: Any) -> tuple[Array, Array]:
    return shared_source(*_read(*key), size, gain)
