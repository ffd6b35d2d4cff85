"""Text files that appear whole: written aside, then renamed."""

from __future__ import annotations

import os

FIGURE = "figure.json"
"""In a directory of `wickgarten figure`: what is drawn, and what came of it."""


def write_text(text: str, path: str | os.PathLike[str], argument: str = "path") -> None:
    """Put the text at `path`; InputError, naming the option, where that cannot be written."""
    from numeric.emit import outputs  # noqa: PLC0415

    outputs.write(text, path, argument)


def make_directory(argument: str, path: str | os.PathLike[str]) -> None:
    """Make this directory, but none above it, if it is not there; or InputError."""
    from numeric.emit import outputs  # noqa: PLC0415

    outputs.make_directory(path, argument)


def check_parent(argument: str, path: str | os.PathLike[str]) -> None:
    """InputError, naming the option, where nothing could be put at `path`."""
    from numeric.emit import outputs  # noqa: PLC0415

    outputs.check_parent(path, argument)


def check_file(argument: str, path: str | os.PathLike[str] | None) -> None:
    """InputError, naming the option, where no file could be at `path`; None is no option."""
    from numeric.emit import outputs  # noqa: PLC0415

    if path is not None:
        outputs.check_file(path, argument)
