"""Text files that appear whole: written aside, then renamed."""

from __future__ import annotations

import os
from pathlib import Path

from derive.errors import InputError


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Put the text at `path`; InputError where that cannot be written."""
    from numeric.modules import write  # noqa: PLC0415

    try:
        write(text, path)
    except OSError as error:
        raise InputError(
            "path", str(path), f"a file that can be written ({error.strerror})"
        ) from None


def check_writable(argument: str, path: str | os.PathLike[str]) -> None:
    """InputError, naming the argument, where nothing could be created at `path`."""
    parent = Path(path).resolve().parent
    while not parent.exists():
        parent = parent.parent
    if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
        raise InputError(argument, str(path), f"a place that can be written, unlike {parent}")
