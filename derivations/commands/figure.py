"""`wickgarten figure`: one figure of a source, as the book draws it or at its printed size."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derive.errors import InputError, check_installed
from derive.work.progress import say

from ..files import FIGURE as RECORD
from ..files import check_parent, make_directory, write_text
from . import rows
from .check import BOOK, CLAIM, claim_row
from .options import loaded

if TYPE_CHECKING:
    from derivations.claims import Outcome, Verdict
    from derivations.ledger.figures import SourceFigure

ENSEMBLES = "ensembles"
"""In a figure's directory: the runs."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument(
        "figure", nargs="?", metavar="SOURCE:NUMBER", help="such as 003:3; all are listed without"
    )
    command.add_argument(
        "--full", action="store_true", help="at the printed size, which may take long"
    )
    command.add_argument(
        "--share",
        type=float,
        metavar="S",
        help="with --full: draw only this share of the networks, to see how it goes",
    )
    command.add_argument(
        "--run",
        metavar="DIR",
        help="keep pictures, numbers and finished chunks there; the same command goes on",
    )
    command.add_argument(
        "--ensembles",
        metavar="DIR",
        help="keep finished chunks there instead: figures of the same networks share them",
    )
    command.add_argument("--seed", type=int, default=0, help="of every ensemble")
    command.add_argument(
        "--data",
        metavar="IMAGES",
        help="of a figure that trains networks: digits (the default), mnist5k, mnist:FOLDER or "
        "cifar10:FOLDER",
    )
    rows.arguments(command, "a row for each claim")


def run(options: argparse.Namespace) -> int:
    """0 if every claim about the figure holds, else 1.

    Raises:
        InputError: for bad options; for an ensemble that another process draws, or whose directory
            is damaged or cannot be written: that says nothing about a claim, and none is recorded.
    """
    check_installed("figure", "book", *BOOK)
    from derivations.claims import FALSE_ALARMS, Sampling
    from derivations.claims.kept import Runs
    from derivations.claims.workers import prove
    from derivations.ledger import figures
    from derivations.report import line
    from numeric import checks

    if options.figure is None:
        listed = [(each.name, claim.title) for each in figures.drawn() for claim in each.claims]
        if not rows.are_written(options, ("figure", "title"), listed):
            print("\n".join(_listed(figures.drawn())))
        return 0
    chosen = figures.figure(options.figure)
    share = _share(options)
    data = _data(options.data, chosen)
    seed = checks.seed(options.seed)
    run_ = f"figure-{chosen.source}-{chosen.number}" if options.run is None else options.run
    if options.ensembles is not None:
        _check_ensembles(options.ensembles, run_)
    make_directory("--run", run_)
    directory = Path(run_)
    ensembles = Path(options.ensembles or directory / ENSEMBLES)
    about = {"source": chosen.source, "figure": chosen.number, "full": share, "seed": seed}
    about |= {"data": data}
    _open(directory, about)
    if options.ensembles is not None:
        make_directory("--ensembles", ensembles)
    sampled = sum(each.sampled for each in chosen.claims)
    sampling = Sampling(seed, FALSE_ALARMS / max(1, sampled), share, data)
    outcomes = []
    for each in chosen.claims:
        told = {"began": _numbered(f"{chosen.name}, {each.name}")} if options.full else {}
        outcome = prove(each, sampling, Runs(ensembles, **told))
        outcomes.append(outcome)
        print(line(outcome), flush=True)
        print(
            textwrap.fill(
                _told(outcome.verdict), 98, initial_indent="    ", subsequent_indent="    "
            ),
            flush=True,
        )
    rows.are_written(options, CLAIM, map(claim_row, outcomes))
    for note in chosen.open:
        print(f"    not drawn, as it needs {note}")
    for path in _write(directory, about, outcomes):
        print(path)
    return 0 if all(outcome.verdict.holds for outcome in outcomes) else 1


