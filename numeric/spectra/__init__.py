"""Spectra of input-output Jacobians: compiled densities, and simulated networks.

s = spectra.jacobian(activations.hard_tanh, Orthogonal(), depth=16, q_star=0.1)
s.density(lam), s.atoms, s.edges, s.moments(4)
"""

from __future__ import annotations

import sympy

from derive import spectra as symbolic
from derive.activations.functions import Activation
from derive.errors import as_integer
from derive.layers import Layer
from derive.network import Network
from derive.spectra import Law
from derive.weights import WeightEnsemble
from derive.work.faces import public

from .branches.spectrum import spectrum_of
from .simulations import simulate, weight_matrix
from .solver import Solution
from .spectrum import Spectrum

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
    critical: bool | None = None,
    layer: Layer | str | None = None,
    C_b: float | sympy.Expr | None = None,
) -> Spectrum:
    """The eigenvalues of JJᵀ, J = Π_l D^l W^l, for `depth` identical layers of infinite width.

        S_JJᵀ = (S_{D²} S_{WᵀW})^L        (source 002, eq. 13)

    Arguments:
        activation: φ or its name, or the law of D² = φ'(h)².
        weights: an ensemble, W_ij of variance C_W/n, or its name; or the law of WᵀW. Independent
            entries are taken as normal ones, whose limit they have (`derive.spectra.weight_law`).
        depth: L, from 1 to 10⁶: the number of factors D W, or ∂z'/∂z, of J.
        q_star: the variance of the preactivations, a number; not needed where φ'(h)² does not
            depend on it. `derive.criticality(activation).K_star` is that of a critical network.
        critical: True scales the weights to χ = C_W ⟨φ'²⟩ = 1, so that the eigenvalues have mean 1.
            False keeps their C_W. The default is True for weights without a C_W, such as
            `Orthogonal()` and "orthogonal", and False for weights with a C_W and for laws.
        layer: another than the dense one (`derive.layers`), at z of variance q_star, or its text.
            It has the weights' own C_W.
        C_b: of such a layer's biases, 0 by default.

    Of gates, of several branches and of skips within a branch the density is that of a system of
    equations (`branches`): without `precision`, and gates without an upper edge.

    Raises:
        InputError: for arguments that are wrong or not used, and for a missing `q_star`
            (`derive.spectra.jacobian` lists the cases). Symbols have no density: asking for a
            number then raises the error.

    >>> from derive import Orthogonal
    >>> s = jacobian("hard_tanh", Orthogonal(), depth=16, q_star=0.1)
    >>> {round(at, 4): round(mass, 4) for at, mass in s.atoms.items()}
    {0.0: 0.0016, 1.0254: 0.975}
    >>> s.moments(2).round(4)  # m_2 = 1 + L (1/p − 1), p = erf(√5)
    array([1.    , 1.0251])
    >>> [float(jacobian("relu", Orthogonal(C_W=c), 2).moments(1)[0]) for c in (1, 2, 4)]
    [0.25, 1.0, 4.0]
    >>> jacobian("tanh", Orthogonal(), depth=5, layer="normalized(rms)").moments(1).round(4)
    array([0.0216])
    >>> s = jacobian("linear", Orthogonal(), 1, 1, layer="residual(skip=2)")
    >>> [round(end, 9) for end in s.edges[0]]  # (2 ± 1)²
    [1.0, 9.0]
    """
    depth = as_integer("depth", depth, 1, MAX_DEPTH)
    law = symbolic.jacobian(
        activation, weights, depth, q_star, critical=critical, layer=layer, C_b=C_b
    )
    return spectrum_of(law)


