"""The faults that `tests/mutation/plant.py` plants: what they are, and that one is found."""

import ast
import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def plant():
    path = ROOT / "tests" / "mutation" / "plant.py"
    spec = importlib.util.spec_from_file_location("plant", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["plant"] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    yield module
    del sys.modules["plant"]


SOURCE = """
def area(a, b):
    \"\"\"a + 1 in words.\"\"\"
    if a < 0:
        raise ValueError("a - 1")
    return 2 * a - f(a, b)


def latex(a):
    return a + 1
"""


def test_faults_are_those_of_formulas(plant):
    found = {
        (each.operator, each.planted(SOURCE).splitlines()[5])
        for each in plant.faults("derive/area.py", SOURCE)
    }
    assert found == {
        ("sign", "    return (2 * a + f(a, b))"),
        ("term left out", "    return (2 * a)"),
        ("term left out", "    return (f(a, b))"),
        ("factor left out", "    return (2) - f(a, b)"),
        ("factor left out", "    return (a) - f(a, b)"),
        ("number", "    return (3) * a - f(a, b)"),
        ("number", "    return (1) * a - f(a, b)"),
        ("arguments", "    return 2 * a - (f(b, a))"),
    }


def test_a_fault_of_other_text_is_refused(plant):
    fault = plant.faults("derive/area.py", SOURCE)[0]
    with pytest.raises(ValueError, match="the source has changed"):
        fault.planted(SOURCE.replace("2 * a", "3 * a"))


def test_a_hundred_faults_are_drawn_from_as_many_lines_and_can_be_read(plant):
    chosen = plant.drawn(plant.COUNT)
    assert len({(each.path, each.line) for each in chosen}) == plant.COUNT
    assert chosen[:30] == plant.drawn(30)
    assert not any(each.path.startswith(plant.LEFT_OUT) for each in chosen)
    for each in chosen:
        source = (ROOT / each.path).read_text()
        assert ast.dump(ast.parse(each.planted(source))) != ast.dump(ast.parse(source)), each


def test_the_list_is_found_again_in_the_source(plant):
    """Where a listed line is gone so is its fault: a new list is due long before all are."""
    listed = plant.listed()
    real = [each for each in listed.values() if not each.equivalent]
    assert 0.9 * plant.COUNT <= len(real) <= plant.COUNT
    for each in listed.values():
        source = (ROOT / each.path).read_text()
        assert ast.dump(ast.parse(each.planted(source))) != ast.dump(ast.parse(source)), each


def test_a_listed_fault_moves_with_its_line(plant, tmp_path):
    """The second of two equal lines, and the same further down; not where its text has changed."""
    small(tmp_path)
    place = tmp_path / "derive" / "half.py"
    twice = place.read_text() + "\n\ndef other(a):\n    return a / (1 + 1)\n"
    place.write_text(twice)
    fault = next(
        each
        for each in plant.faults("derive/half.py", twice)
        if each.line == 6 and each.operator == "sign"
    )
    entry = plant.entry_of(fault, tmp_path)
    kept = tmp_path / "list.jsonl"
    kept.write_text(json.dumps(entry | {"equivalent": "a reason"}) + "\n")
    place.write_text('"""Halves."""\n\n' + twice)
    (moved,) = plant.listed(tmp_path, kept).values()
    assert (moved.line, moved.before, moved.equivalent) == (8, "1 + 1", "a reason")
    assert moved.planted(place.read_text()).endswith("return a / ((1 - 1))\n")
    place.write_text(twice.replace("other(a):\n    return a", "other(a):\n    return 2 * a"))
    assert plant.listed(tmp_path, kept) == {}


def test_the_nearest_tests_come_first(plant):
    groups = plant.by_distance("derive/depth/criticality.py", ROOT)
    nearest = {"tests/derive/test_criticality.py", "tests/derive/test_layer_criticality.py"}
    assert set(groups[0][:2]) == nearest
    assert len(groups[0]) <= sum(map(len, groups))


def small(root):
    """A package with a formula, and a test of it."""
    (root / "derive").mkdir()
    (root / "derive" / "__init__.py").touch()
    (root / "derive" / "half.py").write_text("def half(a):\n    return a / (1 + 1)\n")
    (root / "tests" / "derive").mkdir(parents=True)
    test = "from derive.half import half\n\n\ndef test_half():\n    assert half(8) == 4\n"
    (root / "tests" / "derive" / "test_half.py").write_text(test)


def test_faults_are_found_kept_and_taken_up_again(plant, tmp_path, monkeypatch):
    """All but those of which half(8) is 4 as well; the source is right again afterwards."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # four processes need none
    small(tmp_path)
    source = (tmp_path / "derive" / "half.py").read_text()
    fault = next(each for each in plant.faults("derive/half.py", source) if each.operator == "sign")
    harmless = plant.Fault(
        "derive/half.py", 2, source.index("1 +"), source.index("1 +") + 1, "number", "1", "(1.0)"
    )
    results = {
        k: plant.tried(k, each, tmp_path, 60.0, 2) for k, each in ((1, fault), (2, harmless))
    }
    assert (tmp_path / "derive" / "half.py").read_text() == source
    assert [each.word for each in results.values()] == ["found", "SURVIVED"]
    assert results[1].stages == ("its examples", "nearest tests")
    kept = tmp_path / "kept.jsonl"
    plant.write(results, kept)
    assert plant.read(kept) == results
    assert len([json.loads(line) for line in kept.read_text().splitlines()]) == 2
    assert plant.report(results).startswith("2 faults, 1 found (1 by nearest tests)")
    assert "SURVIVED 2: derive/half.py:2: number: 1" in plant.report(results)
    known = plant.replace(results[2], fault=plant.replace(harmless, equivalent="1.0 is 1"))
    assert known.word == "equivalent"
    assert "1 equivalent, 0 left" in plant.report(results | {2: known})
