"""The book: what each source misprints, and that every claim holds."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from derivations import claims
from derivations.claims.costs import shipped
from derivations.claims.registry import CHAPTERS, Claim
from derivations.day_kahn_roberts import ensembles, figures, measurements
from numeric import Comparison, compare
from numeric.tables import WEAK

BOOK = claims.claims()
Compared = tuple[Any, Any, Comparison]
"""The theory, the ensembles, and what came of them."""
MISPRINTS = {
    "000": {
        "4.15",
        "4.23",
        "5.8 (domain)",
        "5.12",
        "§5.3 (kernel)",
        "§6.2 (conjecture)",
        "§6.2 (noise)",
        "§6.2 (saturation)",
        "§7.1 (first layer)",
        "§A.1 (inputs)",
    },
    "001": {
        "1",
        "A.1 (at γ)",
        "A.1 (variance)",
        "A.2",
        "A.4 (covariance)",
        "A.6 (σ_α²)",
        "A.7 (c* < 1)",
        "A.7 (lines)",
        "A.8",
        "A.8 (widths)",
        "A.10 (G)",
        "A.10 (edges)",
        "A.10 (scale)",
        "A.10 (series)",
        "§1 (singular values)",
        "§2.1 (rank)",
        "§2.1.2",
        "§2.2 (sum of squares)",
        "§2.2 (α)",
        "§3.1 (G)",
        "§3.2 ([U, 0])",
        "§3.3 (density)",
    },
    "002": {
        "5 (in words)",
        "26",
        "33",
        "34 (λ_0)",
        "35 (pole)",
        "S9",
        "S21",
        "S21 (integrand)",
        "S27",
        "S29",
        "S32",
        "S39",
        "S40",
        "S41",
    },
    "003": {
        *("9", "14", "Lemma 10", "12", "Theorem 1", "Corollary 3"),
        *("19", "22", "23", "24", "28", "6", "26", "30"),
        *("§3.2 (inverse)", "§3.2 (mixing)", "Table 2", "Table 3"),
        *("§1 (displays)", "§3.3 (inputs)", "§5.1 (widths)", "C.2", "C.4 (cross terms)", "C.5"),
    },
    "004": {"3.43"},
    "layers": set[str](),
    "attention": set[str](),
    "deep": set[str](),
    "training": set[str](),
}
DOUBTFUL = {
    "000": {"6.4"},
    "001": {"A.7 (expansion)", "A.7 (index)", "A.8 (cross terms)"},
    "002": {"37", "S24", "S30", "S34", "S54", "S56"},
    "003": {"C.4 (sum)"},
    "004": set[str](),
    "layers": set[str](),
    "attention": set[str](),
    "deep": set[str](),
    "training": set[str](),
}
"""Misprints that a character lost from the text at hand would explain."""
LONGEST = 0.5
"""Seconds, by the shipped table, beyond which a claim is left to `make run`, which proves all of
them. Claims of one figure share their networks, which the table counts for one of them."""


def figure(claim: Claim) -> tuple[str, str]:
    """The claim's label without what is in brackets."""
    return claim.source, claim.equation.partition(" (")[0]


def cases(sampled: bool) -> list[object]:
    """The claims that sample, or do not; the sampled ones are all slow."""
    costs = shipped()
    seconds = {claim: costs.get(f"{claim.source} {claim.name}", 0.0) for claim in BOOK}
    figures = defaultdict[tuple[str, str], float](float)
    for claim, each in seconds.items():
        if claim.sampled:
            figures[figure(claim)] = max(each, figures[figure(claim)])
    return [
        pytest.param(
            claim,
            id=f"{claim.source} {claim.equation}",
            marks=[pytest.mark.slow] * sampled,
        )
        for claim in BOOK
        if claim.sampled == sampled
        and (figures[figure(claim)] if sampled else seconds[claim]) <= LONGEST
    ]


