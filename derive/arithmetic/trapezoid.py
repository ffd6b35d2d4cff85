"""The trapezoid rule with its step halved until the sum stands still, in mpmath's numbers.

For an integrand that is analytic and has died out at both ends the error squares with every
halving, so that the last change bounds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import mpmath

_Step = TypeVar("_Step", float, mpmath.mpf)


def halved(
    nodes: Callable[[_Step, int], mpmath.mpf],
    step: _Step,
    halvings: int,
    settled: Callable[[mpmath.mpf, mpmath.mpf], bool],
) -> tuple[mpmath.mpf, mpmath.mpf] | None:
    """The integral and its last change; None where so many halvings do not settle it.

    Arguments:
        nodes: nodes(h, half) is h times the sum over the nodes k h, or (k + ½) h with `half` 1.
        step: the first h.
        halvings: how many there are at most.
        settled: whether an integral with such a last change will do.
    """
    total = nodes(step, 0)
    for _ in range(halvings):
        last, total = total, (total + nodes(step, 1)) / 2
        step = step / 2
        change = abs(total - last)
        if settled(total, change):
            return total, change
    return None
