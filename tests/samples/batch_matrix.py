"""K, G1 and V behind batch normalization beside explicit networks, resumable.

    python tests/samples/batch_matrix.py DIR             # goes on where it was stopped

A cell is a batch of 4 or 8 exchangeable samples, an activation, and the norm with its mean taken
off or not; q = 1, p = 0.3, ε = 1/10, C_W = 3/2, C_b = 1/10, layers 2 and 3. The series of these
tensors is one in m/n. So the widths are 16 m, where `simulate` builds all matrices, and 64 m,
where it builds none, and `compare` extrapolates them. A pilot tells how many networks resolve V to
5 %. A file for each cell keeps its row.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from derive import Exchangeable, Gaussian, Network, layers
from numeric import Comparison, compare, flow, simulate

BATCHES, SIGMAS, CENTRED = (4, 8), ("relu", "tanh", "gelu"), (True, False)
DEPTH, TENSORS = 3, ("K", "G1", "V")
SAMPLERS = {16: "explicit", 64: "lazy"}
"""By n/m."""
GOAL, PILOT, MOST = 0.05, 2000, 60_000
HEAD = ("σ", "m", "mean", "verdict", "largest z", "bound", "V to", "G1 to, of K", "networks", "s")


@dataclass(frozen=True)
class Result:
    """A comparison, and what it resolves: V as a share of the largest component of each layer, and
    G1 as one of K."""

    comparison: Comparison
    V: float
    G1: float


@dataclass(frozen=True)
class Cell:
    """A batch, σ, and whether the mean is taken off."""

    m: int
    sigma: str
    centred: bool

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.sigma}-{self.m}-{'centred' if self.centred else 'not'}"

    def compared(self, draws: int, seed: int) -> Result:
        """Theory beside so many networks of each width."""
        layer = layers.batchnorm("1/10", self.centred)
        net = Network(self.sigma, Gaussian("3/2"), C_b="1/10", layer=layer)
        batch, later = Exchangeable(self.m, 1, 0.3), slice(2, DEPTH)
        theory = flow(net, batch, DEPTH, TENSORS)
        tables = [
            simulate(
                *(net, batch, ratio * self.m, DEPTH, draws),
                tensors=TENSORS,
                seed=seed + ratio,
                sampler=sampler,
            )
            for ratio, sampler in SAMPLERS.items()
        ]
        found = compare(theory.sel(layer=later), [each.sel(layer=later) for each in tables])
        K = {int(at): float(abs(each).max()) for at, each in theory["K"].groupby("layer")}
        V = max(row.share for row in found.rows if row.tensor == "V")
        G1 = (found.bound * row.se / K[int(row.layer)] for row in found.rows if row.tensor == "G1")
        return Result(found, V, max(G1))

    def row(self) -> str:
        """Its row of the table."""
        begun = time.process_time()
        pilot = self.compared(PILOT, seed=1000)
        draws = min(MOST, math.ceil(1.2 * PILOT * (pilot.V / GOAL) ** 2))
        found = self.compared(draws, seed=0)
        mean, of = "taken off" if self.centred else "left", found.comparison
        verdict = "agrees" if of.agrees else "DISAGREES"
        cells = [self.sigma, str(self.m), mean, verdict, f"{of.worst.z:.1f}", f"{of.bound:.1f}"]
        cells += [f"{100 * found.V:.1f} %", f"{100 * found.G1:.1f} %", str(draws)]
        return f"| {' | '.join(cells)} | {time.process_time() - begun:.0f} |"


def main() -> None:
    """Print the rows of all cells, those first computed that no file has."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(exist_ok=True)
    print(f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}", sep="\n")
    for cell in (Cell(*each) for each in product(BATCHES, SIGMAS, CENTRED)):
        path = folder / f"{cell.name}.md"
        if not path.exists():
            path.write_text(cell.row() + "\n")
        print(path.read_text().strip(), flush=True)


if __name__ == "__main__":
    main()