def _share(options: argparse.Namespace) -> float | None:
    """Of the printed size's networks; None where that is not asked for."""
    share: float | None = options.share
    if share is None:
        return 1.0 if options.full else None
    if not options.full:
        raise InputError("--share", share, "none, without --full")
    if not 0 < share <= 1:
        raise InputError("--share", share, "above 0, and 1 at most")
    return share


def _data(given: str | None, chosen: SourceFigure) -> str:
    """The images, which are there and are what they should be."""
    from derivations.training.data import source

    if given is None:
        return "digits"
    images = source(given, "--data")
    if not any(each.images for each in chosen.claims):
        raise InputError("--data", given, f"none: {chosen.name} trains no networks")
    loaded(images)
    return given


def _listed(figures: Sequence[SourceFigure]) -> list[str]:
    """A line for each claim of each figure."""
    lines = []
    for each in figures:
        for number, claim in enumerate(each.claims):
            lines.append(f"{each.name if number == 0 else '':8}{claim.title}")
    return lines


def _check_ensembles(given: str, run_: str) -> None:
    """Refuse, before anything is made, what is no place for runs that figures share.

    Raises:
        InputError: for a directory that holds anything else, or the figure's own.
    """
    from numeric import checks
    from numeric.runs.directory import is_run

    checks.path("--ensembles", given)
    path, own = (Path(os.path.realpath(each)) for each in (given, run_))
    if own.is_relative_to(path):
        raise InputError("--ensembles", given, f"a directory that does not hold --run, {run_}")
    if not os.path.lexists(given):
        if path.parent != own:  # which is made first
            check_parent("--ensembles", given)
        return
    if not path.is_dir():
        raise InputError("--ensembles", given, "a directory, or the name of a new one")
    if other := next((each.name for each in sorted(path.iterdir()) if not is_run(each)), None):
        wanted = f"a new directory, or one of ensembles alone: it holds {other}"
        raise InputError("--ensembles", given, wanted)


def _open(directory: Path, about: Mapping[str, Any]) -> None:
    """Begin in an empty directory, or find in it the same figure.

    Raises:
        InputError: where it is of another figure, or of something else.
    """
    path = directory / RECORD
    if path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            found = {"data": "digits"} | found
            other = [f"{key} {found[key]}" for key in about if found[key] != about[key]]
        except (ValueError, TypeError, KeyError):
            other = [f"a {RECORD} that is none"]
        if other:
            wanted = f"a new directory, or that of the same command: it has {', '.join(other)}"
            raise InputError("--run", str(directory), wanted)
    elif any(directory.iterdir()):
        raise InputError("--run", str(directory), "a new directory, or an earlier figure's")
    else:
        write_text(json.dumps(about, indent=1) + "\n", path, "--run")


def _told(verdict: Verdict) -> str:
    """The comparison, and how it came out."""
    sides = f"{verdict.derived}; {verdict.printed}" if verdict.printed else verdict.derived
    return "; ".join(part for part in (sides, verdict.detail) if part)


def _write(directory: Path, about: Mapping[str, Any], outcomes: Sequence[Outcome]) -> list[Path]:
    """Each picture with its numbers, what was compared, and last the record of it all."""
    from derivations.pictures.drawn import drawn
    from derivations.report.record import recorded

    texts: dict[str, str] = {}
    for outcome in outcomes:
        for stem, picture in outcome.verdict.figures.items():
            made = drawn(picture)
            texts |= {f"{stem}.svg": made.svg, f"{stem}.csv": made.numbers}
        if outcome.verdict.table:
            texts[f"{outcome.claim.name}.txt"] = outcome.verdict.table + "\n"
    claims = [recorded(outcome) for outcome in outcomes]
    record = {**about, "version": version("wickgarten"), "files": sorted(texts), "claims": claims}
    texts[RECORD] = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    for name, text in texts.items():
        write_text(text, directory / name, "--run")
    return [directory / name for name in texts]


def _numbered(what: str) -> Callable[[], None]:
    """A function that says the number of the next ensemble."""
    numbers = count(1)
    return lambda: say(f"{what}: ensemble {next(numbers)}")
