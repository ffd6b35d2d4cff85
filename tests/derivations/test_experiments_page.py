"""The page of recorded training experiments is what their records say."""

import importlib.util
import json
from pathlib import Path

import pytest

import derive
from derivations.ledger import figures
from derive.errors import InputError

DOCS = Path(derive.__file__).parents[1] / "docs"
FIGURES = DOCS / "figures" / "trained"


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


experiments = loaded(DOCS / "trained_page.py")
RECORD, page = experiments.RECORD, experiments.page


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


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"full": 1, "claims": []}', "[" * 200_000])
def test_what_is_no_record_is_refused_in_a_line(text, tmp_path, capsys):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / RECORD).write_text(text, encoding="utf-8")
    made = tmp_path / "page.md"
    for words in ([], [str(tmp_path)], [str(tmp_path), str(made)], [str(tmp_path / "no"), "x"]):
        assert experiments.main(words) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not made.exists()


def test_figures_that_are_not_recorded_are_named():
    assert experiments._left([("000", 8)])[0].startswith("Not recorded at this size: 000:4, 000:5")
    training = [each for each in figures.drawn() if any(claim.images for claim in each.claims)]
    every = [(each.source, each.number) for each in training]
    assert len(every) == 17
    assert experiments._left(every) == []
    assert "000:3," not in experiments._left([])[0]
