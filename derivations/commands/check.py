"""`wickgarten check`: prove the book, go on where it was stopped, and write the report."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from derive.errors import check_installed
from derive.work.progress import SLOW
from derive.work.resources import duration

from . import rows

if TYPE_CHECKING:
    from derivations.claims import Outcome
    from derivations.claims.workers import Progress

BOOK = (
    "jinja2",
    "latex2mathml",
    "markdown_it",
    "matplotlib",
    "mdit_py_plugins",
    "sklearn",
)
"""Imports of the book and its report beyond `derive` and `numeric`: the extra `book`."""
CLAIM = ("source", "equation", "title", "verdict", "detail")
"""The columns of a claim in a row."""
SELDOM = 30.0
"""Seconds between two lines of progress in a log."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("chapters", nargs="*", metavar="CHAPTER", help="a source, such as 000")
    rows.arguments(command, "a row for each claim", "claims and ledgers")
    command.add_argument("--report", metavar="DIR", default="report", help="pages and figures")
    command.add_argument("--jobs", type=int, help="processes; by default one for each core")
    command.add_argument("--strict", action="store_true", help="a weak claim is no success")
    command.add_argument("--seed", type=int, default=0, help="of every ensemble")
    command.add_argument(
        "--fresh",
        action="store_true",
        help="draw every ensemble again, and prove again what a stopped check has kept",
    )


def run(options: argparse.Namespace) -> int:
    """0 if every claim holds and every ledger can be read, else 1."""
    check_installed("check", "book", *BOOK)
    from derivations.claims import workers

    jobs = options.jobs if options.jobs is not None else min(workers.cores(), workers.MOST_JOBS)
    if jobs > 1:
        workers.warm_up()
    from derivations import claims, report
    from derivations.claims import kept as ensembles
    from derivations.claims.reference import Reference
    from derivations.claims.store import Kept

    chosen = claims.claims(options.chapters)
    report.check_directory(options.report)
    kept = Kept(f"{Path(options.report).resolve()}.partial")
    kept.check()
    if options.fresh:
        kept.clear()
    shelf = ensembles.shelf(fresh=options.fresh)
    ledger, faults = report.ledgers(options.chapters or claims.CHAPTERS)
    shown = _Line()
    outcomes, reference = [], Reference()
    try:
        for outcome in claims.check(
            chosen,
            options.seed,
            jobs,
            kept=kept,
            shelf=shelf,
            seconds=report.seconds_before(options.report),
            watch=shown.progress,
        ):
            outcomes.append(outcome)
            reference.measure()
            shown.clear()
            print(report.line(outcome), flush=True)
    except KeyboardInterrupt:
        if kept.count:
            shown.clear()
            print(
                f"{kept.count} verdicts are kept in {kept.directory}: the same command goes on",
                file=sys.stderr,
            )
        raise
    finally:
        shown.clear()
    book = report.Book(claims.in_order(outcomes, chosen), ledger, options.seed, reference.seconds)
    print("\n".join([report.summary(book), *report.ledger_lines(book), *faults]))
    rows.are_written(options, CLAIM, map(claim_row, book.outcomes), ["csv"])
    if options.json is not None:
        report.write_json(book, options.json)
    written = report.write_directory(book, options.report)
    kept.clear()
    shelf.trim()
    print(f"report: {written / report.INDEX}")
    print(report.last(book))
    return 0 if book.holds and not faults and not (options.strict and book.weak) else 1


def claim_row(outcome: Outcome) -> tuple[str, ...]:
    """The cells of `CLAIM`."""
    claim, verdict = outcome.claim, outcome.verdict
    return claim.source, claim.equation, claim.title, verdict.kind, verdict.detail


class _Line:
    """One line on a terminal that the next one overwrites; elsewhere a line now and then."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.told = -math.inf
        self.terminal = sys.stderr.isatty()

    def progress(self, now: Progress) -> None:
        """Show what is being proven, how far it is, since when, and for how long."""
        at = time.monotonic()
        minutes, seconds = divmod(int(at - self.start), 60)
        text = f"{now.done}/{now.total} claims  {minutes}:{seconds:02}"
        if now.left >= SLOW:
            text += f", about {duration(now.left)} left"
        if self.terminal:
            names = ", ".join(f"{claim.equation} {claim.title}" for claim in now.running)
            self._overwrite(f"{text}  {names}"[: shutil.get_terminal_size().columns - 1])
        elif at - self.told > SELDOM and now.left >= SLOW:
            self.told = at
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Make place for a line that stays."""
        if self.terminal:
            self._overwrite("")

    def _overwrite(self, text: str) -> None:
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
