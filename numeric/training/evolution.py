"""The functions of the step by which descent multiplies what there was at initialization.

They solve s(t+1) = M s(t), or ds/dτ = M s, for every choice of labels at once. M has few entries
and no circles; each is an array with an axis a label, as far as it depends on it, so that powers of
M by squaring are sums of products of arrays. Unlike closed forms they lose no digits where rates
meet, and at infinity they are as good as anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from derive.training.histories import History, System

from ..arrays import Array

Matrix = dict[tuple[int, int], Array]
Vector = dict[int, Array]

FOREVER = 62
"""Squarings after which a number below 1 is 0, and 1 is 1."""
_TERMS, _SMALL = 20, 0.5
"""Of the exponential series, and below what size of M it is summed."""


def evolved(
    history: History, rates: Sequence[Array], steps: Sequence[float], *, continuous: bool
) -> list[Array]:
    """The history's function at each of these steps, or times τ, for all labels.

    Arguments:
        rates: of each label, m = 1 − ηΘ_a, or Θ_a where time is continuous; a number is as long as
            its label has values.
        steps: whole numbers, or times, 0 or more; `math.inf` for the limit, that exists.
    """
    system = history.flow if continuous else history.steps
    shaped = [
        each.reshape([-1 if axis == label else 1 for axis in range(len(rates))])
        for label, each in enumerate(rates)
    ]
    M = _matrix(system, shaped)
    start: Vector = {k: np.ones([1] * len(rates)) for k, one in enumerate(system.start) if one}
    shape = tuple(each.size for each in rates)
    if continuous:
        found = [_exponential(M, len(system.start), time, start) for time in steps]
    else:
        found = _powers(M, len(system.start), steps, start)
    zero = np.zeros([1] * len(rates))
    return [np.broadcast_to(each.get(0, zero), shape) for each in found]


def _matrix(system: System, rates: Sequence[Array]) -> Matrix:
    found: Matrix = {}
    for place, entry in system.entries.items():
        total = np.zeros([1] * len(rates))
        for labels, coefficient in entry.items():
            term = np.full([1] * len(rates), float(coefficient))
            for label in labels:
                term = term * rates[label]
            total = total + term
        found[place] = total
    return found


def _powers(M: Matrix, size: int, steps: Sequence[float], start: Vector) -> list[Vector]:
    """M^t start: the powers commute, so that each square serves every step that has its bit."""
    counts = [1 << FOREVER if math.isinf(t) else int(t) for t in steps]
    found = [start for _ in steps]
    for bit in range(max(counts, default=0).bit_length()):
        if bit:
            M = _times(M, M, size)
        found = [
            _applied(M, each) if count >> bit & 1 else each
            for each, count in zip(found, counts, strict=True)
        ]
    return found


def _exponential(M: Matrix, size: int, time: float, start: Vector) -> Vector:
    """exp(Mτ) start, by a series and squarings."""
    largest = max((float(np.abs(each).max(initial=0)) for each in M.values()), default=0.0)
    if math.isinf(time):
        squarings, scaled = FOREVER + 8, _SMALL / max(largest, 1e-300)
    else:
        squarings = max(0, math.ceil(math.log2(max(time * largest, 1e-300) / _SMALL)))
        scaled = math.ldexp(time, -squarings)
    rank = next(iter(start.values())).ndim
    identity: Matrix = {(k, k): np.ones([1] * rank) for k in range(size)}
    total, term = identity, identity
    for k in range(1, _TERMS):
        term = {place: each * (scaled / k) for place, each in _times(term, M, size).items()}
        total = {
            place: total.get(place, np.zeros([1] * rank)) + term.get(place, 0.0)
            for place in total.keys() | term.keys()
        }
    for _ in range(squarings):
        total = _times(total, total, size)
    return _applied(total, start)


def _times(A: Mapping[tuple[int, int], Array], B: Matrix, size: int) -> Matrix:
    by_row: list[list[tuple[int, Array]]] = [[] for _ in range(size)]
    for (row, column), each in B.items():
        by_row[row].append((column, each))
    found: Matrix = {}
    for (i, k), left in A.items():
        for j, right in by_row[k]:
            product = left * right
            found[i, j] = found[i, j] + product if (i, j) in found else product
    return found


def _applied(M: Matrix, v: Vector) -> Vector:
    found: Vector = {}
    for (i, j), each in M.items():
        if j in v:
            product = each * v[j]
            found[i] = found[i] + product if i in found else product
    return found
