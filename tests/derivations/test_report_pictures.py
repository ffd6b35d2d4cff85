"""A figure's SVG, numbers and words: read off any matplotlib figure, the same each time."""

import csv
import io
import re
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from derivations.pictures.diagrams import draw
from derivations.pictures.drawn import drawn
from derivations.pictures.svg import compact, svg
from derive import InputError, Orthogonal, recursion


def numbers(*panels, titles=None):
    """The rows of a figure whose panels are drawn by these functions."""
    figure = Figure()
    for panel, paint in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        paint(panel)
    return list(csv.DictReader(drawn(figure).numbers.splitlines()))


def values(rows, *columns):
    return [tuple(float(row[name]) if row[name] else None for name in columns) for row in rows]


def test_lines_and_points_of_a_colour_have_one_name():
    def paint(panel):
        panel.plot([1, 2], [3, 4.5], color="C3")
        panel.errorbar([1, 2], [3.1, 4.4], [0.1, 0.2], fmt="o", color="C3", label="tanh")
        panel.plot([], [], color="C4", label="nothing")

    rows = numbers(paint)
    assert {row["series"] for row in rows} == {"tanh"}
    points = [row for row in rows if row["kind"] == "points"]
    assert values(points, "x", "y", "lower", "upper") == [
        pytest.approx((1, 3.1, 3.0, 3.2)),
        pytest.approx((2, 4.4, 4.2, 4.6)),
    ]
    line = [row for row in rows if row["kind"] == "line"]
    assert values(line, "x", "y") == [(1, 3), (2, 4.5)]
    assert len(rows) == 4


def test_a_level_has_no_x():
    rows = numbers(lambda panel: panel.axhline(0.5, label="law"))
    assert values(rows, "x", "y") == [(None, 0.5)]
    rows = numbers(lambda panel: panel.axvline(2))
    assert values(rows, "x", "y") == [(2, None)]


@pytest.mark.parametrize("histtype", ["step", "bar"])
def test_histograms_keep_their_mass(histtype):
    data = np.repeat([0.5, 1.5, 2.5], [1, 2, 3])
    rows = numbers(
        lambda panel: panel.hist(data, bins=3, range=(0, 3), histtype=histtype, label="s")
    )
    tops = values(rows, "x", "y")
    if histtype == "bar":
        assert tops == [(0.5, 1), (1.5, 2), (2.5, 3)]
    else:
        assert tops[0] == (0, 0)
        assert tops[-1] == (3, 0)
        assert [y for _, y in tops] == [0, 1, 1, 2, 2, 3, 3, 0]
    assert rows[0]["series"] == "s"


def test_colours_are_values():
    rows = numbers(
        lambda panel: panel.scatter([1, 2], [3, 4], c=[0.25, 0.75]),
        lambda panel: panel.imshow([[1, 2], [3, 4]]),
        lambda panel: panel.pcolormesh([0, 1, 2], [0, 1], [[5, 6]]),
    )
    marked = [row for row in rows if row["kind"] == "markers"]
    assert values(marked, "x", "y", "value") == [(1, 3, 0.25), (2, 4, 0.75)]
    image = [row for row in rows if row["panel"] == "2"]
    assert values(image, "x", "y", "value") == [(0, 0, 1), (1, 0, 2), (0, 1, 3), (1, 1, 4)]
    mesh = [row for row in rows if row["panel"] == "3"]
    assert values(mesh, "x", "y", "value") == [(0.5, 0.5, 5), (1.5, 0.5, 6)]


def test_other_artists_are_outlined():
    rows = numbers(lambda panel: panel.fill_between([1, 2], [1, 1], [2, 3], label="band"))
    assert {(row["series"], row["kind"]) for row in rows} == {("band", "outline")}
    assert (2, 3) in values(rows, "x", "y")


def test_a_figure_is_described():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    left.plot([1, 2], label="derived")
    left.set(xlabel="layer", ylabel="V / K²", title="n = 100")
    right.scatter([1], [2], c=[3])
    figure.suptitle("the vertex")
    figure.colorbar(right.collections[0])
    assert drawn(figure).alt == "the vertex; panel 1: n = 100: V / K² against layer: derived"
    assert drawn(Figure()).alt == "a figure without labels"


