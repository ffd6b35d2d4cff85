"""Trained networks at order 1/n against ensembles, cell by cell, resumable.

    python tests/samples/training_matrix.py DIR              # goes on where it was stopped
    python tests/samples/training_matrix.py DIR --table      # what there is, as a table

A cell is σ, an ensemble of weights, a depth, how many of scikit-learn's digits are trained on, how
many outputs there are, and η as a part of 1/Θ_max, half the largest stable one. Digits are averaged
to 4×4 pixels and centred; two more are tests; targets are ±½, by their class, of each output its
own. Ensembles of three widths are extrapolated in 1/n, the limits by a parabola, and so is a
coefficient after as many steps where a line misses the three widths themselves, whatever theory
says; others by a line; steps 1, 5 and 20. A cell is drawn until each coefficient of 1/n resolves to
5 % of its largest component after as many steps, or as long as the processor seconds last. A file
for each cell keeps what its chunks came to.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray
from sklearn.datasets import load_digits

from derive import Network, activations
from numeric import compare, training
from numeric import flow as tensors_of
from numeric.tables import Row

SPENT = (0.15, 0.25, 0.6)
"""The part of the seconds that each of three widths takes."""
STEPS = (1, 5, 20)
DRAWS = 3000
"""Networks of a chunk."""
PARTS = 16
"""That the standard errors of a chunk rest on at least, where its file does not say."""
MISSED = 2.0
"""Errors by which a line misses what it was fitted to, at its worst component."""
TESTS = 2
GOAL = 0.05
NAMES = "prediction", "covariance", "ntk", "loss"


@dataclass(frozen=True)
class Cell:
    """A network, what it is trained on, η as a part of 1/Θ_max, and the widths of ensembles."""

    sigma: str
    weights: str
    depth: int
    points: int
    outputs: int
    rate: float
    widths: tuple[int, ...] = (24, 48, 96)

    @property
    def net(self) -> Network:
        """At criticality, with biases; "own" is a σ as a user gives it, z/√(1 + z²)."""
        own = self.sigma == "own"
        sigma = activations.from_expr("z/sqrt(1 + z**2)") if own else self.sigma
        return Network(sigma, self.weights, C_b=0.05)

    @property
    def name(self) -> str:
        """What its file is called."""
        parts = self.sigma, self.weights, self.depth, self.points, self.outputs, self.rate
        return "-".join(map(str, parts))


CELLS = (
    Cell("tanh", "gaussian", 2, 1, 1, 1.0),
    Cell("gelu", "orthogonal", 3, 2, 1, 1.0),
    Cell("own", "gaussian", 4, 1, 3, 0.1),
    Cell("tanh", "orthogonal", 6, 4, 1, 1.0),
    Cell("gelu", "gaussian", 2, 8, 1, 0.1),
    Cell("own", "orthogonal", 3, 2, 3, 1.0),
    Cell("tanh", "gaussian", 5, 2, 1, 0.1),
    # in a few of 10⁵ of n = 24 descent grows
    Cell("gelu", "orthogonal", 4, 1, 1, 1.0, (48, 96, 192)),
    Cell("own", "gaussian", 2, 4, 1, 1.0),
    Cell("tanh", "orthogonal", 2, 8, 3, 1.0),
)
"""Every value of each is in some; the first ones are of many kinds."""


class Problem:
    """A cell's data, its η, and theory."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        digits = load_digits()
        small = digits.data.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
        X = (small - small.mean(axis=0))[: cell.points + TESTS]
        X = X / np.sqrt((X**2).mean())
        self.inputs, self.tests = X[: cell.points], X[cell.points :]
        classes = digits.target[: cell.points, None]
        self.targets = np.where((classes >> np.arange(cell.outputs)) % 2, 0.5, -0.5)
        theta = tensors_of(cell.net, self.inputs, cell.depth, "Theta")["Theta"]
        last = np.atleast_2d(theta.isel(layer=-1).to_numpy().squeeze())
        self.eta = cell.rate / float(np.linalg.eigvalsh(last)[-1])
        self.theory = training.flow(*self._given, cell.depth, self.eta, STEPS)

    @property
    def _given(self) -> tuple[Network, np.ndarray, np.ndarray, np.ndarray]:
        return self.cell.net, self.inputs, self.targets, self.tests

    def chunk(self, width: int, seed: int) -> xarray.Dataset:
        """Some networks, each chunk with a seed of its own."""
        depth = self.cell.depth
        return training.simulate(*self._given, width, depth, self.eta, STEPS, DRAWS, seed)


