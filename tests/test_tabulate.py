"""`docs/benchmarks.md` is what the kept results say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

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
    (row,) = tabulate.rows(made)
    assert row == (
        *("a", "5.00e-01", "slow", "2.00e+00", "4"),
        *("2026-01-02", "x86_64, 4 threads, Python 3.11.7"),
    )


def test_ensembles_are_compared_by_time_and_variance():
    made = run(
        result("a", 1.0, time_variance=2.0),
        result("a", 0.1, peer="fast", time_variance=5.0),
        result("a", 0.1, peer="of another kind"),
    )
    ((*_, peer, theirs, times, _, _),) = tabulate.rows(made)
    assert (peer, theirs, times) == ("fast", "5.00e+00", "2.5")


def test_the_newest_comes_first():
    old, new = (
        run(result("a", 1.0), result("a", 2.0, peer="p"), day=day)
        for day in ("2025-01-01", "2026-01-01")
    )
    page = tabulate.page([old, new])
    assert -1 < page.find("2026-01-01") < page.find("2025-01-01")


def test_a_first_call_stands_beside_what_is_wanted():
    times = {"processor": 0.4321, "imports": 1.0, "all": 2.0, "wanted": 1, "earlier": 12.3}
    made = run(result("first flow", 0.9, **times), result("b", 1.0))
    (row,) = tabulate.first_calls(made)
    assert row[:5] == ("first flow", "0.43", "1", "12", "2026-01-02")
    assert "| first flow | 0.43 | 1 | 12 |" in tabulate.page([made])
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
