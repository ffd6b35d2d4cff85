"""An ensemble that a function draws: its rows, computed anywhere, kept and resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import numpy as np

from numeric.arrays import Array
from numeric.runs.directory import digest
from numeric.runs.work import RowsWork, Sharing


@dataclass(frozen=True, eq=False)
class Blocks(RowsWork):
    """Rows of `draw(numbers, rng, **given)`, in blocks with a stream of random numbers each.

    Arguments:
        draw: a function of this package, of the numbers of some rows, a stream, and what is given.
        given: numbers, words, arrays, functions, and what has a manifest of its own.
        row: the shape of a row.
        draws, seed: how many rows, and the seed of their streams, with `labels` that follow from
            what is given and tell this ensemble from others of the same seed.
        block: rows of a block; each of `together` blocks is in a chunk.
    """

    draw: Callable[..., Array]
    given: Mapping[str, Any]
    row: tuple[int, ...]
    draws: int
    seed: int
    labels: tuple[int, ...] = ()
    block: int = 1
    together: int = 1

    @property
    def chunk(self) -> int:
        """Whole blocks."""
        return self.block * self.together

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, …)."""
        return draws, *self.row

    @property
    def told(self) -> bool:
        """True if all functions are of this package."""
        room = f"{__name__.partition('.')[0]}."
        called = (each for each in (self.draw, *self.given.values()) if callable(each))
        return all(each.__module__.startswith(room) for each in called)

    def manifest(self) -> dict[str, Any]:
        """The function, and all that it is given."""
        own = {"sampler": _written(self.draw), "row": list(self.row), "seed": self.seed}
        own |= {"block": self.block, "chunk": self.chunk}
        for name, each in self.given.items():
            own |= each.manifest() if hasattr(each, "manifest") else {name: _written(each)}
        return own

    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The rows of these draws; `start` begins a block."""
        found = []
        for first in range(start, stop, self.block):
            if shared and shared.given_up.is_set():
                raise CancelledError
            stream = np.random.SFC64([self.seed, *self.labels, first // self.block])
            rng = np.random.Generator(stream)  # NumPy's fastest
            numbers = np.arange(first, min(first + self.block, stop))
            found.append(self.draw(numbers, rng, **self.given))
        return np.concatenate(found)


def _written(value: Any) -> Any:
    """An array by its hash, and a function by its name."""
    if isinstance(value, np.ndarray):
        return f"{value.shape} {digest(value)}"
    if not callable(value):
        return value
    return f"{value.__module__}.{getattr(value, '__qualname__', value)}"
