"""Figures of empty panels, and what is drawn in them: theory beside samples."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from derivations.pictures.numbers import rows_of
from derivations.pictures.panels import SIZE, one_panel, panel_grid
from numeric.tables import drawing


def test_one_panel_has_the_size_and_the_labels():
    figure, panel = one_panel(xlabel="layer", yscale="log")
    assert figure.axes == [panel]
    assert tuple(figure.get_size_inches()) == SIZE
    assert (panel.get_xlabel(), panel.get_yscale(), panel.get_xscale()) == (
        "layer", "log", "linear",
    )  # fmt: skip


def test_a_grid_has_a_size_for_each_panel():
    figure, panels = panel_grid(2, 3, (2.5, 1.5), sharey="row")
    assert panels.shape == (2, 3)
    assert figure.axes == list(panels.ravel())
    assert tuple(figure.get_size_inches()) == (7.5, 3.0)
    panels[0, 0].set(ylim=(2, 5))
    assert [panel.get_ylim() == (2, 5) for panel in panels[:, 2]] == [True, False]


def test_theory_beside_a_sample():
    """A line and points of one colour and label, each where it was given."""
    figure, panel = one_panel()
    drawing.beside(
        panel, ([1, 2], [3, 4]), ([1], [3.5], [0.25]), color="C2", label="tanh", linewidth=1
    )
    drawing.points(panel, [2, 3], np.array([5.0, 6.0]), [0.5, 1.0], label="relu", marker=".")
    rows = list(rows_of(figure))
    assert [row[1:7] for row in rows] == [
        ("tanh", "points", 1, 3.5, 3.25, 3.75),
        ("relu", "points", 2, 5, 4.5, 5.5),
        ("relu", "points", 3, 6, 5, 7),
        ("tanh", "line", 1, 3, None, None),
        ("tanh", "line", 2, 4, None, None),
    ]
    line, tanh, relu = panel.lines
    assert (line.get_color(), line.get_linewidth(), line.get_marker()) == ("C2", 1, "None")
    assert (tanh.get_color(), tanh.get_marker(), tanh.get_linestyle()) == ("C2", "o", "None")
    assert (relu.get_marker(), to_hex(relu.get_color())) == (".", to_hex("C0"))
    with pytest.raises(ValueError, match="same size"):
        drawing.points(panel, [1, 2], [3], [0.5])
