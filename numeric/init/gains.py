"""The gain of an activation in a layer, as `torch.nn.init.calculate_gain` is asked for it."""

from __future__ import annotations

from dataclasses import replace

import sympy

from derive.activations.functions import Activation, as_activation
from derive.citations import rests_on
from derive.depth.criticality import criticality
from derive.depth.gains import Gain, rounded
from derive.errors import InputError
from derive.layers import Layer, as_period
from derive.weights import WeightEnsemble, as_weights


@rests_on("day2025", "roberts2022")
def gain(
    activation: Activation | str,
    layer: Layer | str | None = None,
    *,
    C_W: sympy.Expr | float | None = None,
    K: sympy.Expr | float | None = None,
) -> Gain:
    """√C_W and C_b that make a deep network critical, χ_∥ = χ_⊥ = 1, with the reason.

    Arguments:
        activation: σ, or its name.
        layer: what the network repeats, or its text, "residual(skip=1, norm=rms)"; the dense layer
            by default.
        C_W: of a layer that is critical for every C_W (with a norm), which one, 1 by default.
        K: of the dense layer, a fixed point of one's choice with χ_⊥ = 1, where σ has no critical
            point or another one is wanted.

    C_W = n_in E[W_ij²]: Gaussian entries have the standard deviation gain/√n_in, a square
    orthogonal matrix is gain times a Haar matrix. The answer is the same for every ensemble, which
    order 1/n alone tells apart. From `derive.criticality`.

    Raises InputError for σ without a critical point, with the reason and what can be done instead;
    for a layer that has variances of its own; for a C_W where it is solved for; for both C_W and K.

    >>> float(gain("relu"))
    1.4142135623730951
    >>> print(gain("tanh", "residual(skip=1, norm=rms)"))
    1 (C_b = 0): in residual(skip=1, norm=rms) K grows by ... χ_⊥ = 1 + 1.17781/ℓ: ...
    >>> print(gain("sigmoid", K=100))
    12.303 (C_b = 30.261062): χ_⊥ = 1 at the fixed point K* = 100, where χ_∥ = 0.0287826 attracts
    """
    sigma, repeated = as_activation(activation), as_period("dense" if layer is None else layer)
    if repeated.variances:
        wanted = "a layer without variances of its own, C: they are what is asked for"
        raise InputError("layer", str(repeated), wanted)
    if C_W is not None and K is not None:
        raise InputError("C_W, K", (C_W, K), "one of them: at K the C_W is solved for")
    found = criticality(sigma, layer=repeated)
    if K is not None:
        return found.at(K)
    if found.line or found.exponent:
        return found.chosen(1 if C_W is None else C_W)
    if C_W is not None:
        raise InputError("C_W", C_W, f"None: in {repeated} it is solved for")
    return found.gain


def shown(law: WeightEnsemble) -> str:
    """A law as it is printed, with eight digits of C_W."""
    return str(replace(law, C_W=rounded(sympy.sympify(law.C_W))))


def ensemble(weights: WeightEnsemble | str, C_W: sympy.Expr) -> WeightEnsemble:
    """The law, with this C_W in place of its own; InputError for what has parameters left open."""
    law = as_weights("weights", weights).scaled_to(C_W)
    if law.free_symbols:
        raise InputError("weights", str(law), "numbers for its parameters, to draw it")
    return law
