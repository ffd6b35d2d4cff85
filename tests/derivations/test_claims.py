"""What a claim comes to: each kind of verdict, its failure, and the book's registry."""

from fractions import Fraction

import pytest
import sympy

from derivations import claims
from derivations.claims.registry import Claim, Outcome, Sampling
from derivations.claims.verdicts import Verdict
from derive import InputError
from derive.gaussian import Average, Component
from numeric import compare
from numeric.tables import layout

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
    assert claims.misprint("a", "a", "proof", witness=(1, 2)).kind == "fails"


def test_a_misprint_in_words_has_a_witness_or_is_refused():
    with pytest.raises(InputError, match="words that differ prove nothing"):
        claims.misprint("a", "b", "proof")
    found = claims.misprint("a", "b", "proof", witness=(1.5, 2))
    assert (found.kind, found.witness.printed, found.witness.derived) == ("misprint", "1.5", "2.0")
    assert claims.misprint("a", "b", "proof", witness=(2, 2)).kind == "fails"
    assert claims.misprint("a", "b", "proof", witness=(1.5, 2, 1)).kind == "fails"
    for wrong in ((1,), "12", (1, "x"), (1, float("nan")), (1, sympy.I)):
        with pytest.raises(InputError, match="witness"):
            claims.misprint("a", "b", "proof", witness=wrong)


def test_a_witness_is_a_point_at_which_expressions_differ():
    y = sympy.Symbol("y", negative=True)
    found = claims.misprint(x**2 + y, x**2, "proof").witness
    values = dict(pair.split(" = ") for pair in found.at.split(", "))
    point = {x: sympy.Rational(values["x"]), y: sympy.Rational(values["y"])}
    assert point[x] > 0 > point[y]
    assert float(found.derived) == pytest.approx(float((x**2 + y).subs(point)))
    assert float(found.printed) == pytest.approx(float(point[x] ** 2))
    # what sympy does not see to be equal is no misprint
    nested = sympy.sqrt(3 + 2 * sympy.sqrt(2))
    assert claims.misprint(nested, 1 + sympy.sqrt(2), "proof").kind == "fails"
    assert claims.misprint(sympy.Float(1.0), sympy.Float(1.0 + 1e-15), "proof").kind == "fails"


def test_witnesses_give_values_to_components_and_averages():
    average, vertex = Average(((1, 0), (1, 0))), Component("V", (1, 1, 2, 2))
    found = claims.misprint(x * average * vertex, x * average, "proof")
    assert (found.kind, found.witness.at.count("=")) == ("misprint", 3)


def test_a_loss_in_the_text_at_hand_makes_a_misprint_doubtful():
    found = claims.misprint(x, 2 * x, "proof", lost="the 2 may be a speck")
    assert (found.kind, found.holds) == ("doubtful", True)
    assert found.detail == "proof; doubtful: the 2 may be a speck"
    assert claims.misprint(x, x, "proof", lost="a speck").kind == "fails"
    assert claims.both(found, claims.misprint(x, 2 * x, "proof")).kind == "misprint"


def test_each_pair_of_a_list_is_compared_to_its_own_size():
    assert claims.close([1e6, 1.0], [1e6, 1.002], 3).kind == "fails"
    assert claims.close([1e6, 1.0], [1e6, 1.0001], 3).kind == "numeric"
    assert claims.close([1.0, 0], [1.0, 1e-12], 8).kind == "numeric"


def test_enclosures_and_floats_are_no_proofs_by_symbols():
    found = claims.enclosed([True] * 7, "a ≤ b", "spectra")
    assert (found.kind, found.points) == ("enclosed", 7)
    assert "enclosed at 7 spectra" in found.detail
    assert claims.enclosed([True, False], "a ≤ b", "spectra").kind == "fails"
    assert claims.enclosed([], "a ≤ b", "spectra").kind == "fails"
    assert claims.observed([True, True], "rises").kind == "numeric"
    assert claims.observed([True, False], "rises").kind == "fails"
    assert claims.both(claims.equal(x, x), found).kind == "enclosed"
    assert claims.both(found, found).points == 14
    assert claims.both(found, claims.observed(True, "rises")).kind == "numeric"


def table(value, se):
    about = {"width": 10, "blocks": 256}
    return layout.table([1], about, gap=([value], [se]))


def test_what_would_have_agreed_with_too_much_is_weak():
    flowed = layout.table([1], gap=[1.0])
    fine, coarse, far = (
        compare(flowed, table(value, se)) for value, se in ((1.01, 0.01), (1.2, 0.5), (2, 0.01))
    )
    assert claims.sampled(fine).kind == "statistical"
    assert claims.sampled(fine).resolution == fine.resolution
    weak = claims.sampled([fine, coarse], "as drawn", labels=["fine", "coarse"])
    assert (weak.kind, weak.holds) == ("weak", True)
    told = "as drawn; weak: 1 of 2 numbers resolve worse than 20 %; coarse gap at layer 1 2"
    assert weak.detail.startswith(told)
    assert weak.resolutions == (fine.resolution, coarse.resolution)
    assert claims.sampled([far, coarse], labels=["far", "coarse"]).kind == "fails"
    assert claims.both(weak, claims.sampled(fine)).kind == "weak"
    assert len(claims.both(weak, claims.sampled(fine)).resolutions) == 3


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
    assert claims.misprint("words", "other words", "proof", witness=(1, 2)).sides == ()


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
    assert found.processor is not None
    assert found.processor >= 0.0