@pytest.mark.parametrize("source", CHAPTERS)
def test_labels_are_distinct_and_every_claim_has_prose(source: str) -> None:
    chapter = [each for each in BOOK if each.source == source]
    labels = {each.equation for each in chapter}
    assert len(labels) == len(chapter)
    assert labels >= MISPRINTS[source] | DOUBTFUL[source]
    assert not MISPRINTS[source] & DOUBTFUL[source]
    assert all(each.title and each.prose for each in chapter)


@pytest.mark.parametrize("claim", cases(sampled=False))
def test_claims_that_do_not_sample_hold(claim: Claim) -> None:
    (found,) = claims.check([claim])
    assert found.verdict.holds, found.verdict
    wrong, lost = MISPRINTS[claim.source], DOUBTFUL[claim.source]
    assert (found.verdict.kind == "misprint") == (claim.equation in wrong)
    assert (found.verdict.kind == "doubtful") == (claim.equation in lost)
    witness = found.verdict.witness
    assert (witness is not None) == (claim.equation in wrong | lost)
    assert witness is None or witness.differ


EXPERIMENTS = {"reproduced", "reduced size", "not reproduced"}
"""Verdicts of trained networks: tests, of a size."""
INEQUALITIES = {("003", "Figure 6 (ConvNet)"), ("training", "10"), ("attention", "3")}
"""Of samples, without a number that they are compared with, or with errors in the verdict alone."""


@pytest.mark.parametrize("claim", cases(sampled=True))
def test_sampled_claims_hold(claim: Claim, compared: list[Compared]) -> None:
    (found,) = claims.check([claim], seed=20)
    assert found.verdict.holds, found.verdict
    if found.verdict.kind in EXPERIMENTS:
        assert found.verdict.size
        return
    if (claim.source, claim.equation) in INEQUALITIES:
        assert found.verdict.kind == "numeric"
        return
    assert found.verdict.resolution is not None
    assert (found.verdict.kind == "weak") == (found.verdict.resolution > WEAK)
    if claim.prove.__module__.startswith("derivations.day_kahn_roberts"):
        assert found.verdict.kind == "statistical", found.verdict
        assert sorted(each for once in compared for each in overlooked(*once)) == []
        assert len(compared) > 0


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Compared]:
    """What the claims of source 000 compare, as they do, with the share of the alarms."""
    seen: list[Compared] = []

    def watched(flowed: Any, simulated: Any, false_alarms: float) -> Comparison:
        found = compare(flowed, simulated, false_alarms)
        seen.append((flowed, simulated, found))
        return found

    for module in (ensembles, figures, measurements):
        monkeypatch.setattr(module, "compare", watched)
    return seen


def overlooked(flowed: Any, simulated: Any, found: Comparison) -> list[str]:
    """The tensors that could be 1.2 times as large as derived; not those that vanish."""
    sizes = {row.tensor for row in found.rows if abs(row.theory) == row.largest > 0}
    return [
        name
        for name in sizes
        if compare(flowed.assign({name: 1.2 * flowed[name]}), simulated, found.false_alarms).agrees
    ]


def test_every_equation_and_figure_of_001_has_a_claim() -> None:
    labels = {each.equation for each in BOOK if each.source == "001"}
    words = {word for label in labels for word in label.replace(",", " ").split()}
    assert words >= {*map(str, range(1, 13)), *(f"A.{k}" for k in range(1, 12))}
    figures = {label for label in labels if label.startswith("Figure")}
    assert figures == {"Figures 1, 10", *(f"Figure {k}" for k in (*range(2, 10), 11, 12))}


def test_the_recursions_come_with_their_diagrams() -> None:
    by_equation = {each.equation: each for each in BOOK if each.source == "000"}
    drawn = set[str]()
    for equation in ("3.8 (diagrams)", "6.7", "6.8", "6.12", "6.13", "6.14"):
        (found,) = claims.check([by_equation[equation]])
        drawn |= {stem.removeprefix("tower_") for stem in found.verdict.figures}
    assert drawn == {"V", "G1", "Theta", "Theta1", *"ABDFPQRSTU"}
