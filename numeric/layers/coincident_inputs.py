"""Recursions of kinked σ behind a mean that is taken off: a polynomial for each way to coincide.

Where σ(z − m), m = Σ z/n, is expanded in m, each σ is differentiated by itself. At distinct inputs
that is the derivative of a bracket by one label, which exists for kinks; where labels meet at an
input it is one by one factor of several, as σ''σ' and σ'σ'' apart, and exists for some sums of them
only. So a tensor at α, α, β, … has its own recursion, derived with its labels equal, in which what
stands outside a bracket acts on all factors of an input, and every term exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from derive.engine.step import Step
from derive.engine.tensors import Name
from derive.errors import InputError, Words
from derive.gaussian.brackets import Bracket
from derive.groups.pairings import pattern_of, patterns
from derive.work.caches import cache

from ..arrays import Array
from ..brackets.pieces import SLACK
from ..brackets.shapes import check_finite_together
from .stages import Average, Sigma, Stage
from .vectors import Estimate

_EQUAL = 1e-9
"""The largest relative difference of tensors of inputs whose variables are the same."""


class Merged(Stage):
    """The recursions through a stage, of kinked σ and several inputs, with a mean taken off.

    Arguments: as of `Stage`; and masked, whether equal inputs have masks of their own.

    Raises:
        InputError: where a recursion is infinite with some of its labels equal.
    """

    def __init__(
        self,
        below: Sequence[Name],
        steps: Sequence[Step],
        sigma: Sigma,
        parameters: Sequence[str],
        m: int,
        positions: int = 1,
        *,
        exchangeable: bool = False,
        masked: bool = False,
    ) -> None:
        self._masked = masked
        self._ranks = [len(step.samples) for step in steps]
        self._patterns = [patterns(rank) for rank in self._ranks]
        variants = [
            merged(step, pattern)
            for step, of_step in zip(steps, self._patterns, strict=True)
            for pattern in of_step
        ]
        for each in variants:
            check_finite_together(each, sigma)
        given = below, variants, sigma, parameters, m
        super().__init__(*given, distinct=True, exchangeable=exchangeable, positions=positions)
        self.names = tuple(step.target for step in steps)
        self._is_differentiated = any(
            bracket.outer for each in variants for bracket in each.atoms(Bracket)
        )

    def passed(
        self, before: Estimate, parameters: Array, noise: Array, average: Sequence[Average]
    ) -> Estimate:
        """The tensors behind the stage, and their sizes; arguments as of `Stage.passed`."""
        alike = self._alike(before)
        values, sizes = super().passed(before, parameters, noise, average)
        found: Estimate = [], []
        begin = 0
        for rank, of_step in zip(self._ranks, self._patterns, strict=True):
            end, places = begin + len(of_step), _places(rank, self._m, alike)
            shape = (self._m,) * rank
            of_all = [each.reshape(len(parameters), -1) for each in values[begin:end]]
            found[0].append(np.concatenate(of_all, axis=1)[:, places].reshape(-1, *shape))
            found[1].append(
                np.concatenate([each.ravel() for each in sizes[begin:end]])[places].reshape(shape)
            )
            begin = end
        return found

    def _alike(self, before: Estimate) -> tuple[int, ...]:
        """The first input with the same variables as each.

        Raises InputError for other inputs that are multiples of each other: there the distinct
        labels' derivatives do not exist. Nor do those of equal samples with masks of their own, or
        of signals that differ elsewhere, where means run over positions.
        """
        tensors = [each[0] for each in before[0]]
        first = list(range(self._m))
        if not self._is_differentiated:
            return tuple(first)
        for kernel in self.kernels:
            K = tensors[kernel]
            root = np.sqrt(K.diagonal())
            close = (np.abs(K) >= (1.0 - SLACK) * root[:, None] * root) & (root > 0.0)
            np.fill_diagonal(close, True)  # where z is 0 nothing is a multiple
            for b in range(self._m):
                a = int(np.flatnonzero(close[b])[0])
                first[b] = min(first[b], a)
        if any(a != b for b, a in enumerate(first)) and not (
            not self._masked
            and _of_equal_signals(first, self._positions)
            and all(
                _agree(each[np.ix_(*(first,) * each.ndim)], each, size)
                for each, size in zip(tensors, before[1], strict=True)
            )
        ):
            raise multiples()
        return tuple(first)


def multiples() -> InputError:
    """The error for inputs that are multiples of each other but have different tensors."""
    wanted = (
        "inputs that are no multiples of each other, as a mean is subtracted before σ with kinks"
    )
    return InputError("inputs", Words("some that are multiples of others"), wanted)


def _of_equal_signals(first: Sequence[int], positions: int) -> bool:
    """True if all samples that are others of another signal have a whole signal that is as that."""
    signals = np.reshape(first, (-1, positions))
    pairs = ((own, signals[at]) for own in signals for at in own // positions)
    return positions == 1 or all((own == other).all() for own, other in pairs)


def _agree(one: Array, other: Array, size: Array) -> bool:
    return bool((np.abs(one - other) <= _EQUAL * size).all())


def merged(step: Step, pattern: Sequence[int]) -> Step:
    """The step with those of its labels equal that have the same number in the pattern."""
    return replace(step, samples=tuple(step.samples[pattern.index(block)] for block in pattern))


@cache
def _places(rank: int, m: int, alike: tuple[int, ...]) -> NDArray[np.int64]:
    """Where each entry stands among those of all patterns, side by side."""
    begins, end = {}, 0
    for pattern in patterns(rank):
        begins[pattern], end = end, end + m ** len(set(pattern))
    places = []
    for samples in product(alike, repeat=rank):
        at = 0
        for sample in dict.fromkeys(samples):
            at = at * m + sample
        places.append(begins[pattern_of(samples)] + at)
    return np.array(places)
