"""Choose how many networks a comparison samples, if its caller does not say.

Standard errors fall with the root of the draws. So a first comparison tells how many draws resolve
each number to `WEAK`. It overestimates them, as the error that it allows for the next term in 1/n
is mostly noise.
"""

from __future__ import annotations

import math

from derive.work.defaults import DRAWS, MOST_DRAWS

from .compare import WEAK, Comparison
from .scores import Row

_MARGIN = 0.85
"""The part of the wanted resolution that is aimed at, as errors are estimates."""


def enough(comparison: Comparison, draws: int, inputs: int = 1) -> int:
    """The draws of each width after which no number is weak that `MOST_DRAWS` can resolve.

    Arguments:
        comparison: of so many draws.
        draws: their number, returned if more would not help.
        inputs: samples that a batch takes through each network; they cost as many draws.
    """
    needed = [draws * (row.share / (_MARGIN * WEAK)) ** 2 for row in comparison.unresolved]
    most = max((each for each in needed if each <= MOST_DRAWS / inputs), default=0)
    return max(draws, DRAWS * math.ceil(most / DRAWS))


def to_resolve(comparison: Comparison, draws: int) -> float:
    """The draws of each width after which nothing would be weak, from those of so many.

    Infinite where the terms in 1/n that theory lacks at one width keep a number weak by themselves;
    what an extrapolation allows for is mostly noise.
    """

    def needed(row: Row) -> float:
        fixed = 0.0 if comparison.degree else row.next_term**2
        allowed = (WEAK * row.largest / comparison.bound) ** 2 - fixed
        return draws * (row.se**2 - fixed) / allowed if allowed > 0 else math.inf

    return max(map(needed, comparison.unresolved), default=float(draws))
