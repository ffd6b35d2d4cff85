"""How V/K² grows with depth at criticality: whether K fluctuates at a depth comparable with n."""

from __future__ import annotations

import sympy

from ..activations.functions import Activation, as_activation
from ..depth.asymptotics import asymptotics
from ..depth.criticality import criticality
from ..engine.step import step
from ..layers import Layer, as_layer
from ..weights import WeightEnsemble


def growth(
    activation: Activation | str,
    weights: WeightEnsemble | str = "gaussian",
    layer: Layer | str = "dense",
) -> sympy.Expr:
    """The first term of V/K² at large depth and criticality, a function of `symbols.ell`.

    A power of ℓ means that K fluctuates by order one at ℓ ~ n. A constant, or less, means that its
    fluctuations stay of order 1/n at any ratio of depth and width.

    Arguments:
        activation: σ.
        weights: the law of all matrices.
        layer: what the network repeats. Where every C_W is critical it is at C_W = 1, with the
            critical C_b, or with none if K grows linearly.

    Derived here. Raises InputError as `Recursion.asymptotics` does.

    >>> growth("relu"), growth("tanh", "orthogonal")
    (5*ell, -2)
    """
    sigma, own = as_activation(activation), as_layer(layer)
    found = criticality(sigma, layer=own)
    given: dict[str, sympy.Expr] = {}
    if found.line is not None or found.exponent is not None:
        given = {"C_W": sympy.S.One}
    if found.exponent is not None:
        given["C_b"] = sympy.S.Zero
    made = step("V", weights, layer=None if own.is_dense else own).single_input()
    return asymptotics(made, sigma, 1, **given).normalised.terms[0].expr
