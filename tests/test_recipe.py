"""The conda recipe says what `pyproject.toml` says, and rattler-build renders it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipe" / "recipe.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture
def recipe():
    yaml = pytest.importorskip("yaml", reason="the extra `dev` is not installed")
    return yaml.safe_load(RECIPE.read_text(encoding="utf-8"))


def test_it_is_of_the_same_package(recipe):
    project = PROJECT["project"]
    assert recipe["context"]["version"] == project["version"]
    assert recipe["about"]["license"] == project["license"]
    assert recipe["about"]["summary"] == project["description"]
    scripts = [f"{name} = {place}" for name, place in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_it_asks_for_the_same(recipe):
    minimum = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert recipe["context"]["python_min"] == minimum
    python, *run = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert [each.replace(" ", "") for each in run] == PROJECT["project"]["dependencies"]
    (backend,) = PROJECT["build-system"]["requires"]
    assert backend in [each.replace(" ", "") for each in recipe["requirements"]["host"]]


def test_it_imports_every_room(recipe):
    rooms = {
        each.rstrip("*") for each in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    }
    assert set(recipe["tests"][0]["python"]["imports"]) == rooms


def test_rattler_build_renders_it():
    rattler = pytest.importorskip("rattler_build", reason="py-rattler-build is not installed")
    (variant,) = rattler.Stage0Recipe.from_file(RECIPE).render(rattler.VariantConfig())
    assert "wickgarten" in str(variant.recipe.package.name)
