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
layer's own b², so that q stays random (`derivations.nait_saada_tanner.sampling`).
"""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import sympy

from ..activations.functions import Activation
from ..citations import rests_on
from ..errors import InputError
from ..expressions import parse_number
from ..network import Network
from ..weights import LowRankGaussian
from .estimates import DIGITS, Estimate, Noise, Rows, doubt, followed, rounded
from .steps import (
    Step,
    kernel_of,
    number,
    positive,
    step_of,
    steps_of,
    variance,
)


def network(
    activation: Activation,
    sigma_alpha_sq: sympy.Expr | float,
    sigma_b_sq: sympy.Expr | float = 0,
    gamma: sympy.Expr | float = 1,
) -> Network:
    """The network of source 001, eqs. (1)–(3), by its own parameters: C_W = γσ_α², C_b = γσ_b².

    Arguments:
        activation: σ, or its name.
        sigma_alpha_sq: σ_α², n times the variance of the coefficients α; a number or a symbol.
        sigma_b_sq: σ_b², the variance of the biases along each kept direction.
        gamma: γ, in (0, 1]: the weights have rank γn.

    Raises InputError for a γ outside (0, 1], and a variance that is negative or not real.

    >>> print(network("tanh", "3/2", 0.1, gamma=0.5))
    Network(tanh, LowRankGaussian(C_W=3/4, gamma=1/2), C_b=1/20)
    """
    ratio = LowRankGaussian(gamma=gamma).gamma
    alpha, bias = (
        parse_number(name, value)
        for name, value in (("sigma_alpha_sq", sigma_alpha_sq), ("sigma_b_sq", sigma_b_sq))
    )
    return Network(activation, LowRankGaussian(ratio * alpha, gamma=ratio), C_b=ratio * bias)


@rests_on("naitsaada2023")
def length_map(net: Network, q: float, layer: int = 2) -> float:
    """The length q' = K of this layer, from that of the layer before (001, eq. 3).

    Arguments:
        net: the network, with numbers for its variances.
        q: the length of the layer before, a variance, 0 or more.
        layer: 2, 3, …, whose weights and biases are taken.

    Raises InputError for a negative q, a layer that no other feeds, and an activation that jumps.

    >>> length_map(network("relu", 2, "1/10"), 0.5)
    0.6
    """
    with mpmath.workdps(2 * DIGITS):
        step = step_of(net, layer)
        (moved,) = step.on_line(variance("q", q), step.equations.length)
        return rounded("q", q, moved, doubt(moved))


@rests_on("naitsaada2023")
def covariance_map(
    net: Network, kernel: Sequence[float], layer: int = 2
) -> tuple[float, float, float]:
    """(q_11, q_12, q_22) of this layer, from those of the layer before (001, eqs. 3 and 5).

    Arguments:
        net, layer: as for `length_map`.
        kernel: (q_11, q_12, q_22) of the layer before, two lengths and a covariance.

    Raises InputError for a kernel that is not positive semidefinite, and as `length_map` does.

    >>> covariance_map(network("linear", 2, 1), (1, 0.5, 1))
    (3.0, 2.0, 3.0)
    """
    with mpmath.workdps(2 * DIGITS):
        moved = step_of(net, layer).covariance(kernel_of(kernel))
        q11, q12, q22 = (
            rounded("kernel", kernel, each, doubt(size))
            for each, size in zip(moved, _sizes(moved), strict=True)
        )
        return q11, q12, q22


@rests_on("naitsaada2023")
def correlation_map(net: Network, c: float, q: float) -> float:
    """c' = q_12'/q' for two inputs of equal lengths q and correlation c (001, A.4).

    Where q is a fixed length, c = 1 is a fixed point of this map. Its derivative is
    `correlation_slope`.

    Arguments:
        net: the network, the same at every layer.
        c: the correlation of the layer before, −1 to 1.
        q: both lengths, above 0.

    Raises InputError for other c and q, and for a network without weights and biases.

    >>> round(correlation_map(network("relu", 2), c=0, q=1), 12) == round(1 / mpmath.pi, 12)
    True
    """
    with mpmath.workdps(2 * DIGITS):
        step, at, length = step_of(net), _correlation(c), positive("q", q)
        _, covariance, _ = step.covariance((length, at * length, length))
        (moved,) = step.on_line(length, step.equations.length)
        if moved == 0:
            raise InputError("net", str(net), "weights or biases, for a correlation to exist")
        return rounded("q", q, covariance / moved, doubt(mpmath.mpf(2)))


@rests_on("naitsaada2023")
def correlation_slope(net: Network, c: float, q: float) -> float:
    """∂q_12'/∂q_12 = C_W ⟨σ'_1 σ'_2⟩ at equal lengths q and correlation c; χ at c = 1 (001, eq. 9).

    Arguments:
        net, c, q: as for `correlation_map`.

    Raises InputError for a c outside [−1, 1] and a q that is not above 0.

    >>> round(correlation_slope(network("relu", 2), c=0, q=1), 12)
    0.5
    """
    with mpmath.workdps(2 * DIGITS):
        step, length = step_of(net), positive("q", q)
        (at_one,) = step.on_line(length, step.equations.chi)
        return rounded("q", q, step.slope(_correlation(c), length, DIGITS), doubt(at_one))


@rests_on("naitsaada2023")
def chi(net: Network, q: float, layer: int = 2) -> float:
    """χ_γ = C_W ⟨σ'σ'⟩_q, by which a layer multiplies squared gradients (001, eq. 8).

    Arguments:
        net, q, layer: as for `length_map`.

    Raises InputError as `length_map` does.

    >>> chi(network("erf_unit_slope", 2), q=0)
    2.0
    """
    with mpmath.workdps(2 * DIGITS):
        step = step_of(net, layer)
        (gain,) = step.on_line(variance("q", q), step.equations.chi)
        return rounded("q", q, gain, doubt(gain))


@rests_on("naitsaada2023")
def chi_parallel(net: Network, q: float, layer: int = 2) -> float:
    """χ_∥ = C_W ⟨(σσ)''⟩_q/2, the derivative of the length map; e^{−1/ξ_q} in 001, A.6.

    Arguments:
        net, q, layer: as for `length_map`.

    Raises InputError as `length_map` does.

    >>> chi_parallel(network("relu", 1), q=3)
    0.5
    """
    with mpmath.workdps(2 * DIGITS):
        step = step_of(net, layer)
        length, maps = variance("q", q), step.equations
        moved, gain, parallel = step.on_line(length, maps.length, maps.chi, maps.chi_parallel)
        size = gain + 2 * (moved - step.C_b) / length if length else gain
        return rounded("q", q, parallel, doubt(size))


@rests_on("naitsaada2023")
def lengths(
    net: Network, q: float, depth: int, gamma: Sequence[sympy.Expr | float] | None = None
) -> list[float]:
    """q at layers 1 … depth, given that of layer 1 (001, eq. 3).

    Arguments:
        net: the network.
        q: the length of layer 1, a variance, 0 or more.
        depth: layers of preactivations, counted from 1.
        gamma: rank over width of each layer, 1 … depth; it scales the variances of the network,
            C_W and C_b of its own γ, to γ_ℓ σ_α² and γ_ℓ σ_b² (001, eq. 3).

    Raises InputError for another number of ratios, a ratio outside (0, 1], and as `length_map`
    does.

    >>> lengths(network("relu", 1, 1), q=1, depth=4)
    [1.0, 1.5, 1.75, 1.875]
    >>> lengths(network("relu", 2), q=1, depth=4, gamma=[1, 0.5, 0.5, 1])
    [1.0, 0.5, 0.25, 0.25]
    """
    with mpmath.workdps(2 * DIGITS):
        first, steps = variance("q", q), steps_of(net, depth, gamma)

    def run(digits: int, noise: Noise) -> Rows:
        found = [(first,)]
        for step in steps:
            (moved,) = step.on_line(found[-1][0], step.equations.length, digits=digits)
            found.append((moved * noise(),))
        return found

    return [moved for (moved,) in _rounded("q", q, *followed(run, lambda row: row))]


@rests_on("naitsaada2023")
def kernels(
    net: Network,
    kernel: Sequence[float],
    depth: int,
    gamma: Sequence[sympy.Expr | float] | None = None,
) -> list[tuple[float, float, float]]:
    """(q_11, q_12, q_22) at layers 1 … depth, given that of layer 1 (001, eqs. 3 and 5).

    Arguments:
        net, depth, gamma: as for `lengths`.
        kernel: (q_11, q_12, q_22) of layer 1.

    Raises InputError as `lengths` and `covariance_map` do.

    >>> kernels(network("linear", 1, 1), (1, 0, 1), depth=3)
    [(1.0, 0.0, 1.0), (2.0, 1.0, 2.0), (3.0, 2.0, 3.0)]
    """
    with mpmath.workdps(2 * DIGITS):
        first, steps = kernel_of(kernel), steps_of(net, depth, gamma)

    def run(digits: int, noise: Noise) -> Rows:
        found: Rows = [first]
        for step in steps:
            found.append(_disturbed(step, found[-1], digits, noise))
        return found

    moved = _rounded("kernel", kernel, *followed(run, _sizes))
    return [(q11, q12, q22) for q11, q12, q22 in moved]


def _rounded(name: str, got: object, rows: Rows, doubts: Rows) -> list[list[Estimate]]:
    """Numbers by layer as floats."""
    with mpmath.workdps(2 * DIGITS):
        return [
            [rounded(name, got, *each) for each in zip(*both, strict=True)]
            for both in zip(rows, doubts, strict=True)
        ]


def _disturbed(
    step: Step, kernel: tuple[mpmath.mpf, ...], digits: int, noise: Noise
) -> tuple[mpmath.mpf, ...]:
    """The kernel moved, times noise that leaves inputs parallel which are."""
    q11, q12, q22 = step.covariance((kernel[0], kernel[1], kernel[2]), digits)
    common, own = noise(), noise()
    aligned = abs(q12) == q11 == q22
    return q11 * common, q12 * common * (1 if aligned else own), q22 * common


def _sizes(kernel: tuple[mpmath.mpf, ...]) -> tuple[mpmath.mpf, ...]:
    """The size against which each entry is compared."""
    q11, _, q22 = kernel
    return q11, mpmath.sqrt(q11 * q22), q22


def _correlation(value: object) -> mpmath.mpf:
    c = number("c", value)
    if abs(c) > 1:
        raise InputError("c", value, "a correlation in [−1, 1]")
    return c
