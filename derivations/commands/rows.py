"""Results of a command as rows of numbers: --csv and --json, alike for every command."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from ..files import STDOUT, check_file, tell, write_text

Cell: TypeAlias = "str | int | float"


BOTH = ("csv", "json")


def arguments(
    command: argparse.ArgumentParser,
    csv: str = "a row for each number",
    json: str = "a list of the same rows",
) -> None:
    """Declare --csv and --json.

    Arguments:
        csv, json: the contents of these files.
    """
    for name, what in (("--csv", csv), ("--json", json)):
        command.add_argument(
            name,
            metavar="FILE",
            nargs="?",
            const=STDOUT,
            help=f"write results there, {what}; - or no FILE is stdout",
        )


def check(given: argparse.Namespace) -> None:
    """Raise InputError, before the work, if --csv or --json names a file that cannot be written."""
    for name in BOTH:
        check_file(f"--{name}", getattr(given, name, None))


def are_written(
    given: argparse.Namespace,
    header: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    kinds: Iterable[str] = BOTH,
) -> bool:
    """Write the rows to the files that were asked for; False where there is none.

    Arguments:
        kinds: those of `BOTH` that have these rows; a command may write another JSON itself.
    """
    asked = [name for name in kinds if getattr(given, name) is not None]
    found = list(rows) if asked else []
    for name in asked:
        path = getattr(given, name)
        text = as_csv(header, found) if name == "csv" else _as_json(header, found)
        write_text(text, path, f"--{name}")
        tell(path)
    return bool(asked)


def leaves(value: object, name: str = "") -> Iterator[tuple[str, Cell]]:
    """The numbers and texts of nested JSON as rows, each with its path.

    >>> list(leaves({"widths": [8, 16], "agrees": True}))
    [('widths.0', 8), ('widths.1', 16), ('agrees', 'True')]
    """
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in parts:
            yield from leaves(each, f"{name}.{key}" if name else str(key))
    elif value is not None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        yield name, value if is_number else str(value)  # type: ignore[misc]


def as_csv(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A line for the header and one for each row; floats have all their digits."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(_shown, rows))
    return file.getvalue()


def _shown(row: Sequence[Cell]) -> list[str]:
    return [repr(float(cell)) if isinstance(cell, float) else str(cell) for cell in row]


def _as_json(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """An object for each row, without cells that are empty; what is not finite is text."""
    objects = [
        {name: _plain(cell) for name, cell in zip(header, row, strict=True) if cell != ""}
        for row in rows
    ]
    return json.dumps(objects, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(cell: Cell) -> Cell:
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell
