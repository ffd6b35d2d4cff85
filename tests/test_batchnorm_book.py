"""The book's chapters on sources 003 and 004: every claim that does not sample."""

from __future__ import annotations

import pytest

from derivations import claims

MISPRINTS = {
    "003": {
        *("9", "14", "Lemma 10", "12", "Theorem 1", "Corollary 3"),
        *("19", "22", "23", "24", "28", "6", "26", "30"),
    },
    "004": {"3.43"},
}
SLOW = {"25 (networks)"}
CASES = [
    pytest.param(
        claim,
        id=f"{claim.source} {claim.equation}",
        marks=pytest.mark.slow if claim.equation in SLOW else (),
    )
    for claim in claims.claims(["003", "004"])
    if not claim.sampled
]


@pytest.mark.parametrize("claim", CASES)
def test_claim(claim) -> None:
    (outcome,) = claims.check([claim])
    assert outcome.verdict.holds, outcome.verdict
    misprint = claim.equation in MISPRINTS[claim.source]
    assert (outcome.verdict.kind == "misprint") == misprint
