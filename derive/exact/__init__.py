"""Finite width without truncation, where it can be had."""

from ..symbols import n
from ..work.faces import public
from .cumulants import (
    component,
    cumulant,
    moment_factor,
    row_sum,
    scale_invariant_moment,
    series,
    vertex,
)

__all__ = [
    "component",
    "cumulant",
    "moment_factor",
    "n",
    "row_sum",
    "scale_invariant_moment",
    "series",
    "vertex",
]

public(__name__)
