"""The numbers that a matplotlib figure shows, read off its artists: a row for each point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PathCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon, Rectangle
from numpy.typing import NDArray

COLUMNS = ("panel", "series", "kind", "x", "y", "lower", "upper", "value")
"""`lower` and `upper` bound y; `value` is what a colour stands for."""

MANY, APART = 100, 2.0
"""Of a line of more points, only those so many pixels apart are told."""

Point = Sequence[float | None]
"""The columns from x on, as far as they are filled."""


def rows_of(figure: Figure) -> Iterator[tuple[str | float | None, ...]]:
    """A row of `COLUMNS` for each point of each line, error bar, step, bar, cell and marker."""
    for number, panel in enumerate(panels_of(figure), start=1):
        title = f"{number} {panel.get_title()}".strip()
        labels = labels_of(panel)
        for place, (artist, kind, points) in enumerate(_series(panel), start=1):
            own = _label(artist) or labels.get(_colour(artist), f"{kind} {place}")
            for point in points:
                row = [None if each is None else float(each) for each in point]
                yield (title, own, kind, *row, *[None] * (5 - len(row)))


def panels_of(figure: Figure) -> list[Axes]:
    """The figure's axes without its colour bars."""
    return [panel for panel in figure.axes if panel.get_label() != "<colorbar>"]


def labels_of(panel: Axes) -> dict[object, str]:
    """The label of each colour, for what has that colour and no label of its own."""
    found: dict[object, str] = {}
    for artist in (*panel.containers, *panel.lines, *panel.patches, *panel.collections):
        if label := _label(artist):
            found.setdefault(_colour(artist), label)
    return found


def _label(artist: Any) -> str:
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def _colour(artist: Any) -> object:
    if isinstance(artist, ErrorbarContainer):
        artist = artist.lines[0] or artist.lines[2][0]
    for name in ("get_color", "get_edgecolor"):
        colour = getattr(artist, name, lambda: None)()
        if isinstance(colour, (str, tuple)):
            return to_rgb(colour)
    return id(artist)


def _series(panel: Axes) -> Iterator[tuple[Any, str, list[Point]]]:
    """Each artist with its kind and its points; the parts of an error bar as one."""
    bars = [each for each in panel.containers if isinstance(each, ErrorbarContainer)]
    parts: set[int] = set()
    for bar in bars:
        line, caps, ends = bar.lines
        parts |= {id(part) for part in (line, *caps, *ends)}
        yield bar, "points", _errorbars(bar)
    for artist in (*panel.lines, *panel.patches, *panel.collections, *panel.images):
        kind, read = next(
            (kind, read) for types, kind, read in _READERS if isinstance(artist, types)
        )
        points = [] if id(artist) in parts else list(read(artist))
        if points:
            yield artist, kind, points


def _errorbars(bar: ErrorbarContainer) -> list[Point]:
    line, _, bars = bar.lines
    segments = bars[-1].get_segments() if bar.has_yerr else []
    ends = [(each[0, 1], each[-1, 1]) if len(each) else (None, None) for each in segments]
    if line is None:
        return [(each[0, 0], None, *end) for each, end in zip(segments, ends, strict=True)]
    places = zip(*_coordinates(line), strict=True)
    return [(*at, *end) for at, end in zip_longest(places, ends, fillvalue=(None, None))]


def _coordinates(line: Line2D) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = line.get_data()
    return np.asarray(x, float), np.asarray(y, float)


def _line(line: Line2D) -> Iterator[Point]:
    """Its points; one coordinate alone where the other spans the panel (`axhline`, `axvline`)."""
    assert line.axes is not None
    kept = line.get_transform().contains_branch_seperately(line.axes.transData)
    x, y = _coordinates(line)
    shown = _apart(line.get_transform().transform(np.column_stack([x, y])))
    places = [
        tuple(value if here else None for value, here in zip(at, kept, strict=True))
        for at in zip(x[shown], y[shown], strict=True)
    ]
    yield from places if all(kept) else dict.fromkeys(places)


def _apart(drawn: NDArray[np.float64]) -> list[int]:
    """Of a line of very many points, those that are not drawn over the one before."""
    if len(drawn) <= MANY:
        return list(range(len(drawn)))
    kept = [0]
    for place, at in enumerate(drawn):
        if not np.hypot(*(at - drawn[kept[-1]])) < APART:
            kept.append(place)
    return list(dict.fromkeys([*kept, len(drawn) - 1]))


def _rectangle(patch: Rectangle) -> Iterator[Point]:
    bottom, top = patch.get_y(), patch.get_y() + patch.get_height()
    yield patch.get_x() + patch.get_width() / 2, top, bottom, top


def _polygon(patch: Polygon) -> Iterator[Point]:
    yield from np.asarray(patch.get_xy(), float)


def _outline(patch: Patch) -> Iterator[Point]:
    path = patch.get_path().transformed(patch.get_patch_transform())
    yield from np.asarray(path.vertices, float)


def _markers(made: PathCollection) -> Iterator[Point]:
    values = made.get_array()
    for k, (x, y) in enumerate(_filled(made.get_offsets())):
        yield x, y, None, None, None if values is None else float(values[k])


def _cells(made: QuadMesh) -> Iterator[Point]:
    corners = np.asarray(made.get_coordinates(), float)
    middles = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    values = _filled(made.get_array()).ravel()
    for (x, y), value in zip(middles.reshape(-1, 2), values, strict=True):
        yield x, y, None, None, value


def _image(image: AxesImage) -> Iterator[Point]:
    values = _filled(image.get_array())
    left, right, bottom, top = image.get_extent()
    first, last = (top, bottom) if image.origin == "upper" else (bottom, top)
    down, across = values.shape[:2]
    for row, column in np.ndindex(down, across):
        x = left + (right - left) * (column + 0.5) / across
        y = first + (last - first) * (row + 0.5) / down
        yield x, y, None, None, values[row, column].mean()


def _paths(made: Collection) -> Iterator[Point]:
    for path in made.get_paths():
        yield from np.asarray(path.vertices, float)


def _filled(values: Any) -> NDArray[np.float64]:
    """NaN where an array is masked."""
    made: NDArray[np.float64] = np.ma.filled(np.ma.asarray(values, float), np.nan)
    return made


_READERS: Sequence[tuple[Any, str, Callable[[Any], Iterator[Point]]]] = (
    (Line2D, "line", _line),
    (Rectangle, "bar", _rectangle),
    (Polygon, "steps", _polygon),
    (Patch, "outline", _outline),
    (PathCollection, "markers", _markers),
    (QuadMesh, "cells", _cells),
    (AxesImage, "cells", _image),
    (object, "outline", _paths),
)
