"""`--plot FILE`: the figure of a command, in the format that the file's name ends in."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from derive.errors import check_installed

from ..files import check_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def argument(command: argparse.ArgumentParser, what: str) -> None:
    """Declare --plot, which draws this."""
    command.add_argument("--plot", metavar="FILE", help=f"draw {what} there, as SVG, PDF or PNG")


def check(given: argparse.Namespace) -> None:
    """Raise InputError, before the work, if --plot names a file that cannot be drawn."""
    path: str | None = getattr(given, "plot", None)
    if path is None:
        return
    from numeric.emit import outputs

    outputs.check_figure(path, "--plot")
    check_installed("--plot", "plot", "matplotlib")
    check_file("--plot", path)


def save(figure: Figure, path: str) -> None:
    """Write the figure, the same bytes each time, and print where it is."""
    from numeric.emit import outputs

    outputs.write_figure(figure, path, "--plot")
    print(path)
