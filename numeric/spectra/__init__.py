"""Spectra of input-output Jacobians: compiled densities, and simulated networks.

s = spectra.jacobian(activations.hard_tanh, Orthogonal(), depth=16, q_star=0.1)
s.density(lam), s.atoms, s.edges, s.moments(4)
"""

from __future__ import annotations

import sympy

from derive import spectra as symbolic
from derive.activations import Activation
from derive.errors import whole
from derive.network import Network
from derive.spectra import Law
from derive.weights import WeightEnsemble

from .simulate import simulate, weight_matrix
from .spectrum import Solution, Spectrum

__all__ = [
    "Solution",
    "Spectrum",
    "jacobian",
    "layered",
    "limit",
    "of_network",
    "simulate",
    "weight_matrix",
    "zero_padded",
]

MAX_DEPTH = 10**6


def jacobian(
    activation: Activation | str | Law,
    weights: WeightEnsemble | str | Law,
    depth: int,
    q_star: float | sympy.Expr | None = None,
    *,
    critical: bool = True,
) -> Spectrum:
    """The eigenvalues of JJᵀ for `depth` identical layers (see `derive.spectra.jacobian`).

    With `critical` the weights are scaled to χ = 1; else their own C_W holds.
    """
    depth = whole("depth", depth, 1, MAX_DEPTH)
    return Spectrum(symbolic.jacobian(activation, weights, depth, q_star, critical=critical))


def layered(
    layers: list[
        tuple[Activation | str | Law, WeightEnsemble | str | Law, float | sympy.Expr | None]
    ],
) -> Spectrum:
    """Layers that differ, each (activation, weights, variance q of its preactivations)."""
    return Spectrum(symbolic.layered(layers))


def of_network(net: Network, q_first: float | sympy.Expr, depth: int) -> Spectrum:
    """A network whose first preactivations have this variance, layer by layer."""
    return Spectrum(symbolic.of_network(net, q_first, depth))


def zero_padded(
    activation: Activation | str | Law,
    gamma: float | sympy.Expr,
    depth: int,
    q_star: float | sympy.Expr | None = None,
) -> Spectrum:
    """W = σ_α [U, 0] of source 001, §3.2, which is not free from D."""
    depth = whole("depth", depth, 1, MAX_DEPTH)
    return Spectrum(symbolic.zero_padded(activation, gamma, depth, q_star))


def limit(
    kind: str, sigma0: float | sympy.Expr, ratio: float | sympy.Expr | None = None
) -> Spectrum:
    """The universal law of the class "bernoulli", "smooth", or "leaky" with its `ratio`."""
    return Spectrum(symbolic.limit(kind, sigma0, ratio))


def __dir__() -> list[str]:
    return sorted(__all__)
