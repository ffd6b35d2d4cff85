"""A matplotlib figure as an SVG that is small: a page has dozens of them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, fromstring, register_namespace, tostring

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG, LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

_COORDINATES = {"d", "x", "y", "x1", "x2", "y1", "y2", "points"}


def svg(figure: Figure) -> str:
    """The figure, the same text each time; its letters are text, as a browser draws them."""
    from matplotlib import rc_context  # noqa: PLC0415

    text = io.StringIO()
    with rc_context({"svg.hashsalt": "wickgarten", "svg.fonttype": "none"}), _laid_out(figure):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return compact(text.getvalue())


@contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """Within this block the figure keeps the layout that it has as an SVG.

    `savefig` would draw it once more, to nowhere, to lay it out."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415

    engine, canvas, dpi = figure.get_layout_engine(), figure.canvas, figure.dpi
    if engine is not None:
        FigureCanvasSVG(figure)
        figure.dpi = FigureCanvasSVG.fixed_dpi
        engine.execute(figure)
        figure.dpi = dpi
        figure.set_canvas(canvas)
    figure.set_layout_engine(None)
    yield
    figure.set_layout_engine(engine)


def compact(drawing: str) -> str:
    """The same picture without metadata, with one copy of each style, to 1/100 of a point."""
    register_namespace("", SVG)
    register_namespace("xlink", LINK)
    root = fromstring(drawing)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', drawing))
    styles: dict[str, str] = {}
    for element in root.iter():
        _clean(element, used, styles)
    _unwrap(root)
    style = root.find(f".//{{{SVG}}}style")
    if style is not None:
        style.text = (style.text or "") + "".join(
            f".{name}{{{rules}}}" for rules, name in styles.items()
        )
    return tostring(root, encoding="unicode") + "\n"


def _clean(element: Element, used: set[str], styles: dict[str, str]) -> None:
    if not (element.text or "").strip():
        element.text = None
    element.tail = None if not (element.tail or "").strip() else element.tail
    if element.get("id") not in used:
        element.attrib.pop("id", None)
    rules = [element.attrib.pop("style", "")]
    if "clip-path" in element.attrib:
        rules.append("clip-path:" + element.attrib.pop("clip-path"))
    written = re.sub(r"\s*([:;])\s*", r"\1", ";".join(each for each in rules if each)).strip("; ")
    if written:
        element.set("class", styles.setdefault(written, f"s{len(styles)}"))
    for name in _COORDINATES & element.attrib.keys():
        element.set(name, _rounded(element.attrib[name]))


def _unwrap(element: Element) -> None:
    """Groups that say nothing give way to what is in them."""
    for child in list(element):
        _unwrap(child)
        if child.tag == f"{{{SVG}}}g" and not child.attrib:
            place = list(element).index(child)
            element[place : place + 1] = list(child)


def _rounded(text: str) -> str:
    """Coordinates to a hundredth of a point, which no screen resolves."""
    shorter = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{round(float(number[0]), 2):g}", text)
    return " ".join(shorter.split())
