"""`--plot FILE`: the figure of a command, in the format that the file's name ends in."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import TYPE_CHECKING

from derive.errors import InputError, check_installed

from ..files import check_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".pdf", ".png")


def argument(command: argparse.ArgumentParser, what: str) -> None:
    """Declare --plot, which draws this."""
    command.add_argument("--plot", metavar="FILE", help=f"draw {what} there, as SVG, PDF or PNG")


def check(path: str | None) -> None:
    """InputError, before the work, where no figure could be drawn at `path`; None is no option."""
    if path is None:
        return
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError("--plot", path, f"a file that ends in {', '.join(FORMATS)}")
    check_installed("--plot", "plot", "matplotlib")
    check_file("--plot", path)


def save(figure: Figure, path: str) -> None:
    """Write the figure, the same bytes each time, and print where it is."""
    from numeric.emit import outputs

    image, kind = io.BytesIO(), Path(path).suffix[1:].lower()
    figure.savefig(image, format=kind, metadata={"Date": None} if kind == "svg" else None)
    outputs.write(image.getvalue(), path, "--plot")
    print(path)
