"""Checking a book: in several processes, stopped and gone on with, whatever its claims do."""

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from timing import table

from derivations import claims, cli, report
from derivations.claims import store as kept
from derivations.claims import workers as running
from derivations.claims.costs import GUESS, TRUST, Costs, key, recorded, shipped
from derivations.claims.kept import Shelf, Tally
from derivations.claims.registry import Claim, Outcome, Sampling
from derivations.claims.store import Kept
from derivations.claims.verdicts import Verdict
from derivations.claims.witness import Witness
from derivations.pictures.drawn import drawn
from derive import InputError

SAMPLES = Path(__file__).parents[1] / "samples"
SAMPLING = Sampling(3, 1e-7)


@pytest.fixture
def work(monkeypatch, tmp_path):
    """The sample claims by name, and the file in which they note that they were proven."""
    monkeypatch.syspath_prepend(SAMPLES)
    notes = tmp_path / "notes"
    notes.touch()
    monkeypatch.setenv("WICKGARTEN_TEST_NOTES", str(notes))
    importlib.import_module("sample_work")
    return {each.prove.__name__: each for each in claims.in_module("sample_work")}, notes


def proven(notes):
    return [line.split()[0] for line in notes.read_text(encoding="utf-8").splitlines()]


def figure():
    made = Figure()
    made.subplots().plot([1, 2], label="curve")
    return made


FULL = Verdict(
    "statistical", "d & é", "p", "how", 3.5, 1.25, 5.0, 7, {"a": drawn(figure())}, "table",
    (("x", "y"),), (0.1, float("inf")), Witness("1.5", "2.0", 0.25, "n = 3"), 4,
)  # fmt: skip


def test_what_is_kept_is_read_again(tmp_path):
    store = Kept(tmp_path / "partial")
    claim = Claim("000", "1", "t", figure, True)
    assert store.read(claim, SAMPLING) is None
    outcome = Outcome(claim, FULL, 2.5, Tally(2, 3, 1.5e9), 1.5)
    store.write(outcome, SAMPLING)
    assert store.read(claim, SAMPLING) == outcome
    assert store.read(replace(claim, title="u"), SAMPLING) is None
    store.clear()
    assert not list(tmp_path.iterdir())


def test_seed_and_share_count_for_what_samples_alone(tmp_path):
    store = Kept(tmp_path)
    for sampled in (True, False):
        claim = Claim("000", str(sampled), "t", figure, sampled)
        store.write(Outcome(claim, FULL, 1.0), SAMPLING)
        for other in (replace(SAMPLING, seed=4), replace(SAMPLING, false_alarms=1e-8)):
            assert (store.read(claim, other) is None) == sampled


@pytest.mark.parametrize(
    ("name", "changed"), [("source_hash", "another"), ("versions", ("numpy 99",))]
)
def test_another_source_or_version_is_proven_again(tmp_path, monkeypatch, name, changed):
    store, claim = Kept(tmp_path), Claim("000", "1", "t", figure, False)
    store.write(Outcome(claim, FULL, 1.0), SAMPLING)
    monkeypatch.setattr(kept, name, lambda: changed)
    assert store.read(claim, SAMPLING) is None


