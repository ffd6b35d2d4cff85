"""From a law of JJᵀ to the arrays of the compiled solver, and errors by disturbed ones.

Two more solutions tell how far the numbers of a spectrum may be off. Their input is disturbed by a
random multiple, up to `NOISE`, of machine epsilon: the weights of the nodes, log m_1, the
parameters of the factors. Their nodes are those of a rule with two more on each piece of the path,
so that what the rule leaves out is seen as well. What comes out differs by the conditioning of each
number: at an edge, where the density starts as a root, by far more than in the middle. The error is
the largest departure, times `CAUTION`, and a rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.errors import InputError
from derive.spectra import Factor, Jacobian, Law, Limit
from derive.spectra.skips import Around

from ..arrays import Array
from . import kernel
from .blocks import Block, Member, around
from .contour import UNIT, Nodes, exact_powers, has_nodes, nodes, real_number


class Problem:
    """Groups of equal factors, with everything else that enters log z(w), w = base · M.

    Attributes:
        groups: the nodes of each group's law, with so many `more` on every piece of a path.
        factors: what each group stands for; None for one that is there for its coordinate alone.
        counts, scales: n_k and s_k.
        blocks: factors with a skip; the groups of their members follow the others, with the n of
            their block, and with what ξ_k is to M far from the spectrum for s_k.
        slopes, powers: a_j and c_j of the factors (1 + a_j w)^{c_j}.
        variances, jumps: v_i and b_i of a limit law.
        base: A in w = A M: more than 1 where the zeros of projectors outnumber all others, so that
            1 + w keeps its digits down to z = 0.
        log_mean: log m_1.
    """

    def __init__(self, law: Law, more: int = 0) -> None:
        self.groups: list[Nodes] = []
        self.factors: list[Factor | None] = []
        self.log_mean = 0.0
        skips: list[tuple[Around, float, float]] = []
        counts: list[float] = []
        scales: list[float] = []
        factors: dict[float, float] = {1.0: 1.0}
        jumps: list[tuple[float, float]] = []
        if isinstance(law, Limit):
            jumps = [(real_number(law.variance * p), real_number(b)) for p, b in law.jumps]
        elif isinstance(law, Jacobian):
            for each in law.factors:
                count, scale = real_number(each.count), real_number(each.scale)
                if isinstance(each.law, Around) and has_nodes(each.law):
                    skips.append((each.law, count, scale))
                    continue
                powers = exact_powers(each.law)
                if powers is None:
                    self.groups.append(nodes(each.law, count == 1, more))
                    self.factors.append(each)
                    counts.append(count)
                    scales.append(scale)
                else:
                    for exact, e in powers:
                        a = real_number(exact)
                        factors[a * scale] = factors.get(a * scale, 0.0) - e * count
            logs = (each.count * sympy.log(each.law.mean) for each in law.factors)
            self.log_mean = real_number(sum(logs, sympy.S.Zero))
        else:
            raise InputError("law", str(law), "a Jacobian or a Limit of derive.spectra")
        self.base = max((a for a, c in factors.items() if c != 0.0), default=1.0)
        zeros = [1.0 - (1.0 - _zeros(g)) / s for g, s in zip(self.groups, scales, strict=True)]
        if self.groups and max(zeros) > 1.0 - 1.0 / self.base:
            self.base = 1.0
        first = int(np.argmax(zeros)) if zeros else 0
        order = [first, *(k for k in range(len(zeros)) if k != first)] if zeros else []
        self.groups = [self.groups[k] for k in order]
        self.factors = [self.factors[k] for k in order]
        counts, scales = [counts[k] for k in order], [scales[k] for k in order]
        if not self.groups or self.base != 1.0 or scales[0] != 1.0:
            self.groups.insert(0, UNIT)
            self.factors.insert(0, None)
            counts.insert(0, 0.0)
            scales.insert(0, self.base)
        self.plain = len(self.groups)
        self.blocks: list[Block] = []
        for around_law, count, scale in skips:
            block = around(around_law, count, scale / self.base, more)
            self.blocks.append(block)
            self.groups += block.groups
            for member in block.members:
                self.factors += [None] * (1 + len(member.averages))
                counts += [count] * (1 + len(member.averages))
                share = scale * np.exp(member.log_share)
                scales += [share * member.base, *[share] * len(member.averages)]
        self.counts, self.scales = np.array(counts), np.array(scales) / self.base
        self.slopes = np.array(list(factors), float) / self.base
        self.powers = np.array(list(factors.values()), float)
        self.variances = np.array([v for v, _ in jumps], float)
        self.jumps = np.array([b for _, b in jumps], float)

    @property
    def constant(self) -> float:
        """log m_1 + log A, what else is in log z."""
        return float(self.log_mean + np.log(self.base))

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arguments of the kernel."""
        sizes = [len(group.positions) for group in self.groups]
        columns = [
            np.concatenate([getattr(group, name) for group in self.groups])
            for name in ("positions", "below", "rest", "weights")
        ]
        tops = np.array([group.top for group in self.groups])
        offsets = np.cumsum([0, *sizes])
        return (
            offsets, *columns, self.counts, self.scales, tops,
            self.slopes, self.powers, self.variances, self.jumps, complex(self.constant),
        )  # fmt: skip

    @property
    def block_arrays(self) -> kernel.Blocks | None:
        """The arguments of the kernel for the blocks."""
        if not self.blocks:
            return None
        members = [member for block in self.blocks for member in block.members]
        pairs = [list(zip(member.slopes, member.powers, strict=True)) for member in members]
        return (
            np.cumsum([0, *(len(block.members) for block in self.blocks)]),
            np.cumsum([self.plain, *(1 + len(member.averages) for member in members)]),
            np.cumsum([0, *map(len, pairs)]),
            _rows([(block.count, block.scale) for block in self.blocks]),
            _rows([(member.base, member.log_share) for member in members]),
            _rows([pair for each in pairs for pair in each]),
        )


def _zeros(group: Nodes) -> float:
    return float(np.sum(group.weights[group.positions == 0]).real)


def _rows(pairs: list[tuple[float, float]]) -> NDArray[np.float64]:
    return np.array(pairs, float).reshape(-1, 2)


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