def test_the_same_figure_gives_the_same_text():
    def make():
        figure = Figure()
        panel = figure.subplots()
        panel.plot(np.linspace(0, 1, 50) ** 2, "o", label="x")
        panel.set_title("$x^2$ & <b>")
        return drawn(figure)

    once = make()
    assert once == make()
    assert drawn(once) is once
    assert "metadata" not in once.svg


def test_rounding_keeps_what_is_seen():
    figure = Figure(figsize=(4, 4))
    panel = figure.subplots()
    panel.plot([0.123456789, 1], [0, 1])
    svg = drawn(figure).svg
    assert 'viewBox="0 0 288 288"' in svg
    coordinates = [
        word for path in svg.split(' d="')[1:] for word in path.partition('"')[0].split()
    ]
    assert any("." in word for word in coordinates)
    assert all(len(word.partition(".")[2]) <= 2 for word in coordinates)


def test_letters_are_text_and_nothing_is_left_over():
    figure = Figure(figsize=(4, 4))
    panel = figure.subplots()
    panel.errorbar([1, 2], [0, 1], [0.1, 0.1], label="σ_w² & <b>")
    panel.legend()
    text = drawn(figure).svg
    root = fromstring(text)
    assert "σ_w² & <b>" in "".join(root.itertext())
    ids = set(re.findall(r' id="([^"]+)"', text))
    assert ids == set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    assert "style=" not in text


def test_diagrams_are_described_by_what_they_are():
    picture = draw(recursion("V", Orthogonal()))
    made = drawn(picture)
    assert made.svg == picture.svg()
    rows = list(csv.DictReader(made.numbers.splitlines()))
    assert [row["diagram"] for row in rows] == [panel.words for panel in picture.panels]
    assert made.alt == f"{picture.title}: {len(rows)} diagrams"


def test_only_figures_are_drawn():
    with pytest.raises(InputError, match="matplotlib Figure"):
        drawn("figure.png")


def plain(figure):
    """The SVG as matplotlib lays it out and draws it."""
    text = io.StringIO()
    with rc_context({"svg.hashsalt": "wickgarten", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return compact(text.getvalue())


def varied(layout):
    """Logarithmic, shared and turned axes, a colour bar, a legend, and texts of two lines."""
    figure = Figure(figsize=(7.0, 5.0), layout=layout)
    first, second, third, fourth = figure.subplots(2, 2).flat
    for power in (1, 2):
        first.loglog([1, 10, 1000], [1e-5**power, 2.0, 3e4], label=f"power\n{power}")
    first.legend(title="$x^2$")
    first.set(xlabel="layer", ylabel="a long label\nin two lines", title="title")
    first.tick_params(axis="x", rotation=40, which="both")
    first.tick_params(axis="y", which="minor", direction="in", color="red")
    first.grid(which="both", linestyle=":")
    figure.colorbar(second.imshow(np.arange(12.0).reshape(3, 4)), ax=second)
    third.sharex(fourth)
    third.plot([1e6, 1e6 + 3], [2e-7, 5e-7])
    fourth.errorbar([1e6, 1e6 + 9], [1, 2], [0.1, 0.3], fmt="o")
    fourth.set_xlabel("offset")
    figure.suptitle("above all")
    return figure


@pytest.mark.parametrize("layout", ["constrained", "tight", None])
def test_a_figure_laid_out_once_is_as_matplotlib_draws_it(layout):
    assert svg(varied(layout)) == plain(varied(layout))


def test_a_drawn_figure_keeps_its_layout_engine_and_its_size():
    figure = varied("constrained")
    before = figure.get_layout_engine(), figure.canvas, figure.dpi
    svg(figure)
    assert (figure.get_layout_engine(), figure.canvas, figure.dpi) == before
    again = svg(figure)
    figure.axes[0].set_xlim(1, 2)
    assert svg(figure) != again
