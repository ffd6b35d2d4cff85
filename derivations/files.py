"""Text files that are complete or absent: written aside, then renamed. "-" is stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from derive.errors import InputError

FIGURE = "figure.json"
"""In a directory of `wickgarten figure`: what is drawn, and what came of it."""

STDOUT = "-"

_taken: ContextVar[TextIO | None] = ContextVar("_taken", default=None)
"""The real stdout, if a file of the running command goes there."""


@contextmanager
def stdout_shared() -> Iterator[None]:
    """Run a command: if one of its files goes to stdout, all other output goes to stderr."""
    given, token = sys.stdout, _taken.set(None)
    try:
        yield
        sys.stdout.flush()
        given.flush()
    finally:
        if _taken.get() is not None:
            sys.stdout = given
        _taken.reset(token)


def write_text(text: str, path: str | os.PathLike[str], argument: str = "path") -> None:
    """Put the text at `path`; InputError, naming the option, where that cannot be written."""
    from numeric.emit import outputs  # noqa: PLC0415

    out = _taken.get()
    if out is not None and _is_stdout(path):
        out.write(text)
    else:
        outputs.write(text, path, argument)


def tell(path: str | os.PathLike[str]) -> None:
    """Print the path of a file, unless it went to stdout."""
    if _taken.get() is None or not _is_stdout(path):
        print(path)


def make_directory(argument: str, path: str | os.PathLike[str]) -> None:
    """Make this directory, but none above it, if it is not there; or InputError."""
    from numeric.emit import outputs  # noqa: PLC0415

    outputs.make_directory(path, argument)


def check_parent(argument: str, path: str | os.PathLike[str]) -> None:
    """InputError, naming the option, where nothing could be put at `path`."""
    from numeric.emit import outputs  # noqa: PLC0415

    outputs.check_parent(path, argument)


def check_file(argument: str, path: str | os.PathLike[str] | None) -> None:
    """Raise InputError, which names the option, if `path` cannot be written; None is allowed.

    Only one file of a command may be stdout, "-" or /dev/stdout (`stdout_shared`).
    """
    from numeric.emit import outputs  # noqa: PLC0415

    if path is None:
        return
    if not _is_stdout(path):
        outputs.check_file(path, argument)
    elif _taken.get() is not None:
        raise InputError(argument, os.fspath(path), "at most one file on stdout")
    else:
        _taken.set(sys.stdout)
        sys.stdout = sys.stderr


def _is_stdout(path: str | os.PathLike[str]) -> bool:
    if os.fspath(path) == STDOUT:
        return True
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except (OSError, ValueError):
        return False
