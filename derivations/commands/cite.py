"""The command `wickgarten cite`: BibTeX."""

from __future__ import annotations

import argparse

from . import rows


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument(
        "which",
        nargs="*",
        metavar="WHICH",
        default=["all"],
        help='a source, such as 000; a key, such as collins2017; or "all"',
    )
    rows.arguments(command, "a row for each entry")


def run(given: argparse.Namespace) -> int:
    """Print the entries; 0."""
    from derive.citations import cite

    found = cite(*given.which)
    if not rows.are_written(given, ("key", "bibtex"), list(found.entries.items())):
        print(found)
    return 0
