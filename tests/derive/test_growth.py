"""How V/K² grows with depth, against the walk of log K and the page that prints it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sympy

from derive import Network
from derive.deep import growth, walk
from derive.symbols import ell

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "deep.md"
SECTION = PAGE.read_text(encoding="utf-8").split("## Which networks may be deep")[1]
ROWS = [
    [cell.strip(" `") for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8")
    .split("## Which networks may be deep")[1]
    .splitlines()
    if re.match(r"\| `(dense|dropout|residual|skip|normalized|gated)", line)
    and line.count("|") == 6  # the table of growth
]
COLUMNS = [(sigma, law) for sigma in ("relu", "tanh") for law in ("gaussian", "orthogonal")]


def shown(value: sympy.Expr) -> str:
    """As on the page: ℓ for ell, and three digits of a number that is not exact."""
    number = sympy.limit(value / ell, ell, sympy.oo) if value.has(ell) else value
    power = 1 if value.has(ell) else 0
    if number == 0:
        number, power = sympy.simplify(value * ell), -1
    number = sympy.nsimplify(number, rational=True) if abs(number) >= 1 else number
    if number.is_Rational and number.q <= 16:
        head, tail = str(number.p), f"/{number.q}" if number.q > 1 else ""
    else:
        head, tail = f"{float(number):.3g}", ""
    if power == 1:
        return ("" if head == "1" else head) + "ℓ" + tail
    return head + tail + ("/ℓ" if power else "")


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_page_has_what_is_derived(row):
    found = [shown(growth(sigma, law, row[0])) for sigma, law in COLUMNS]
    assert found == row[1:]


@pytest.mark.parametrize("layer", ["dense", "residual(skip=1/2)", "dropout(3/4)"])
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_it_is_the_spread_of_the_walk(layer, law):
    spread = walk(Network.critical("relu", law, layer=layer)).spread
    assert growth("relu", law, layer) == spread * ell


def test_the_page_has_all_rows():
    assert len(ROWS) == 10
    assert all(len(row) == 1 + len(COLUMNS) for row in ROWS)
