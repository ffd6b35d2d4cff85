"""The parts of the kernel of some stages, and the sizes of its tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from derive.engine.stages import Product
from derive.engine.trees import Kind

STREAM_ROOM, NORMALS, BODY = range(3)
"""The first rooms: z, a matrix's normals, and what a matrix acts on."""

STREAM_ROW, SQUARE_ROW = 1, 2
"""The row that z's room is times, if it is, and |room|² then; before them is |x|²."""


class Size(NamedTuple):
    """The neurons of a space before a stage, or those of a variable behind it."""

    stage: int
    of: str | Kind


class Drawn(NamedTuple):
    """A matrix of a stage, by its number, or the biases of an equation."""

    stage: int
    number: int
    bias: bool


@dataclass(eq=False)
class Written:
    """The kernel of some stages, and what its tables have to hold.

    Attributes:
        text: of the kernel, and of the functions of collective variables.
        places: whose factors `bounds` are of; those of the stem come first.
        sizes: of the loops.
        numbers: (stage, product), each for its coefficient, parameters and means.
        sources: what z is made of, as sizes.
        rooms, rows: how many.
        orders: derivatives of σ that occur, itself included.
    """

    text: str = ""
    places: list[Drawn] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    numbers: list[tuple[int, Product]] = field(default_factory=list)
    sources: list[Size] = field(default_factory=list)
    rooms: int = 3
    rows: int = 3
    orders: int = 1
