"""The rows of a comparison, and how they are printed."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LEGEND = (
    "se: standard error of sample and theory together; next: the part of se that allows for the "
    "next term in 1/n; z: (sample − theory)/se; resolves: the smallest relative error of theory "
    "that would have been noticed; of tensor: the same, relative to the largest component there"
)
"""The meaning of the columns of a printed comparison."""


@dataclass(frozen=True)
class Row:
    """One number of a comparison, from theory and from samples.

    Attributes:
        tensor: its name, as in the tables.
        layer: from 1; the step for trained networks.
        indices: of the samples, from 0; none where the inputs are one vector, and the label of the
            orbit where they are exchangeable.
        theory: what was derived.
        sample: what was sampled, extrapolated where there are several widths.
        se: its standard error, with the next term and what is known of the theory's error.
        z: (sample − theory − within)/se.
        next_term: the part of se that allows for the first term in 1/n that the fit, or at one
            width theory, leaves out.
        scale: what a difference is small against: |theory|, or where that vanishes (`VANISHES`)
            its natural size; or what the flow says.
        largest: |theory| of the tensor's largest component in the layer, or `scale`, if more.
        resolution: (bound·se + |within|)/scale, the relative difference that would have been
            noticed.
        share: (bound·se + |within|)/largest, by which a comparison is judged: the difference that
            would have been noticed, as a share of the tensor.
        within: what theory is known to leave out, with its sign: theory + within is what the
            sample is compared with, and its standard error is part of se.
        axis: "layer", or "step" for trained networks.
    """

    tensor: str
    layer: float
    indices: tuple[Any, ...]
    theory: float
    sample: float
    se: float
    z: float
    next_term: float = 0.0
    scale: float = math.nan
    largest: float = math.nan
    resolution: float = math.nan
    share: float = math.nan
    within: float = 0.0
    axis: str = "layer"

    @property
    def place(self) -> str:
        """The component and its place, such as "V_11 at layer 3" or "loss at step 20"."""
        return f"{self.name} at {self.axis} {self.layer:g}"

    @property
    def name(self) -> str:
        """The tensor with its sample indices, counted from 1."""
        return component_name(self.tensor, self.indices)


def component_name(tensor: str, place: Sequence[int | str]) -> str:
    """A tensor with its samples, counted from 1, or with its orbit's label."""
    texts = [each if isinstance(each, str) else str(each + 1) for each in place]
    apart = "," if max((each for each in place if isinstance(each, int)), default=0) > 8 else ""
    return f"{tensor}_{apart.join(texts)}".rstrip("_")


def percent(resolution: float) -> str:
    """A resolution to two digits, such as "3.1 %"; "nothing" where it is infinite."""
    if not math.isfinite(resolution):
        return "nothing"
    return f"{100 * resolution:.0f} %" if resolution > 0.0995 else f"{100 * resolution:.2g} %"


def runs(numbers: Sequence[float]) -> str:
    """Sorted numbers as text, whole ones in a row as "4 to 10"."""
    texts: list[str] = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run_ = [number for _, number in run]
        ends = [run_] if len(run_) < 3 else [[run_[0], run_[-1]]]
        joint = ", " if len(run_) < 3 else " to "
        texts += [joint.join(f"{number:g}" for number in each) for each in ends]
    return ", ".join(texts)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, each column as wide as its longest cell.

    >>> aligned([["layer", "K"], ["1", "0.5"]])
    ['layer    K', '    1  0.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]


def _columns(rows: Sequence[Row]) -> tuple[str, ...]:
    axis = rows[0].axis if rows else "layer"
    return ("tensor", axis, "theory", "sample", "se", "next", "z", "resolves", "of tensor")


def _cells(row: Row) -> tuple[str, ...]:
    """A row as texts, in the order of `_columns`."""
    return (
        *(row.name, f"{row.layer:g}", f"{row.theory:.6g}", f"{row.sample:.6g}", f"{row.se:.3g}"),
        *(f"{row.next_term:.3g}", f"{row.z:.2f}", percent(row.resolution), percent(row.share)),
    )


def text(rows: Sequence[Row]) -> str:
    """The rows as text, with a header."""
    lines = [_columns(rows), *map(_cells, rows)]
    least = (0, 5, 12, 12, 10, 10, 6, 8, 9)
    sizes = [
        max(size, *map(len, cells))
        for size, cells in zip(least, zip(*lines, strict=True), strict=True)
    ]
    return "\n".join(
        "  ".join([cells[0].ljust(sizes[0]), *map(str.rjust, cells[1:], sizes[1:])])
        for cells in lines
    )


def by_layer(rows: Sequence[Row], weak: float) -> str:
    """A line for each tensor and layer: its numbers, those that resolve worse than `weak`, the
    largest |z|, and the worst resolution."""
    lines = [("tensor", rows[0].axis, "numbers", "weak", "largest |z|", "resolves")]
    for (tensor, layer), group in itertools.groupby(rows, lambda row: (row.tensor, row.layer)):
        own = [*group]
        coarse = sum(not row.share <= weak for row in own)
        z, share = (max(abs(getattr(row, name)) for row in own) for name in ("z", "share"))
        lines.append((tensor, f"{layer:g}", str(len(own)), str(coarse), f"{z:.2f}", percent(share)))
    return "\n".join(aligned(lines))


def markup(rows: Sequence[Row], caption: str, below: str) -> str:
    """The rows as a table of HTML, with a caption and a line below."""
    heads = "".join(f"<th>{name}</th>" for name in _columns(rows))
    lines = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(row))}</tr>" for row in rows
    )
    head = f"<caption>{html.escape(caption)}</caption><thead><tr>{heads}</tr></thead>"
    return f"<table>{head}<tbody>{lines}</tbody></table><p>{html.escape(below)}</p>"
