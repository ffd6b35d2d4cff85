"""The page of training experiments that were run larger than in the book, from their records.

wickgarten figure 000:8 --full --data mnist5k --run docs/figures/trained/000-8 --ensembles networks
python -m derivations.report.experiments docs/figures/trained docs/howto/trained.md
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from derivations.files import write_text
from derive.errors import InputError

RECORD = "figure.json"
_HEAD = """\
# Training experiments, recorded

The [figures that train networks](figure.md) at the size that `--full` has, each with the command
that repeats it, to the same bits on the same machine, and with its numbers. Figures that train the
same networks share them by `--ensembles`. A verdict is on the size that stands there, and on no
other; a sentence that is not borne out is NOT so, or NOT SHOWN where there are too few networks to
decide. Margins are the book's, set before any of these were run. Processor seconds are of one
thread of a busy two-core x86-64 machine, with what an earlier figure has trained read back.
"""


def page(directory: Path, shown_from: str) -> str:
    """The page's text.

    Arguments:
        directory: with a folder for each figure, as `wickgarten figure --run` leaves it, of what is
            kept of it: `figure.json` and the pictures with their numbers.
        shown_from: that directory as the page has it.

    Raises:
        InputError: where there is none, or one that is not whole.
    """
    records = sorted(
        (_read(path) for path in directory.glob(f"*/{RECORD}")),
        key=lambda each: (each["source"], each["figure"]),
    )
    if not records:
        raise InputError("directory", str(directory), f"folders of figures, each with {RECORD}")
    return "\n".join([_HEAD, *(_section(each, shown_from) for each in records)])


def _read(path: Path) -> Mapping[str, Any]:
    record: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if record.get("full") != 1 or "claims" not in record:
        raise InputError("directory", str(path), "whole figures at their full size")
    return {**record, "folder": path.parent.name}


def _section(record: Mapping[str, Any], shown_from: str) -> str:
    """One figure: the command, each verdict with what was run, and the pictures."""
    name = f"{record['source']}:{record['figure']}"
    data = "" if record["data"] == "digits" else f" --data {record['data']}"
    seed = f" --seed {record['seed']}" if record["seed"] else ""
    folder = record["folder"]
    lines = [
        f"## {name}",
        "",
        f"    wickgarten figure {name} --full{data}{seed} --run {folder} --ensembles networks",
        "",
    ]
    trained = [each for each in record["claims"] if each.get("size")]
    for each in trained:
        lines += [
            f"**{each['equation']}**, {each['title']}: *{each['verdict']}*, {each['derived']}. "
            f"{each['size']}; {each['processor']:.0f} processor seconds.",
            "",
            *(f"- {statement}" for statement in each["detail"].split("; ")),
            "",
        ]
    stems = [each.removesuffix(".svg") for each in record["files"] if each.endswith(".svg")]
    for stem in (each for each in stems if "initial" not in each):
        path = f"{shown_from}/{folder}/{stem}"
        lines += [f"![{name}]({path}.svg)", "", f"{{download}}`Its numbers <{path}.csv>`", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    directory, made = map(Path, sys.argv[1:])
    shown_from = Path(os.path.relpath(directory, made.parent)).as_posix()
    write_text(page(directory, shown_from), made, "page")
