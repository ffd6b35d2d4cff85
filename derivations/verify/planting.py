"""Faults put into the theory of one example, one by one, and whether its comparison finds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from derive.errors import InputError
from numeric.examples import Example
from numeric.tables.compare import Comparison, Row, percent

from . import faults
from .exactly import Evidence
from .faults import Fault

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

    def as_json(self) -> dict[str, object]:
        """The same for a file."""
        return {
            "fault": str(self.fault),
            "kind": self.fault.kind,
            "meaning": faults.KINDS[self.fault.kind],
            "tensor": self.row.name,
            "layer": self.row.layer,
            "change": self.change if np.isfinite(self.change) else None,
            "found": self.found,
            "missed": self.missed,
        }


def plant(
    example: Example,
    right: Comparison,
    evidence: Evidence,
    width: int,
    resolution: float,
    count: int,
    seed: int,
) -> tuple[tuple[Planted, ...], str]:
    """So many faults of an example, at random among those that are large enough.

    Arguments:
        example: what was compared.
        right: its comparison, which agrees.
        evidence: what it was held against.
        width: for the theory, as in `flow`.
        resolution: what was asked for: faults that change no number by `CLEAR` times as much are
            passed over, and those that change none by `CLEAR` times what is resolved come last.
        count: how many.
        seed: of the choice.

    Returns them, and in words why there are fewer, if there are. A fault whose theory has no
    numbers is passed over. Chosen, not derived here.
    """
    found: list[Planted] = []
    small: list[Planted] = []
    looked = 0
    for fault in faults.drawn(example, seed):
        if len(found) == count or looked == MOST:
            break
        looked += 1
        try:
            wrong = fault.theory(example, width)
            compared = evidence.compared(wrong)
        except InputError:
            continue
        changes = [
            (_over(abs(wrongly.theory - own.theory), own.scale), own)
            for own, wrongly in _paired(right, compared)
        ]
        if not max(change for change, _ in changes) >= CLEAR * resolution:
            continue
        change, row = max(changes, key=lambda each: _over(each[0], each[1].resolution))
        planted = Planted(fault, row, change, not compared.agrees)
        could = planted.found or planted.missed
        (found if could else small).append(planted)
    told = tuple([*found, *small][:count])
    if len(told) == count:
        return told, ""
    least = percent(CLEAR * resolution)
    return told, f"of {looked} faults {len(told)} change a number by {least} or more"


def _paired(right: Comparison, wrong: Comparison) -> Iterator[tuple[Row, Row]]:
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
