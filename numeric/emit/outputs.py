"""Output files: paths are checked before the work, and files are written completely or not at all.

Devices and pipes are written to directly.
"""

from __future__ import annotations

import io
import keyword
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from derive.errors import InputError

from .. import checks
from . import modules

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIGURES = ".svg", ".pdf", ".png"
_IMPORTED = "collections", "functools", "itertools", "math", "numba", "numpy", "typing"
"""Names that an emitted module imports, which it may not have."""


def check_parent(path: object, argument: str = "path") -> Path:
    """The path with links followed, in a directory that is there and can be written.

    Raises:
        InputError: for anything else. Missing directories are not made: a typing error would
            become a tree.
    """
    target = Path(os.path.realpath(checks.path(argument, path)))
    parent = target.parent
    if not os.path.isdir(parent):
        wanted = f"a place in a directory that exists, unlike {parent}"
        raise InputError(argument, str(path), wanted)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(argument, str(path), f"a place that can be written, unlike {parent}")
    return target


def check_file(path: object, argument: str = "path") -> Path:
    """Check that `path` can be written: a new or regular file, a device or a pipe."""
    if is_stream(path, argument):
        if not os.access(checks.path(argument, path), os.W_OK):
            raise InputError(argument, str(path), "a device or pipe with permission to write")
        return Path(checks.path(argument, path))
    return _check_regular(path, argument)


def is_stream(path: object, argument: str = "path") -> bool:
    """True for a character device or a pipe, such as /dev/stdout, which is never replaced."""
    try:
        mode = os.stat(checks.path(argument, path)).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _check_regular(path: object, argument: str) -> Path:
    target = check_parent(path, argument)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise InputError(argument, str(path), "a new file, or one that is no directory or device")
    return target


def check_module(path: object, argument: str = "path") -> Path:
    """`check_file`, for a Python module that can be imported by its name."""
    target = _check_regular(path, argument)
    stem = Path(os.fspath(path)).stem  # type: ignore[call-overload]
    if (
        not os.fspath(path).endswith(".py")  # type: ignore[call-overload]
        or not stem.isidentifier()
        or keyword.iskeyword(stem)
        or stem in _IMPORTED
    ):
        wanted = f"a module's file such as kernel.py, none of {', '.join(_IMPORTED)}"
        raise InputError(argument, str(path), wanted)
    return target


def make_directory(path: object, argument: str = "path") -> Path:
    """A directory, made if it is not there; what is above it is not made.

    Raises:
        InputError: where it cannot be made, for a link to nothing, and for what is no directory.
    """
    text = checks.path(argument, path)
    if os.path.islink(text) and not os.path.exists(text):
        raise InputError(argument, str(path), "a directory: this is a link to nothing")
    if not os.path.isdir(text):
        check_parent(text, argument)
        try:
            os.mkdir(text)
        except OSError as error:
            wanted = f"a directory, or the name of a new one ({error.strerror})"
            raise InputError(argument, str(path), wanted) from None
    return Path(text)


def write(content: str | bytes, path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Write `content` to `path`, completely or not at all; to a device or pipe directly.

    Returns the given path.

    Raises:
        InputError: where that cannot be, on a full disk for one.
    """
    target = check_file(path, argument)
    try:
        if is_stream(target):
            _write_through(content.encode() if isinstance(content, str) else content, target)
        else:
            modules.write(content, target)
    except OSError as error:
        wanted = f"a file that can be written ({error.strerror})"
        raise InputError(argument, str(path), wanted) from None
    return Path(path)


def check_figure(path: str | os.PathLike[str], argument: str = "path") -> str:
    """The format of a figure's file: svg, pdf or png; InputError for another ending."""
    ending = Path(path).suffix.lower()
    if ending not in _FIGURES:
        raise InputError(argument, str(path), f"a file that ends in {', '.join(_FIGURES)}")
    return ending[1:]


def write_figure(figure: Figure, path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Write a figure of Matplotlib, the same bytes each time; return the given path."""
    image, kind = io.BytesIO(), check_figure(path, argument)
    figure.savefig(image, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return write(image.getvalue(), path, argument)


def _write_through(content: bytes, target: Path) -> None:
    """Write to a device or pipe; OSError at once if nobody reads the pipe."""
    opened = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(opened, True)
    with os.fdopen(opened, "wb") as stream:
        stream.write(content)
