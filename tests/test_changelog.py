"""`changes/`: sentences that wait for a release, and the script that gathers them."""

from __future__ import annotations

import datetime
import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DAY = datetime.date(2026, 1, 2)

_spec = importlib.util.spec_from_file_location("gather", ROOT / "changes" / "gather.py")
gather = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(gather)

OLD = "# Changes\n\n## 0.10.0, 2025-01-01\n\n- Before.\n"


def test_a_new_version_comes_first():
    text = gather.gathered(OLD, "0.1", ["One\nsentence.\n", "Two."], DAY)
    wanted = "# Changes\n\n## 0.1, 2026-01-02\n\n- One sentence.\n- Two.\n\n## 0.10.0, 2025-01-01\n"
    assert text == wanted + "\n- Before.\n"


def test_a_version_that_is_there_is_added_to():
    assert gather.gathered(OLD, "0.10.0", ["After."], DAY) == OLD + "- After.\n"
    assert gather.gathered(OLD, "0.10.0", [], DAY) == OLD


def test_long_sentences_are_folded():
    text = gather.gathered(OLD, "0.10.0", ["word " * 60], DAY)
    lines = text.splitlines()[5:]
    assert len(lines) > 2
    assert all(len(line) <= gather.WIDTH for line in lines)
    assert all(line.startswith("  word") for line in lines[1:])


def test_files_are_gathered_by_kind_and_removed(tmp_path):
    (tmp_path / "changes").mkdir()
    for name in ("CHANGELOG.md", "pyproject.toml", "changes/README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("b.fixed", "a.fixed", "z.added"):
        (tmp_path / "changes" / f"{name}.md").write_text(f"About {name}.\n", encoding="utf-8")
    gather.main(tmp_path)
    text = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert text.endswith("\n- About z.added.\n- About a.fixed.\n- About b.fixed.\n")
    assert [path.name for path in (tmp_path / "changes").iterdir()] == ["README.md"]


def test_those_that_wait_can_be_gathered(tmp_path):
    assert all(path.name.count(".") == 2 for path in gather.fragments(ROOT / "changes"))
    (tmp_path / "topic.improved.md").write_text("Better.", encoding="utf-8")
    with pytest.raises(ValueError, match=r"topic\.improved\.md: wanted"):
        gather.fragments(tmp_path)
