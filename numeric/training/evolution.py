"""The functions of the step by which descent multiplies what there was at initialization.

They solve s(t+1) = M s(t) for every choice of labels at once. In units in which eigenvalues of Θ
are near 1, η is h, and a sum over steps is h Σ_s, so that M = 1 + hL with an L that has a limit as
h → 0, that of gradient flow: ds/dτ = L s, τ = ht. Powers of M are taken by squaring. L has few
entries and no circles, so that diagonals of powers are powers of diagonals, of which p − 1 is kept
beside p: however small h is no digits are lost, nor where rates meet, as closed forms would lose
them, and at infinity they are as good as anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from derive.training.histories import Entry, History, System

from ..arrays import Array

Matrix = dict[tuple[int, int], Array]
Vector = dict[int, Array]

FLOWS = 2.0**-64
"""Below this h descent is gradient flow but for h/2 times the time, in units of Θ: no double."""
_VANISHED = 1024.0
"""The time after which e^{−t} is 0 as a double."""
_TERMS, _SMALL = 20, 0.5
"""Of the exponential series, and below what size of L it is summed."""


def evolved(
    history: History, theta: Sequence[Array], steps: Sequence[float], h: float
) -> list[Array]:
    """The history's function after each of these steps, or times τ, for all labels, times h to the
    power of the sums over steps that are in it.

    Arguments:
        theta: of each label, Θ_a in units that make the largest some 1; a number is as long as its
            label has values.
        steps: whole numbers, or times where h is 0, 0 or more; `math.inf` for the limit, that
            exists.
        h: η in units of the inverse of Θ's, 0 for gradient flow.
    """
    system = history.steps
    shaped = [
        each.reshape([-1 if axis == label else 1 for axis in range(len(theta))])
        for label, each in enumerate(theta)
    ]
    start: Vector = {k: np.ones([1] * len(theta)) for k, one in enumerate(system.start) if one}
    shape = tuple(each.size for each in theta)
    if 0 < h < FLOWS:
        steps, h = [h * t for t in steps], 0.0
    L = _generator(system, shaped, h)
    rate = min((float(each[each > 0].min(initial=1.0)) for each in theta), default=1.0)
    if h:
        rate = min(h * rate, *(2.0 - h * float(each.max(initial=0.0)) for each in theta))
        counts = [_forever(rate, h) if math.isinf(t) else int(t) for t in steps]
        found = _powers(_Power.of(L, len(system.start), h), counts, start)
    else:
        found = [
            _exponential(L, len(system.start), _VANISHED / rate if math.isinf(t) else t, start)
            for t in steps
        ]
    zero = np.zeros([1] * len(theta))
    return [np.broadcast_to(each.get(0, zero), shape) for each in found]


def _forever(rate: float, h: float) -> int:
    """After so many steps what falls at this rate or faster has vanished."""
    return 1 << math.ceil(math.log2(_VANISHED / max(rate, np.finfo(float).eps * h)))


def met(theta: Array, steps: Sequence[float], h: float) -> Array:
    """1 − (1 − hΘ)^t or 1 − e^{−Θτ}: by how much of its way to the target each label has come,
    (steps, labels); the arguments as those of `evolved`."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        found = []
        for t in steps:
            if math.isinf(t):
                found.append(np.where(theta > 0, 1.0, 0.0))
            elif h:
                near = -np.expm1(t * np.log1p(-np.minimum(h * theta, 0.5)))
                found.append(np.where(h * theta < 0.5, near, 1 - (1 - h * theta) ** t))
            else:
                found.append(-np.expm1(-t * theta))
    return np.array(found)


def _generator(system: System, theta: Sequence[Array], h: float) -> Matrix:
    """L of M = 1 + hL, where M_ij is in units of h^{sums of j − sums of i}: h cancels exactly."""
    found: Matrix = {}
    for (i, j), entry in system.entries.items():
        power = system.sums[i] - system.sums[j] - 1
        total = np.zeros([1] * len(theta))
        for labels, coefficient in _in_theta(entry, diagonal=i == j).items():
            scale = coefficient * h ** (power + len(labels))
            if scale:
                term = np.full([1] * len(theta), scale)
                for label in labels:
                    term = term * theta[label]
                total = total + term
        found[i, j] = total
    return found


def _in_theta(entry: Entry, *, diagonal: bool) -> dict[tuple[int, ...], int]:
    """A polynomial in m = 1 − hΘ as one in hΘ; on the diagonal less 1."""
    found: dict[tuple[int, ...], int] = {(): -1} if diagonal else {}
    for labels, coefficient in entry.items():
        for size in range(len(labels) + 1):
            for chosen in combinations(labels, size):
                found[chosen] = found.get(chosen, 0) + (-1) ** size * coefficient
    return {labels: coefficient for labels, coefficient in found.items() if coefficient}


class _Power(NamedTuple):
    """A power of M.

    Attributes:
        diagonal: p.
        less: p − 1, which has digits that p has not where it is small.
        others: what stands beside the diagonal.
    """

    diagonal: list[Array]
    less: list[Array]
    others: Matrix

    @classmethod
    def of(cls, L: Matrix, size: int, h: float) -> _Power:
        """1 + hL."""
        less = [h * L[k, k] for k in range(size)]
        others = {place: h * each for place, each in L.items() if place[0] != place[1]}
        return cls([1 + each for each in less], less, others)

    def squared(self) -> _Power:
        """Its square."""
        less = [each * (2 + each) for each in self.less]
        diagonal = [
            np.where(np.abs(small) < 0.5, 1 + small, each * each)
            for each, small in zip(self.diagonal, less, strict=True)
        ]
        others = _times(self.others, self.others, len(less))
        for (i, j), each in self.others.items():
            beside = (self.diagonal[i] + self.diagonal[j]) * each
            others[i, j] = others[i, j] + beside if (i, j) in others else beside
        return _Power(diagonal, less, others)

    def applied(self, v: Vector) -> Vector:
        """To a vector."""
        found = {k: self.diagonal[k] * each for k, each in v.items()}
        for (i, j), each in self.others.items():
            if j in v:
                product = each * v[j]
                found[i] = found[i] + product if i in found else product
        return found


def _powers(M: _Power, counts: Sequence[int], start: Vector) -> list[Vector]:
    """M^t start: the powers commute, so that each square serves every step that has its bit."""
    found = [start for _ in counts]
    for bit in range(max(counts, default=0).bit_length()):
        if bit:
            M = M.squared()
        found = [
            M.applied(each) if count >> bit & 1 else each
            for each, count in zip(found, counts, strict=True)
        ]
    return found


def _exponential(L: Matrix, size: int, time: float, start: Vector) -> Vector:
    """exp(Lτ) start, by a series and squarings."""
    largest = max((float(np.abs(each).max(initial=0)) for each in L.values()), default=0.0)
    squarings = max(0, math.ceil(math.log2(max(time * largest, _SMALL) / _SMALL)))
    scaled = math.ldexp(time, -squarings)
    others: Matrix = {}
    term: Matrix = {place: each * scaled for place, each in L.items()}
    for k in range(2, _TERMS + 1):
        for (i, j), each in term.items():
            if i != j:
                others[i, j] = others[i, j] + each if (i, j) in others else each
        term = {place: each * (scaled / k) for place, each in _times(term, L, size).items()}
    less = [np.expm1(scaled * L[k, k]) for k in range(size)]
    power = _Power([1 + each for each in less], less, others)
    for _ in range(squarings):
        power = power.squared()
    return power.applied(start)


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
