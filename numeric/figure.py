"""Figures of what was computed, without a window: matplotlib is imported here alone.

Each is a `matplotlib.figure.Figure` that a notebook shows and `savefig` writes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from derive.errors import InputError, listed

from .arrays import Array
from .table import tensors as tensors_of

if TYPE_CHECKING:
    from .compare import Comparison, Row
    from .spectra import Spectrum

LINES = 6
"""How many components of a tensor are drawn at most."""


class Drawing(Figure):
    """A figure that shows itself in a notebook, whether or not pyplot is in use there."""

    def _repr_svg_(self) -> str:
        image = io.StringIO()
        self.savefig(image, format="svg", metadata={"Date": None})
        return image.getvalue()


def _panels(titles: Sequence[str]) -> tuple[Drawing, list[Any]]:
    figure = Drawing(figsize=(4.5 * len(titles), 3.5), layout="constrained")
    panels = list(figure.subplots(1, len(titles), squeeze=False)[0])
    for title, panel in zip(titles, panels, strict=True):
        panel.set(xlabel="layer", title=title)
    return figure, panels


def of_table(table: xarray.Dataset, tensors: str | Sequence[str] | None = None) -> Drawing:
    """See `numeric.plot`."""
    if not isinstance(table, xarray.Dataset) or "layer" not in table.dims:
        raise InputError("table", type(table).__name__, "a table from flow or simulate")
    known = [str(name) for name in table.data_vars if "layer" in table[name].dims]
    drawn = [name for name in tensors_of(table) if name in known]
    wanted = f"names among {', '.join(drawn)}"
    chosen = drawn if tensors is None else tensors
    names = [chosen] if isinstance(chosen, str) else listed("tensors", chosen, wanted)
    if not names or not all(isinstance(name, str) and name in known for name in names):
        raise InputError("tensors", tensors, wanted)
    figure, panels = _panels(names)
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
                panel.errorbar(layers, values[at], errors[at], fmt="o", markersize=3, **style)
        panel.legend()
    return figure


def _by_layer(array: xarray.DataArray) -> Array:
    return array.transpose("layer", ...).to_numpy()


def _distinct(values: Array) -> list[tuple[int, ...]]:
    """The components that differ from those before them at some layer, `LINES` at most."""
    found: dict[bytes, tuple[int, ...]] = {}
    for place in np.ndindex(values.shape[1:]):
        found.setdefault(values[(slice(None), *place)].tobytes(), place)
        if len(found) == LINES:
            break
    return list(found.values())


def of_comparison(comparison: Comparison) -> Drawing:
    """See `Comparison.plot`."""
    tensors = list(dict.fromkeys(row.tensor for row in comparison.rows))
    figure, panels = _panels(tensors)
    for tensor, panel in zip(tensors, panels, strict=True):
        for number, rows in enumerate(_lines(comparison, tensor)):
            layers, colour = [row.layer for row in rows], f"C{number}"
            panel.plot(layers, [row.theory for row in rows], color=colour)
            panel.errorbar(
                layers,
                [row.sample for row in rows],
                [row.se for row in rows],
                fmt="o",
                markersize=3,
                color=colour,
                label=rows[0].name,
            )
        panel.legend()
    return figure


def _lines(comparison: Comparison, tensor: str) -> list[list[Row]]:
    components: dict[tuple[int, ...], list[Row]] = {}
    for row in comparison.rows:
        if row.tensor == tensor:
            components.setdefault(row.indices, []).append(row)
    distinct: dict[tuple[float, ...], list[Row]] = {}
    for rows in components.values():
        distinct.setdefault(tuple(row.theory for row in rows), rows)
    return list(distinct.values())[:LINES]


def of_spectrum(spectrum: Spectrum, title: str = "", points: int = 600) -> Drawing:
    """See `Spectrum.plot`."""
    figure = Drawing(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    values, density = spectrum.curve(points)
    panel.plot(values, density, color="black", linewidth=1)
    top = float(density[values > 0.02].max(initial=0.0)) or 1.0
    panel.set(xlabel="singular value of J", ylabel="density", ylim=(0, 1.15 * top), title=title)
    for at, mass in spectrum.atoms.items():
        panel.annotate(
            f"{mass:.3g}",
            (at**0.5, 0),
            (at**0.5, top),
            ha="center",
            arrowprops={"arrowstyle": "<-", "color": "C1"},
            color="C1",
        )
    return figure
