"""`plot(table)`: what `flow` and `simulate` return, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray

from derive.errors import InputError, check_installed, listed

from ..arrays import Array
from .layout import LINES
from .layout import tensors as tensors_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(table: xarray.Dataset, tensors: str | Sequence[str] | None = None) -> Figure:
    """Draw a table by layer, a panel for each tensor.

    Arguments:
        table: from `flow`, `simulate`, `normalise` or `batchnorm.simulate`.
        tensors: which, all by default.

    Lines for what was computed, points with error bars for what was sampled, that is, has a
    `<name>_se` beside it. Components that are equal at every layer share a line, and at most six
    are drawn. Also `table.wickgarten.plot()`.

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
    from .drawing import points, side_by_side  # noqa: PLC0415  (matplotlib takes a second to import)

    if not isinstance(table, xarray.Dataset) or "layer" not in table.dims:
        raise InputError("table", type(table).__name__, "a table from flow or simulate")
    known = [str(name) for name in table.data_vars if "layer" in table[name].dims]
    drawn = [name for name in tensors_of(table) if name in known]
    wanted = f"names among {', '.join(drawn)}"
    chosen = drawn if tensors is None else tensors
    names = [chosen] if isinstance(chosen, str) else listed("tensors", chosen, wanted)
    if not names or not all(isinstance(name, str) and name in known for name in names):
        raise InputError("tensors", tensors, wanted)
    figure, panels = side_by_side(names)
    layers = table["layer"].to_numpy()
    for name, panel in zip(names, panels, strict=True):
        values = _by_layer(table[name])
        twin = f"{name}_se"
        errors = _by_layer(table[twin]) if twin in table else None
        for number, place in enumerate(_distinct(values)):
            at: tuple[slice | int, ...] = (slice(None), *place)
            label = f"{name}_{''.join(str(a + 1) for a in place)}".rstrip("_")
            style = {"color": f"C{number}", "label": label}
            if errors is None:
                panel.plot(layers, values[at], **style)
            else:
                points(panel, layers, values[at], errors[at], **style)
        panel.legend()
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


def _by_layer(array: xarray.DataArray) -> Array:
    return np.asarray(array.transpose("layer", ...).to_numpy(), float)


def _distinct(values: Array) -> list[tuple[int, ...]]:
    """The components that differ from those before them at some layer, `LINES` at most."""
    found: dict[bytes, tuple[int, ...]] = {}
    for place in np.ndindex(values.shape[1:]):
        found.setdefault(values[(slice(None), *place)].tobytes(), place)
        if len(found) == LINES:
            break
    return list(found.values())
