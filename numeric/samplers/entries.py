"""Preactivations under independent weights: rows of W are drawn, the next layer's are averaged.

Given the layer before, the rows of W are independent, and so are their sums z_i. A moment over
one layer's weights and biases is a product over the blocks of the set partition p,

    M_p = Π_{B ∈ p} ( κ_{|B|} (C_W/n_in)^{|B|/2} Σ_j Π_{a ∈ B} σ_{j; a}  +  [|B| = 2] C_b ) ,

exact at every width; of a first layer whose weights rotations keep it is a sum over pairings, as in
`unbiased`, and of weights P W₀ Q, whose rows depend on each other, Σ_q C(p, q) over set partitions.
The networks are those of the explicit sampler. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from derive.engine.fields import Z
from derive.groups.pairings import Blocks
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..estimators.observables import Plan
from ..estimators.sums import spectrum
from ..random.matrices import weight_matrix
from .base import Sampler
from .ensemble import MASKS, PERMUTATIONS, Layers


@dataclass(frozen=True, eq=False)
class EntriesSampler(Sampler):
    """Networks of independent weights, or with dropout, one layer's at a time."""

    supports: ClassVar[frozenset[str]] = frozenset({MASKS, PERMUTATIONS})
    wanted: ClassVar[str] = '"explicit" for the tower'
    name: ClassVar[str] = "entries"

    @classmethod
    def gives(cls, layers: Layers, plan: Plan) -> bool:
        """True if only z is measured."""
        return plan.fields == {Z}

    @property
    def numbers(self) -> int:
        """A matrix, which lives as long as it takes to apply it."""
        widest = max(self.ensemble.widths)
        return max(1, widest * widest // 4)

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """The statistics of layers 1, 2, …, (draws, statistics)."""
        ensemble = self.ensemble
        streams = ensemble.generators(draws)
        before = np.tile(ensemble.inputs, (draws.size, 1, 1))
        for layer in range(1, ensemble.depth + 1):
            weights, C_b = ensemble.weights_at(layer), float(ensemble.C_b[layer - 1])
            yield self._averages(before, weights, C_b, ensemble.widths[layer])
            if layer == ensemble.depth:
                return
            shape = (ensemble.widths[layer], ensemble.widths[layer - 1])
            z = np.empty((draws.size, len(ensemble.inputs), shape[0]))
            for row, (vectors, rng) in enumerate(zip(before, streams, strict=True)):
                W = weight_matrix(weights, shape, rng)
                np.matmul(vectors, W.T, out=z[row])
                z[row] += np.sqrt(C_b) * rng.standard_normal(shape[0])
            ensemble.activate(z, layer)
            ensemble.masked(z, layer + 1, streams)
            before = z

    def _averages(self, before: Array, weights: WeightEnsemble, C_b: float, n_out: int) -> Array:
        """E over a layer's weights and biases of every statistic, (draws, statistics)."""
        n_in = before.shape[2]
        sums: dict[tuple[int, ...], Array] = {}

        def summed(samples: tuple[int, ...]) -> Array:
            if samples not in sums:
                vectors = prod((before[:, a] for a in samples[1:]), start=before[:, samples[0]])
                sums[samples] = vectors.sum(axis=1)
            return sums[samples]

        def of_blocks(blocks: Blocks, samples: tuple[int, ...]) -> Array:
            labels = [tuple(sorted(samples[slot] for slot in block)) for block in blocks]
            return prod((summed(each) for each in labels), start=np.ones(len(before)))

        values = np.empty((len(before), len(self.plan.statistics)))
        for column, (_, _, p, samples) in enumerate(self.plan.statistics):
            total = np.zeros(len(before))
            for made in product((False, True), repeat=len(p) if C_b else 0):
                biased = [k for k, by_biases in enumerate(made) if by_biases]
                if any(len(p[k]) > 2 for k in biased):
                    continue
                rest = tuple(block for k, block in enumerate(p) if k not in biased)
                for scale, q in spectrum(weights, rest, n_in, n_out):
                    total += C_b ** len(biased) * scale * of_blocks(q, samples)
            values[:, column] = total
        return values
