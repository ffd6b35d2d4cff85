"""The book's chapter on source 002: what it finds misprinted, and that its claims hold."""

from __future__ import annotations

import pytest

from derivations import claims

CHAPTER = claims.claims(["002"])
MISPRINTS = {
    "5 (in words)",
    "26",
    "33",
    "34 (λ_0)",
    "35 (pole)",
    "37",
    "S9",
    "S21",
    "S21 (integrand)",
    "S24",
    "S27",
    "S29",
    "S30",
    "S32",
    "S34",
    "S39",
    "S40",
    "S41",
    "S54",
    "S56",
}


def test_labels_are_distinct_and_every_claim_has_prose() -> None:
    assert len({each.equation for each in CHAPTER}) == len(CHAPTER)
    assert all(each.title and each.prose for each in CHAPTER)


@pytest.mark.parametrize(
    "claim", [each for each in CHAPTER if not each.sampled], ids=lambda claim: claim.equation
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
