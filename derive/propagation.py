"""How lengths, correlations and gradients travel through a wide network, at full and at low rank.

For z ~ N(0, K) the engine's recursions of K, of its linear response and of the tangents say

    q'   = C_b + C_W ⟨σσ⟩_q             length            (source 001, eq. 3; source 002, eq. 3)
    q_12' = C_b + C_W ⟨σ_1 σ_2⟩         covariance        (001, eq. 5)
    χ    = C_W ⟨σ'σ'⟩_q                 gradients, and correlations at 1     (001, eqs. 8, 9)
    χ_∥  = C_W ⟨(σσ)''⟩_q/2 = dq'/dq    deviations from a fixed length       (001, A.6)

for every ensemble of `derive.weights`: rank comes in through the variances alone. Weights of rank
γ n whose coefficients have the variance σ_α²/n have C_W = γ σ_α²; biases b_k of variance σ_b²
along the kept directions have C_b = γ σ_b². A length is a variance. The single b per layer of
source 001 does not average out at large width: it obeys (3) and (5) with σ_b² replaced by the
layer's own b², so that q stays random (`numeric.propagation`).
"""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import sympy

from .activations import Activation
from .citations import rests_on
from .errors import InputError
from .expressions import parse_number
from .network import Network
from .propagation_backward import gradients
from .propagation_edge import Edge, EdgePoint, edge_of_chaos
from .propagation_fixed import FixedPoint, depth_scales, fixed_points
from .propagation_steps import (
    DIGITS,
    Equations,
    equations,
    kernel_of,
    number,
    positive,
    rounded,
    step_of,
    steps_of,
    variance,
)
from .weights import LowRankGaussian

__all__ = [
    "Edge",
    "EdgePoint",
    "Equations",
    "FixedPoint",
    "chi",
    "chi_parallel",
    "correlation_map",
    "correlation_slope",
    "covariance_map",
    "depth_scales",
    "edge_of_chaos",
    "equations",
    "fixed_points",
    "gradients",
    "kernels",
    "length_map",
    "lengths",
    "network",
]


def network(
    activation: Activation,
    sigma_alpha_sq: sympy.Expr | float,
    sigma_b_sq: sympy.Expr | float = 0,
    gamma: sympy.Expr | float = 1,
) -> Network:
    """The network of source 001 by its own parameters: C_W = γσ_α², C_b = γσ_b², rank γn."""
    ratio = LowRankGaussian(gamma=gamma).gamma
    alpha, bias = (
        parse_number(name, value)
        for name, value in (("sigma_alpha_sq", sigma_alpha_sq), ("sigma_b_sq", sigma_b_sq))
    )
    return Network(activation, LowRankGaussian(ratio * alpha, gamma=ratio), C_b=ratio * bias)


@rests_on("naitsaada2023")
def length_map(net: Network, q: float, layer: int = 2) -> float:
    """The length q' = K of this layer, from that of the layer before (001, eq. 3)."""
    with mpmath.workdps(2 * DIGITS):
        step = step_of(net, layer)
        return rounded("q", q, step.on_line(variance("q", q), step.equations.length)[0])


@rests_on("naitsaada2023")
def covariance_map(
    net: Network, kernel: Sequence[float], layer: int = 2
) -> tuple[float, float, float]:
    """(q_11, q_12, q_22) of this layer, from those of the layer before (001, eqs. 3 and 5)."""
    with mpmath.workdps(2 * DIGITS):
        moved = step_of(net, layer).covariance(kernel_of(kernel))
        q11, q12, q22 = (rounded("kernel", kernel, each) for each in moved)
        return q11, q12, q22


@rests_on("naitsaada2023")
def correlation_map(net: Network, c: float, q: float) -> float:
    """c' = q_12'/q' for two inputs of equal lengths q and correlation c (001, A.4).

    Where q is a fixed length, c = 1 is a fixed point of this map. Its derivative is
    `correlation_slope`.
    """
    with mpmath.workdps(2 * DIGITS):
        step, at, length = step_of(net), _correlation(c), positive("q", q)
        _, covariance, _ = step.covariance((length, at * length, length))
        (moved,) = step.on_line(length, step.equations.length)
        if moved == 0:
            raise InputError("net", str(net), "weights or biases, for a correlation to exist")
        return rounded("q", q, covariance / moved)


@rests_on("naitsaada2023")
def correlation_slope(net: Network, c: float, q: float) -> float:
    """∂q_12'/∂q_12 = C_W ⟨σ'_1 σ'_2⟩ at equal lengths q and correlation c; χ at c = 1 (9)."""
    with mpmath.workdps(2 * DIGITS):
        return rounded("q", q, step_of(net).slope(_correlation(c), positive("q", q), DIGITS))


@rests_on("naitsaada2023")
def chi(net: Network, q: float, layer: int = 2) -> float:
    """χ_γ = C_W ⟨σ'σ'⟩_q (001, eq. 8)."""
    with mpmath.workdps(2 * DIGITS):
        step = step_of(net, layer)
        return rounded("q", q, step.on_line(variance("q", q), step.equations.chi)[0])


@rests_on("naitsaada2023")
def chi_parallel(net: Network, q: float, layer: int = 2) -> float:
    """χ_∥ = C_W ⟨(σσ)''⟩_q/2, the derivative of the length map; e^{−1/ξ_q} in 001, A.6."""
    with mpmath.workdps(2 * DIGITS):
        step = step_of(net, layer)
        return rounded("q", q, step.on_line(variance("q", q), step.equations.chi_parallel)[0])


@rests_on("naitsaada2023")
def lengths(
    net: Network, q: float, depth: int, gamma: Sequence[sympy.Expr | float] | None = None
) -> list[float]:
    """q at layers 1 … depth, given that of layer 1.

    Arguments:
        gamma: rank over width of each layer, 1 … depth; it scales the variances of the network,
            C_W and C_b of its own γ, to γ_ℓ σ_α² and γ_ℓ σ_b² (001, eq. 3).
    """
    with mpmath.workdps(2 * DIGITS):
        current = variance("q", q)
        found = [current]
        for step in steps_of(net, depth, gamma):
            (current,) = step.on_line(current, step.equations.length)
            found.append(current)
        return [rounded("q", q, each) for each in found]


@rests_on("naitsaada2023")
def kernels(
    net: Network,
    kernel: Sequence[float],
    depth: int,
    gamma: Sequence[sympy.Expr | float] | None = None,
) -> list[tuple[float, float, float]]:
    """(q_11, q_12, q_22) at layers 1 … depth, given that of layer 1; γ_ℓ as for `lengths`."""
    with mpmath.workdps(2 * DIGITS):
        current = kernel_of(kernel)
        found = [current]
        for step in steps_of(net, depth, gamma):
            current = step.covariance(current)
            found.append(current)
        rows = [[rounded("kernel", kernel, each) for each in row] for row in found]
        return [(q11, q12, q22) for q11, q12, q22 in rows]


def _correlation(value: object) -> mpmath.mpf:
    c = number("c", value)
    if abs(c) > 1:
        raise InputError("c", value, "a correlation in [−1, 1]")
    return c


def __dir__() -> list[str]:
    return sorted(__all__)
