"""Faults put into the theory of one example, one by one, and whether its comparison finds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import faults
import numpy as np
from faults import Fault

from derivations.verify import DRAWS, WIDTHS, flowed, sampled
from derive.errors import InputError
from numeric import compare
from numeric.examples import Example
from numeric.tables.compare import FALSE_ALARMS, WEAK, Comparison, Row, percent

CLEAR = 1.6
"""A change so many times what a number resolves is found but for one case in thousands: beyond the
bound by 0.6 of it, 3.5 standard errors or more."""

MOST = 100
"""How many of an example's faults are looked at to find some that change enough."""


@dataclass(frozen=True)
class Planted:
    """A fault, and what came of it.

    Attributes:
        fault: what was wrong.
        row: the number that it changes most, in units of what is resolved, as it is rightly.
        change: of that number, relative as its resolution is.
        found: whether the comparison failed.
    """

    fault: Fault
    row: Row
    change: float
    found: bool

    @property
    def missed(self) -> bool:
        """True if it changes a number by clearly more than is resolved, but was not found."""
        return not self.found and self.change >= CLEAR * self.row.resolution

    def __str__(self) -> str:
        where = f"{self.row.name} at layer {self.row.layer}"
        word = "found" if self.found else "MISSED" if self.missed else "not found, nor could be"
        return (
            f"{word}: {self.fault}; it changes {where} by {percent(self.change)}, "
            f"which resolves {percent(self.row.resolution)}"
        )


def plant(example: Example, count: int, *, draws: int = DRAWS) -> tuple[Planted, ...]:
    """Put faults into the theory of an example, one by one, in the order of `faults.drawn`.

    Arguments:
        example: its own theory agrees with its ensembles.
        count: how many faults are wanted; fewer where too few are large enough.
        draws: at each of the widths of `verify`.

    Faults that change no number by `CLEAR` times `WEAK` are skipped, and so is a fault whose theory
    has no numbers. Faults that change none by `CLEAR` times what the comparison resolves come last.
    """
    tables = [sampled(example, n, draws) for n in WIDTHS]
    right = compare(flowed(example, max(WIDTHS)), tables, FALSE_ALARMS)
    assert right.agrees
    found: list[Planted] = []
    small: list[Planted] = []
    looked = 0
    for fault in faults.drawn(example, 0):
        if len(found) == count or looked == MOST:
            break
        looked += 1
        try:
            compared = compare(fault.theory(example, max(WIDTHS)), tables, FALSE_ALARMS)
        except InputError:
            continue
        changes = [
            (_over(abs(wrongly.theory - own.theory), own.scale), own)
            for own, wrongly in paired(right, compared)
        ]
        if not max(change for change, _ in changes) >= CLEAR * WEAK:
            continue
        change, row = max(changes, key=lambda each: _over(each[0], each[1].resolution))
        planted = Planted(fault, row, change, not compared.agrees)
        could = planted.found or planted.missed
        (found if could else small).append(planted)
    return tuple([*found, *small][:count])


def paired(right: Comparison, wrong: Comparison) -> Iterator[tuple[Row, Row]]:
    """Each number of the wrong comparison behind what it is rightly.

    A fault may break a symmetry of the tensor, or make one, so that components which have one row
    in one comparison have several in the other: they are told by what was sampled.
    """
    own: dict[tuple[object, ...], list[Row]] = {}
    for row in right.rows:
        own.setdefault((row.tensor, row.layer, *sorted(row.indices)), []).append(row)
    for row in wrong.rows:
        alike = own[row.tensor, row.layer, *sorted(row.indices)]
        yield min(alike, key=lambda each: abs(each.sample - row.sample)), row


def _over(change: float, scale: float) -> float:
    return change / scale if scale else np.inf if change else 0.0
