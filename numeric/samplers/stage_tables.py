"""The parts of the kernel of some stages, and the sizes of its tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from derive.engine.stages import Product, Stage
from derive.engine.trees import Kind

STREAM_ROOM, NORMALS, BODY = range(3)
"""The first rooms: z, a matrix's normals, and what a matrix acts on."""

_NUMBER, _BIAS, _MASK = 24, 1 << 7, 1 << 8
"""A stream's number has the layer and, from this bit on, the layer's matrix. Biases and masks have
numbers beyond all matrices."""

STREAM_ROW, SQUARE_ROW = 1, 2
"""The row that z's room is times, if it is, and |room|² then; before them is |x|²."""


class Place(NamedTuple):
    """Where a stage is: its layer, and how many matrices and equations the layer has before it."""

    layer: int
    matrices: int = 0
    equations: int = 0

    def weights(self, number: int) -> int:
        """The stream of this matrix of the stage."""
        return self.layer + (self.matrices + number << _NUMBER)

    def biases(self, number: int) -> int:
        """The stream of the biases of this equation of the stage."""
        return self.layer + (_BIAS + self.equations + number << _NUMBER)

    @property
    def masks(self) -> int:
        """The stream of the stage's masks of dropout, which `Arithmetic.masked` draws from."""
        return self.layer + (_MASK + self.equations << _NUMBER)

    def after(self, stage: Stage) -> Place:
        """Of the next stage."""
        matrices = self.matrices + len(stage.matrices) * stage.taps.count
        return Place(self.layer, matrices, self.equations + len(stage.equations))


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
