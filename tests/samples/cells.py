"""Cells of a table of V and G^{1} against ensembles, drawn until they resolve enough, resumable.

A cell has a name, columns of the table and an ensemble at each of two widths, whose `part(k)` are
what its k-th networks came to and whose `table(parts)` is as that of `simulate`; the two widths are
extrapolated by a line in 1/n. A file for each cell keeps what its chunks came to.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray
from innovated import Part

from derive import Network
from numeric import Comparison, compare, flow

DEPTH = 6
FIRST = 1
"""Chunks of each width to begin with."""


class Ensemble(Protocol):
    """Networks of one width."""

    def part(self, number: int) -> Part:
        """What the networks of this chunk come to."""

    def table(self, parts: Sequence[Part]) -> xarray.Dataset:
        """K, G1 and V of layers 1 … `DEPTH`."""


class Cell(Protocol):
    """What a row of the table is about."""

    @property
    def net(self) -> Network:
        """The network."""

    @property
    def inputs(self) -> np.ndarray:
        """Its inputs."""

    @property
    def name(self) -> str:
        """What its file is called."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The first columns of its row."""

    def ensembles(self) -> dict[int, Any]:
        """An `Ensemble` of each width, the narrow one first."""


def file_name(text: str) -> str:
    """A text as a file is called."""
    return "".join(c if c.isalnum() else "-" for c in text)


class Kept:
    """What the chunks of a cell came to, in a file that is whole or not there."""

    def __init__(self, folder: Path, cell: Cell, widths: Sequence[int]) -> None:
        self._path, self.cell = path_of(folder, cell), cell
        self.parts: dict[int, list[Part]] = {n: [] for n in widths}
        self.seconds = 0.0
        if self._path.exists():
            read = json.loads(self._path.read_text())
            self.seconds = read["seconds"]
            for n in widths:
                for each in read["parts"][str(n)]:
                    values, covariances = np.array(each["values"]), np.array(each["covariances"])
                    self.parts[n].append(Part(each["draws"], values, covariances))

    def save(self) -> None:
        """Written aside, then renamed."""
        parts = {
            n: [
                {
                    "draws": each.draws,
                    "values": each.values.tolist(),
                    "covariances": each.covariances.tolist(),
                }
                for each in own
            ]
            for n, own in self.parts.items()
        }
        aside = self._path.with_suffix(".part")
        aside.write_text(json.dumps({"seconds": self.seconds, "parts": parts}))
        os.replace(aside, self._path)


def path_of(folder: Path, cell: Cell) -> Path:
    """The file of a cell."""
    return folder / f"{cell.name}.json"


@dataclass(frozen=True)
class Result:
    """A comparison, and what it resolves: of V and G1 as shares of the largest component of each
    layer, and of G1 as one of K."""

    comparison: Comparison
    V: float
    G1: float
    of_K: float

    def reached(self, of: str, goal: float) -> bool:
        """Whether the goal is."""
        return max(self.V, self.of_K if of == "K" else self.G1) <= goal


def judged(cell: Cell, ensembles: dict[int, Any], kept: Kept) -> Result:
    """Theory beside what there is."""
    theory = flow(cell.net, cell.inputs, DEPTH, ["K", "G1", "V"])
    later = slice(2, DEPTH)
    # K at n is K + G1/n: it is one number with G1, which says it times n
    tables = [
        each.table(kept.parts[n]).drop_vars(["K", "K_se"]).sel(layer=later)
        for n, each in ensembles.items()
    ]
    found = compare(theory.sel(layer=later), tables, degree=1)
    K = {int(at): float(abs(each).max()) for at, each in theory["K"].groupby("layer")}
    rows = {name: [row for row in found.rows if row.tensor == name] for name in ("V", "G1")}
    shares = {name: max(row.share for row in own) for name, own in rows.items()}
    of_K = max(found.bound * row.se / K[int(row.layer)] for row in rows["G1"])
    return Result(found, shares["V"], shares["G1"], of_K)


def drawn(cell: Cell, folder: Path, seconds: float, of: str, goal: float) -> tuple[Result, Kept]:
    """The cell, with as many chunks as it takes, or as the processor seconds allow."""
    begun, ensembles = time.process_time(), cell.ensembles()
    narrow, wide = ensembles
    kept = Kept(folder, cell, (narrow, wide))
    before = kept.seconds

    def more(n: int, count: int) -> None:
        for _ in range(count):
            kept.parts[n].append(ensembles[n].part(len(kept.parts[n])))
            kept.seconds = before + time.process_time() - begun
            kept.save()

    for n in ensembles:
        more(n, max(0, FIRST - len(kept.parts[n])))
    found = judged(cell, ensembles, kept)
    while not found.reached(of, goal) and kept.seconds - before < seconds:
        more(wide, 1)
        more(narrow, len(kept.parts[wide]) // 2 - len(kept.parts[narrow]))
        found = judged(cell, ensembles, kept)
    return found, kept


def row(found: Result, kept: Kept) -> str:
    """A cell's row of the table."""
    verdict = "agrees" if found.comparison.agrees else "DISAGREES"
    shares = (f"{100 * each:.1f} %" for each in (found.V, found.G1, found.of_K))
    numbers = f"{found.comparison.worst.z:.1f}", f"{found.comparison.bound:.1f}"
    counts = " + ".join(str(len(own)) for own in kept.parts.values())
    every = *kept.cell.columns, verdict, *numbers, *shares, counts, f"{kept.seconds:.0f}"
    return f"| {' | '.join(every)} |"


def run(cells: Callable[[], Sequence[Cell]], about: str | None, goal: float) -> None:
    """The command: draw the cells, or tell of those that there are."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", action="store_true", help="print what there is")
    parser.add_argument("--of", choices=("K", "G1"), default="G1", help="what G1 is resolved to")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a processor, for each cell")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    for cell in cells():
        if not options.table:
            found, kept = drawn(cell, options.folder, options.seconds, options.of, goal)
        elif path_of(options.folder, cell).exists():
            ensembles = cell.ensembles()
            kept = Kept(options.folder, cell, tuple(ensembles))
            found = judged(cell, ensembles, kept)
        else:
            continue
        print(row(found, kept), flush=True)
