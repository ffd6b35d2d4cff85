"""Gradients going back through a wide network, at full and at low rank.

With δ = ∂E/∂z, z = W σ + b and W = C A of rank γ N, δ_ℓ = σ'(z_ℓ) ∘ Wᵀδ_{ℓ+1}. If the weights going
back were independent of those going forward, q̃ = E δ_i² would obey

    q̃_ℓ = q̃_{ℓ+1} (N_{ℓ+1}/N_ℓ) χ_{ℓ+1}(q_ℓ)                    (source 001, §2.2 and A.8).

They are the same, and all that matters of it at large width is what δ shares with z itself. Let
a = z·δ/N, d = |δ|²/N, K = |z|²/N, and s = K − C_b the part due to the weights. Given Aσ,

    Wᵀδ = p σ + √v ξ,     p = C_W a/K,     v = C_W t/γ,     t = |Cᵀδ|²/N = γ d + (1 − γ) (a/K)² s

with ξ standard normal (Bolthausen's conditioning; W of equal singular values keeps lengths, so that
v = C_W t/γ − p²⟨σσ⟩ instead). Hence, with widths r = N_{ℓ+1}/N_ℓ and one more use of Stein's lemma,

    d_ℓ = r χ t/γ + r² p² ⟨σσσ'σ'⟩,          a_ℓ = r p K_ℓ ⟨(σσ)''⟩/2 .

So the independence holds where a = 0: for a loss that sees layer L through a few sums with weights
of their own. A sum of squares over all of layer L has δ = z, and adds 1/γ to 1 in one layer of
linear Gaussian weights. Biases within the range of C have K for s. Derived here.
"""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import sympy

from ..citations import rests_on
from ..errors import InputError, as_sequence
from ..gaussian.quadrature import single
from ..gaussian.shapes import SingleShape
from ..network import Network
from ..weights import Gaussian, LowRankGaussian, LowRankOrthogonal, Orthogonal
from ..work.caches import cache
from .estimates import DIGITS, doubt, rounded
from .steps import Step, number, ranks_of, steps_of, variance


@rests_on("naitsaada2023", "bolthausen2014")
def gradients(
    net: Network,
    lengths: Sequence[float],
    gamma: Sequence[sympy.Expr | float] | None = None,
    *,
    overlap: float = 0,
    biases: str = "neuron",
) -> list[float]:
    """q̃ = E (∂E/∂z_i)² at layers 1 … L over that at layer L.

    Source 001, §2.2 and A.8, without an overlap; with one derived here.

    Arguments:
        net: the network, with numbers for its variances and width ratios.
        lengths: q at layers 1 … L, above 0.
        gamma: rank over width of each layer, as for `lengths`.
        overlap: the cosine between z and ∂E/∂z at layer L: 0 for a readout with weights of its own,
            1 for a sum of squares over all of the layer.
        biases: "neuron", or "direction" for biases in the range of the weights; they differ where
            the overlap and C_b are not 0.

    Raises:
        InputError: where the overlap is not 0, for ensembles that are neither Gaussian nor
            orthogonal, of full or low rank.

    >>> gradients(Network("relu"), [1, 0.5, 0.25])
    [0.25, 0.5, 1.0]
    >>> gradients(Network("linear"), [1, 1, 1], overlap=1)
    [3.0, 2.0, 1.0]
    """
    cosine = number("overlap", overlap)
    if abs(cosine) > 1:
        raise InputError("overlap", overlap, "a cosine in [−1, 1]")
    if not isinstance(biases, str) or biases not in {"neuron", "direction"}:
        raise InputError("biases", biases, "neuron or direction")
    with mpmath.workdps(2 * DIGITS):
        wanted = "positive variances, one for each layer"
        K = [variance("lengths", each) for each in as_sequence("lengths", lengths, wanted)]
        if not K or 0 in K:
            raise InputError("lengths", lengths, wanted)
        steps, ranks = steps_of(net, len(K), gamma), ranks_of(net, len(K), gamma)
        known = Gaussian | Orthogonal | LowRankGaussian | LowRankOrthogonal
        if cosine and not all(isinstance(step.law, known) for step in steps):
            raise InputError("weights", str(net.weights), "Gaussian or orthogonal, with an overlap")
        d, square, off = mpmath.mpf(1), cosine**2 * K[-1], mpmath.mpf(0)

        @cache  # lengths that have settled, and layers that are alike
        def moved(step: Step, q: mpmath.mpf) -> tuple[mpmath.mpf, ...]:
            maps = step.equations
            return step.on_line(q, maps.length, maps.chi, maps.chi_parallel)

        found = [(d, off)]
        for layer in range(len(K) - 1, 0, -1):
            step, rank, q = steps[layer - 1], ranks[layer], K[layer - 1]
            second, chi, response = moved(step, q)
            weighted = second - step.C_b
            kept = weighted if biases == "neuron" else second
            ratio = number("width_ratio", net.width_ratio_at(layer + 1)) / number(
                "width_ratio", net.width_ratio_at(layer)
            )
            along = (step.C_W / second) ** 2 * square
            inside = d + (1 / rank - 1) * square * kept / second**2
            d, off = ratio * chi * inside, ratio * chi * off
            size = d
            if square:
                (fourth,) = single(step.activation, [SingleShape((0, 0, 1, 1))], q, DIGITS)
                if isinstance(step.law, Orthogonal | LowRankOrthogonal):
                    d -= ratio**2 * along * weighted * chi / step.C_W**2
                d += ratio**2 * along * fourth
                size += ratio**2 * along * fourth
                square = ratio**2 * along * (q * response / step.C_W) ** 2
            off += (len(found) + 1) * doubt(size)
            found.append((d, off))
        return [rounded("lengths", lengths, *each) for each in reversed(found)]
