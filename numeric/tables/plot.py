"""`plot(table)` draws a table as lines and points, with one panel for each tensor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from derive.engine.tensors import named
from derive.errors import InputError, as_sequence, check_installed

from ..arrays import Array
from .layout import ACCURACY, LINES, orbits_apart
from .layout import tensors as tensors_of
from .scores import Row, component_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AXES = ("layer", "step", "epoch")
"""The possible horizontal axes. Without them each variable is drawn by its first axis."""

_SEARCHED = 4096
"""The most components of a tensor, from the first samples, among which lines are chosen."""

Place = tuple[int | str, ...]
"""A component's samples from 0, or its orbit's label."""


def plot(table: xarray.Dataset, tensors: str | Sequence[str] | None = None) -> Figure:
    """Draw a table by layer or training step, with one panel for each tensor.

    Arguments:
        table: from `flow`, `simulate`, `normalise`, or any other function of `numeric` that returns
            a table.
        tensors: names of tensors, or of single components such as "V_1222". The default is all
            tensors, with their first six components.

    Lines show computed numbers. Points with error bars show sampled ones, which have a `<name>_se`
    in the table. Components that are equal by the tensor's symmetries share a line. The legend
    states how many components are not drawn. A table without layers, steps or epochs is drawn by
    the first axis of each variable. `table.wickgarten.plot()` does the same.

    The numbers are the table's, coefficients as in source 000, eqs. (3.7) and (3.8).

    Returns a matplotlib `Figure`, which a notebook shows and `.savefig("V.svg")` writes. Raises
    InputError for what is no such table, and for a name that is not in it.

    >>> from derive import Network, activations
    >>> from numeric import flow
    >>> figure = plot(flow(Network(activations.tanh), [1.0, 0.5], depth=3, tensors="K"))
    >>> [axes.get_title() for axes in figure.axes]
    ['K']
    """
    check_installed("plot", "plot", "matplotlib")
    from .drawing import points  # noqa: PLC0415  (matplotlib takes a second to import)

    if not isinstance(table, xarray.Dataset):
        raise InputError("table", type(table).__name__, "a table from flow or simulate")
    table = orbits_apart(table)
    axis = next((axis for axis in AXES if axis in table.dims), None)
    drawn = {
        name: _axis_of(table[name], axis)
        for name in map(str, table.data_vars)
        if (axis in table[name].dims if axis else table[name].dims)
    }
    default = [name for name in tensors_of(table) if name in drawn]
    if not default:
        has = ", ".join(map(str, table.data_vars)) or "nothing"
        raise InputError("table", f"a Dataset of {has}", "a table from flow or simulate")
    chosen = _chosen(tensors, default, drawn)
    figure, panels = _panels({name: drawn[name] for name in chosen})
    for (name, places), panel in zip(chosen.items(), panels, strict=True):
        array = table[name].transpose(drawn[name], ...)
        values, x = np.asarray(array.to_numpy(), float), _along(array, drawn[name])
        labels = array[f"orbit_{name}"].to_numpy().tolist() if f"orbit_{name}" in array.dims else []
        lines = places or [(each,) for each in labels] or list(_lines(name, array.dims, values))
        for place in places:
            shape = values.shape[1:]
            if len(place) != len(shape) or not all(
                a in labels if isinstance(a, str) else 0 <= a < m
                for a, m in zip(place, shape, strict=True)
            ):
                wanted = f"{len(shape)} indices after {name}_, up to {', '.join(map(str, shape))}"
                raise InputError("tensors", component_name(name, place), wanted)
        errors = None
        if f"{name}_se" in table:
            errors = np.asarray(table[f"{name}_se"].transpose(*array.dims).to_numpy(), float)
        finite = np.isfinite(x)
        for number, place in enumerate(lines[: None if places else LINES]):
            own = (labels.index(each) if isinstance(each, str) else each for each in place)
            at: tuple[slice | int, ...] = (slice(None), *own)
            style = {"color": f"C{number}", "label": component_name(name, place)}
            if errors is not None:
                points(panel, x[finite], values[at][finite], errors[at][finite], **style)
            else:
                single = "o" if finite.sum() == 1 else None
                panel.plot(x[finite], values[at][finite], marker=single, **style)
        if not finite.all():
            panel.set_xlabel(f"{drawn[name]} (finite ones)")
        _legend(panel, name, [] if places else lines)
    return figure


def compared(rows: Sequence[Row], tensors: str | Sequence[str] | None) -> Figure:
    """See `Comparison.plot`."""
    from .drawing import beside  # noqa: PLC0415  (matplotlib takes a second to import)

    components: dict[str, dict[Place, list[Row]]] = {}
    for row in rows:
        components.setdefault(row.tensor, {}).setdefault(row.indices, []).append(row)
    chosen = _chosen(tensors, list(components), components)
    figure, panels = _panels(dict.fromkeys(chosen, rows[0].axis))
    for (name, places), panel in zip(chosen.items(), panels, strict=True):
        lines = places or list(components[name])
        for number, place in enumerate(lines[: None if places else LINES]):
            own = components[name].get(place)
            if own is None:
                wanted = (
                    f"one of {', '.join(component_name(name, each) for each in components[name])}"
                )
                raise InputError("tensors", component_name(name, place), wanted)
            layers = [row.layer for row in own]
            beside(
                panel,
                (layers, [row.theory for row in own]),
                (layers, [row.sample for row in own], [row.se for row in own]),
                color=f"C{number}",
                label=own[0].name,
            )
        _legend(panel, name, [] if places else lines)
    return figure


@xarray.register_dataset_accessor("wickgarten")  # type: ignore[no-untyped-call]
class Accessor:
    """`table.wickgarten`: what this library does with a table."""

    def __init__(self, table: xarray.Dataset) -> None:
        self._table = table

    @property
    def tensors(self) -> list[str]:
        """The names of the tensors: of the variables without their twins `_se` and `_floor`."""
        return tensors_of(self._table)

    def plot(self, tensors: str | Sequence[str] | None = None) -> Figure:
        """See `numeric.plot`."""
        return plot(self._table, tensors)

    def normalise(self) -> xarray.Dataset:
        """See `numeric.normalise`."""
        from .normalise import normalise  # noqa: PLC0415

        return normalise(self._table)


def _axis_of(array: xarray.DataArray, axis: str | None) -> str:
    return axis or str(array.dims[0])


def _chosen(
    tensors: str | Sequence[str] | None, default: Sequence[str], known: Iterable[str]
) -> dict[str, list[Place]]:
    """The tensors to draw and their components; an empty list means the first components."""
    if tensors is None:
        return {name: [] for name in default}
    wanted = f"names among {', '.join(default)}, or components such as {default[0]}_11"
    chosen: dict[str, list[Place]] = {}
    for each in [tensors] if isinstance(tensors, str) else as_sequence("tensors", tensors, wanted):
        if each in known:
            chosen.setdefault(each, [])
            continue
        component = (
            re.fullmatch(r"(.+)_(\d+|\d+(?:,\d+)+|\([()\d]+)", each)
            if isinstance(each, str)
            else None
        )
        if component is None or component[1] not in known:
            raise InputError("tensors", tensors, wanted)
        digits = component[2].split(",") if "," in component[2] else component[2]
        place: Place = (component[2],)
        if not component[2].startswith("("):
            place = tuple(int(digit) - 1 for digit in digits)
        chosen.setdefault(component[1], []).append(place)
    if not chosen:
        raise InputError("tensors", tensors, wanted)
    return chosen


def _panels(axes: Mapping[str, str]) -> tuple[Figure, list[Any]]:
    from .drawing import grid  # noqa: PLC0415  (matplotlib takes a second to import)

    return grid(list(axes), list(axes.values()))


def _along(array: xarray.DataArray, axis: str) -> Array:
    """The coordinates of an axis, or 1, 2, … if it has none."""
    if axis in array.coords:
        return np.asarray(array[axis].to_numpy(), float)
    return np.arange(1.0, array.sizes[axis] + 1)


def _lines(name: str, dims: Sequence[Any], values: Array) -> Iterator[Place]:
    """One component of each symmetry class, from the first samples."""
    shape = values.shape[1:]
    most = max(shape, default=1)
    while np.prod([min(size, most) for size in shape], dtype=float) > _SEARCHED:
        most -= 1
    classes = _symmetric(name, shape, most)
    if classes is not None:
        yield from classes
        return
    slots = [str(dim).rpartition("_")[2] for dim in dims[1:]]
    rounding = ACCURACY * abs(values).max(initial=0.0)
    seen: dict[tuple[Place, ...], list[Array]] = {}
    for place in product(*(range(min(size, most)) for size in shape)):
        at: tuple[slice | int, ...] = (slice(None), *place)
        # sample_1 and output_1 are one slot: its labels move together
        key = tuple(sorted(_by_slot(slots, place).values()))
        same = seen.setdefault(key, [])
        if not any(np.allclose(values[at], other, 0.0, rounding, equal_nan=True) for other in same):
            same.append(values[at])
            yield place


def _by_slot(slots: Sequence[str], place: Place) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for slot, at in zip(slots, place, strict=True):
        found[slot] = (*found.get(slot, ()), at)
    return found


def _symmetric(name: str, shape: tuple[int, ...], samples: int) -> list[Place] | None:
    """One component of each symmetry class of a named tensor; None for other tensors."""
    from ..estimators.observables import components  # noqa: PLC0415  (the engine, if it is asked)

    try:
        tensor = named(name.removesuffix("_tilde"))
    except InputError:
        return None
    if len(tensor.subscripts) != len(shape):
        return None
    return [members[0] for members in components(tensor, samples).values()]


def _legend(panel: Any, name: str, lines: Sequence[Place]) -> None:
    """Add the legend; its title says how many components are left out and how to draw them."""
    title = None
    if len(lines) > LINES:
        last = component_name(name, lines[-1])
        title = f'{LINES} of {len(lines)} components;\nothers: tensors="{last}"'
    panel.legend(title=title, fontsize="small", title_fontsize="small")
