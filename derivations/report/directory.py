"""A report's directory, which appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from derivations.files import check_parent, write_text
from derive.errors import InputError

from .book import Book
from .pages import MARK, pages
from .record import NAME, write_json

INDEX = "index.html"


def check_directory(directory: str | os.PathLike[str]) -> None:
    """InputError unless a report can go there: it is new, empty, or holds an earlier report."""
    target = Path(directory)
    wanted = "a new directory, or one with an earlier report"
    try:
        if target.exists() and not target.is_dir():
            raise InputError("report", str(directory), wanted)
        if target.is_dir() and any(target.iterdir()):
            index = target / INDEX
            if not (index.is_file() and MARK in index.read_text("utf-8", "replace")):
                raise InputError("report", str(directory), wanted)
    except OSError as error:
        raise InputError("report", str(directory), f"{wanted} ({error.strerror})") from None
    check_parent("report", directory)


def write_directory(book: Book, directory: str | os.PathLike[str]) -> Path:
    """Pages, figures with their numbers, and JSON; the directory of an earlier report is replaced.

    Raises:
        InputError: where the directory is not a report's, or can't be written.
    """
    check_directory(directory)
    target = Path(directory).resolve()
    try:
        return _replace(book, target)
    except OSError as error:
        wanted = f"a directory that can be written ({error.strerror})"
        raise InputError("report", str(directory), wanted) from None


def _replace(book: Book, target: Path) -> Path:
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    former = aside.with_name(aside.name + ".old")
    try:
        for name, text in pages(book).items():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            write_text(text, aside / name, "report")
        write_json(book, aside / NAME)
        aside.chmod(0o755)
        if target.exists():
            target.rename(former)
        aside.rename(target)
    finally:
        if former.exists() and not target.exists():
            former.rename(target)
        for leftover in (aside, former):
            shutil.rmtree(leftover, ignore_errors=True)
    return target