def test_the_source_is_hashed_whole():
    assert kept.source_hash() == kept.source_hash()
    assert len(kept.source_hash()) == 64
    assert any(each.startswith("numpy ") for each in kept.versions())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"seconds": 1}',
        '{"seconds": "soon", "verdict": {}}',
        json.dumps({"seconds": 1, "verdict": {"kind": "true"}}),
        json.dumps({"seconds": 1, "verdict": [["kind", "exact"]]}),
    ],
)
def test_a_file_that_is_not_whole_is_no_outcome(tmp_path, text):
    store, claim = Kept(tmp_path), Claim("000", "1", "t", figure, False)
    store.write(Outcome(claim, FULL, 1.0), SAMPLING)
    (path,) = tmp_path.iterdir()
    path.write_text(text, encoding="utf-8")
    assert store.read(claim, SAMPLING) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "certain"), ("derived", 1), ("figures", {"a": {"svg": 1}}), ("sides", [["x"]]),
        ("digits", "many"), ("holds", "yes"), ("comparisons", None),
    ],
)  # fmt: skip
def test_a_verdict_with_a_wrong_field_is_none(tmp_path, field, value):
    store, claim = Kept(tmp_path), Claim("000", "1", "t", figure, False)
    store.write(Outcome(claim, FULL, 1.0), SAMPLING)
    (path,) = tmp_path.iterdir()
    record = json.loads(path.read_text(encoding="utf-8"))
    record["verdict"][field] = value
    path.write_text(json.dumps(record), encoding="utf-8")
    assert store.read(claim, SAMPLING) is None


