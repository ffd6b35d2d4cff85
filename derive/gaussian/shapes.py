"""The shape of a Gaussian bracket: what numerical code needs to know of it."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """A bracket without its labels: position p carries σ^{(orders[p])} and outer[p] derivatives."""

    orders: tuple[int, ...]
    outer: tuple[int, ...]
