"""The English of the manual: what `docs/measure.py` counts, and the bounds that hold today."""

import importlib.util
import statistics

import pytest

import derive

OPENINGS = 0
"""Docstrings of modules, functions and classes that open with "What" or "Whether", at most."""
PAGE = """\
# A title is no sentence

One sentence, in
two lines. Another (eq. 3.2) with `some code` and $a + b$, e.g. here!

```pycon
>>> code.is_none()
```

* an item
* another item. With two sentences.

| a table | is none |
|---|---|

$$
z = x
$$

    an indented command

The last [link](page.md) ends:
"""


@pytest.fixture(scope="module")
def measure():
    path = derive.__file__.replace("derive/__init__.py", "docs/measure.py")
    spec = importlib.util.spec_from_file_location("measure", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def manual(measure):
    return [sentence for page in measure.pages() for sentence in measure.sentences(page)]


def test_prose_is_cut_into_sentences(measure, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    found = [(each.line, each.words) for each in measure.sentences(page)]
    assert found == [(3, 5), (4, 9), (10, 2), (11, 2), (11, 3), (22, 4)]
    assert measure.has_example(page)


def test_sentences_are_short(measure, manual):
    assert len(manual) > 1000
    assert statistics.median(each.words for each in manual) <= 14
    assert [each for each in manual if each.words > measure.MOST] == []


def test_docstrings_open_with_the_thing_itself(measure):
    assert len(list(measure.openings())) <= OPENINGS


def test_guides_have_examples(measure):
    folders = ("docs/howto/", "docs/reference/")
    guides = [page for page in measure.pages() if measure.named(page).startswith(folders)]
    assert [measure.named(page) for page in guides if not measure.has_example(page)] == []
