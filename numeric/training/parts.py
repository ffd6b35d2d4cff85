"""Parameters of networks of any layer: its matrices and biases, and what each made on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from derive.engine.stages import Stage
from derive.engine.trees import Kind
from derive.weights import Gaussian, IndependentEntries, Orthogonal, WeightEnsemble

from ..arrays import Array
from ..random.matrices import frame, weight_matrix
from ..samplers.ensemble import Ensemble
from ..samplers.staged import Parts
from .optimizers import Optimizer
from .tape import Node, Tape

Key = tuple[int, int, int | Kind]
"""A layer, a stage of it, and a matrix's number or the variable that biases are of."""


class Trained(Protocol):
    """The networks that are trained, their data, and the descent."""

    @property
    def ensemble(self) -> Ensemble:
        """The networks at initialization; its inputs are the training set's, then others."""

    @property
    def targets(self) -> Array:
        """(training, outputs)."""

    @property
    def widths(self) -> tuple[int, ...]:
        """n_0, …, and the outputs."""

    @property
    def rule(self) -> Optimizer:
        """The optimizer."""

    @property
    def loss(self) -> str:
        """One of `losses.LOSSES`."""

    @property
    def batch(self) -> int:
        """Inputs of a step."""

    @property
    def ntk(self) -> bool:
        """True if the tangent kernel is observed."""


@dataclass(frozen=True)
class Part:
    """A matrix or biases: what they are drawn from, and how they learn.

    Attributes:
        shape: (n_in, n_out); of biases (1, n_out).
        law: of a matrix, or of one of a filter's times √taps.
        rows: n_out of the whole matrix, of which the first are wanted.
        variance: of the biases, or of a matrix times n_in.
        rate: λ_W over n_in and the taps, or λ_b.
        taps: of the filter that a matrix is of.
    """

    key: Key
    shape: tuple[int, int]
    law: WeightEnsemble | None
    rows: int
    variance: float
    rate: float
    taps: int = 1

    @property
    def size(self) -> int:
        """Numbers in it."""
        return self.shape[0] * self.shape[1]

    def drawn(self, rng: np.random.Generator) -> Array:
        """(n_in, n_out)."""
        n_in, n_out = self.shape
        if self.law is None:
            return np.asarray(np.sqrt(self.variance) * rng.standard_normal(self.shape))
        return readout(self.law, (n_out, n_in), rng, self.rows).T / math.sqrt(self.taps)


def stages_at(ensemble: Ensemble, layer: int) -> tuple[Stage, ...]:
    """The stages of a layer; for the last layer those of its readout, if it has one."""
    return ensemble.read_at(layer) if layer == ensemble.depth else ensemble.stages_at(layer)


def parts(ensemble: Ensemble, outputs: int) -> list[Part]:
    """Of all layers, in the order in which they are drawn."""
    found = []
    for layer in range(1, ensemble.depth + 1):
        stages = stages_at(ensemble, layer)
        rate_W = float(ensemble.lambda_W[layer - 1])
        for at, stage in enumerate(stages):
            last = layer == ensemble.depth and at == len(stages) - 1

            def wanted(n: int, last: bool = last) -> int:
                return outputs if last else n

            out: dict[Kind, int] = {}
            for kind, equation in stage.equations:
                for term in equation.right:
                    if term.weight is not None:
                        matrix = stage.matrices[term.weight[0]]
                        out[kind] = ensemble.neurons(layer, stage, matrix.out)
            taps = stage.taps.count
            for number in range(taps * len(stage.matrices)):
                matrix = stage.matrix(number)
                n_in, rows = (ensemble.neurons(layer, stage, s) for s in (matrix.into, matrix.out))
                law = ensemble.ensemble_of(layer, matrix)
                shape, key = (n_in, wanted(rows)), (layer, at, number)
                variance, rate = float(law.C_W) / taps, rate_W / (n_in * taps)
                found.append(Part(key, shape, law, rows, variance, rate, taps))
            for kind, equation in stage.equations:
                biases = ensemble.biases_of(layer, equation)
                if biases is not None:
                    n = wanted(out.get(kind, ensemble.neurons(layer, stage, kind.space)))
                    found.append(Part((layer, at, kind), (1, n), None, n, *biases))
    return found


class Use(NamedTuple):
    """The result of a matrix or biases: a body's product, or with no body the biases themselves."""

    body: Node | None
    made: Node


class Pass(NamedTuple):
    """Networks taken forward; of the tape's length, `below` is what is below the last stage."""

    tape: Tape
    outputs: Node
    uses: dict[Key, list[Use]]
    last: Parts
    below: int


def first_rows(
    law: WeightEnsemble, shape: tuple[int, int], rng: np.random.Generator, rows: int
) -> Array:
    """The first rows, (n_out, n_in), of a matrix of so many rows, or of n_out if these are more:
    its rank is a part of all of them."""
    n_out, n_in = shape
    if isinstance(law, Gaussian | IndependentEntries):
        return weight_matrix(law, shape, rng)
    return weight_matrix(law, (max(rows, n_out), n_in), rng)[:n_out]


def readout(
    law: WeightEnsemble, shape: tuple[int, int], rng: np.random.Generator, rows: int
) -> Array:
    """As `first_rows`, but of a Haar matrix the few that are wanted alone, where its rows are
    orthogonal: those of a block with more rows than columns are not."""
    n_out, n_in = shape
    if isinstance(law, Orthogonal) and n_out < n_in and rows <= n_in:
        found = frame(n_in, n_out, rng.standard_normal).T
        return np.asarray(np.sqrt(float(law.C_W)) * found)
    return first_rows(law, shape, rng, rows)
