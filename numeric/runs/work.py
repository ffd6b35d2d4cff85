"""Work to run: draws of an ensemble, in chunks that know nothing of each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Executor
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np

from ..arrays import Array
from .totals import Rows, Total


@dataclass(frozen=True, eq=False)
class Sharing:
    """Who computes a chunk: this thread, and others with it.

    Attributes:
        pool: of this many threads but one, or more. If one of them fails, or Ctrl-C comes, all
            leave soon.
        given_up: set to have all leave soon, with a CancelledError.
    """

    pool: Executor | None = None
    threads: int = 1
    given_up: Event = field(default_factory=Event)


class Work(ABC):
    """Draws of an ensemble, which anyone can compute, chunk by chunk.

    What a chunk comes to depends on this and on the chunk alone, to the last bit, and not on who
    computes it. It can be pickled, sent to where a chunk is wanted, and asked for `sums` there.
    """

    @property
    @abstractmethod
    def chunk(self) -> int:
        """The number of draws in a chunk, by the ensemble alone: about a second's work."""

    @property
    def threads(self) -> int:
        """How many threads share the work on this machine; one, where NumPy has its own."""
        return 1

    @property
    def reference(self) -> Array:
        """The reference of all chunks of a run, made by whoever begins it; nothing, by default."""
        return np.empty(0)

    @abstractmethod
    def shape(self, draws: int) -> tuple[int, ...]:
        """Of what a chunk of so many draws comes to."""

    @abstractmethod
    def total(self) -> Total:
        """The total of no draws, to which the chunks are added in their order."""

    @property
    def told(self) -> bool:
        """True if its manifest tells all that it is: not where a user's function is in it."""
        return True

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """The data that tell its runs from those of others: numbers, texts and lists."""

    @abstractmethod
    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The sums of the draws start … stop − 1; `reference` is what the run is about."""


class RowsWork(Work):
    """Work whose draws are all kept, one below the other.

    Attributes:
        draws: how many are asked for.
    """

    draws: int

    def total(self) -> Rows:
        """Room for all draws."""
        return Rows(np.empty(self.shape(self.draws)))
