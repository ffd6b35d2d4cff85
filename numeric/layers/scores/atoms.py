"""Averages over scores where the recursions of a network ask for them."""

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
from .moments import Moments, Scores
from .quasi import shared_source
from .rule import means, moments

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
