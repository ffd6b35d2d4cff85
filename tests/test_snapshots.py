"""Flows give the numbers that `tests/snapshots/flows.json` has. A tenth of them here, half in
`make test-all`, all by `python tests/snapshots/flows.py`, which the weekly job runs."""

import copy
import json

import flows
import numpy as np
import pytest

CASES = flows.cases()
TENTH = 10
FIRST = 4
"""The first of the tenth, by which each of them takes some second at most."""


def held(case):
    lines = flows.moved(case.name, case.table(), flows.recorded()[case.name])
    assert not lines, "\n".join(lines[:5])


@pytest.mark.parametrize("case", CASES[FIRST::TENTH], ids=lambda case: case.name)
def test_a_tenth_of_the_flows_is_as_recorded(case):
    held(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [case for number, case in enumerate(CASES) if number % 2 and number % TENTH != FIRST],
    ids=lambda case: case.name,
)
def test_every_other_flow_is_as_recorded(case):
    held(case)


def test_every_case_is_recorded_and_nothing_else():
    assert list(flows.recorded()) == [case.name for case in CASES]
    assert flows.FILE.stat().st_size < 10**6


def test_a_recorded_number_is_held_to_much_less_than_itself():
    for name, tensors in flows.recorded().items():
        flows.checked(name, tensors)


@pytest.fixture
def record():
    return copy.deepcopy(flows.recorded()["dense tanh 2 inputs"])


def test_an_entry_that_moves_is_named(record):
    before = copy.deepcopy(record)
    record["V"]["values"][1][0][1][1][0] *= 1 + 1e-9
    record["K"]["values"][2][1][1] *= 1 + 1e-15
    (line,) = flows.moved("a case", record, before)
    assert line.startswith("a case: V[layer 2, 0, 1, 1, 0] is ")


def test_digits_are_held_to_their_bound():
    name = next(case.name for case in CASES if case.name.startswith("precision 25"))
    before = flows.recorded()[name]
    record = copy.deepcopy(before)
    digits = record["K"]["values"][2]
    record["K"]["values"][2] = digits[:-4] + ("1" if digits[-4] != "1" else "2") + digits[-3:]
    assert not flows.moved(name, before, before)
    assert len(flows.moved(name, record, before)) == 1


def test_numbers_that_are_lost_are_not_recorded():
    for values, error in (([1.0, np.nan], 1e-14), ([1.0, 2.0], 1e-3), ([1.0, 2.0], np.nan)):
        with pytest.raises(SystemExit):
            flows.checked("a case", {"K": {"values": values, "errors": [1e-14, error]}})


def test_recording_changes_no_number_unless_told(monkeypatch, tmp_path, capsys):
    case = CASES[0]
    known = {case.name: copy.deepcopy(flows.recorded()[case.name])}
    known[case.name]["K"]["values"][1] += 0.5
    file = tmp_path / "flows.json"
    file.write_text(json.dumps(known), encoding="utf-8")
    monkeypatch.setattr(flows, "FILE", file)
    monkeypatch.setattr(flows, "cases", lambda: (case,))
    monkeypatch.setattr(flows, "recorded", lambda: json.loads(file.read_text(encoding="utf-8")))
    assert flows.main(["--record"]) == 1
    assert json.loads(file.read_text(encoding="utf-8")) == known
    assert f"{case.name}: K[layer 2] is " in capsys.readouterr().out
    assert flows.main(["--record", "--replace"]) == 0
    assert flows.main([]) == 0
