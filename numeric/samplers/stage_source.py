"""The source of a kernel that takes networks through a layer's stages, on one input, side by side.

Of one vector a matrix needs nothing but the length, so that what it acts on is not kept: each stage
is sums over neurons, some loops over neurons with σ in them, and random numbers. A variable that is
another one times a number, as z/√q is, is not computed but kept as both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeAlias, TypeVar

import sympy

from derive.engine.stages import (
    HERE,
    LEFT,
    Collective,
    Equation,
    Function,
    Product,
    Stage,
    Sum,
    Variable,
)
from derive.engine.trees import STREAM, Kind
from derive.errors import InputError

from ..emit import printer
from .forward_kernels import LANES
from .staged import check_indices

_KERNEL = '''\
@entry
def forward(networks, key, span, tables, factors, rooms, rows, squares):
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

_ROOM = re.compile(r"r(\d+)\[i, s\]")

STREAM_ROOM, NORMALS, BODY = range(3)
"""The first rooms: z, a matrix's normals, and what a matrix acts on."""

STREAM_ROW, SQUARE_ROW = 1, 2
"""The row that z's room is times, if it is, and |room|² then; before them is |x|²."""

_ACTIVATED = '''\
@driver
def {name}({arguments}, total):
    """Add Σ_i σ({order})({argument})² of each column to `total`."""
    wide_vectors()
    n = {room}.shape[0]
    for k in range(0, n, 2):  # as in `forward.add_activated`
        j, there = (k + 1, 1.0) if k + 1 < n else (k, 0.0)
        for s in range({lanes}):
            first, second = sigma({first})[{order}], sigma({second})[{order}]
            total[s] += first * first + there * (second * second)
'''


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


class _Scaled(NamedTuple):
    """A variable: a room, times a row where there is one."""

    room: int
    row: int | None = None

    @property
    def text(self) -> str:
        return _times([_row(self.row), f"r{self.room}[i, s]"])


T = TypeVar("T")

State: TypeAlias = Mapping[Kind, _Scaled]

Squares: TypeAlias = Mapping[tuple[Kind, int], int]
"""The rows of |s|² of what matrices act on, by equation and matrix."""


@cache
def written(stages: tuple[Stage, ...], *, biased: bool) -> Written:
    """The kernel for layers of these stages, behind a stem; biases are 0 if not `biased`."""
    made = Written(places=[Drawn(0, 0, bias=False), Drawn(0, 0, bias=True)])
    writer, last = _Writer(made, biased=biased), len(stages) - 1
    ((kind, equation),) = stages[-1].equations
    stream = _Scaled(STREAM_ROOM, STREAM_ROW if writer.is_drawn(equation) else None)
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