def test_failures_are_tried_again_and_other_files_left_alone(tmp_path):
    directory = tmp_path / "partial"
    store, claim = Kept(directory), Claim("000", "1", "t", figure, False)
    store.write(Outcome(claim, Verdict("fails", "d"), 1.0), SAMPLING)
    assert not directory.exists()
    store.check()
    store.write(Outcome(claim, FULL, 1.0), SAMPLING)
    store.check()
    (directory / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="partial"):
        store.check()
    store.clear()
    assert [path.name for path in directory.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_stopped_check_goes_on(work, tmp_path, jobs):
    by_name, notes = work
    chosen = [by_name["first"], by_name["second"]]
    store = Kept(tmp_path / "partial")
    going = claims.check(chosen, kept=store, jobs=jobs)
    came = next(going).claim
    going.close()
    before = proven(notes)
    found = list(claims.check(chosen, kept=store, jobs=jobs))
    assert found[0].claim == came
    assert [each.claim for each in claims.in_order(found, chosen)] == chosen
    assert all(each.verdict.holds for each in found)
    if jobs == 1:
        assert (before, proven(notes)) == (["first"], ["first", "second"])
    assert proven(notes).count(came.prove.__name__) == 1
    count = proven(notes).count("first")
    list(claims.check(chosen, seed=1, kept=store))
    assert proven(notes).count("first") == count
    assert proven(notes)[-1] == "second"


def test_a_process_that_dies_fails_its_claim_alone(work):
    by_name, _ = work
    chosen = [by_name["dies"], by_name["first"], by_name["dies"], by_name["second"]]
    found = claims.in_order(claims.check(chosen, seed=8, jobs=2), chosen)
    assert [each.claim.prove.__name__ for each in found] == ["dies", "dies", "first", "second"]
    assert [each.verdict.kind for each in found] == ["fails", "fails", "exact", "statistical"]
    assert found[0].verdict.detail == "its process ended (exit code 3)"
    assert found[3].verdict.derived == "8"


def test_progress_is_told(work):
    by_name, _ = work
    chosen, told = [by_name["first"], by_name["second"]], []
    list(claims.check(chosen, jobs=2, watch=told.append))
    assert all(each.total == 2 for each in told)
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert {claim for each in told for claim in each.running} == set(chosen)
    told.clear()
    list(claims.check(chosen, watch=told.append))
    assert [(each.done, each.total, each.running) for each in told] == [
        (0, 2, (chosen[0],)), (1, 2, (chosen[1],)),
    ]  # fmt: skip


def in_module(module, *seconds):
    """Claims of a module that take so long each."""
    made = []
    for number, time in enumerate(seconds):

        def prove(): ...

        prove.__module__, prove.__name__ = module, f"claim{number}"
        made.append((Claim("000", str(number), "t", prove, False), time))
    return made


def test_half_begin_with_what_is_long_and_half_with_what_is_short():
    timed = [
        *in_module("short", 1, 2), *in_module("long", 5, 9, 5), *in_module("middle", 8),
        *in_module("brief", 0.5),
    ]  # fmt: skip
    seconds = {f"{claim.source} {claim.name}": time for claim, time in timed}
    queue = running._Queue([claim for claim, _ in timed], Costs(seconds))

    def taken(module, quick):
        claim = queue.next(module, quick)
        return claim and (claim.prove.__module__, claim.equation)

    assert [taken("", False), taken("", True)] == [("long", "1"), ("brief", "0")]
    assert [taken("long", False), taken("brief", True)] == [("long", "2"), ("short", "0")]
    assert [taken("short", True), taken("short", True)] == [("short", "1"), ("middle", "0")]
    assert [claim.equation for claim in queue.claims] == ["0"]
    assert taken("middle", True) == ("long", "0")
    assert taken("long", False) is None


def test_time_left_goes_by_what_claims_cost_and_by_how_fast_they_are_proven():
    timed = in_module("module", 10, 20, 60)
    chosen = [claim for claim, _ in timed]
    costs = Costs({f"{claim.source} {claim.name}": time for claim, time in timed})
    assert costs.left(chosen) == 90
    assert costs.left(chosen, jobs=2) == 60  # what is left last is not shared out
    assert costs.left(chosen[1:2], {chosen[2]: 45.0}, jobs=2) == 20
    assert costs.left([], {chosen[2]: 70.0}) == 0
    costs.learn(Outcome(chosen[0], FULL, 25.0))
    assert costs.left(chosen[1:]) == pytest.approx(80 * (25 + TRUST) / (10 + TRUST))
    assert Costs().of(replace(chosen[0], title="never timed")) == GUESS[False]


def test_the_table_of_costs_is_of_claims_that_there_are(tmp_path):
    book = {key(each) for each in claims.claims()}
    assert set(shipped()) <= book, "python tests/support/timing.py writes the table anew"
    assert 0.9 * len(book) < len(shipped())
    target, each = tmp_path / "claims.json", {"source": "000", "name": "a.b", "seconds": 1.234}
    for counted, told in (({}, 1.2), ({"processor": 0.5678}, 0.57)):
        target.write_text(json.dumps({"claims": [each | counted]}), "utf-8")
        assert json.loads(table(recorded(target))) == {"000 a.b": told}


SCRIPT = """
import sys
sys.path.insert(0, {samples!r})
import sample_work
from derivations import claims, cli, report
from derivations.claims import store as kept
kept.source_hash = lambda: "of one version"
names = {names!r}
found = {{each.prove.__name__: each for each in claims.in_module("sample_work")}}
claims.claims = lambda _: [found[name] for name in names]
report.ledgers = lambda _: ({{}}, [])
sys.exit(cli.main(["check", "--jobs", "2", "--report", {report!r}]))
"""


def start(tmp_path, names):
    script = tmp_path / "run_check.py"
    script.write_text(
        "if __name__ == '__main__':\n"
        + "".join(
            f"    {line}\n"
            for line in SCRIPT.format(
                samples=str(SAMPLES), names=names, report=str(tmp_path / "report")
            ).splitlines()
        ),
        encoding="utf-8",
    )
    return subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.fixture
def go_on(work, tmp_path, monkeypatch, capsys):
    """`wickgarten check` of the claims of these names, in this process: its status and output."""
    by_name, _ = work
    monkeypatch.setattr(kept, "source_hash", lambda: "of one version")
    monkeypatch.setattr(report, "ledgers", lambda _: ({}, []))

    def check(names, *arguments):
        monkeypatch.setattr(claims, "claims", lambda _: [by_name[name] for name in names])
        status = cli.main(
            ["check", "--jobs", "1", "--report", str(tmp_path / "report"), *arguments]
        )
        return status, capsys.readouterr().out

    return check


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches processes by Linux's pidfd")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_ends_at_once_and_the_next_check_goes_on(work, tmp_path, go_on, how):
    _, notes = work
    stopped = start(tmp_path, ["first", "second", "waits"])
    lines = sorted(stopped.stdout.readline() for _ in range(2))
    assert ["first" in lines[0], "second" in lines[1]] == [True, True]
    workers = [int(line.split()[1]) for line in notes.read_text(encoding="utf-8").splitlines()]
    watched = {os.pidfd_open(pid) for pid in workers}
    if how == signal.SIGINT:
        os.killpg(stopped.pid, how)  # as a terminal does
    else:
        stopped.send_signal(how)
    _, err = stopped.communicate(timeout=300)
    while watched:
        ended, _, _ = select.select(watched, [], [], 60)
        assert ended, "a process outlived the check"
        watched -= set(ended)
        for each in ended:
            os.close(each)
    if how == signal.SIGINT:
        assert stopped.returncode == 130
        assert err.splitlines()[-1] == "wickgarten: interrupted"
        assert "2 verdicts are kept in" in err
    assert not (tmp_path / "report").exists()
    assert len(list((tmp_path / "report.partial").iterdir())) == 2

    status, out = go_on(["first", "second"])
    assert status == 0
    assert "2 claims: 1 exact, 1 statistical" in out
    assert sorted(set(proven(notes)) - {"waits"}) == ["first", "second"]
    assert proven(notes).count("first") == proven(notes).count("second") == 1
    assert not (tmp_path / "report.partial").exists()
    assert (tmp_path / "report" / "index.html").is_file()


@pytest.mark.parametrize(("arguments", "times"), [((), 0), (("--fresh",), 1)])
def test_fresh_proves_all_again(work, tmp_path, go_on, arguments, times):
    by_name, notes = work
    list(claims.check([by_name["first"]], kept=Kept(tmp_path / "report.partial")))
    status, _ = go_on(["first"], *arguments)
    assert (status, proven(notes)) == (0, ["first"] * (1 + times))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_second_check_reads_ensembles_back_and_comes_to_the_same(work, tmp_path, jobs):
    by_name, notes = work
    chosen, shelf = [by_name["draws"], by_name["first"]], Shelf(tmp_path / "ensembles")
    first, second, other = (
        claims.in_order(claims.check(chosen, seed, jobs, shelf=shelf), chosen) for seed in (3, 3, 4)
    )
    assert [each.verdict for each in first] == [each.verdict for each in second]
    assert first[0].verdict != other[0].verdict
    tallies = [[(each.ensembles.drawn, each.ensembles.read) for each in run] for run in
               (first, second, other)]  # fmt: skip
    assert tallies == [[(1, 0), (0, 0)], [(0, 1), (0, 0)], [(1, 0), (0, 0)]]
    assert proven(notes).count("draws") == 3


def test_a_check_says_what_it_read_back_and_fresh_draws_again(work, tmp_path, go_on, monkeypatch):
    monkeypatch.setenv("WICKGARTEN_CACHE", str(tmp_path / "cache"))
    told = []
    for arguments in ((), (), ("--fresh",)):
        status, out = go_on(["draws"], *arguments)
        record = json.loads((tmp_path / "report" / "claims.json").read_text(encoding="utf-8"))
        page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
        (line,) = (each for each in out.splitlines() if "ensembles" in each)
        assert status == 0
        assert line in page
        told.append((line.split(" that")[0], record["ensembles"]["read_back"]))
    assert told == [
        ("1 ensembles drawn", 0),
        ("0 ensembles drawn, 1 read back", 1),
        ("1 ensembles drawn", 0),
    ]


def test_processes_get_their_threads_and_the_user_s_choice_stays(monkeypatch):
    monkeypatch.setenv("WICKGARTEN_TEST_SET", "7")
    before = dict(os.environ)
    with running._environment({"WICKGARTEN_TEST_SET": 1, "WICKGARTEN_TEST_NEW": 2}):
        assert os.environ["WICKGARTEN_TEST_SET"] == "7"
        assert os.environ["WICKGARTEN_TEST_NEW"] == "2"
    assert dict(os.environ) == before


def test_jobs_are_the_cores_at_hand():
    assert 1 <= running.cores() <= (os.cpu_count() or 1)
