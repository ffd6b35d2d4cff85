"""What a claim comes to: each kind of verdict, its failure, and the book's registry."""

import json
from fractions import Fraction

import pytest
import sympy
from matplotlib.figure import Figure

from derivations import claims, report
from derivations.claims import Claim, Outcome, Sampling, Verdict
from derive import InputError

x = sympy.Symbol("x", positive=True)


def outcome(verdict, sampled=False):
    def prove(*_):
        """Some prose."""
        return verdict

    return next(iter(claims.check([Claim("000", "1.1", "a title", prove, sampled)])))


def test_equal_expressions_are_exact_and_unequal_ones_fail():
    assert claims.equal((x + 1) ** 2, x**2 + 2 * x + 1).kind == "exact"
    assert claims.equal(sympy.sqrt(x**2 + 2 * x + 1), x + 1).kind == "exact"
    assert claims.equal((x + 1) ** 2, x**2 + 2 * x + 2).kind == "fails"


def test_a_list_is_equal_only_in_every_place():
    assert claims.equal([x, x / x], [x, 1]).kind == "exact"
    wrong = claims.equal([x, 2 * x], [x, 3 * x])
    assert (wrong.kind, wrong.derived, wrong.printed) == ("fails", "2*x", "3*x")
    with pytest.raises(ValueError, match="zip"):
        claims.equal([x], [x, x])


def test_digits_are_counted():
    verdict = claims.close(sympy.pi, Fraction(355, 113).numerator / 113, 6)
    assert verdict.kind == "numeric"
    assert 6.5 < verdict.digits < 7.5
    assert claims.close(sympy.pi, 355 / 113, 8).kind == "fails"


def test_a_misprint_must_differ():
    assert claims.misprint(x, 2 * x, "proof").kind == "misprint"
    assert claims.misprint((x + 1) * x, x**2 + x, "proof").kind == "fails"
    assert claims.misprint("a", "a", "proof").kind == "fails"


def test_the_first_failure_decides():
    right, wrong = claims.equal(x, x), claims.equal(x, 2)
    assert claims.both(right, right).kind == "exact"
    assert claims.both(right, wrong).kind == "fails"


def test_a_refused_derivation_fails_with_its_reason():
    def prove():
        raise InputError("K", -1, "a variance")

    (found,) = claims.check([Claim("000", "1.1", "a title", prove, False)])
    assert found.verdict.kind == "fails"
    assert "a variance" in found.verdict.detail


def test_sampled_claims_share_the_false_alarms():
    shares = []

    def prove(sampling):
        shares.append(sampling)
        return Verdict("statistical", "")

    list(claims.check([Claim("000", "1.1", "t", prove, True)] * 4, seed=3))
    assert shares == [Sampling(3, claims.FALSE_ALARMS / 4)] * 4


def test_processes_change_nothing():
    chosen = [each for each in claims.claims(["000"]) if each.equation in {"3.6", "5.10", "5.20"}]
    alone, together = (list(claims.check(chosen, jobs=jobs)) for jobs in (1, 2))
    assert [each.claim for each in together] == chosen
    assert [each.verdict for each in together] == [each.verdict for each in alone]


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(InputError, match="seed"):
        list(claims.check([], seed))


def test_chapters_are_named():
    with pytest.raises(InputError, match="999"):
        claims.claims(["999"])
    found = claims.claims(["000"])
    assert found == claims.claims()[: len(found)]
    assert all(each.prose and each.title for each in found)
    equations = {each.equation for each in found}
    assert len(equations) == len(found)
    wanted = "3.4 3.5 3.6 5.3 5.4 5.5 5.6 5.7 5.8 5.10 5.11 5.15 5.16 5.17 5.18 5.19 5.20 5.21 5.22"
    assert equations >= set((wanted + " 5.23 5.24 5.26 A.1 A.2 A.3").split())


@pytest.mark.parametrize(
    "claim",
    [each for each in claims.claims(["000"]) if not each.sampled],
    ids=lambda claim: claim.equation,
)
def test_every_claim_that_does_not_sample_holds(claim):
    (found,) = claims.check([claim])
    assert found.verdict.holds, found.verdict


def test_records_say_how_sure_they_are():
    outcomes = [
        outcome(Verdict("exact", "d", "p", "how")),
        outcome(Verdict("numeric", "d", "p", digits=12.34)),
        outcome(Verdict("statistical", "d", "p", z=2.0, bound=6.0, comparisons=7), sampled=True),
        outcome(Verdict("fails", "d", "p")),
    ]
    read = json.loads(report.as_json(outcomes))
    assert read["holds"] is False
    assert [each["verdict"] for each in read["claims"]] == [
        "exact", "numeric", "statistical", "fails",
    ]  # fmt: skip
    assert read["claims"][1]["digits"] == 12.3
    assert (read["claims"][2]["z"], read["claims"][2]["comparisons"]) == (2.0, 7)
    assert "7 sampled numbers" in report.summary(outcomes)
    assert [report.measure(each.verdict) for each in outcomes] == [
        "proven", "12 digits", "|z| 2.00 < 6.00 of 7", "differs",
    ]  # fmt: skip


def test_the_report_replaces_only_an_earlier_report(tmp_path):
    figure = Figure()
    figure.subplots().plot([1, 2])
    outcomes = [outcome(Verdict("exact", "d", "p", figures={"curve": figure}, table="a | b"))]
    target = tmp_path / "report"
    for _ in range(2):
        report.write_directory(outcomes, target)
    assert {path.name for path in target.iterdir()} == {"index.md", "claims.json", "curve.svg"}
    assert "![curve](curve.svg)" in (target / "index.md").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    kept = tmp_path / "mine"
    kept.mkdir()
    (kept / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(InputError, match="earlier report"):
        report.write_directory(outcomes, kept)
    assert (kept / "thesis.txt").exists()


def test_an_outcome_is_timed():
    found = outcome(Verdict("exact", ""))
    assert isinstance(found, Outcome)
    assert found.seconds >= 0.0
