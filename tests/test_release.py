"""The release: an sdist and a wheel that hold what they should, and a wheel that works alone.

The wheel is installed with all that it asks for into an empty environment, from the package index.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LEFT_BEHIND = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "_build", "*.egg-info", "report", "report.partial"
)

SMOKE = """
import pathlib, sys
import derive, numeric, wickgarten
assert wickgarten.flow is numeric.flow
assert "site-packages" in derive.__file__, derive.__file__
from derive import Network, Orthogonal, activations, cite, recursion
assert str(recursion("V", Orthogonal()).single_input()).startswith("V(ℓ+1) = C_W**2*(V*")
table = numeric.flow(Network(activations.tanh, Orthogonal()), [1.0, 0.5], 3, ["K", "V"])
assert table["V"].shape == (3,)
net = Network(activations.tanh, Orthogonal())
sampled = numeric.simulate(net, [1.0, 0.5], 4, 2, 50, tensors="K")
assert numeric.compare(table[["K"]].isel(layer=[0]), sampled).rows
assert "pennington2018" in cite("002")
assert list(pathlib.Path(derive.__file__).parents[1].glob("derivations/ledger/*.toml"))
assert "hypothesis" not in sys.modules
print("works")
"""


def requirement(text):
    return re.match(r"[\w.-]+", text)[0].lower().replace("_", "-")


def test_the_constraints_cover_what_is_asked_for():
    """Every dependency, those of the extras too, has one version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = [requirement(line) for line in lines]
    assert len(set(pinned)) == len(pinned)
    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", line) for line in lines)
    extras = PROJECT["optional-dependencies"].values()
    asked = {requirement(each) for group in (PROJECT["dependencies"], *extras) for each in group}
    assert asked - {"wickgarten"} <= set(pinned)


def test_the_oldest_versions_are_those_that_are_asked_for():
    """Each bound of the core and the book, as the release that it names."""
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").split()
    oldest = {requirement(line): line.partition("==")[2] for line in lines}
    extras = PROJECT["optional-dependencies"]
    bounds = [*PROJECT["dependencies"], *extras["plot"], *extras["book"]]
    for bound in (each for each in bounds if not each.startswith("wickgarten")):
        least = bound.partition(">=")[2]
        assert re.fullmatch(rf"{re.escape(least)}(\.0)*", oldest[requirement(bound)]), bound


def test_the_extras_are_there():
    extras = set(PROJECT["optional-dependencies"])
    assert {"plot", "book", "cuda", "dask", "docs", "test", "dev"} <= extras
    versions = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python ::" in each}
    assert versions == {"3", "3.11", "3.12", "3.13"}


def test_the_change_log_has_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {PROJECT['version']}" in text
    assert f"version: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def call(*words, where, **more):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **more,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel made from it."""
    pytest.importorskip("build", reason="the package `build` is not installed")
    where = tmp_path_factory.mktemp("release")
    source = where / "source"
    shutil.copytree(ROOT, source, ignore=LEFT_BEHIND)
    shutil.copytree(ROOT / "derivations" / "report", source / "derivations" / "report")
    words = [sys.executable, "-m", "build", "--outdir", where / "dist", source]
    code, out, errors = call(*words, where=where, timeout=600)
    if code and "No matching distribution" in out + errors:
        pytest.skip("no package index can be reached, for setuptools")
    assert code == 0, (out + errors)[-3000:]
    (sdist,) = (where / "dist").glob("*.tar.gz")
    (wheel,) = (where / "dist").glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
def test_they_hold_what_they_should(built):
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    for room in ("derive", "numeric", "derivations", "wickgarten"):
        assert {f"{room}/py.typed", f"{room}/__init__.py"} <= inside
    assert "derive/sources.bib" in inside
    for path in (ROOT / "derivations").rglob("*"):
        if path.suffix in {".toml", ".css", ".html", ".jinja"} and "__pycache__" not in path.parts:
            assert path.relative_to(ROOT).as_posix() in inside
    assert {name.partition("/")[0].partition("-")[0] for name in inside} == {
        "derive",
        "numeric",
        "derivations",
        "wickgarten",
    }
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "constraints.txt"):
        assert name in inside
    for name in ("docs/conf.py", "docs/howto/kernels.md", "tests/test_release.py"):
        assert name in inside
    assert not any("__pycache__" in name for name in inside)


def install(python, what, where):
    how = ["-m", "pip", "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt"]
    code, out, errors = call(python, *how, what, where=where, timeout=1200)
    if code and "No matching distribution" in out + errors:
        pytest.skip("no package index can be reached, for what the wheel needs")
    assert code == 0, (out + errors)[-3000:]


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(built, tmp_path):
    _, wheel = built
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    install(python, wheel, tmp_path)
    command = tmp_path / "empty" / "bin" / "wickgarten"
    for words, expected in (
        ([command, "--help"], "COMMAND"),
        ([command, "derive", "K", "--single"], "K(ℓ+1) = C_W*⟨σ²⟩ + C_b"),
        ([command, "kernel", "K", "-o", tmp_path / "k.py"], "k.py"),
        ([python, tmp_path / "k.py"], "layer"),
        ([python, "-c", SMOKE], "works"),
    ):
        code, out, errors = call(*words, where=tmp_path, timeout=600)
        assert code == 0, (words, out[-2000:], errors[-2000:])
        assert expected in out
    check = [command, "check", "004", "--report", tmp_path / "report"]
    code, out, errors = call(*check, where=tmp_path, timeout=600)
    assert (code, out) == (2, "")
    assert "wickgarten[book]" in errors
    install(python, f"{wheel}[book]", tmp_path)
    code, out, errors = call(*check, where=tmp_path, timeout=600)
    assert code == 0, (out[-2000:], errors[-2000:])
    assert "exact" in out
    assert (tmp_path / "report" / "index.html").is_file()


def test_the_pictures_of_the_docs_are_compact():
    pictures = list((ROOT / "docs" / "figures").glob("*.svg"))
    assert pictures
    for path in pictures:
        text = path.read_text(encoding="utf-8")
        assert "<metadata" not in text, path
        assert not re.search(r'\b(?:d|x|y)="[^"]*\.\d{4}', text), path
