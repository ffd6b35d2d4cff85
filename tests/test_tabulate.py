"""`docs/benchmarks.md` is what the kept results say."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_spec = importlib.util.spec_from_file_location(
    "tabulate", ROOT / "tests" / "benchmarks" / "tabulate.py"
)
tabulate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tabulate)


def result(group, seconds, **extra):
    return {"group": group, "stats": {"median": seconds}, "extra_info": extra}


def run(*results, day="2026-01-02"):
    info = {"machine": "x86_64", "python_version": "3.11.7", "cpu": {"count": 4}}
    return {"datetime": f"{day}T03:04:05", "machine_info": info, "benchmarks": [*results]}


def test_a_peer_is_set_against_its_group_in_the_same_run():
    made = run(
        result("a", 0.5),
        result("a", 2.0, peer="slow"),
        result("b", 1.0, peer="alone"),
        result("c", 1),
    )
    assert [*tabulate.rows(made)] == [("a", "s", "500 ms", "slow", "2 s", "4")]


def test_ensembles_are_compared_by_time_and_variance():
    made = run(
        result("a", 1.0, time_variance=2.0),
        result("a", 0.1, peer="fast", time_variance=5.0),
        result("a", 0.1, peer="of another kind"),
    )
    ((_, unit, *found),) = tabulate.rows(made)
    assert (unit, found) == ("s × variance", ["2.00e+00", "fast", "5.00e+00", "2.5"])


@pytest.mark.parametrize(
    ("seconds", "text"), [(25.94, "25.9 s"), (0.0179, "17.9 ms"), (1.6e-6, "1.6 µs"), (0.0, "0 ns")]
)
def test_seconds_have_a_unit(seconds, text):
    assert tabulate.shown(seconds, "s") == text


def test_a_peer_that_failed_is_a_row_with_its_reason_and_no_number():
    results = result("a", 0.5), result("a", 2.0, peer="wrong"), result("a", 1.0, peer="right")
    reason = "AssertionError: a | b"
    failed = [{"group": "a", "peer": "wrong", "reason": reason}]
    failed.append({"group": "b", "peer": "absent", "reason": "ImportError: no"})
    found = [*tabulate.rows(run(*results) | {"failed": failed})]
    assert found == [
        ("a", "s", "500 ms", "right", "1 s", "2"),
        ("a", "s", "500 ms", "wrong", r"failed: AssertionError: a \| b", ""),
        ("b", "", "", "absent", "failed: ImportError: no", ""),
    ]


def test_the_newest_commit_and_machine_have_the_table_and_older_ones_are_apart():
    def of(day, commit, peer):
        made = run(result("a", 1.0), result("a", 2.0, peer=peer), day=day)
        return made | {"commit_info": {"id": commit}}

    made = ("2025-01-01", "0ld", "p"), ("2026-01-01", "newest", "q"), ("2025-12-31", "newest", "r")
    runs = [of(*each) for each in made]
    page = tabulate.page(runs)
    newest, older = page.split(tabulate.EARLIER_TITLE)
    assert "commit newest, 2026-01-01" in newest
    assert [peer for peer in "pqr" if f"| {peer} |" in newest] == ["q", "r"]
    assert [peer for peer in "pqr" if f"| {peer} |" in older] == ["p"]
    assert "| 0ld | 2025-01-01 |" in older
    assert tabulate.EARLIER_TITLE not in tabulate.page(runs[1:])


CONFTEST = ROOT / "tests" / "benchmarks" / "conftest.py"
PEERS = """\
import pytest

@pytest.mark.benchmark(group="a")
def test_here(benchmark):
    benchmark(int)

@pytest.mark.benchmark(group="a")
@pytest.mark.peer("absent", "no_such_module")
def test_absent(benchmark):
    benchmark(int)

@pytest.mark.benchmark(group="a")
@pytest.mark.peer("wrong")
def test_wrong(benchmark):
    benchmark(int)
    assert not "see /home/someone/file"

@pytest.mark.benchmark(group="a")
@pytest.mark.peer("right")
def test_right(benchmark):
    benchmark(int)
"""


@pytest.mark.parametrize(("more", "status"), [("", 0), ("def test_ours(): assert False", 1)])
def test_a_peer_that_fails_does_not_stop_the_others(tmp_path, more, status):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_peers.py").write_text(PEERS + more, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    command += ["--rootdir", str(tmp_path), f"--benchmark-json={tmp_path / 'run.json'}", "."]
    command += ["--benchmark-max-time=0.001", "--benchmark-min-rounds=1"]
    alone = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    done = subprocess.run(
        command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout
    made = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert [(each["group"], each["peer"]) for each in made["failed"]] == [
        ("a", "absent"), ("a", "wrong")
    ]  # fmt: skip
    assert made["failed"][0]["reason"] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert "/home" not in made["failed"][1]["reason"]
    assert [row[3] for row in tabulate.rows(made)] == ["right", "absent", "wrong"]


def test_a_first_call_stands_beside_what_is_wanted():
    times = {"processor": 0.4321, "imports": 1.0, "all": 2.0, "wanted": 1, "earlier": 12.3}
    made = run(result("first flow", 0.9, **times), result("b", 1.0))
    (row,) = tabulate.first_calls(made)
    assert row == ("first flow", "0.43", "1", "12")
    assert "| first flow | 0.43 | 1 | 12 |" in tabulate.page([made])
    new = run(result("first report", 0.9, **(times | {"earlier": None})))
    assert [*tabulate.first_calls(new)] == [("first report", "0.43", "1", "–")]
    assert tabulate.FIRST_TITLE not in tabulate.page([run(result("b", 1.0))])


def test_the_page_is_that_of_the_kept_results(tmp_path):
    tabulate.main(ROOT / "benchmarks", tmp_path / "page.md")
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page
    assert page.count("| 20") > 0


def test_what_is_kept_names_no_machine():
    kept = list((ROOT / "benchmarks").rglob("*.json"))
    assert kept
    for path in kept:
        made = json.loads(path.read_text(encoding="utf-8"))
        assert set(made["machine_info"]) & {"node", "release"} == set()
        assert set(made["commit_info"]) <= {"id", "time", "dirty"}
