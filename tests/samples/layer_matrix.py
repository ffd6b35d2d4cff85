"""V and G^{1} of every shipped layer against ensembles, cell by cell, resumable.

    python tests/samples/layer_matrix.py DIR              # goes on where it was stopped
    python tests/samples/layer_matrix.py DIR --table      # what there is, as a table

A cell is a layer, σ, an ensemble of weights and whether there are biases; layers 2 to 6, two inputs
(of a convolution three positions), so that K_ab, G1_ab and V_(ab)(cd) of one input and of two are
in it. Ensembles of two widths, of which innovations take most of the chance out
(`innovated`), are extrapolated by a line in 1/n. A cell is drawn until V resolves to
3 % of its largest component in each layer, and G^{1} to 3 % of that or, with `--of K`, of K.
A file for each cell keeps what its chunks of 8192 networks came to.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from cells import DEPTH, file_name, run
from innovated import Innovated, innovated

from derive import Gaussian, Network, Orthogonal, layers

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
GOAL = 0.03


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
        return np.array(INPUTS[: 3 if layers.read(self.layer).input_axes else 2])

    @property
    def name(self) -> str:
        """What its file is called."""
        return file_name(f"{self.layer} {self.sigma} {self.weights} {self.C_b:g}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The first columns of its row."""
        return self.sigma, f"`{self.layer}`", self.weights, f"{self.C_b:g}"

    def ensembles(self) -> dict[int, Innovated]:
        """An ensemble of each width."""
        return {n: innovated(self.net, self.inputs, n, DEPTH, seed=1) for n in WIDTHS}


def cells() -> list[Cell]:
    """All of them, such that any first ones are of many kinds."""
    every = [Cell(*each) for each in product(LAYERS, SIGMAS, WEIGHTS, BIASES)]
    inner = len(SIGMAS) * len(WEIGHTS) * len(BIASES)
    turn = [(k % inner * 5 + k // inner) % inner for k in range(len(every))]
    return [every[k] for k in sorted(range(len(every)), key=lambda k: (turn[k], k))]


if __name__ == "__main__":
    run(cells, __doc__, GOAL)
