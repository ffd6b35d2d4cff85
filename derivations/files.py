"""Text files that appear whole: written aside, then renamed."""

from __future__ import annotations

import os

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
