"""Emitted modules: write them, load them, and every option that numba gets, in one place.

A module is Python source that needs numpy and numba alone. It is a file, never a string that is
executed, because numba's on-disk cache finds compiled code by the file; the file's stem holds the
hash of its text, so a changed module never meets another's compiled code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType

from platformdirs import user_cache_path

from derive.errors import InputError
from derive.work.caches import constant

PRELUDE = """\
import math

import numba
import numpy as np

KEPT = __name__ != "__main__"  # what a script compiled, another script would take for its own
scalar = numba.njit(
    error_model="numpy", fastmath={"contract"}, forceinline=True, cache=KEPT
)  # called in loops
driver = numba.njit(error_model="numpy", fastmath={"contract"}, cache=KEPT)  # loops, sums in order
quadrature = numba.njit(
    error_model="numpy", fastmath={"contract", "reassoc"}, cache=KEPT
)  # sums in any order
"""
"""The beginning of an emitted module: its imports, and the decorators of its functions."""

_log = logging.getLogger(__name__)
_loading = threading.RLock()
_loaded: dict[str, ModuleType] = {}
"""Never emptied: numba imports a module by its name when it loads its compiled code."""


def write(content: str | bytes, path: str | os.PathLike[str]) -> Path:
    """Put `content` at `path`: written aside, then renamed, so that no reader sees half of it."""
    target = Path(path)
    handle, aside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(aside, 0o644)
        os.replace(aside, target)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    return target


def load(source: str, stem: str) -> ModuleType:
    """Import emitted source as the module `<stem>_<hash>`, from the cache if it is there.

    The same source gives the same module object. Where the cache can't be used, a directory of
    this process alone stands in, and compiled code is then not kept.

    Raises:
        InputError: if `stem` can't begin a module's name.
    """
    name = module_name(source, stem)
    with _loading:
        if name not in _loaded:
            _loaded[name] = _import_cached(name, source)
        return _loaded[name]


def module_name(source: str, stem: str) -> str:
    """`<stem>_<hash>`, the name under which `load` imports this source."""
    if not (stem.isidentifier() and stem.isascii()):
        raise InputError("stem", stem, "letters, digits and underscores, as in a module's name")
    return f"{stem}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def cache_directory() -> Path:
    """Where emitted modules are kept: $WICKGARTEN_CACHE, else the user's cache directory."""
    if given := os.environ.get("WICKGARTEN_CACHE"):
        return Path(given)
    return user_cache_path("wickgarten", appauthor=False, opinion=False)


def _import_cached(name: str, source: str) -> ModuleType:
    try:
        path = _ensure(cache_directory() / f"{name}.py", source)
        _discard_unreadable(path)
        return _import(name, path)
    except (OSError, RuntimeError, EOFError, ImportError, ValueError) as problem:
        _log.warning("the cache can't be used (%s); compiled code will not be kept", problem)
    return _import(name, write(source, _private_directory() / f"{name}.py"))


def _ensure(path: Path, source: str) -> Path:
    """The file with this source; one that is right is left alone, and its compiled code with it."""
    try:
        if path.read_text(encoding="utf-8") == source:
            return path
    except (OSError, UnicodeDecodeError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(source, path)


def _discard_unreadable(path: Path) -> None:
    """Remove numba's files for this module if one of them was cut short: numba would raise.

    Each is a pickle, which ends in a full stop.
    """
    kept = list((path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]"))
    if any(file.read_bytes()[-1:] != b"." for file in kept):
        for file in kept:
            file.unlink(missing_ok=True)


@constant("modules of this process are there")
def _private_directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="wickgarten-"))


def _import(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
