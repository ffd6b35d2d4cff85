"""The command `wickgarten cite`: BibTeX."""

from __future__ import annotations

import argparse


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument(
        "which",
        nargs="*",
        metavar="WHICH",
        default=["all"],
        help='a source, such as 000; a key, such as collins2017; or "all"',
    )


def run(given: argparse.Namespace) -> int:
    """Print the entries; 0."""
    from derive.citations import cite

    print(cite(*given.which))
    return 0
