"""The book's chapter on source 000: what it finds misprinted, and which figures it draws."""

from __future__ import annotations

import pytest

from derivations import claims

CHAPTER = {each.equation: each for each in claims.claims(["000"])}
MISPRINTS = (
    "4.15",
    "4.23",
    "4.24",
    "5.8 (domain)",
    "5.12",
    "6.4",
    "§5.3 (kernel)",
    "§6.2 (conjecture)",
    "§A.1 (inputs)",
)


@pytest.mark.parametrize("equation", MISPRINTS)
def test_misprints_are_proven(equation: str) -> None:
    (found,) = claims.check([CHAPTER[equation]])
    assert found.verdict.kind == "misprint", found.verdict


def test_the_recursions_come_with_their_diagrams() -> None:
    drawn = set[str]()
    for equation in ("3.8 (diagrams)", "6.7", "6.8", "6.12", "6.13", "6.14"):
        (found,) = claims.check([CHAPTER[equation]])
        drawn |= {stem.removeprefix("tower_") for stem in found.verdict.figures}
    assert drawn == {"V", "G1", "Theta", "Theta1", *"ABDFPQRSTU"}
