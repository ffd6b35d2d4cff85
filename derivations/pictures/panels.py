"""Figures with empty panels, in the book's size and layout."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

SIZE = (6.0, 4.0)
"""Of a panel, in inches: its width and height."""


def one_panel(size: tuple[float, float] = SIZE, **labels: Any) -> tuple[Figure, Axes]:
    """A figure of one panel, and the panel; labels, scales and limits as `Axes.set` takes them."""
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    panel.set(**labels)
    return figure, panel


def panel_grid(
    rows: int, columns: int, size: tuple[float, float] = SIZE, **shared: Any
) -> tuple[Figure, NDArray[Any]]:
    """A figure of panels, each of this size, and the panels, (rows, columns); which axes are
    `shared` as `Figure.subplots` takes it."""
    width, height = size
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)
