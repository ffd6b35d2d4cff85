r"""Layer by layer: what each does to the length of z, averaged apart, where σ(cz) = c σ(z), c > 0.

Behind weights that rotations keep, without biases, |σ(z^ℓ)|² = |x|² X_1 X_2 ⋯ X_ℓ with independent
X's, as W σ/|σ| has one law for every σ. So a moment of z, a multiple of a power of |σ|², is a
product of averages,

    M_{2k}(ℓ+1) = c_k |x|^{2k} E[X_1^k] ⋯ E[X_ℓ^k] ,

and so is a product of moments. Each factor is estimated from all networks, and what all of them
make by combining one's first layer with another's second. Networks are multiplied up otherwise, and
E|z|⁴ is a few of them: at depth L the relative error of V/n ≈ e^{vL} − 1, v the variance of log X,
is as √(e^{4vL}/N) there, and √(2vL v/N) e^{vL} here. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..estimators.observables import Plan
from . import forward
from .base import Sampler, evaluated
from .ensemble import Ensemble, Layers
from .forward import WIDEST, fit, grouped, program_of
from .probing import probes_of
from .staged import ProbeSampler


@dataclass(frozen=True, eq=False)
class ProductSampler(ProbeSampler):
    """Layers that start from one length each; `blocks` are of one layer."""

    name: ClassVar[str] = "products"
    because: ClassVar[str] = "behind one matrix alone, layers multiply |z| by independent numbers"
    multiplied: ClassVar[bool] = True
    supports: ClassVar[frozenset[str]] = frozenset()
    wanted: ClassVar[str] = (
        '"lazy" but for z of one input, no biases, σ(cz) = c σ(z), and layers, and factors of '
        f"weights, up to {WIDEST} wide"
    )

    @classmethod
    def of(cls, ensemble: Ensemble, plan: Plan) -> Sampler:
        """See `Sampler`."""
        return cls(ensemble, plan, probes_of(plan), side_by_side=True)

    @classmethod
    def gives(cls, layers: Layers, plan: Plan) -> bool:
        """True if there is, besides, no bias, and a σ without a scale of its own behind weights
        that do not vanish."""
        return (
            fit(layers, plan)
            and layers.net.one_activation("products").is_scale_invariant
            and not layers.C_b.any()
            and bool(layers.C_W.all())
        )

    def blocks(self, draws: NDArray[np.int64]) -> Iterator[tuple[int, Array]]:
        """The factors by which each layer multiplies the statistics of the layer before."""
        ensemble, program = self.ensemble, program_of(self.ensemble.layers)
        networks = grouped(draws)
        squares = np.ones((ensemble.depth, *networks.shape))
        rooms, kernels = program.rooms(), forward.kernels(ensemble.net.one_activation("products"))
        structure, coefficients = self.polynomials
        n = np.array(ensemble.widths[:-1], float)
        factors = np.full(draws.size, ensemble.inputs[0] @ ensemble.inputs[0] / n[0])
        ratio = coefficients[0]
        for layer in range(ensemble.depth):
            if layer:
                start, stop, _ = program.piece(layer, 1)
                part = program.steps[start:stop], program.scales[start:stop]
                kernels.forward(networks, ensemble.key, *part, rooms, squares)
                factors = squares[layer].ravel()[: draws.size] * (n[layer - 1] / n[layer])
                squares[layer] = 1.0
                ratio = coefficients[layer] / coefficients[layer - 1]
            yield layer, evaluated((structure, ratio[None]), factors[None, :, None])
