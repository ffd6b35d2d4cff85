"""V and G^{1} of every shipped layer against ensembles, cell by cell, resumable.

    python tests/samples/layer_matrix.py DIR              # goes on where it was stopped
    python tests/samples/layer_matrix.py DIR --table      # what there is, as a table

A cell is a layer, σ, an ensemble of weights and whether there are biases; layers 2 to 6, two inputs
(of a convolution three positions), so that K_ab, G1_ab and V_(ab)(cd) of one input and of two are
in it. Ensembles of two widths, of which innovations take most of the chance out
(`numeric.verify.innovated`), are extrapolated by a line in 1/n. A cell is drawn until V resolves to
3 % of its largest component in each layer, and G^{1} to 3 % of that or, with `--of K`, of K.
A file for each cell keeps what its chunks of 8192 networks came to.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from derive import Gaussian, Network, Orthogonal, layers
from numeric import compare, flow
from numeric.tables.compare import Comparison
from numeric.verify.innovated import Innovated, Part, innovated

LAYERS = (
    "normalized(rms)",
    "residual(skip=1/2)",
    "gated(norm=rms)",
    "convolution(2, 3)",
    "residual(skip=1, norm=rms)",
    "normalized(layer)",
    "gated(skip=1/2, C=(1, 1, 1/4))",
    "residual(skip=1/2, norm=layer)",
)
SIGMAS = "tanh", "gelu", "relu"
WEIGHTS = {"Gaussian": Gaussian, "orthogonal": Orthogonal}
BIASES = 0.1, 0.0
C_W = 1.2
INPUTS = ((1.0, 0.5, -0.7), (0.3, 1.0, 0.6), (-0.5, 0.2, 0.9))
WIDTHS = (256, 1024)
DEPTH = 6
GOAL = 0.03
FIRST = 1
"""Chunks of each width to begin with."""


@dataclass(frozen=True)
class Cell:
    """A layer, σ, an ensemble of weights and C_b."""

    layer: str
    sigma: str
    weights: str
    C_b: float

    @property
    def net(self) -> Network:
        """The network, its first layer Gaussian."""
        weights = WEIGHTS[self.weights](C_W)
        return Network(self.sigma, weights, Gaussian(1), C_b=self.C_b, layer=self.layer)

    @property
    def inputs(self) -> np.ndarray:
        """Two inputs, or one of three positions."""
        return np.array(INPUTS[: 3 if layers.read(self.layer).positions else 2])

    @property
    def name(self) -> str:
        """What its file is called."""
        text = f"{self.layer} {self.sigma} {self.weights} {self.C_b:g}"
        return "".join(c if c.isalnum() else "-" for c in text)


def cells() -> list[Cell]:
    """All of them, such that any first ones are of many kinds."""
    every = [Cell(*each) for each in product(LAYERS, SIGMAS, WEIGHTS, BIASES)]
    inner = len(SIGMAS) * len(WEIGHTS) * len(BIASES)
    turn = [(k % inner * 5 + k // inner) % inner for k in range(len(every))]
    return [every[k] for k in sorted(range(len(every)), key=lambda k: (turn[k], k))]


class Kept:
    """What the chunks of a cell came to, in a file that is whole or not there."""

    def __init__(self, folder: Path, cell: Cell) -> None:
        self._path, self.cell = folder / f"{cell.name}.json", cell
        self.parts: dict[int, list[Part]] = {n: [] for n in WIDTHS}
        self.seconds = 0.0
        if self._path.exists():
            read = json.loads(self._path.read_text())
            self.seconds = read["seconds"]
            for n in WIDTHS:
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


@dataclass(frozen=True)
class Result:
    """A comparison, and what it resolves: of V and G1 as shares of the largest component of each
    layer, and of G1 as one of K."""

    comparison: Comparison
    V: float
    G1: float
    of_K: float

    def reached(self, of: str) -> bool:
        """Whether the goal is."""
        return max(self.V, self.of_K if of == "K" else self.G1) <= GOAL


def judged(cell: Cell, ensembles: dict[int, Innovated], kept: Kept) -> Result:
    """Theory beside what there is."""
    theory = flow(cell.net, cell.inputs, DEPTH, ["K", "G1", "V"])
    tables = [ensembles[n].table(kept.parts[n]) for n in WIDTHS]
    later = slice(2, DEPTH)
    # K at n is K + G1/n: it is one number with G1, which says it times n
    tables = [each.drop_vars(["K", "K_se"]).sel(layer=later) for each in tables]
    found = compare(theory.sel(layer=later), tables, degree=1)
    K = {int(at): float(abs(each).max()) for at, each in theory["K"].groupby("layer")}
    rows = {name: [row for row in found.rows if row.tensor == name] for name in ("V", "G1")}
    shares = {name: max(row.share for row in own) for name, own in rows.items()}
    of_K = max(found.bound * row.se / K[int(row.layer)] for row in rows["G1"])
    return Result(found, shares["V"], shares["G1"], of_K)


def prepared(cell: Cell) -> dict[int, Innovated]:
    """The ensembles of a cell."""
    return {n: innovated(cell.net, cell.inputs, n, DEPTH, seed=1) for n in WIDTHS}


def drawn(cell: Cell, folder: Path, seconds: float, of: str) -> Result:
    """The cell, with as many chunks as it takes, or as the processor seconds allow."""
    kept, begun = Kept(folder, cell), time.process_time()
    before = kept.seconds
    ensembles = prepared(cell)

    def more(n: int, count: int) -> None:
        for _ in range(count):
            kept.parts[n].append(ensembles[n].part(len(kept.parts[n])))
            kept.seconds = before + time.process_time() - begun
            kept.save()

    for n in WIDTHS:
        more(n, max(0, FIRST - len(kept.parts[n])))
    found = judged(cell, ensembles, kept)
    while not found.reached(of) and kept.seconds - before < seconds:
        more(WIDTHS[1], 1)
        more(WIDTHS[0], len(kept.parts[WIDTHS[1]]) // 2 - len(kept.parts[WIDTHS[0]]))
        found = judged(cell, ensembles, kept)
    return found


def main() -> None:
    """Draw, or tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", action="store_true", help="print what there is")
    parser.add_argument("--of", choices=("K", "G1"), default="G1", help="what G1 is resolved to")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a processor, for each cell")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    for cell in cells():
        if options.table and not (options.folder / f"{cell.name}.json").exists():
            continue
        if options.table:
            found, kept = judged(cell, prepared(cell), Kept(options.folder, cell)), None
        else:
            found = drawn(cell, options.folder, options.seconds, options.of)
        kept = Kept(options.folder, cell)
        counts = " + ".join(str(len(kept.parts[n])) for n in WIDTHS)
        print(
            f"| {cell.sigma} | `{cell.layer}` | {cell.weights} | {cell.C_b:g} | "
            f"{'agrees' if found.comparison.agrees else 'DISAGREES'} | "
            f"{found.comparison.worst.z:.1f} | {100 * found.V:.1f} % | {100 * found.G1:.1f} % | "
            f"{100 * found.of_K:.1f} % | {counts} | {kept.seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