def layered(
    layers: list[
        tuple[Activation | str | Law, WeightEnsemble | str | Law, float | sympy.Expr | None]
    ],
) -> Spectrum:
    """The eigenvalues of JJᵀ for layers that differ: S_JJᵀ = Π_l S_{D²} S_{WᵀW} (002, eq. 13).

    Arguments:
        layers: of each (activation, weights, q), as in `jacobian`; q, the variance of its
            preactivations, may be None where φ'(h)² does not depend on it. The weights keep their
            C_W; the order does not matter.

    Raises InputError for no layers, and for layers that can't be used.

    >>> from derive import Gaussian
    >>> s = layered([("linear", Gaussian(), None), ("relu", Gaussian(2), None)])
    >>> s.atoms, s.moments(2).round(9)
    ({0.0: 0.5}, array([1., 4.]))
    """
    return Spectrum(symbolic.layered(layers))


def of_network(net: Network, q_first: float | sympy.Expr, depth: int) -> Spectrum:
    """The eigenvalues of JJᵀ, J = ∂z^L/∂z^1, for a network, layer by layer.

        q^{l+1} = C_b + C_W ⟨φ²⟩_{q^l}        (source 002, eq. 3)

    Arguments:
        net: the network, with numbers for its parameters, of equal widths. Independent entries are
            taken as normal ones, whose limit they have.
        q_first: the variance q^1 of the first preactivations, C_W |x|²/n_0 + C_b.
        depth: L, 2 to 1001: layers of preactivations, as in `numeric.flow`. J has L − 1 factors.

    Raises InputError for an argument that can't be used.

    >>> from derive import Gaussian, activations
    >>> s = of_network(Network(activations.relu, Gaussian(2)), q_first=1, depth=4)
    >>> s.atoms, s.moments(2).round(9)  # m_2 = 1 + 3 (2 − 1 + 1)
    ({0.0: 0.5}, array([1., 7.]))
    """
    return spectrum_of(symbolic.of_network(net, q_first, depth))


def zero_padded(
    activation: Activation | str | Law,
    gamma: float | sympy.Expr,
    depth: int,
    q_star: float | sympy.Expr | None = None,
) -> Spectrum:
    """The eigenvalues of JJᵀ for W = σ_α [U, 0] of source 001, §3.2, which is not free from D.

    U is a uniform frame of γn columns, σ_α set by χ = γ σ_α² ⟨φ'²⟩ = 1. The law is derived here, in
    `derive.spectra.zero_padded`; the source takes that of free layers, `jacobian`'s with
    `LowRankOrthogonal` weights.

    Arguments:
        activation: φ or its name, or the law of D² = φ'(h)².
        gamma: γ = rank/n, above 0 and at most 1.
        depth: L, from 1 to 10⁶: the number of factors D W of J.
        q_star: the variance of the preactivations; not needed where φ'(h)² does not depend on it.

    Raises InputError for an argument that can't be used.

    >>> s = zero_padded("linear", 0.5, depth=2)
    >>> s.atoms, s.moments(2).round(9)
    ({0.0: 0.5}, array([1., 3.]))
    """
    depth = as_integer("depth", depth, 1, MAX_DEPTH)
    return Spectrum(symbolic.zero_padded(activation, gamma, depth, q_star))


def limit(
    kind: str, sigma0: float | sympy.Expr, ratio: float | sympy.Expr | None = None
) -> Spectrum:
    """The universal law of JJᵀ for orthogonal weights as L → ∞ at the variance σ_0².

        S = exp(−σ_0² w/(1 + b w)),  b = 1 "bernoulli", b = 0 "smooth"  (source 002, eqs. 29, 36)

    and b = 1 − a for "leaky" kinks, derived here (`derive.spectra.limit`). The mean is 1.

    Arguments:
        kind: "bernoulli", "smooth" or "leaky".
        sigma0: σ_0 > 0, not squared.
        ratio: a = (φ'(beyond the kink)/φ'(0))² ≥ 0, with "leaky" and nothing else.

    Raises InputError for an argument that can't be used.

    >>> s = limit("bernoulli", 0.5)
    >>> s.moments(2)  # m_2 = 1 + σ_0²
    array([1.  , 1.25])
    >>> {round(at, 4): mass for at, mass in s.atoms.items()}  # at e^{σ_0²}, of mass 1 − σ_0²
    {1.284: 0.75}
    """
    return Spectrum(symbolic.limit(kind, sigma0, ratio))


public(__name__)
