"""The page of recorded training experiments is what their records say."""

import json
from pathlib import Path

import pytest

import derive
from derivations.report.experiments import RECORD, page
from derive.errors import InputError

DOCS = Path(derive.__file__).parents[1] / "docs"
FIGURES = DOCS / "figures" / "trained"


def test_the_page_is_written_from_the_records():
    written = (DOCS / "howto" / "trained.md").read_text(encoding="utf-8")
    assert page(FIGURES, "../figures/trained") == written


def test_every_picture_is_there_with_its_numbers():
    for path in FIGURES.glob(f"*/{RECORD}"):
        record = json.loads(path.read_text(encoding="utf-8"))
        shown = [name for name in record["files"] if name.startswith(("training", "batchnorm"))]
        assert shown
        assert {each.name for each in path.parent.iterdir()} == {RECORD, *shown}


def test_a_share_of_a_figure_is_not_recorded(tmp_path):
    with pytest.raises(InputError, match="folders of figures"):
        page(tmp_path, ".")
    (tmp_path / "000-8").mkdir()
    record = json.loads((FIGURES / "000-8" / RECORD).read_text(encoding="utf-8"))
    for change in ({"full": 0.5}, {"full": None}):
        text = json.dumps(record | change)
        (tmp_path / "000-8" / RECORD).write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="full size"):
            page(tmp_path, ".")