class _Writer:
    """Writes stages, one after another.

    Attributes:
        functions: source of functions of collective variables.
    """

    def __init__(self, made: Written, *, biased: bool) -> None:
        self._made, self._biased = made, biased
        self.functions: list[str] = []
        self._lines: list[str] = []
        self._rows: dict[str, int] = {}
        self._sums: dict[tuple[str, str], int] = {}

    def is_drawn(self, equation: Equation) -> bool:
        """Whether it is nothing but one matrix on something."""
        bias = equation.bias and self._biased
        return not bias and not _carried(equation) and len(_bodies(equation)) == 1

    def stem(self, size: Size, stream: _Scaled) -> None:
        """Write layer 1, of |x|² in row 0."""
        if stream.row is not None:
            row = self._drawn(0, 0, STREAM_ROOM, SQUARE_ROW)
            self._each_network(f"{_row(stream.row)} = {_row(row)}")
            self._sums[_square_of(STREAM_ROOM, STREAM)] = SQUARE_ROW
        else:
            self._applied(0, 0, STREAM_ROOM, "=", self.size_text(size))
            if self._biased:
                self._applied(1, None, STREAM_ROOM, "+=", self.size_text(size))

    def rooms(self) -> list[str]:
        """Lines that name the rooms."""
        numbers = range(self._made.rooms)
        named = [f"r{k} = rooms[{k}]" for k in numbers]
        return named + [f"flat_{k} = rooms[{k}].reshape(-1)" for k in numbers]

    def enter(self, number: int, stage: Stage, state: State) -> None:
        """Go on with this stage, of which the variables before it are known."""
        self._number, self._stage, self._state = number, stage, state

    def taken(self) -> list[str]:
        """The lines since this was last asked for."""
        lines, self._lines = self._lines, []
        return lines

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
        self._each_network(*(f"squares[at, {k}, g, s] = {_row(row)}" for k, row in enumerate(rows)))

    def after(self, squares: Squares) -> dict[Kind, _Scaled]:
        """Write all equations; the variables behind the stage."""
        found: dict[Kind, _Scaled] = {}
        for kind, equation in self._stage.equations:
            alone = self._alone(equation.right, LEFT)
            if alone is not None and not equation.bias:
                found[kind] = alone
        for number, (kind, equation) in enumerate(self._stage.equations):
            if kind not in found:
                rows = {k: row for (each, k), row in squares.items() if each == kind}
                found[kind] = self._put(number, kind, equation, rows, self._room(kind, found))
        return found

    def moved(self, variable: _Scaled, stream: _Scaled) -> None:
        """Write z to where the next layer looks for it."""
        value = variable.text if stream.row is None else f"r{variable.room}[i, s]"
        into = f"r{stream.room}[i, s]"
        if value != into:
            self._each_neuron(Size(self._number, STREAM), f"{into} = {value}")
        if stream.row is not None:
            square = self._sums[_square_of(variable.room, STREAM)]
            self._each_network(
                f"{_row(stream.row)} = {_row(variable.row)}",
                f"{_row(SQUARE_ROW)} = {_row(square)}",
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

    def _new_room(self) -> int:
        self._made.rooms += 1
        return self._made.rooms - 1

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
    ) -> _Scaled:
        """Write an equation: what is carried with the first matrix, then the others."""
        size, carried = Size(self._number, kind), _carried(equation)
        begins = "="
        if carried:
            space = self._stage.carried(carried[0]).space
            begins = f"= {self._total(carried, LEFT, space)} +"
        self._sums = {key: row for key, row in self._sums.items() if f"r{room}[i" not in key[0]}
        if self.is_drawn(equation):
            ((k, row),) = rows.items()
            self._made.places.append(Drawn(self._number, k, bias=False))
            square = self._sums[_square_of(room, kind)] = self._put_row("0.0")
            return _Scaled(room, self._drawn(len(self._made.places) - 1, row, room, square))
        if carried and not rows:
            self._each_neuron(size, f"r{room}[i, s] {begins} 0.0")
        for k, row in rows.items():
            self._made.places.append(Drawn(self._number, k, bias=False))
            self._applied(len(self._made.places) - 1, row, room, begins, self.size_text(size))
            begins = "+="
        if equation.bias and self._biased:
            self._made.places.append(Drawn(self._number, number, bias=True))
            self._applied(len(self._made.places) - 1, None, room, "+=", self.size_text(size))
        return _Scaled(room)

    def _applied(self, place: int, row: int | None, room: int, begins: str, size: str) -> None:
        """Write a matrix on a vector of this |s|², or biases, into a room or onto what it has."""
        used = self._drawn(place, row, NORMALS)
        self._lines += [
            f"for i in range({size}):",
            f"    for s in range({LANES}):",
            f"        r{room}[i, s] {begins} rows[{used}, s] * r{NORMALS}[i, s]",
        ]

    def _drawn(self, place: int, row: int | None, room: int, square: int | None = None) -> int:
        """Write the normals of a matrix, or of biases, into a room, and |room|² into row `square`;
        the row that they are times."""
        used = self._put_row("1.0" if row is None else _row(row))
        which = f"(bounds[at, {place}], bounds[at, {place + 1}])"
        into = f"rows[{used}], rows[{square or 0}], {square is not None}"
        self._lines.append(f"draw(r{room}, {into}, factors, {which}, key, who)")
        return used

    def _square(self, terms: Sum, at: int, space: str) -> int:
        """The row of Σ_i (Σ terms)²."""
        alone = self._alone(terms, at)
        if alone is not None:
            total = self._sum([f"r{alone.room}[i, s]"] * 2, space)
            return self._new(_times([_row(alone.row), _row(alone.row), _row(total)]))
        if len(terms) == 1:
            row, own = self._parts(terms[0], at)
            if len(own) == 1 and isinstance(own[0], Function):
                total = self._activated(own[0], space)
                return self._new(_times([_row(row), _row(row), _row(total)]))
        return self._sum([self._total(terms, at, space)] * 2, space)

    def _activated(self, factor: Function, space: str) -> int:
        """The row of Σ_i σ²: where nothing but this is asked of σ, it needs no room."""
        argument = self._total(self._stage.arguments[factor.argument], HERE, space)
        key = f"σ({factor.order})({argument})", space
        if key in self._sums:
            return self._sum([f"r{self._sums[key]}[i, s]"] * 2, space)
        squared = f"{key[0]}²", space
        if squared not in self._sums:
            self._made.orders = max(self._made.orders, factor.order + 1)
            rooms = sorted(set(re.findall(r"r\d+(?=\[i, s\])", argument)))
            rows = sorted(set(re.findall(r"rows\[(\d+), s\]", argument)))
            local = re.sub(r"rows\[(\d+), s\]", r"row_\1[s]", argument)
            name = f"add_activated_{len(self.functions)}"
            self.functions.append(
                _ACTIVATED.format(
                    name=name,
                    arguments=", ".join([*rooms, *(f"row_{row}" for row in rows)]),
                    argument=argument,
                    room=rooms[0],
                    lanes=LANES,
                    order=factor.order,
                    first=local.replace("[i, s]", "[k, s]"),
                    second=local.replace("[i, s]", "[j, s]"),
                )
            )
            total, size = self._put_row("0.0"), self.size_text(Size(self._number, space))
            given = [*(f"{room}[: {size}]" for room in rooms), *(f"rows[{row}]" for row in rows)]
            self._lines.append(f"{name}({', '.join(given)}, rows[{total}])")
            self._sums[squared] = total
        return self._sums[squared]

    def _alone(self, terms: Sum, at: int) -> _Scaled | None:
        """Where it is one variable times a number."""
        if len(terms) != 1 or (terms[0].weight and at == LEFT):
            return None
        here = [
            each
            for each in terms[0].factors
            if isinstance(each, Variable | Function) and each.at == at
        ]
        if len(here) != 1 or not isinstance(here[0], Variable):
            return None
        variable = self._state[here[0].kind]
        return _Scaled(variable.room, self._product([self._parts(terms[0], at)[0], variable.row]))

    def _total(self, terms: Iterable[Product], at: int, space: str) -> str:
        """A sum of products, at neuron i of network s."""
        return " + ".join(self._element(term, at, space) for term in terms)

    def _element(self, term: Product, at: int, space: str) -> str:
        row, own = self._parts(term, at)
        return _times([_row(row), *(self._factor(each, space) for each in own)]) or "1.0"

    def _factor(self, factor: Variable | Function, space: str) -> str:
        if isinstance(factor, Variable):
            return self._state[factor.kind].text
        return self._sigma(factor, space)

    def _sigma(self, factor: Function, space: str) -> str:
        """Write σ into a room of its own: over its flat numbers, for then LLVM vectorises it."""
        argument = self._total(self._stage.arguments[factor.argument], HERE, space)
        key = f"σ({factor.order})({argument})", space
        if key not in self._sums:
            self._made.orders = max(self._made.orders, factor.order + 1)
            room, size = self._new_room(), Size(self._number, space)
            if known := _ROOM.fullmatch(argument):
                value = f"flat_{known[1]}[i]"
            else:
                self._each_neuron(size, f"r{room}[i, s] = {argument}")
                value = f"flat_{room}[i]"
            self._lines += [
                f"for i in range({LANES} * {self.size_text(size)}):",
                f"    flat_{room}[i] = sigma({value})[{factor.order}]",
            ]
            self._sums[key] = room
        return f"r{self._sums[key]}[i, s]"

    def _parts(self, term: Product, at: int) -> tuple[int | None, list[Variable | Function]]:
        """The row of all that is the same for every neuron, and the factors at this one."""
        groups: dict[int, list[Variable | Function]] = {at: []}
        rows = []
        for factor in term.factors:
            if isinstance(factor, Collective):
                rows.append(self._function(factor))
            elif isinstance(factor, Variable | Function):
                groups.setdefault(factor.at, []).append(factor)
            else:
                raise InputError("layer", factor, "variables, σ's and collective variables")
        own, spaces = groups.pop(at), dict(term.neurons)
        rows += [self._summed(factors, spaces[a]) for a, factors in groups.items()]
        if term.coefficient != 1 or term.parameters or term.means:
            key = self._number, term._replace(factors=(), weight=None, neurons=())
            number = f"numbers[at, {_place(key, self._made.numbers)}]"
            return self._new(_times([number, *map(_row, rows)])), own
        return self._product(rows), own

    def _product(self, rows: Sequence[int | None]) -> int | None:
        given = [row for row in rows if row is not None]
        if len(given) < 2:
            return given[0] if given else None
        return self._new(_times(map(_row, given)))

    def _summed(self, factors: Sequence[Variable | Function], space: str) -> int:
        """The row of Σ_i Π factors."""
        variables = [self._state[f.kind] for f in factors if isinstance(f, Variable)]
        others = [self._sigma(f, space) for f in factors if isinstance(f, Function)]
        rooms = sorted(f"r{each.room}[i, s]" for each in variables)
        total = self._sum([*rooms, *others], space)
        row = self._product([total, *(each.row for each in variables)])
        assert row is not None
        return row

    def _sum(self, factors: Sequence[str], space: str) -> int:
        """The row of Σ_i of a product: a square is summed as one."""
        size, key = Size(self._number, space), (_times(factors), space)
        if key not in self._sums:
            squared = len(factors) == 2 and factors[0] == factors[1]
            value = factors[0] if squared else key[0]
            room = _ROOM.fullmatch(value)
            if room is None:
                self._each_neuron(size, f"r{BODY}[i, s] = {value}")
            row = self._put_row("0.0")
            kernel, number = "add_squares" if squared else "add_columns", room[1] if room else BODY
            self._lines.append(f"{kernel}(r{number}[: {self.size_text(size)}], rows[{row}])")
            self._sums[key] = row
        return self._sums[key]

    def _function(self, wanted: Collective) -> int:
        """The row of a derivative of a function of collective variables."""
        means, expression = self._stage.means, self._stage.functions[wanted.function]
        for mean, k in zip(means, wanted.orders, strict=True):
            expression = sympy.diff(expression, mean.symbol, k)
        used = [number for number, mean in enumerate(means) if expression.has(mean.symbol)]
        rows = [self._mean(number) for number in used]
        if [means[number].symbol for number in used] == [expression]:
            return rows[0]
        arguments = sympy.symbols([f"c{k}" for k in range(len(used))])
        symbols = [means[number].symbol for number in used]
        named = expression.subs(dict(zip(symbols, arguments, strict=True)))
        name = f"function_{self._number}_{wanted.function}_{'_'.join(map(str, wanted.orders))}"
        printed = printer.function(name, arguments, named, decorator="@scalar")
        if printed not in self.functions:
            self.functions.append(printed)
        return self._new(f"{name}({', '.join(map(_row, rows))})")

    def _mean(self, number: int) -> int:
        mean = self._stage.means[number]
        row = self._summed(mean.factors, mean.space)
        size = self.size_text(Size(self._number, mean.space))
        return self._new(f"{_row(row)} / {size}")

    def size_text(self, wanted: Size) -> str:
        """How a loop is told how long it is."""
        return f"sizes[at, {_place(wanted, self._made.sizes)}]"

    def _new(self, value: str) -> int:
        """The row of this value, once."""
        if value not in self._rows:
            known = re.fullmatch(r"rows\[(\d+), s\]", value)
            self._rows[value] = int(known[1]) if known else self._put_row(value)
        return self._rows[value]

    def _put_row(self, value: str) -> int:
        row = self._made.rows
        self._made.rows += 1
        self._each_network(f"{_row(row)} = {value}")
        return row

    def _each_network(self, *lines: str) -> None:
        self._lines += [f"for s in range({LANES}):", *(f"    {line}" for line in lines)]

    def _each_neuron(self, size: Size, line: str) -> None:
        self._lines += [
            f"for i in range({self.size_text(size)}):",
            f"    for s in range({LANES}):",
            f"        {line}",
        ]


def _bodies(equation: Equation) -> dict[int, Sum]:
    """The terms of each matrix."""
    found: dict[int, Sum] = {}
    for term in equation.right:
        if term.weight is not None:
            check_indices(term)
            found[term.weight[0]] = (*found.get(term.weight[0], ()), term)
    return found


def _carried(equation: Equation) -> Sum:
    return tuple(term for term in equation.right if term.weight is None)


def _place(item: T, items: list[T]) -> int:
    """Where it stands, now if not before."""
    if item not in items:
        items.append(item)
    return items.index(item)


def _square_of(room: int, kind: Kind) -> tuple[str, str]:
    """What |room|² is known by."""
    return f"r{room}[i, s] * r{room}[i, s]", kind.space


def _row(row: int | None) -> str:
    return "" if row is None else f"rows[{row}, s]"


def _times(factors: Iterable[str]) -> str:
    return " * ".join(each for each in factors if each)


def _indented(lines: Sequence[str], by: int) -> str:
    return "\n".join(f"{' ' * 4 * by}{line}" for line in lines)
