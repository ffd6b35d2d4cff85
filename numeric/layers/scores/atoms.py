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
from derive.errors import InputError
from derive.work.caches import cache

from ...arrays import Array
from .moments import Moments, Scores
from .quasi import shared_source
from .rule import moments

_SHOWN = 0.125
"""How far an average of a copy is moved, in units of its error: a flow multiplies departures of
copies by 16 (`accuracy`)."""


def at_kernels(of: ScoreAverage, tensors: Mapping[Name, Array], m: int, positions: int) -> Array:
    """An average over scores, at the first copy's kernels; those of the other copies are moved by
    their estimated errors, and means follow their kernels."""
    query, key, S = (tensors[identify(limit)[0]].reshape(-1, m, m) for limit in of.limits)
    assert of.scores.size is not None
    size, given = of.scores.size, _given(of.scores, (query[0], key[0], S[0]), positions)
    if of.what == SHARED:
        value, error = _known_shared(*given, size)
    else:
        found = _known(*given)
        value, error = found.source(size), found.error_of_source(size)
    if of.what == SLOPE:
        value, error = found.slopes, found.errors[2]
    values = np.broadcast_to(value, (len(S) - 1, *value.shape))
    if of.what == MEAN:
        values = found.mean + np.einsum("tuab,zab->ztu", found.slopes, S[:-1] - S[0])
        error = found.errors[0]
    amounts = np.random.default_rng(0).uniform(-_SHOWN, _SHOWN, (len(values), *error.shape))
    amounts[0] = 0.0
    return np.concatenate([values + amounts * error, np.abs(values[:1])])


_Given = tuple[bytes, bytes, float, int | None, Activation | None, bool]


def _given(attention: Attention, kernels: tuple[Array, ...], positions: int) -> _Given:
    """The scores at these kernels of queries, keys and values."""
    query, key, S = kernels
    ratios = [np.trace(each) / np.trace(S) for each in (query, key)]
    alike = (np.allclose(a * S, each, 1e-9, 0.0) for a, each in zip(ratios, kernels, strict=False))
    if not all(alike):
        raise InputError("layer", OTHERS, COMMON)
    signals = len(S) // positions
    table = np.array(attention.table or np.zeros((positions, positions)))
    bias = np.full(S.shape, -np.inf)
    for k in range(signals):
        own = slice(k * positions, (k + 1) * positions)
        bias[own, own] = table
    how = float(ratios[0] * ratios[1]), attention.key_size, attention.function, attention.is_tied
    return bias.tobytes(), S.tobytes(), *how


def _scores(bias: bytes, kernel: bytes, *how: Any) -> tuple[Array, Scores]:
    tokens = isqrt(len(kernel) // 8)
    B, S = (np.frombuffer(each).reshape(tokens, tokens) for each in (bias, kernel))
    return S, Scores(B, *how)


@cache(entries=16, most_bytes=1 << 26)
def _known(*given: Any) -> Moments:
    return moments(*_scores(*given))


@cache(entries=16, most_bytes=1 << 26)
def _known_shared(*given: Any) -> tuple[Array, Array]:
    *own, size = given
    return shared_source(*_scores(*own), size)
