"""The page of training experiments that were run larger than in the book, from their records.

wickgarten figure 000:8 --full --data mnist5k --run docs/figures/trained/000-8 --ensembles networks
python docs/trained_page.py docs/figures/trained docs/howto/trained.md
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from derivations.files import FIGURE as RECORD
from derivations.files import write_text
from derivations.ledger import figures
from derivations.report.sources import SOURCES
from derive.errors import InputError

_HEAD = """\
# Results of training experiments

This page shows how the papers' statements on trained networks fare when we
[train such networks](figure.md), at the size of `--full`. Each section has the command that repeats
the figure, its verdicts, its pictures and their numbers.

| word | meaning |
|---|---|
| reduced size | the statements hold at the stated size, and nothing is claimed of another |
| not reproduced | at least one statement is marked NOT or NOT SHOWN |
| NOT | the networks do not bear out the statement |
| NOT SHOWN | there are too few networks to decide; of tests that count pairs only |
| n, L, C_W, η | width, depth, variance of the weights times the fan-in, learning rate |
| A for B | A in this run, B in the paper |
| 356 of 384 pairs | of pairs of networks, so many have what is stated |
| p | chance of as many pairs if both kinds were alike; 0.01 or less counts as shown |
| ratio, margin | interval of the ratio of two means; how far from 1 it may reach |
| would notice | difference that is detected in nine of ten cases; of a ratio, half its interval |
| tensorial descent | descent with a rate for biases and one for weights; ordinary descent has one |
| gap | of Daneshmand et al.: how far the representations of a batch are from orthogonal |
| (6) | their initialization, layer by layer, that makes representations more orthogonal |
| clipping, λ | their (29): a matrix's gradient is at most λ times the matrix, by Frobenius norms |

* Figures that train the same networks share them through `--ensembles`.
* Margins are those of the book, and were set before any of these runs.
* Claims that are compared with theory alone, at initialization or in the first epochs, are only in
  the book.
* Processor seconds are of one thread on a busy two-core x86-64 machine. Networks that an earlier
  figure trained are read back, not trained again.
"""
_LEFT = "Not recorded at this size:"


def page(directory: Path, shown_from: str) -> str:
    """The page's text.

    Arguments:
        directory: with a folder for each figure, as `wickgarten figure --run` leaves it, of what is
            kept of it: `figure.json` and the pictures with their numbers.
        shown_from: that directory as the page has it.

    Raises:
        InputError: where there is none, or one that is not whole.
    """
    sections = sorted(_figure(path, shown_from) for path in directory.glob(f"*/{RECORD}"))
    if not sections:
        raise InputError("directory", str(directory), f"folders of figures, each with {RECORD}")
    left = _left({(source, number) for source, number, _ in sections})
    return "\n".join([_HEAD, *left, *(text for *_, text in sections)])


def _left(recorded: Iterable[tuple[str, int]]) -> list[str]:
    """Which figures that train networks are not among these."""
    names = [
        each.name
        for each in figures.drawn()
        if any(claim.images for claim in each.claims) and (each.source, each.number) not in recorded
    ]
    return [textwrap.fill(f"{_LEFT} {', '.join(names)}.", 100) + "\n"] if names else []


def _figure(path: Path, shown_from: str) -> tuple[str, int, str]:
    """A figure's source, number and section."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        whole = record.get("full") == 1 and "claims" in record
        section = _section({**record, "folder": path.parent.name}, shown_from) if whole else ""
        source, number = str(record["source"]), int(record["figure"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError("directory", str(path), "records of `wickgarten figure`") from None
    if not whole:
        raise InputError("directory", str(path), "whole figures at their full size")
    return source, number, section


def _section(record: Mapping[str, Any], shown_from: str) -> str:
    """One figure: the command, each verdict with what was run, and the pictures."""
    name = f"{record['source']}:{record['figure']}"
    data = "" if record["data"] == "digits" else f" --data {record['data']}"
    seed = f" --seed {record['seed']}" if record["seed"] else ""
    folder = record["folder"]
    lines = [
        f"## Figure {record['figure']} of {_authors(record['source'])}",
        "",
        f"    wickgarten figure {name} --full{data}{seed} --run {folder} --ensembles networks",
        "",
    ]
    trained = [each for each in record["claims"] if each.get("size")]
    for each in trained:
        lines += [
            f"**{each['equation']}**, {each['title']}: *{each['verdict']}*, {each['derived']}.",
            "",
            "| size of the run | processor seconds |",
            "|---|---:|",
            f"| {each['size']} | {each['processor']:.0f} |",
            "",
            *(f"- {statement}" for statement in each["detail"].split("; ")),
            "",
        ]
    stems = [each.removesuffix(".svg") for each in record["files"] if each.endswith(".svg")]
    for stem in (each for each in stems if "initial" not in each):
        path = f"{shown_from}/{folder}/{stem}"
        lines += [f"![{name}]({path}.svg)", "", f"{{download}}`Its numbers <{path}.csv>`", ""]
    return "\n".join(lines)


def _authors(source: str) -> str:
    """The surnames of a source's authors, and its year."""
    return re.sub(r"\b[A-Z]\. ", "", SOURCES[source][1])


def main(argv: Sequence[str]) -> int:
    """Write the page; 2, with a line on stderr, where that cannot be."""
    try:
        if len(argv) != 2:
            raise InputError("arguments", " ".join(argv), "a directory of figures, and the page")
        directory, made = map(Path, argv)
        shown_from = Path(os.path.relpath(directory, made.parent)).as_posix()
        write_text(page(directory, shown_from), made, "page")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
