"""A claim's figures as a report keeps them: an SVG, its numbers, and what it shows in words."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from derivations.files import write_text
from derivations.pictures.diagrams import Drawing
from derivations.pictures.svg import svg
from derive.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawn:
    """A figure that is drawn.

    Attributes:
        svg: the picture.
        numbers: what it shows, as CSV.
        alt: what it shows, in words.
    """

    svg: str
    numbers: str
    alt: str

    def savefig(
        self, path: str | os.PathLike[str], *, metadata: Mapping[str, object] | None = None
    ) -> None:
        """Write the SVG, whole or not at all; its metadata is what it was drawn with."""
        write_text(self.svg, path)


def drawn(picture: Any) -> Drawn:
    """A matplotlib Figure or a Drawing of diagrams, drawn; the same figure gives the same text."""
    if isinstance(picture, Drawn):
        return picture
    if isinstance(picture, Drawing):
        rows = [(k, panel.formula, panel.words) for k, panel in enumerate(picture.panels, start=1)]
        numbers = _csv([("panel", "terms", "diagram"), *rows])
        return Drawn(picture.svg(), numbers, f"{picture.title}: {len(rows)} diagrams")
    from matplotlib.figure import Figure  # noqa: PLC0415

    from derivations.pictures.numbers import COLUMNS, rows_of  # noqa: PLC0415

    if not isinstance(picture, Figure):
        raise InputError("figures", type(picture).__name__, "a matplotlib Figure or a Drawing")
    return Drawn(svg(picture), _csv([COLUMNS, *rows_of(picture)]), alt(picture))


def _csv(rows: list[tuple[Any, ...]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows
    )
    return text.getvalue()


def alt(figure: Figure) -> str:
    """Each panel's title, axes and series, in words."""
    from derivations.pictures.numbers import labels_of, panels_of  # noqa: PLC0415

    panels = panels_of(figure)
    parts = [figure.get_suptitle()]
    for number, panel in enumerate(panels, start=1):
        axes = " against ".join(
            name for name in (panel.get_ylabel(), panel.get_xlabel()) if name.strip()
        )
        series = ", ".join(dict.fromkeys(labels_of(panel).values()))
        words = ": ".join(part for part in (panel.get_title(), axes, series) if part.strip())
        parts.append(f"panel {number}: {words}" if words and len(panels) > 1 else words)
    return "; ".join(part for part in parts if part) or "a figure without labels"
