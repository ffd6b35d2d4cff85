"""The draft of the paper: every reference is there, every number is in the benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAPER = (ROOT / "docs" / "paper" / "paper.md").read_text(encoding="utf-8")
REFERENCES = (ROOT / "docs" / "paper" / "paper.bib").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", REFERENCES, re.MULTILINE | re.DOTALL))


def test_what_is_cited_is_what_is_listed():
    cited = set(re.findall(r"@([a-z]+\d{4})", PAPER))
    assert cited == set(ENTRIES)


def test_every_reference_has_an_identifier():
    for key, entry in ENTRIES.items():
        eprint = re.search(r"eprint = \{\d{4}\.\d{4,5}\}", entry)
        assert eprint or re.search(r"doi = \{10\.\d{4,}/", entry), key
        assert all(f"{field} = " in entry for field in ("author", "title", "year")), key


def test_sources_are_cited_as_the_library_does():
    own = (ROOT / "derive" / "sources.bib").read_text(encoding="utf-8")
    for key, entry in ENTRIES.items():
        if f"{{{key}," in own:
            assert all(line in own for line in entry.splitlines()), key


def test_its_numbers_are_those_of_the_benchmarks():
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    numbers = re.findall(r"([\d.]+ [mµ]?s) (?:against|for)", PAPER)
    assert len(numbers) == 4
    assert all(f"| {number} |" in measured for number in numbers)


def test_it_has_the_parts_that_the_journal_asks_for():
    heads = re.findall(r"^# (.+)$", PAPER, re.MULTILINE)
    for part in ("Summary", "Statement of need", "State of the field", "References"):
        assert part in heads
