"""How long a model is drawn: until its verdict is known, at a stated rate of false alarms.

The ensemble grows by looks. Look j of J compares with the rate α/J, so that by the union bound the
chance of a false alarm at any look is α at most, whatever decides when to stop. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

FALSE_ALARMS = 1e-4
"""The chance that a report contradicts a model that was read right, all its comparisons and looks
together."""
_LOOKS, _FEWEST = 3, 20
"""Looks at most, and groups of initializations at the first: with fewer Student's t is wide."""

T = TypeVar("T")


def looks(groups: int) -> tuple[int, ...]:
    """The numbers of groups at which the ensemble is compared, each twice the one before.

    >>> looks(60), looks(12)
    ((30, 60), (12,))
    """
    found = [groups >> k for k in reversed(range(_LOOKS))]
    return tuple(each for each in found if each >= _FEWEST or each == groups)


def in_looks(
    at: Sequence[int],
    look: Callable[[int, float], T],
    is_decided: Callable[[T], bool],
    alarms: float = FALSE_ALARMS,
) -> T:
    """The first look that decides, or the last.

    Arguments:
        at: the numbers of groups.
        look: called with the number of groups and the rate of false alarms of this look.
    """
    for count in at:
        found = look(count, alarms / len(at))
        if is_decided(found):
            break
    return found


def one_in(rate: float) -> str:
    """A rate in words.

    >>> one_in(1e-4)
    '1 in 10 000'
    """
    return f"1 in {math.ceil(1 / rate - 1e-9):,}".replace(",", " ")
