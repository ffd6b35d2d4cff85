"""How far the numbers of a spectrum may be off: by two more solutions, each disturbed.

The solver's input is disturbed by a random multiple, up to `NOISE`, of machine epsilon: the weights
of the nodes, log m_1, the parameters of the factors. The nodes themselves are those of a rule with
two more on each piece of the path, so that what the rule leaves out is seen as well. What comes out
differs by the conditioning of each number: at an edge, where the density starts as a root, by far
more than in the middle. The error is the largest departure, times `CAUTION`, and a rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from derive.spectra import Law

from ..arrays import Array
from .blocks import Member
from .contour import Nodes
from .problem import Problem

NOISE, CAUTION, RUNS = 2.0, 8.0, 2
"""Largest disturbance in units of rounding; the error in units of the departure; how many."""

_MORE = 2
_SEED = 1993
_EPS = float(np.finfo(float).eps)


def disturbed(law: Law) -> list[Problem]:
    """The problem of the law, twice, each time another one beside it."""
    rng, finer = np.random.default_rng(_SEED), Problem(law, _MORE)
    return [_moved(finer, rng) for _ in range(RUNS)]


def _moved(problem: Problem, rng: np.random.Generator) -> Problem:
    def factors(count: int) -> Array:
        return np.asarray(1.0 + NOISE * _EPS * rng.uniform(-1.0, 1.0, count))

    def moved(group: Nodes) -> Nodes:
        if len(group.weights) == 1:
            return group
        return replace(group, weights=group.weights * factors(len(group.weights)))

    def beside(member: Member) -> Member:
        share = member.log_share + NOISE * _EPS * float(rng.uniform(-1.0, 1.0))
        return replace(member, log_share=share, averages=tuple(map(moved, member.averages)))

    made = copy(problem)
    plain = [moved(group) for group in problem.groups[: problem.plain]]
    made.blocks = [
        replace(block, members=tuple(map(beside, block.members))) for block in problem.blocks
    ]
    made.groups = [*plain, *(group for block in made.blocks for group in block.groups)]
    apart = problem.slopes != 1.0
    made.slopes = np.where(apart, problem.slopes * factors(len(apart)), problem.slopes)
    made.variances = problem.variances * factors(len(problem.variances))
    size = 1.0 + abs(problem.log_mean)
    made.log_mean = problem.log_mean + size * NOISE * _EPS * float(rng.uniform(-1.0, 1.0))
    return made


def departure(values: NDArray[np.generic], copies: Sequence[NDArray[np.generic]]) -> Array:
    """The error of each value, from those of the copies; infinite where a copy has none."""
    apart = np.max([np.abs(np.asarray(each) - values) for each in copies], axis=0)
    error = CAUTION * apart + _EPS * np.abs(values)
    return np.asarray(np.where(np.isfinite(error), error, np.inf), float)
