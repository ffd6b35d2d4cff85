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
BY_CAPABILITY = "# Changes\n\n## 1.0\n\nFirst.\n\n### Layers\n\n- A.\n\n### Numbers\n\n- B.\n"


def added(*texts):
    return [gather.Fragment("topic", "added", text) for text in texts]


def test_a_new_version_comes_first():
    text = gather.gathered(OLD, "0.1", added("One\nsentence.\n", "Two."), DAY)
    wanted = "# Changes\n\n## 0.1, 2026-01-02\n\n- One sentence.\n- Two.\n\n## 0.10.0, 2025-01-01\n"
    assert text == wanted + "\n- Before.\n"


def test_a_version_that_is_there_is_added_to():
    assert gather.gathered(OLD, "0.10.0", added("After."), DAY) == OLD + "- After.\n"
    assert gather.gathered(OLD, "0.10.0", [], DAY) == OLD


def test_a_sentence_goes_under_the_heading_of_its_topic():
    found = [gather.Fragment("attention-keys", "added", "C."), *added("D.")]
    wanted = BY_CAPABILITY.replace("- A.", "- A.\n- C.").replace("- B.", "- B.\n- D.")
    assert gather.gathered(BY_CAPABILITY, "1.0", found, DAY) == wanted
    assert set(gather.HEADINGS) <= {
        line.removeprefix("### ")
        for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    }


def test_long_sentences_are_folded():
    text = gather.gathered(OLD, "0.10.0", added("word " * 60), DAY)
    lines = text.splitlines()[5:]
    assert len(lines) > 2
    assert all(len(line) <= gather.WIDTH for line in lines)
    assert all(line.startswith("  word") for line in lines[1:])


@pytest.mark.parametrize("is_first", [True, False])
def test_files_are_gathered_by_kind_and_removed(tmp_path, capsys, is_first):
    (tmp_path / "changes").mkdir()
    shutil.copy(ROOT / "changes" / "README.md", tmp_path / "changes")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.0"\n', encoding="utf-8")
    before = BY_CAPABILITY if is_first else f"{BY_CAPABILITY}\n## 0.9, 2025-01-01\n\n- Old.\n"
    (tmp_path / "CHANGELOG.md").write_text(before, encoding="utf-8")
    for name in ("b.fixed", "a.fixed", "z.added"):
        (tmp_path / "changes" / f"{name}.md").write_text(f"About {name}.\n", encoding="utf-8")
    gather.main(tmp_path)
    text = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    items = ["B.", "About z.added."] + ["About a.fixed.", "About b.fixed."] * (not is_first)
    assert text == before.replace("- B.", "- " + "\n- ".join(items))
    assert capsys.readouterr().out.count("dropped, fixed") == 2 * is_first
    assert [path.name for path in (tmp_path / "changes").iterdir()] == ["README.md"]


def test_those_that_wait_can_be_gathered(tmp_path):
    assert {each.kind for each in gather.fragments(ROOT / "changes")} <= set(gather.KINDS)
    (tmp_path / "topic.improved.md").write_text("Better.", encoding="utf-8")
    with pytest.raises(ValueError, match=r"topic\.improved\.md: wanted"):
        gather.fragments(tmp_path)
