"""Tables of `flow` and `simulate` as text, a row per layer, and as rows, one per number.

layer        K          V_1111
    1  0.33   ± 0.01   -0.21 ± 0.02
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

    from derive.engine.tensors import Name

    from .rows import Cell

HEADER = ("width", "tensor", "layer", "samples", "value", "se")
"""The cells of a row."""

PIPED = 100
"""How wide the text is where it is not read at a terminal."""

_GAP = "  "

Place = tuple[int, ...]


def text(table: xarray.Dataset, names: Iterable[Name], columns: int | None = None) -> str:
    """A row per layer and a column per component, those that are equal by symmetry once.

    What is sampled is printed with its standard error. What is wider than `columns`, the
    terminal's by default, goes on in blocks below, the components of a tensor in one block if they
    fit.

    Arguments:
        names: the tensors as they were asked for, whose subscripts are the table's axes.
    """
    from numeric.tables.layout import orbits_apart

    table = orbits_apart(table)
    named = {name.label: name for name in names}
    size = shutil.get_terminal_size((PIPED, 24)).columns if columns is None else columns
    layers = _aligned("layer", [(str(layer), "") for layer in table["layer"].to_numpy()])
    groups = [_columns(table, name) for name in named.values()]
    return "\n\n".join(
        "\n".join(_GAP.join(row).rstrip() for row in zip(layers, *block, strict=True))
        for block in _blocks(groups, size - len(layers[0]))
    )


Column = list[str]
"""A heading and a cell for each layer, all of one width."""


def _columns(table: xarray.Dataset, name: Name) -> list[Column]:
    """A tensor's columns."""
    values = table[name.label].to_numpy()
    errors = table[f"{name}_se"].to_numpy() if f"{name}_se" in table else None
    columns = []
    numbers = _numbers(table, name.label)
    places = _distinct(name, values.shape[1:])
    if f"orbit_{name}" in table.dims:
        places = [(k,) for k in range(values.shape[1])]
    for place in places:
        at: tuple[slice | int, ...] = (slice(None), *place)
        ends = [""] * len(values) if errors is None else [f"± {error:.2g}" for error in errors[at]]
        cells = [(_number(value), end) for value, end in zip(values[at], ends, strict=True)]
        heading = f"{name}_{_subscripts(place, numbers, ',')}".rstrip("_")
        columns.append(_aligned(heading, cells))
    return columns


def _number(value: object) -> str:
    """Six digits of a float, all of a `Decimal`."""
    return str(value) if isinstance(value, Decimal) else f"{value:.6g}"


def _distinct(name: Name, shape: Place) -> list[Place]:
    """One component of each class of those that are equal by the tensor's symmetries."""
    from numeric.estimators.observables import components

    if not shape:
        return [()]
    return [members[0] for members in components(name, shape[0]).values()]


def _numbers(table: xarray.Dataset, name: str) -> list[list[int | str]]:
    """The samples counted from 1, along each of a tensor's axes; or the labels of its orbits."""
    axes = (table[axis].to_numpy().tolist() for axis in table[name].dims[1:])
    return [[each if isinstance(each, str) else each + 1 for each in own] for own in axes]


def _subscripts(place: Place, numbers: Sequence[Sequence[int | str]], apart: str) -> str:
    """The samples counted from 1, set apart where one has two digits; or the label of an orbit."""
    most = max((each for own in numbers for each in own if isinstance(each, int)), default=0)
    labels = (str(own[at]) for own, at in zip(numbers, place, strict=True))
    return ("" if most < 10 else apart).join(labels)


def _aligned(heading: str, cells: Sequence[tuple[str, str]]) -> Column:
    """The numbers at the right, their errors at the left of a column."""
    most = max(len(value) for value, _ in cells)
    ends = max(len(end) for _, end in cells)
    rows = [
        f"{value:>{most}} {end:<{ends}}" if ends else f"{value:>{most}}" for value, end in cells
    ]
    size = max(len(heading), len(rows[0]))
    return [heading.rjust(size), *(row.rjust(size) for row in rows)]


def _blocks(groups: Iterable[Sequence[Column]], room: int) -> Iterator[list[Column]]:
    """The columns side by side as far as there is room, a group together if it fits alone."""
    block: list[Column] = []
    for group in groups:
        if block and _size(block) + _size(group) > room >= _size(group):
            yield block
            block = []
        for column in group:
            if block and _size([*block, column]) > room:
                yield block
                block = []
            block.append(column)
    if block:
        yield block


def _size(block: Sequence[Column]) -> int:
    return sum(len(_GAP) + len(column[0]) for column in block)


def rows(table: xarray.Dataset, width: int | None) -> Iterator[tuple[Cell, ...]]:
    """One for each tensor, layer and component, with the cells of `HEADER`."""
    from numeric.tables.layout import orbits_apart, tensors

    table = orbits_apart(table)
    for name in tensors(table):
        values = table[name].to_numpy()
        errors = table[f"{name}_se"].to_numpy() if f"{name}_se" in table else None
        layers, numbers = table["layer"].to_numpy(), _numbers(table, name)
        for place in product(*map(range, values.shape)):
            yield (
                "" if width is None else width,
                name,
                int(layers[place[0]]),
                _subscripts(place[1:], numbers, " "),
                str(values[place]) if values.dtype == object else float(values[place]),
                "" if errors is None else float(errors[place]),
            )
