"""Long formulas over several lines: what a paper takes, and the same formula."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivations import cli
from derive import BiInvariant, Orthogonal, activations, recursion
from derive.display import lines
from derive.errors import InputError

SHORT = recursion("V", Orthogonal()).single_input()
LONG = {
    "V": recursion("V"),
    "G1": recursion("G1", Orthogonal()),
    "zzzz": recursion(["z"] * 4, BiInvariant(), pairing="01 23"),
    "Q": recursion("Q").specialise(activations.relu),
    "one input": recursion(["z", "z", "H", "H"], pairing="01 23 45").single_input(),
}
BREAK = " \\\\\n& \\qquad "


def rows(latex):
    head, *body, tail = latex.split("\n")
    assert (head, tail) == (r"\begin{aligned}", r"\end{aligned}")
    return "\n".join(body).split(" \\\\\n")


def test_what_fits_stays_as_it_is():
    assert SHORT.latex() == SHORT.latex(width=None)
    assert "\n" not in SHORT.latex() + str(SHORT)


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("width", [40, lines.WIDTH, 200])
def test_each_line_stands_alone(name, width):
    broken = LONG[name].latex(width=width)
    assert len(rows(broken)) > 1
    assert broken.count(r"\biggl(") == broken.count(r"\biggr)") >= 1
    for row in rows(broken):
        assert row.count(r"\left\langle") == row.count(r"\right\rangle")
        assert row.count(r"\left(") == row.count(r"\right)")
        depth = 0
        for brace in re.findall(r"(?<!\\)[{}]", row):
            depth += 1 if brace == "{" else -1
            assert depth >= 0
        assert depth == 0
        assert row.count("&") == 1


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("width", [lines.WIDTH, 200])
def test_all_lines_are_the_formula(name, width):
    whole, broken = LONG[name].latex(width=None), LONG[name].latex(width=width)
    joined = " ".join(rows(broken)).replace(r"& \qquad ", "").replace(" & = ", " = ")
    joined = joined.replace(r"\biggl( ", r"\left(").replace(r" \biggr)", r"\right)")
    assert joined == whole


@pytest.mark.parametrize("name", LONG)
def test_lines_are_as_wide_as_asked_for(name):
    for row in rows(LONG[name].latex(width=100)):
        signs = len(re.findall(r"(?<![({]) [+-] ", row))
        assert lines.breadth(row) <= 100 or signs <= 1


def test_the_command_line_breaks_them(capsys):
    assert cli.main(["derive", "V", "--latex"]) == 0
    out = capsys.readouterr().out
    assert out == LONG["V"].latex() + "\n"
    assert out.count(BREAK) > 5


def test_text_is_wrapped_and_the_same():
    shown = str(LONG["V"])
    assert max(map(len, shown.splitlines())) <= lines.COLUMNS
    assert " ".join(shown.split()) == f"V[1,2,3,4](ℓ+1) = {LONG['V'].expr}"


@given(st.lists(st.sampled_from(["a", "(b + c)", "⟨σ - τ⟩*f(x - 1)", "12"]), min_size=1))
def test_text_is_broken_before_a_sign(parts):
    line = "x = (" + " + ".join(parts) + ")"
    shown = lines.text(line, 40)
    assert " ".join(shown.split()) == line
    assert all(row.startswith("    + ") for row in shown.splitlines()[1:])
    assert all(len(row) <= 40 for row in shown.splitlines())


def test_breadth_counts_what_is_printed():
    assert lines.breadth(r"\frac{a + b}{4} \left\langle \sigma^{2}\right\rangle_{K}") == 3 + 5
    assert lines.breadth("") == 0


@pytest.mark.parametrize("width", [19, 0, -1, 1.5, True, "80"])
def test_a_width_is_a_number_of_symbols(width):
    with pytest.raises(InputError, match="width"):
        SHORT.latex(width=width)
