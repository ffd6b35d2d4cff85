"""A matplotlib figure laid out with each text measured once, and each axis's ticks placed once.

As it lays a figure out and draws it, matplotlib asks an axis for its ticks about ten times, and a
text for its size as often. Neither changes while the limits, the size and the letters don't. The
ticks of an axis are alike but for their places: each is a copy of the first, where matplotlib makes
three lines and two texts from their settings, and then takes over those of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

from matplotlib.axis import Axis, Tick, XTick, YTick
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text


@contextmanager
def laid_out(figure: Figure) -> Iterator[None]:
    """Within this block the figure is in the layout that it has as an SVG: `savefig` alone draws
    it once more, to nowhere, to lay it out."""
    engine, canvas, dpi = figure.get_layout_engine(), figure.canvas, figure.dpi
    with (
        _once(Axis, "_update_ticks", _view),
        _once(Axis, "_get_ticklabel_bboxes", _labels),
        _once(Text, "_get_layout", _letters),
        _copied_ticks(),
    ):
        if engine is not None:
            FigureCanvasSVG(figure)
            figure.dpi = FigureCanvasSVG.fixed_dpi
            try:
                engine.execute(figure)
            finally:
                figure.dpi = dpi
                figure.set_canvas(canvas)
        figure.set_layout_engine(None)
        try:
            yield
        finally:
            figure.set_layout_engine(engine)


def _view(axis: Any) -> tuple[Any, ...]:
    """The state that an axis's ticks depend on."""
    view, place = axis.get_view_interval(), axis.axes.bbox.bounds
    return (*map(float, view), *map(float, place), axis.axes.figure.dpi)


def _labels(axis: Any, ticks: list[Tick], renderer: Any) -> tuple[Any, ...]:
    """The state of the boxes of an axis's labels: `_update_ticks` alone moves or writes them."""
    return (*_view(axis), type(renderer), *ticks)


def _letters(text: Any, renderer: Any) -> tuple[Any, ...] | None:
    """The state of a text's box; None where it depends on more, as its wrapping does."""
    if text.get_wrap():
        return None
    return (
        type(renderer),
        text.figure.dpi,
        text.get_text(),
        hash(text.get_fontproperties()),
        text.get_rotation(),
        text.get_rotation_mode(),
        text.get_transform_rotates_text(),
        text.get_ha(),
        text.get_va(),
    )


@contextmanager
def _once(owner: Any, name: str, state: Callable[..., Any]) -> Iterator[None]:
    """Within this block a method gives what it gave for the same object last, in the same state."""
    method = getattr(owner, name)
    known: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()

    def once(self: Any, *arguments: Any) -> Any:
        now = state(self, *arguments)
        before, found = known.get(self, (None, None))
        if now is None or now != before:
            found = method(self, *arguments)
            known[self] = now, found
        return found

    setattr(owner, name, once)
    try:
        yield
    finally:
        setattr(owner, name, method)


_PARTS = "tick1line", "tick2line", "gridline", "label1", "label2"


@contextmanager
def _copied_ticks() -> Iterator[None]:
    """Within this block an axis that has a tick makes further ones as copies of it."""
    axes: Any = Axis
    made, settled = axes._get_tick, axes._copy_tick_props

    def tick_of(self: Any, major: bool) -> Tick:
        before = self.majorTicks if major else self.minorTicks
        return _copied(before[0]) if before and _is_plain(before[0]) else made(self, major)

    def props(self: Any, source: Tick, target: Tick) -> None:
        """Copies are alike already."""
        if not _is_plain(source):
            settled(self, source, target)

    axes._get_tick, axes._copy_tick_props = tick_of, props
    try:
        yield
    finally:
        axes._get_tick, axes._copy_tick_props = made, settled


def _is_plain(tick: Tick) -> bool:
    """True if its places are all that it has of its own: those of polar axes turn their labels."""
    return type(tick) in (XTick, YTick)


def _copied(tick: Tick) -> Tick:
    """A tick that looks like this one, with lines and texts of its own."""
    found = copy(tick)
    for name in _PARTS:
        setattr(found, name, copy(getattr(tick, name)))
    return found
