"""The book's chapter on source 001: every equation has its claim, and they hold."""

from __future__ import annotations

import pytest

from derivations import claims

CHAPTER = claims.claims(["001"])
SLOW = {"Figure 6", "§2.1.2"}
MISPRINTS = {
    "1",
    "A.1 (at γ)",
    "A.1 (variance)",
    "A.2",
    "A.4 (covariance)",
    "A.6 (σ_α²)",
    "A.7 (c* < 1)",
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
}


def test_every_equation_and_figure_has_a_claim() -> None:
    labels = {each.equation for each in CHAPTER}
    assert len(labels) == len(CHAPTER)
    words = {word for label in labels for word in label.replace(",", " ").split()}
    assert words >= {*map(str, range(1, 13)), *(f"A.{k}" for k in range(1, 12))}
    figures = {label for label in labels if label.startswith("Figure")}
    assert figures == {"Figures 1, 10", *(f"Figure {k}" for k in (*range(2, 10), 11, 12))}
    assert all(each.title and each.prose for each in CHAPTER)


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(each, marks=[pytest.mark.slow] if each.equation in SLOW else [])
        for each in CHAPTER
        if not each.sampled
    ],
    ids=lambda claim: claim.equation,
)
def test_claims_that_do_not_sample_hold(claim: claims.Claim) -> None:
    (found,) = claims.check([claim])
    assert found.verdict.holds, found.verdict
    assert (found.verdict.kind == "misprint") == (claim.equation in MISPRINTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "claim", [each for each in CHAPTER if each.sampled], ids=lambda claim: claim.equation
)
def test_sampled_claims_hold(claim: claims.Claim) -> None:
    (found,) = claims.check([claim], seed=20)
    assert found.verdict.holds, found.verdict
