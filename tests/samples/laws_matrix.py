"""V and G^{1} of every law that only permutations keep against ensembles, resumable.

    python tests/samples/laws_matrix.py DIR              # goes on where it was stopped
    python tests/samples/laws_matrix.py DIR --table      # what there is, as a table

A cell is an ensemble or a layer and σ, of dropout and skips around one matrix with Gaussian and
with orthogonal weights; layers 2 to 6, one input, C_W = 1.5 and C_b = 0.5. Ensembles of two widths,
many networks to a matrix and with controls of mean zero (`laws_ensembles`), are extrapolated by a
line in 1/n. A cell is drawn until V and G^{1} resolve to 5 % in each layer or, with `--of K`, G^{1}
to 5 % of K. A file for each cell keeps what its chunks of 8192 networks came to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import sympy
from cells import DEPTH, file_name, run
from laws_ensembles import Laws

from derive import Gaussian, Network, Permuted, RegularSparse
from derive.weights import as_weights

SIGMAS = "tanh", "gelu", "relu"
ENTRIES = (
    "uniform",
    "rademacher",
    "student(9)",
    "truncated-normal",
    "sparse(1/4)",
    "regular-sparse(1/4)",
    "permuted",
)
LAYERS = "dropout(4/5)", "skip(1/2)", "skip(1/2, norm=rms)", "skip(1/2, norm=layer)"
BEHIND = "gaussian", "orthogonal"
C_W, C_b = 1.5, 0.5
WIDTHS = (96, 384)
GOAL = 0.05
_n = sympy.Symbol("n_in")


def scales(n: int) -> np.ndarray:
    """Of columns: 1/√(2n) and √(3/(2n)), half of them each."""
    return np.sqrt(np.resize([0.5, 1.5], n) / n)


def scaled_columns(n_out: int, n_in: int, rng: np.random.Generator) -> np.ndarray:
    """Normal entries, those of a column times its scale."""
    return scales(n_in) * rng.standard_normal((n_out, n_in))


_FOURTH = sympy.Rational(5, 4)
"""The mean of n² c⁴."""
_APART = (_n - _FOURTH) / (_n - 1) / _n**2
COLUMNS = Permuted(
    fourth=3 * _FOURTH / _n**2,
    row=_APART,
    column=_FOURTH / _n**2,
    apart=_APART,
    around=0,
    matrix=scaled_columns,
)


@dataclass(frozen=True)
class Cell:
    """An ensemble, σ and a layer."""

    weights: str
    sigma: str
    layer: str = "dense"

    @property
    def net(self) -> Network:
        """The network, its first layer Gaussian."""
        law = COLUMNS if self.weights == "permuted" else as_weights("weights", self.weights)
        law = replace(law, C_W=C_W) if not isinstance(law, RegularSparse) else law
        if isinstance(law, RegularSparse):
            law = RegularSparse(law.p, law.of, C_W)
        return Network(self.sigma, law, Gaussian(1), C_b=C_b, layer=self.layer)

    @property
    def inputs(self) -> np.ndarray:
        """Of length √3."""
        return np.ones(3)

    @property
    def name(self) -> str:
        """What its file is called."""
        return file_name(f"{self.layer} {self.sigma} {self.weights}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The first columns of its row."""
        return self.sigma, f"`{self.layer}`", f"`{self.weights}`"

    def ensembles(self) -> dict[int, Laws]:
        """An ensemble of each width."""
        made = self.net
        gamma = 0.5 if self.layer.startswith("skip") else 0.0
        norm = next((each for each in ("rms", "layer") if f"norm={each}" in self.layer), None)
        return {
            n: Laws(made, self.inputs, n, DEPTH, gamma=gamma, norm=norm, scales=scales)
            for n in WIDTHS
        }


def cells() -> list[Cell]:
    """All of them, such that any first ones are of many kinds."""
    every = [Cell(law, sigma) for law, sigma in product(ENTRIES, SIGMAS)]
    every += [Cell(law, sigma, layer) for layer, sigma, law in product(LAYERS, SIGMAS, BEHIND)]
    step = 13  # prime to their number
    return [every[k * step % len(every)] for k in range(len(every))]


if __name__ == "__main__":
    run(cells, __doc__, GOAL)
