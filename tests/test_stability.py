"""The page that says what is public names the faces that there are, no more and no fewer."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import derive
import numeric

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`((?:derive|numeric)\.\w+)`", PAGE)) | {"derive", "numeric"}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_face_has_the_names_that_it_says(name):
    face = import_module(name)
    assert face.__all__
    assert len(set(face.__all__)) == len(face.__all__)
    for each in face.__all__:
        assert hasattr(face, each)


def test_the_page_names_every_face():
    """The modules that a room hands on, and the strategies, which import hypothesis."""
    handed_on = {
        f"{room.__name__}.{name}"
        for room in (derive, numeric)
        for name in room.__all__
        if isinstance(getattr(room, name), ModuleType)
    }
    assert handed_on | {"derive", "numeric", "numeric.testing"} == NAMED


def test_every_symbol_is_among_those_handed_on():
    declared = {
        name
        for name, value in vars(derive.symbols).items()
        if isinstance(value, derive.symbols.Symbol)
    }
    assert declared <= set(derive.symbols.__all__)
