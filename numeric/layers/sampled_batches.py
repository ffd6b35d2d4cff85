"""Brackets of functions of all samples, ⟨∂_{s…} Π_p φ_{s_p}(z)⟩_K, of batches of any size.

Few samples have the rule of `batches`. Of more the averages are sampled:
z = L u with u on Sobol's points, brought to normal numbers and scrambled `_COPIES` times. The mean
of the copies is the value, and their spread its standard error. All kernels and layers have the
same points. Derivatives outside are Wick-ordered products of g = L⁺ᵀ u. If φ is scale-invariant, u
has a direction alone, and the moments of its length are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from derive.activations.batches import BatchFunction
from derive.activations.functions import Activation
from derive.errors import InputError
from derive.gaussian.brackets import Bracket, by_samples, slopes_of
from derive.groups.pairings import Pairing, matchings
from derive.work.caches import cache

from ..arrays import Array
from .accuracy import CAUTION
from .analytic import at_each
from .averages import Averages, Copies, Places
from .batches import (
    Factor,
    Rule,
    Wanted,
    check_kinks,
    degree,
    directions_of,
    factors_of,
    length_moment,
)
from .sobol import scrambled

FEW, MOST, _ENTRIES = 4, 16, 1 << 17
"""Samples of a general batch that has a rule; samples at most; most entries of a bracket."""

_COPIES, _LOG_POINTS, _SEED = 16, 12, 20_26
"""Scrambled copies, log₂ of the points of each, and the seed."""

_MOVED = 6.0 / CAUTION
"""How far copies are moved, in standard errors: the error of a flow is some six of these."""


def of_batch(
    function: BatchFunction, activation: Activation, brackets: Iterable[Bracket], m: int
) -> Averages:
    """Averages of m samples: at a kernel K, (m, m), values and sizes are (count,).

    Raises InputError for more than `MOST` samples, for averages of too many of them, and, where it
    is evaluated, for a batch without variance.
    """
    brackets = tuple(brackets)
    labels = max((len(bracket.samples) for bracket in brackets), default=0)
    if m > MOST or m**labels > _ENTRIES:
        wanted = (
            f"Exchangeable(m, q, p), or at most {MOST} samples, and fewer for tensors such as G1"
        )
        raise InputError("inputs", f"{m} samples, averages of {labels} of them", wanted)
    wanted_averages: dict[Wanted, int] = {}

    places = {}
    for bracket in brackets:
        shape = (m,) * len(bracket.samples)
        keys = _everywhere(bracket, m)
        found = [wanted_averages.setdefault(key, len(wanted_averages)) for key in keys]
        places[bracket] = np.array(found).reshape(1, *shape)
    if m <= FEW:
        rule = Rule(function, activation, tuple(wanted_averages), m)
        return Averages(at_each(rule.evaluate), len(wanted_averages), places, rule.gradient)
    sampled = SampledRule(function, activation, tuple(wanted_averages), m)
    return _Sampled(sampled, len(wanted_averages), places)


def _everywhere(bracket: Bracket, m: int) -> Iterator[Wanted]:
    """The bracket with each of m samples at each of its labels, the last label's first."""
    number = {sample: k for k, sample in enumerate(bracket.samples)}
    inside = [
        (number[sample], [number[by] for by in slopes_of(slopes)])
        for sample, slopes in bracket.factors
    ]
    outer = [number[sample] for sample in bracket.outer]
    for at in product(range(m), repeat=len(number)):
        factors = ((at[k], _order(*(at[by] for by in slopes))) for k, slopes in inside)
        yield tuple(sorted(factors)), tuple(sorted(at[k] for k in outer))


@cache(entries=MOST**3)
def _order(*samples: int) -> int:
    return by_samples(samples)


class _Sampled(Averages):
    """Averages whose copies differ by the error of the sample."""

    def __init__(self, rule: SampledRule, count: int, places: dict[Bracket, Places]) -> None:
        super().__init__(rule, count, places)
        self._rule = rule

    def copies(self) -> Copies:
        """Averages at kernels, (copies, m, m): values (copies, count), and sizes (count,)."""
        return self._rule.disturbed


class _Half(NamedTuple):
    """One of two factors of a product: factors φ, and derivatives outside, of a product of so many
    derivatives inside."""

    factors: tuple[Factor, ...]
    outer: tuple[int, ...] = ()
    slopes: int = 0


