"""Figures of what was computed, without a window: matplotlib is imported here alone.

Each is a `matplotlib.figure.Figure` that a notebook shows and `savefig` writes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike


class Drawing(Figure):
    """A figure that shows itself in a notebook, whether or not pyplot is in use there."""

    def _repr_svg_(self) -> str:
        image = io.StringIO()
        self.savefig(image, format="svg", metadata={"Date": None})
        return image.getvalue()


COLUMNS = 3
"""The most panels in a row."""


def grid(titles: Sequence[str], xlabels: Sequence[str]) -> tuple[Drawing, list[Any]]:
    """A figure with one panel for each title, row by row, and the panels."""
    rows = -(-len(titles) // COLUMNS)
    columns = -(-len(titles) // rows)
    figure = Drawing(figsize=(4.5 * columns, 3.5 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[len(titles) :]:
        panel.remove()
    panels = panels[: len(titles)]
    for title, xlabel, panel in zip(titles, xlabels, panels, strict=True):
        panel.set(xlabel=xlabel, title=title)
        panel.xaxis.get_major_locator().set_params(integer=xlabel == "layer")
    return figure, panels


def points(
    panel: Axes,
    x: ArrayLike,
    values: ArrayLike,
    errors: ArrayLike,
    *,
    color: Any = None,
    label: str | None = None,
    marker: str = "o",
) -> None:
    """Draw samples with their error bars; all (points,)."""
    panel.errorbar(x, values, errors, fmt=marker, markersize=3, color=color, label=label)


def beside(
    panel: Axes,
    theory: tuple[ArrayLike, ArrayLike],
    sample: tuple[ArrayLike, ArrayLike, ArrayLike],
    *,
    color: Any,
    label: str,
    linewidth: float | None = None,
) -> None:
    """A line (x, values) through points (x, values, errors) of one colour; the label is theirs."""
    panel.plot(*theory, color=color, linewidth=linewidth)
    points(panel, *sample, color=color, label=label)
