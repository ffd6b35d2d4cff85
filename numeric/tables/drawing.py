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


def side_by_side(titles: Sequence[str]) -> tuple[Drawing, list[Any]]:
    """A figure with one panel for each title, by layer."""
    figure = Drawing(figsize=(4.5 * len(titles), 3.5), layout="constrained")
    panels = list(figure.subplots(1, len(titles), squeeze=False)[0])
    for title, panel in zip(titles, panels, strict=True):
        panel.set(xlabel="layer", title=title)
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
    """What was sampled, with its error bars; all (points,)."""
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
