"""What a claim comes to: each kind of verdict, its failure, and the book's registry."""

from fractions import Fraction

import pytest
import sympy

from derivations import claims
from derivations.claims.registry import Claim, Outcome, Sampling
from derivations.claims.verdicts import Verdict
from derive import InputError
from derive.gaussian.brackets import Average, Component

x = sympy.Symbol("x", positive=True)


def outcome(verdict):
    return next(iter(claims.check([Claim("000", "1.1", "a title", lambda: verdict, False)])))


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


def test_a_misprint_stands_only_with_what_it_rests_on():
    right, wrong = claims.equal(x, x, "repaired"), claims.equal(x, 3 * x, "repaired")
    alone = claims.misprint(x, 2 * x, "proof")
    assert claims.misprint(x, 2 * x, "proof", provided=right) == alone
    assert claims.misprint(x, 2 * x, "proof", provided=wrong) is wrong


def test_the_first_failure_decides():
    right, wrong = claims.equal(x, x), claims.equal(x, 2)
    assert claims.both(right, right).kind == "exact"
    assert claims.both(right, wrong).kind == "fails"
    assert claims.both(right, claims.close(sympy.pi, 3.1415927, 7)).kind == "numeric"
    assert claims.both(right, claims.misprint(x, 2 * x, "proof")).kind == "misprint"


def test_parts_keep_their_tables_figures_and_sides():
    first = Verdict("exact", "d", "p", table="one", figures={"a": 1}, sides=(("x", "y"),))
    second = Verdict("numeric", "d", "p", "how", table="two", figures={"b": 2}, sides=(("z", "z"),))
    found = claims.both(first, second)
    assert (found.kind, found.table, found.detail) == ("numeric", "one\n\ntwo", "how")
    assert found.figures == {"a": 1, "b": 2}
    assert found.sides == (("x", "y"), ("z", "z"))
    assert claims.both(first, claims.equal(x, 2 * x)).sides == (("x", "2 x"),)


def test_sides_are_written_as_the_sources_do():
    average, vertex = Average(((1, 0), (1, 0))), Component("V", (1, 1, 2, 2))
    (side,) = claims.equal(average * vertex, average * vertex).sides
    assert side[0] == side[1]
    assert r"\left\langle \sigma^{2}\right\rangle_{K}" in side[0]
    assert r"V_{(\alpha_{1}\alpha_{1})(\alpha_{2}\alpha_{2})}" in side[0]
    assert claims.equal(sympy.Symbol("Theta1"), sympy.Symbol("Theta1")).sides[0][0] == (
        r"\Theta^{\{1\}}"
    )
    assert claims.close(sympy.sqrt(2), 1.4142136, 6).sides == (
        (r"\sqrt{2} \approx 1.41421", "1.41421"),
    )
    assert claims.close(1e-9, Fraction(1, 10**9).numerator / 1e9, 6).sides == (
        (r"1.0 \times 10^{-9}", r"1.0 \times 10^{-9}"),
    )


def test_a_row_says_what_it_is_the_value_of():
    first = claims.equal([0, x, x], [0, x, x], labels=["a", "b", "c"])
    assert first.sides == (("b = x", "x"), ("a = 0", "0"))
    wrong = claims.equal([x, x], [x, 2], labels=["a", "b"])
    assert wrong.sides[0] == ("b = x", "2")
    with pytest.raises(ValueError, match="shorter"):
        claims.equal([x, x], [x, x], labels=["a"])


def test_of_many_sides_a_few_and_no_monsters_are_written():
    many = [x**k for k in range(50)]
    assert len(claims.equal(many, many).sides) == 4
    monster = sum(x**k / (k + x) for k in range(200))
    assert claims.equal([monster, x], [monster, x]).sides == (("x", "x"),)
    assert claims.misprint("words", "other words", "proof").sides == ()


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (InputError("K", -1, "a variance"), "K: got -1; wanted a variance"),
        (ZeroDivisionError("oh"), "ZeroDivisionError: oh (test_claims.py, line "),
        (RecursionError("deep"), "RecursionError: deep"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_a_claim_that_raises_fails_with_the_reason(raised, told):
    def prove():
        raise raised

    (found,) = claims.check([Claim("000", "1.1", "a title", prove, False)])
    assert found.verdict.kind == "fails"
    assert found.verdict.detail.startswith(told)


def test_a_claim_that_returns_no_verdict_fails():
    assert "returns a Verdict, and this one NoneType" in outcome(None).verdict.detail


def test_interruption_passes():
    def prove():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(claims.check([Claim("000", "1.1", "a title", prove, False)]))


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
    together = claims.in_order(together, chosen)
    assert [each.claim for each in together] == [each.claim for each in alone] == chosen
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


def test_an_outcome_is_timed():
    found = outcome(Verdict("exact", ""))
    assert isinstance(found, Outcome)
    assert found.seconds >= 0.0
