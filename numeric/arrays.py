"""Arrays as signatures name them, and tensors by their orbits (`derive.engine.orbits`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from derive.engine.orbits import orbit_numbers, orbits
from derive.engine.tensors import Name
from derive.groups.pairings import pattern_of
from derive.work.caches import cache

T = TypeVar("T", bound=np.generic)

Array: TypeAlias = NDArray[np.float64]
"""Doubles, in the shape that the docstring states."""


def aligned(*shape: int) -> Array:
    """Room for doubles, which begins a line of the cache: no vector of eight is in two lines."""
    size = prod(shape)
    room = np.empty(size + 7)
    first = -(room.__array_interface__["data"][0] // room.itemsize) % 8
    return room[first : first + size].reshape(shape)


def at_samples(values: NDArray[T], chosen: Sequence[int]) -> NDArray[T]:
    """A tensor at these samples, (layers, p, …, p) from (layers, m, …, m)."""
    return values[np.ix_(range(len(values)), *[chosen] * (values.ndim - 1))]


def by_orbit(values: NDArray[T], name: Name, samples: int) -> NDArray[T]:
    """A tensor's entries that represent its orbits under so many samples, (…, orbits) from
    (…, m, …, m)."""
    at = np.array([patterns[0] for patterns in orbits(name, samples).values()]).T
    return values[(..., *at)]


def over_samples(values: NDArray[T], name: Name, samples: int, m: int | None = None) -> NDArray[T]:
    """A tensor over m samples, (copies, m, …, m), from its values by orbit, (copies, orbits).

    Arguments:
        samples: those that have the orbits.
        m: by default `samples`.
    """
    return values[:, _places(name, samples, samples if m is None else m)]


@cache(entries=256, most_bytes=1 << 24)
def _places(name: Name, samples: int, m: int) -> NDArray[np.int64]:
    """The number of the orbit of each entry, (m, …, m)."""
    rank, numbers = len(name.subscripts), orbit_numbers(name, samples)
    at = [numbers[pattern_of(each)] for each in product(range(m), repeat=rank)]
    return np.array(at, np.int64).reshape((m,) * rank)
