"""Independent weights, drawn entry by entry: of mean 0 and variance 1, of any law that is named.

Such a matrix has no law of its own on the vectors that it meets, as Gaussian and Haar matrices
have: z_i is a sum of n_in random numbers of the law, and all of them are drawn; of sparse weights
those that are not 0.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from derive.errors import InputError
from derive.weights import (
    Independent,
    IndependentEntries,
    Rademacher,
    Sparse,
    StudentT,
    TruncatedNormal,
    Uniform,
)
from derive.work.caches import cache

from ..arrays import Array


@singledispatch
def entries(law: IndependentEntries, count: int, rng: np.random.Generator) -> Array:
    """So many numbers of variance 1 of this law, from NumPy's generator, which it advances.

    Raises:
        InputError: for a law that cannot be sampled.
    """
    raise InputError("weights", str(law), "an ensemble that can be sampled")


@entries.register
def _(law: Uniform, count: int, rng: np.random.Generator) -> Array:
    return np.asarray(rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), count))


@entries.register
def _(law: Rademacher, count: int, rng: np.random.Generator) -> Array:
    bits = np.frombuffer(rng.bytes(-(-count // 8)), np.uint8)
    return np.asarray(2.0 * np.unpackbits(bits, count=count) - 1.0, float)


@entries.register
def _(law: StudentT, count: int, rng: np.random.Generator) -> Array:
    nu = _number("nu", law.nu)
    return np.asarray(rng.standard_t(nu, count) * np.sqrt((nu - 2.0) / nu))


@entries.register
def _(law: TruncatedNormal, count: int, rng: np.random.Generator) -> Array:
    cut = _number("cut", law.cut)
    scale = _deviation(law)
    found, missing = np.empty(count), np.arange(count)
    while missing.size:
        drawn = rng.standard_normal(missing.size)
        found[missing] = drawn
        missing = missing[np.abs(drawn) > cut]
    return found / scale


@cache
def _deviation(law: TruncatedNormal) -> float:
    return float(law.scale)


@entries.register
def _(law: Sparse, count: int, rng: np.random.Generator) -> Array:
    p = _number("p", law.p)
    found = np.zeros(count)
    places = rng.choice(count, rng.binomial(count, p), replace=False, shuffle=False)
    places.sort()
    if law.of is None:
        values = rng.standard_normal(places.size)
    else:
        values = entries(law.of, places.size, rng)
    found[places] = values / np.sqrt(p)
    return found


@entries.register
def _(law: Independent, count: int, rng: np.random.Generator) -> Array:
    given = law.distribution
    if isinstance(given, IndependentEntries):
        return entries(given, count, rng)
    if given.name != "scipy.stats":
        wanted = "a distribution of scipy.stats or an ensemble such as Uniform(), to be sampled"
        raise InputError("distribution", str(given), wanted)
    from scipy import stats  # noqa: PLC0415  (half a second to import)

    name, *arguments = given.arguments
    positional, named = arguments or ((), ())
    frozen = getattr(stats, name)(*positional, **dict(named))
    if isinstance(frozen.dist, stats.rv_discrete) and not float(frozen.median()).is_integer():
        drawn = frozen.ppf(1.0 - rng.random(count))  # `rvs` cuts what is no integer down to one
    else:
        drawn = frozen.rvs(size=count, random_state=rng)
    return np.asarray(drawn / frozen.std(), float)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except TypeError:
        raise InputError(name, value, "a number, not a symbol") from None
