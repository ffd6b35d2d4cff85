"""The source of what stands in a stage's equations: values at a neuron, and sums over neurons.

What differs from neuron to neuron has a room, (neurons, lanes) in one row; what does not, as a sum
or a number, has a row, (lanes). Each is written once, however often it occurs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import sympy

from derive.engine.stages import HERE, LEFT, Collective, Function, Product, Stage, Sum, Variable
from derive.engine.trees import Kind
from derive.errors import InputError

from ..emit import printer
from ..emit.templates import activate_source
from .forward_kernels import LANES
from .stage_tables import BODY, Size, Written

_ROOM = re.compile(r"r(\d+)\[i, s\]")
_ROW = re.compile(r"rows\[(\d+), s\]")
_NUMBER = re.compile(r"(?<![\w.])\d+\.\d+")


class Scaled(NamedTuple):
    """A variable: a room, times a row where there is one."""

    room: int
    row: int | None = None

    @property
    def text(self) -> str:
        """It at neuron i of network s."""
        return times([row_text(self.row), f"r{self.room}[i, s]"])


T = TypeVar("T")

State: TypeAlias = Mapping[Kind, Scaled]


class Values:
    """Writes values, of one stage after another.

    Attributes:
        functions: source of functions of collective variables.
    """

    def __init__(self, made: Written) -> None:
        self._made = made
        self.functions: list[str] = []
        self._lines: list[str] = []
        self._rows: dict[str, int] = {}
        self._sums: dict[tuple[str, str], int] = {}

    def enter(self, number: int, stage: Stage, state: State) -> None:
        """Go on with this stage, of which the variables before it are known."""
        self._number, self._stage, self._state = number, stage, state

    def taken(self) -> list[str]:
        """The lines since this was last asked for."""
        lines, self._lines = self._lines, []
        return lines

    def _square(self, terms: Sum, at: int, space: str) -> int:
        """The row of Σ_i (Σ terms)²."""
        alone = self._alone(terms, at)
        if alone is not None:
            total = self._sum([f"r{alone.room}[i, s]"] * 2, space)
            return self._new(times([row_text(alone.row), row_text(alone.row), row_text(total)]))
        if len(terms) == 1:
            row, own = self._parts(terms[0], at)
            if len(own) == 1 and isinstance(own[0], Function):
                total = self._sum([self._sigma(own[0], space)] * 2, space)
                return self._new(times([row_text(row), row_text(row), row_text(total)]))
        return self._sum([self._total(terms, at, space)] * 2, space)

    def _alone(self, terms: Sum, at: int) -> Scaled | None:
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
        return Scaled(variable.room, self._product([self._parts(terms[0], at)[0], variable.row]))

    def _total(self, terms: Iterable[Product], at: int, space: str) -> str:
        """A sum of products, at neuron i of network s."""
        return " + ".join(self._element(term, at, space) for term in terms)

    def _element(self, term: Product, at: int, space: str) -> str:
        row, own = self._parts(term, at)
        return times([row_text(row), *(self._factor(each, space) for each in own)]) or "1.0"

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
            written = activate_source(factor.order)
            if written not in self.functions:
                self.functions.append(written)
            room, size = self._new_room(), Size(self._number, space)
            self._each_neuron(size, room, argument)
            count = f"{LANES} * {self.size_text(size)}"
            self._lines.append(f"activate_{factor.order}(r{room}, {count})")
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
            return self._new(times([number, *map(row_text, rows)])), own
        return self._product(rows), own

    def _product(self, rows: Sequence[int | None]) -> int | None:
        given = [row for row in rows if row is not None]
        if len(given) < 2:
            return given[0] if given else None
        return self._new(times(map(row_text, given)))

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
        size, key = Size(self._number, space), (times(factors), space)
        if key not in self._sums:
            squared = len(factors) == 2 and factors[0] == factors[1]
            value = factors[0] if squared else key[0]
            room = _ROOM.fullmatch(value)
            if room is None:
                self._each_neuron(size, BODY, value)
            row = self._put_row("0.0")
            kernel, number = "add_squares" if squared else "add_columns", room[1] if room else BODY
            self._lines.append(f"{kernel}(r{number}, {self.size_text(size)}, rows[{row}])")
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
        return self._new(f"{name}({', '.join(map(row_text, rows))})")

    def _mean(self, number: int) -> int:
        mean = self._stage.means[number]
        row = self._summed(mean.factors, mean.space)
        size = self.size_text(Size(self._number, mean.space))
        return self._new(f"{row_text(row)} / {size}")

    def size_text(self, wanted: Size) -> str:
        """How a loop is told how long it is."""
        return f"sizes[at, {_place(wanted, self._made.sizes)}]"

    def _new_room(self) -> int:
        self._made.rooms += 1
        return self._made.rooms - 1

    def _new(self, value: str) -> int:
        """The row of this value, once."""
        if value not in self._rows:
            known = re.fullmatch(r"rows\[(\d+), s\]", value)
            self._rows[value] = int(known[1]) if known else self._put_row(value)
        return self._rows[value]

    def _put_row(self, value: str) -> int:
        row = self._made.rows
        self._made.rows += 1
        self._each_network(f"{row_text(row)} = {value}")
        return row

    def _each_network(self, *lines: str) -> None:
        self._lines += [f"for s in range({LANES}):", *(f"    {line}" for line in lines)]

    def _each_neuron(self, size: Size, room: int, value: str) -> None:
        """Write a value at neuron i of network s into a room, eight networks at a time: a row is
        two vectors, and LLVM would unroll a loop over networks inside of that over neurons."""
        rows = sorted(set(_ROW.findall(value)), key=int)
        vectors = _NUMBER.sub(r"all_lanes(\g<0>)", value)
        vectors = _ROOM.sub(r"load_row(r\1, i)", _ROW.sub(r"row_\1", vectors))
        self._lines += [
            "for half in range(2):",
            *(f"    row_{row} = load_row(rows[{row}], half)" for row in rows),
            f"    for i in range(half, 2 * {self.size_text(size)}, 2):",
            f"        store_row(r{room}, i, {vectors})",
        ]


def _place(item: T, items: list[T]) -> int:
    """Where it stands, now if not before."""
    if item not in items:
        items.append(item)
    return items.index(item)


def row_text(row: int | None) -> str:
    """A row at network s; nothing where there is none."""
    return "" if row is None else f"rows[{row}, s]"


def times(factors: Iterable[str]) -> str:
    """A product of those that there are."""
    return " * ".join(each for each in factors if each)