class Kept:
    """What the chunks of a cell came to, (value, its error) of each, in a file that is whole or not
    there."""

    def __init__(self, folder: Path, cell: Cell) -> None:
        self._path = folder / f"{cell.name}.json"
        self.parts: dict[str, list[dict[str, list[float]]]] = {str(n): [] for n in cell.widths}
        self.seconds = 0.0
        if self._path.exists():
            read = json.loads(self._path.read_text())
            self.parts, self.seconds = self.parts | read["parts"], read["seconds"]

    def add(self, width: int, table: xarray.Dataset, seconds: float) -> None:
        """Written aside, then renamed."""
        own = {str(name): table[name].to_numpy().ravel().tolist() for name in table.data_vars}
        own["blocks"] = [float(table.attrs["blocks"])]
        self.parts[str(width)].append(own)
        self.seconds += seconds
        aside = self._path.with_suffix(".part")
        aside.write_text(json.dumps({"seconds": self.seconds, "parts": self.parts}))
        os.replace(aside, self._path)

    def table(self, width: int, like: xarray.Dataset) -> xarray.Dataset:
        """All chunks of a width together, each with the same weight."""
        own, found = self.parts[str(width)], {}
        for name in NAMES:
            shape = like[name]
            values = np.mean([each[name] for each in own], axis=0)
            squares = np.sum(np.square([each[f"{name}_se"] for each in own]), axis=0)
            errors = np.sqrt(squares) / len(own)
            for twin, numbers in ((name, values), (f"{name}_se", errors)):
                found[twin] = shape.copy(data=numbers.reshape(shape.shape))
        blocks = sum(int(each.get("blocks", [PARTS])[0]) - 1 for each in own)
        about = {"width": width, "draws": DRAWS * len(own), "blocks": 1 + blocks}
        return xarray.Dataset(found).assign_attrs(like.attrs | about)


class Judged(NamedTuple):
    """Theory beside what there is.

    Attributes:
        rows: coefficients by a line or a parabola, limits by a parabola.
        bound: of |z|, the larger of the two fits'.
    """

    rows: tuple[Row, ...]
    bound: float

    @property
    def worst(self) -> Row:
        """The row with the largest |z|."""
        return max(self.rows, key=lambda row: abs(row.z))


def judged(problem: Problem, kept: Kept) -> Judged:
    """Of one cell."""
    tables = [kept.table(n, problem.theory) for n in problem.cell.widths]
    line, parabola = (compare(problem.theory, tables, degree=degree) for degree in (1, 2))
    curved = {_place(row) for row in parabola.rows if row.tensor in NAMES}
    for low, high in zip(line.rows, parabola.rows, strict=True):
        assert (*_place(low), low.indices) == (*_place(high), high.indices)
        # the line's error is uncorrelated with what the parabola differs by
        if abs(high.sample - low.sample) > MISSED * math.sqrt(max(_own(high) - _own(low), 0.0)):
            curved.add(_place(high))
    rows = [row for row in line.rows if _place(row) not in curved]
    rows += [row for row in parabola.rows if _place(row) in curved]
    return Judged(tuple(rows), max(line.bound, parabola.bound))


def _own(row: Row) -> float:
    """The square of the error without what is allowed for the terms that are left out."""
    return row.se**2 - row.next_term**2


def _place(row: Row) -> tuple[str, float]:
    return row.tensor, row.layer


def shares(found: Judged) -> dict[str, list[float]]:
    """What would have been noticed of each coefficient by step, and of the limits the worst."""
    rows: dict[str, dict[int, float]] = {}
    for row in found.rows:
        own = rows.setdefault(row.tensor, {})
        own[int(row.layer)] = max(own.get(int(row.layer), 0.0), row.share)
    coefficients = {f"{name}1": [rows[f"{name}1"][t] for t in STEPS] for name in NAMES}
    return coefficients | {"limits": [max(max(rows[name].values()) for name in NAMES)]}


def drawn(problem: Problem, folder: Path, seconds: float) -> None:
    """The cell, with as many chunks as it takes, or as the processor seconds allow."""
    widths, kept = problem.cell.widths, Kept(folder, problem.cell)
    spent = dict.fromkeys(widths, 0.0)

    def more(width: int) -> None:
        begun = time.process_time()
        own = len(kept.parts[str(width)])
        table = problem.chunk(width, seed=1 + widths.index(width) + len(widths) * own)
        spent[width] += time.process_time() - begun
        kept.add(width, table, time.process_time() - begun)

    for n in widths:
        if not kept.parts[str(n)]:
            more(n)
    while sum(spent.values()) < seconds:
        worst = shares(judged(problem, kept))
        if max(max(worst[f"{name}1"]) for name in NAMES) <= GOAL:
            break
        more(min(widths, key=lambda n: spent[n] / SPENT[widths.index(n)]))


def main() -> None:
    """Draw, or tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", action="store_true", help="print what there is")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a processor, for each cell")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    for cell in CELLS:
        if options.table and not (options.folder / f"{cell.name}.json").exists():
            continue
        problem = Problem(cell)
        if not options.table:
            drawn(problem, options.folder, options.seconds)
        kept = Kept(options.folder, cell)
        found = judged(problem, kept)
        seen = [", ".join(f"{100 * x:.2g}" for x in each) for each in shares(found).values()]
        counts = " + ".join(str(len(kept.parts[str(n)])) for n in cell.widths)
        print(
            f"| {cell.sigma} | {cell.weights} | {cell.depth} | {cell.points} | {cell.outputs} | "
            f"{cell.rate:g} | {'agrees' if abs(found.worst.z) <= found.bound else 'DISAGREES'} | "
            f"{found.worst.z:.1f} | "
            f"{found.bound:.1f} | {' | '.join(seen)} | {counts} | {kept.seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
