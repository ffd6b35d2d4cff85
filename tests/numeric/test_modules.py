"""Emitted modules: one object per source, a cache that survives what happens to caches."""

import os
import subprocess
import sys

import pytest

from derive.errors import InputError
from numeric.emit import modules

SOURCE = modules.PRELUDE + "\n\n@scalar\ndef double(x):\n    return 2.0 * x\n"
PROGRAM = f"""
from numeric.emit import modules
module = modules.load({SOURCE!r}, "doubling")
assert module.double(3.0) == 6.0
print(module.__file__, sum(module.double.stats.cache_hits.values()))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WICKGARTEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(modules, "_loaded", {})
    return tmp_path / "cache"


def run(cache, count=1):
    environment = {**os.environ, "WICKGARTEN_CACHE": str(cache)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    outputs = []
    for process in processes:
        out, err = process.communicate()
        assert process.returncode == 0, err
        path, hits = out.split()
        outputs.append((path, int(hits)))
    return outputs


def test_the_same_source_is_the_same_module(cache):
    first = modules.load(SOURCE, "doubling")
    assert modules.load(SOURCE, "doubling") is first
    assert first.__name__ == modules.module_name(SOURCE, "doubling")
    assert first.__file__ == str(cache / f"{first.__name__}.py")
    other = modules.load(SOURCE + "\n", "doubling")
    assert other is not first
    assert other.__name__ != first.__name__


def test_compiled_code_is_kept_and_found_by_concurrent_processes(cache):
    assert {path for path, _ in run(cache, count=2)} == {
        str(cache / f"{modules.module_name(SOURCE, 'doubling')}.py")
    }
    assert [hits for _, hits in run(cache)] == [1]


def test_damaged_files_are_made_again(cache):
    """One after the other: what one process makes again is what the next finds damaged."""
    run(cache)
    stem = modules.module_name(SOURCE, "doubling")
    patterns = {"index": "__pycache__/*.nbi", "data": "__pycache__/*.nbc", "source": f"{stem}.py"}
    for damage, pattern in patterns.items():
        (file,) = cache.glob(pattern)
        file.write_bytes(file.read_bytes()[:-7])
        ((path, hits),) = run(cache)
        assert hits == 0 or damage == "source", damage
        assert path == str(cache / f"{stem}.py")
        assert (cache / f"{stem}.py").read_text(encoding="utf-8") == SOURCE


def test_a_cache_that_cannot_be_a_directory_is_replaced(cache, caplog):
    cache.write_text("a file, where a directory should be")
    module = modules.load(SOURCE, "doubling")
    assert module.double(2.0) == 4.0
    assert not module.__file__.startswith(str(cache))
    assert "cache can't be used" in caplog.text


def test_an_error_in_the_source_is_raised_and_leaves_no_module(cache):
    with pytest.raises(SyntaxError):
        modules.load("def broken(:\n", "broken")
    assert modules.module_name("def broken(:\n", "broken") not in sys.modules


def test_write_replaces_at_once_and_leaves_nothing_behind(tmp_path):
    path = modules.write("a = 1\n", tmp_path / "module.py")
    assert path.read_text() == "a = 1\n"
    with pytest.raises(UnicodeEncodeError):
        modules.write("\ud800", path)
    assert path.read_text() == "a = 1\n"
    assert [file.name for file in path.parent.iterdir()] == ["module.py"]


@pytest.mark.parametrize("stem", ["", "two words", "../up", "a.b", "é"])
def test_stems_must_begin_a_module_name(stem):
    with pytest.raises(InputError, match="stem"):
        modules.module_name(SOURCE, stem)


@pytest.mark.skipif(sys.platform != "linux", reason="XDG_CACHE_HOME is a convention of Linux")
def test_the_cache_directory_is_the_users_unless_another_is_given(monkeypatch, tmp_path):
    monkeypatch.delenv("WICKGARTEN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert modules.cache_directory() == tmp_path / "wickgarten"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert modules.cache_directory() == tmp_path / ".cache" / "wickgarten"
    monkeypatch.setenv("WICKGARTEN_CACHE", str(tmp_path / "given"))
    assert modules.cache_directory() == tmp_path / "given"
