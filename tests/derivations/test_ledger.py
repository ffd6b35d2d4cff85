"""The ledger: every numbered statement of the sources, each with what shows it."""

import re
import tomllib
from importlib.resources import files

import pytest

from derivations import ledger
from derivations.claims.registry import CHAPTERS, claims
from derive.errors import InputError


def numbers(prefix, last):
    return [f"{prefix}{k}" for k in range(1, last + 1)]


def unlisted(source):
    """The claims of a chapter that no entry names: what the book adds to its source."""
    named = {each for entry in ledger.entries(source) for each in entry.claims}
    return [each for each in claims([source]) if each not in named]


NUMBERED = {
    "000": [
        *numbers("3.", 10),
        *numbers("4.", 24),
        *numbers("5.", 28),
        *numbers("6.", 17),
        *numbers("A.", 5),
        *numbers("Figure ", 14),
    ],
    "001": [*numbers("", 12), *numbers("Figure ", 12), *numbers("A.", 11), "Lemma A.1", "Table 1"],
    "002": [
        *numbers("", 37),
        *numbers("S", 64),
        *numbers("Figure ", 4),
        "Table 1",
        "Table 2",
        "Table S1",
        "Algorithm 1",
    ],
    "003": [
        *numbers("", 30),
        *numbers("Figure ", 7),
        "Theorem 1",
        "Lemma 2",
        "Corollary 3",
        "Lemma 4",
        "Theorem 5",
        *(f"Lemma {k}" for k in (6, 7, 8, 10, 11)),
    ],
    "004": numbers("3.", 57),
    "layers": numbers("", 22),
    "attention": numbers("", 6),
    "deep": numbers("", 16),
    "training": numbers("", 10),
}
"""What each source numbers, counted in its text, the numbers that a scan lost included."""


def text(source):
    return (files("derivations.ledger") / f"{source}.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("source", CHAPTERS)
def test_every_number_of_the_source_has_an_entry(source):
    listed = [entry.item for entry in ledger.entries(source)]
    assert [item for item in NUMBERED[source] if item not in listed] == []


@pytest.mark.parametrize("source", CHAPTERS)
def test_each_series_of_numbers_ascends(source):
    series = {}
    for item in tomllib.loads(text(source)):
        if found := re.fullmatch(r"(.*?)(\d+)", item):
            series.setdefault(found[1], []).append(int(found[2]))
    assert series
    for found in series.values():
        assert found == sorted(set(found))


@pytest.mark.parametrize("source", CHAPTERS)
def test_nothing_is_open(source):
    for entry in ledger.entries(source):
        assert (entry.status == "shown") == bool(entry.claims)
        assert entry.status != "open"
        if entry.status == "not a statement":
            assert len(entry.note) > 5


def test_350_statements_are_numbered():
    counted = {
        source: sum(entry.numbered for entry in ledger.entries(source)) for source in CHAPTERS
    }
    own = tuple(map(counted.pop, ("layers", "attention", "deep", "training")))
    assert counted == {"000": 104, "001": 26, "002": 109, "003": 54, "004": 57}
    assert own == (22, 6, 26, 10)


@pytest.mark.parametrize("source", CHAPTERS)
def test_every_claim_but_those_beyond_the_source_is_listed(source):
    assert [c.name for c in unlisted(source) if not c.equation.startswith("beyond")] == []


@pytest.mark.parametrize("source", CHAPTERS)
def test_claims_without_an_entry_say_what_they_add(source):
    """A claim that carries the number of an entry as it stands must be named by that entry."""
    entries = {entry.item: entry for entry in ledger.entries(source)}
    for each in unlisted(source):
        assert each.equation not in entries or not entries[each.equation].claims


def test_an_entry_that_names_nothing_is_refused():
    by_name = {each.name: each for each in claims(["004"])}
    with pytest.raises(InputError, match=r"module\.function"):
        ledger._entry("004", "3.1", "correlators.no_such_claim", by_name)
    with pytest.raises(InputError, match="definition"):
        ledger._entry("004", "3.1", "missing: a claim", by_name)
    with pytest.raises(InputError, match="000, 001"):
        ledger.entries("005")


def test_the_verdict_of_an_entry_is_the_worst_of_its_claims():
    entry = next(each for each in ledger.entries("004") if len(each.claims) == 1)
    (shown,) = entry.claims
    twice = ledger.Entry("004", "x", "shown", (shown, claims(["004"])[-1]))
    other = claims(["004"])[-1]
    assert ledger.verdict(entry, {shown: "exact"}) == "exact"
    assert ledger.verdict(entry, {}) == "shown"
    assert ledger.verdict(twice, {shown: "exact", other: "fails"}) == "fails"
