"""The source of a kernel that takes networks through a layer's stages, on one input, side by side.

Of one vector a matrix needs nothing but the length, so that what it acts on is not kept: each stage
is sums over neurons, some loops over neurons with σ in them, and random numbers. A variable that is
another one times a number, as z/√q is, is not computed but kept as both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from derive.engine.stages import LEFT, Equation, Function, Product, Stage, Sum, Variable
from derive.engine.trees import STREAM, Kind
from derive.errors import InputError
from derive.work.caches import cache

from .forward_kernels import LANES
from .stage_tables import NORMALS, SQUARE_ROW, STREAM_ROOM, STREAM_ROW, Drawn, Size, Written
from .stage_values import Scaled, State, Values, row_text, times

_KERNEL = '''\
@entry
def forward(networks, key, span, tables, factors, rooms, words, rows, squares):
    """|s|² of what z is made of, at layers span[0] … span[1].

    Squares are (depth, sources, groups, lanes). Source 0 of layer 1 is |x|². The first room, times
    row 1 where a matrix alone makes z, is z of the layer before the first, and of the last when it
    returns. Tables have a row for each layer: where each matrix's factors begin, how many neurons
    loops are over, and the numbers in products. Factors are as in `stage_kernels.draw`. Row 2
    is |room|² of the first room where row 1 is used.
    """
    wide_vectors()
    bounds, sizes, numbers = tables
{rooms}
    for g in range(networks.shape[0]):
        who = networks[g]
        for layer in range(span[0], span[1] + 1):
            at = layer - 1
            if layer == 1:
                if layer < squares.shape[0]:
                    for s in range({lanes}):
                        rows[0, s] = squares[0, 0, g, s]
{stem}
                continue
{record}
            if layer == squares.shape[0]:
                break
{advance}
'''

Squares: TypeAlias = Mapping[tuple[Kind, int], int]
"""The rows of |s|² of what matrices act on, by equation and matrix."""


@cache
def written(stages: tuple[Stage, ...], *, biased: bool) -> Written:
    """The kernel for layers of these stages, behind a stem; biases are 0 if not `biased`."""
    made = Written(places=[Drawn(0, 0, bias=False), Drawn(0, 0, bias=True)])
    writer, last = _Writer(made, biased=biased), len(stages) - 1
    ((kind, equation),) = stages[-1].equations
    stream = Scaled(STREAM_ROOM, STREAM_ROW if writer.is_drawn(equation) else None)
    writer.stem(Size(last, STREAM), stream)
    stem = writer.taken()
    state: State = {kind: stream}
    for number, stage in enumerate(stages):
        writer.enter(number, stage, state)
        squares = writer.squares()
        if number < last:
            state = writer.after(squares)
    writer.recorded(squares)
    record = writer.taken()
    writer.moved(writer.after(squares)[STREAM], stream)
    kernel = _KERNEL.format(
        lanes=LANES,
        rooms=_indented(writer.rooms(), 1),
        stem=_indented(stem, 5),
        record=_indented(record, 3),
        advance=_indented(writer.taken(), 3),
    )
    made.text = "\n\n".join([*writer.functions, kernel])
    return made


class _Writer(Values):
    """Writes stages, one after another."""

    def __init__(self, made: Written, *, biased: bool) -> None:
        super().__init__(made)
        self._biased = biased

    def is_drawn(self, equation: Equation) -> bool:
        """True if it is nothing but one matrix on something."""
        bias = equation.bias and self._biased
        return not bias and not _carried(equation) and len(_bodies(equation)) == 1

    def stem(self, size: Size, stream: Scaled) -> None:
        """Write layer 1, of |x|² in row 0."""
        if stream.row is not None:
            row = self._drawn(0, 0, STREAM_ROOM, SQUARE_ROW)
            self._each_network(f"{row_text(stream.row)} = {row_text(row)}")
            self._sums[_square_of(STREAM_ROOM, STREAM)] = SQUARE_ROW
        else:
            self._applied(0, 0, STREAM_ROOM, "", size)
            if self._biased:
                self._applied(1, None, STREAM_ROOM, _room_text(STREAM_ROOM), size)

    def rooms(self) -> list[str]:
        """Lines that name the rooms."""
        numbers = range(self._made.rooms)
        return [f"r{k} = rooms[{k}]" for k in numbers]

    def squares(self) -> Squares:
        """Write |s|² of what each matrix acts on."""
        return {
            (kind, k): self._square(terms, terms[0].weight[1], self._stage.matrices[k].into)
            for kind, equation in self._stage.equations
            for k, terms in _bodies(equation).items()
            if terms[0].weight is not None
        }

    def recorded(self, squares: Squares) -> None:
        """Write the |s|² of a last stage's bodies and of what it carries where they are read."""
        rows = list(squares.values())
        spaces = [self._stage.matrices[k].into for _, k in squares]
        ((_, equation),) = self._stage.equations
        if carried := _carried(equation):
            spaces.append(self._stage.carried(carried[0]).space)
            rows.append(self._square(carried, LEFT, spaces[-1]))
        self._made.sources += [Size(self._number, space) for space in spaces]
        self._each_network(
            *(f"squares[at, {k}, g, s] = {row_text(row)}" for k, row in enumerate(rows))
        )

    def after(self, squares: Squares) -> dict[Kind, Scaled]:
        """Write all equations; the variables behind the stage."""
        found: dict[Kind, Scaled] = {}
        for kind, equation in self._stage.equations:
            alone = self._alone(equation.right, LEFT)
            if alone is not None and not equation.bias:
                found[kind] = alone
        for number, (kind, equation) in enumerate(self._stage.equations):
            if kind not in found:
                rows = {k: row for (each, k), row in squares.items() if each == kind}
                found[kind] = self._put(number, kind, equation, rows, self._room(kind, found))
        return found

    def moved(self, variable: Scaled, stream: Scaled) -> None:
        """Write z to where the next layer looks for it."""
        value = variable.text if stream.row is None else _room_text(variable.room)
        if value != _room_text(stream.room):
            self._each_neuron(Size(self._number, STREAM), stream.room, value)
        if stream.row is not None:
            square = self._sums[_square_of(variable.room, STREAM)]
            self._each_network(
                f"{row_text(stream.row)} = {row_text(variable.row)}",
                f"{row_text(SQUARE_ROW)} = {row_text(square)}",
            )

    def _room(self, kind: Kind, others: State) -> int:
        """z's room for z and new ones for others, unless its old numbers are wanted."""
        read = {
            self._state[variable.kind].room
            for other, equation in self._stage.equations
            if other != kind
            for term in _carried(equation)
            for variable in self._variables(term)
        }
        if kind == STREAM and STREAM_ROOM not in read | {each.room for each in others.values()}:
            return STREAM_ROOM
        return self._new_room()

    def _variables(self, term: Product) -> list[Variable]:
        """All that its factors are made of."""
        found = [each for each in term.factors if isinstance(each, Variable)]
        for factor in term.factors:
            if isinstance(factor, Function):
                for part in self._stage.arguments[factor.argument]:
                    found += self._variables(part)
        return found

    def _put(
        self, number: int, kind: Kind, equation: Equation, rows: Mapping[int, int], room: int
    ) -> Scaled:
        """Write an equation: what is carried with the first matrix, then the others."""
        size, carried = Size(self._number, kind), _carried(equation)
        before = ""
        if carried:
            before = self._total(carried, LEFT, self._stage.carried(carried[0]).space)
        self._sums = {key: row for key, row in self._sums.items() if f"r{room}[i" not in key[0]}
        if self.is_drawn(equation):
            ((k, row),) = rows.items()
            self._made.places.append(Drawn(self._number, k, bias=False))
            square = self._sums[_square_of(room, kind)] = self._put_row("0.0")
            return Scaled(room, self._drawn(len(self._made.places) - 1, row, room, square))
        if carried and not rows:
            self._each_neuron(size, room, before)
        for k, row in rows.items():
            self._made.places.append(Drawn(self._number, k, bias=False))
            self._applied(len(self._made.places) - 1, row, room, before, size)
            before = _room_text(room)
        if equation.bias and self._biased:
            self._made.places.append(Drawn(self._number, number, bias=True))
            self._applied(len(self._made.places) - 1, None, room, _room_text(room), size)
        return Scaled(room)

    def _applied(self, place: int, row: int | None, room: int, before: str, size: Size) -> None:
        """Write what comes before, and a matrix on a vector of this |s|² or biases, into a room."""
        used = self._drawn(place, row, NORMALS)
        normals = times([row_text(used), _room_text(NORMALS)])
        self._each_neuron(size, room, f"{before} + {normals}" if before else normals)

    def _drawn(self, place: int, row: int | None, room: int, square: int | None = None) -> int:
        """Write the normals of a matrix, or of biases, into a room, and |room|² into row `square`;
        the row that they are times."""
        used = self._put_row("1.0" if row is None else row_text(row))
        which = f"bounds[at, {place}], bounds[at, {place + 1}]"
        into = f"rows[{used}], rows[{square or 0}], {square is not None}"
        self._lines.append(f"draw(r{room}, {into}, factors, {which}, key, who, words)")
        return used


def _bodies(equation: Equation) -> dict[int, Sum]:
    """The terms of each matrix."""
    found: dict[int, Sum] = {}
    for term in equation.right:
        if term.weight is not None:
            check_indices(term)
            found[term.weight[0]] = (*found.get(term.weight[0], ()), term)
    return found


def check_indices(term: Product) -> None:
    """Refuse products of a matrix and what has the index on the left."""
    if any(isinstance(each, Variable | Function) and each.at == LEFT for each in term.factors):
        got = "a matrix and a factor of the left index in one product"
        raise InputError("layer", got, "an equation for each")


def _carried(equation: Equation) -> Sum:
    return tuple(term for term in equation.right if term.weight is None)


def _room_text(room: int) -> str:
    """A room at neuron i of network s."""
    return f"r{room}[i, s]"


def _square_of(room: int, kind: Kind) -> tuple[str, str]:
    """The variable that holds |room|²."""
    return times([_room_text(room)] * 2), kind.space


def _indented(lines: Sequence[str], by: int) -> str:
    return "\n".join(f"{' ' * 4 * by}{line}" for line in lines)