class SampledRule:
    """The averages of m samples."""

    def __init__(
        self, function: BatchFunction, activation: Activation, wanted: Sequence[Wanted], m: int
    ) -> None:
        check_kinks(activation)
        own = sorted({factor for factors, _ in wanted for factor in factors})
        self._phi = factors_of(function, activation, own, m)
        self._places = {factor: k for k, factor in enumerate(own)}
        self._homogeneous = function.is_scale_invariant(activation)
        self._centred = function.is_shift_invariant
        self._steepest = max(degree(factors) for factors, _ in wanted)
        halves = [
            (_Half(own[: len(own) // 2]), _Half(own[len(own) // 2 :], outer, degree(own)))
            for own, outer in wanted
        ]
        self._left, self._right = (list(dict.fromkeys(own)) for own in zip(*halves, strict=True))
        left, right = ({half: k for k, half in enumerate(own)} for own in (self._left, self._right))
        self._at = tuple(np.array([(left[a], right[b]) for a, b in halves]).T)

    def __call__(self, K: Array) -> tuple[Array, Array]:
        """Values and sizes at a kernel, (averages,)."""
        values = self._copies(K).mean(axis=0)
        return values, np.abs(values)

    def disturbed(self, K: Array) -> tuple[Array, Array]:
        """Values at kernels (kernels, m, m), and sizes at the first.

        The others than the first are for errors (`accuracy`): they are moved by a part of a
        standard error, all averages of all layers together.
        """
        from scipy.linalg import hadamard  # noqa: PLC0415  (a fifth of a second to import)

        copies = np.array([self._copies(each) for each in K])
        values = copies.mean(axis=1)
        signs = hadamard(_COPIES)[1 : len(K)] / _COPIES
        values[1:] += _MOVED * np.einsum("kc,kca->ka", signs, copies[1:])
        return values, np.abs(values[0])

    def _copies(self, K: Array) -> Array:
        slopes = self._steepest if self._homogeneous else 0
        L, inverse = directions_of(K, centred=self._centred, slopes=slopes)
        return np.array([self._mean(u, L, inverse) for u in _points(L.shape[1])])

    def _mean(self, u: Array, L: Array, inverse: Array) -> Array:
        """The averages over the points of one copy."""
        r = u.shape[1]
        if self._homogeneous:
            u = u / np.linalg.norm(u, axis=1, keepdims=True)
        phi = self._phi(u @ L.T)
        g, gram = u @ inverse.T, inverse @ inverse.T
        length = partial(length_moment, r) if self._homogeneous else _one

        def multiplied(factors: Sequence[Factor]) -> Array:
            columns = (phi[:, self._places[each]] for each in factors)
            return reduce(np.multiply, columns, np.ones(len(u)))

        kinds = {(half.outer, half.slopes) for half in self._right}
        ordered = {kind: _ordered(g, gram, *kind, length) for kind in kinds}
        left = np.array([multiplied(half.factors) for half in self._left])
        right = np.array(
            [multiplied(half.factors) * ordered[half.outer, half.slopes] for half in self._right]
        )
        return np.asarray((left @ right.T)[self._at] / len(u))


def _ordered(
    g: Array,
    gram: Array,
    outer: tuple[int, ...],
    slopes: int,
    length: Callable[[int], float],
) -> Array:
    """The Wick-ordered product of g of these samples, each power of the length averaged."""
    total = np.zeros(len(g))
    for pairs, free in _contractions(len(outer)):
        scale = math.prod(-gram[outer[s], outer[t]] for s, t in pairs)
        own = np.prod([g[:, outer[s]] for s in free], axis=0) if free else 1.0
        total += scale * length(len(free) - slopes) * own
    return total


@cache(entries=16)
def _contractions(count: int) -> tuple[tuple[Pairing, tuple[int, ...]], ...]:
    """`matchings` of so many places."""
    return tuple(matchings(range(count)))


def _one(power: int) -> float:
    return 1.0


@cache(entries=4)
def _points(r: int) -> NDArray[np.float64]:
    """Normal numbers, (copies, points, r), with both signs of each."""
    copies = []
    for copy in range(_COPIES):
        u = scipy.special.ndtri(scrambled(r, _LOG_POINTS - 1, [_SEED, copy]))
        copies.append(np.concatenate([u, -u]))
    return np.array(copies)
