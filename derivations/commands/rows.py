"""What a command found as rows of numbers: --csv and --json, alike for every command."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ..files import STDOUT, check_file, tell, write_text

Cell: TypeAlias = "str | int | float"


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare --csv and --json."""
    for name, what in (("--csv", "a row for each number"), ("--json", "a list of the same rows")):
        command.add_argument(
            name,
            metavar="FILE",
            nargs="?",
            const=STDOUT,
            help=f"write what was found there, {what}; - or no FILE is stdout",
        )


def check(given: argparse.Namespace) -> None:
    """Raise InputError where a file cannot be written."""
    check_file("--csv", given.csv)
    check_file("--json", given.json)


def are_written(
    given: argparse.Namespace, header: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> bool:
    """Write the rows to the files that were asked for; False where there is none."""
    asked = [name for name in ("csv", "json") if getattr(given, name) is not None]
    found = list(rows) if asked else []
    for name in asked:
        path = getattr(given, name)
        text = as_csv(header, found) if name == "csv" else _as_json(header, found)
        write_text(text, path, f"--{name}")
        tell(path)
    return bool(asked)


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
