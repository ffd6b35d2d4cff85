"""How V/K² grows with depth at criticality: whether K fluctuates at a depth comparable with n."""

from __future__ import annotations

import sympy

from ..activations import polynomial
from ..activations.functions import Activation, as_activation
from ..depth.asymptotics import asymptotics
from ..depth.criticality import Criticality, criticality
from ..engine.norms import norm_of
from ..engine.skips import is_skip
from ..engine.step import step
from ..errors import InputError
from ..layers import Layer, as_layer
from ..network import Network
from ..symbols import ell, z
from ..weights import WeightEnsemble, as_weights
from .walks import walk


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

    Derived here. Raises InputError as `Recursion.asymptotics` does, and behind a skip around one
    matrix where K* > 0.

    >>> growth("relu"), growth("tanh", "orthogonal")
    (5*ell, -2)
    """
    sigma, own = as_activation(activation), as_layer(layer)
    found = criticality(sigma, layer=own)
    if is_skip(own.stages) and norm_of(own.stages) is None:
        return _remembered(sigma, weights, own, found)
    given: dict[str, sympy.Expr] = {}
    if found.line is not None or found.exponent is not None:
        given = {"C_W": sympy.S.One}
    if found.exponent is not None:
        given["C_b"] = sympy.S.Zero
    made = step("V", weights, layer=own.staged).single_input()
    return asymptotics(made, sigma, 1, **given).normalised.terms[0].expr


def _remembered(
    sigma: Activation, weights: WeightEnsemble | str, layer: Layer, found: Criticality
) -> sympy.Expr:
    """s ℓ behind a skip around one matrix; at K* = 0 a third of that of linear networks, because
    V/K² loses 2/ℓ of itself in a layer of K ~ 1/ℓ."""
    C_b, C_W = found.critical
    known = [each for each in found.points if (each.C_b, each.C_W, each.K) == (C_b, C_W, 0)]
    if sigma.is_scale_invariant:
        part, repeated = 1, sigma
    elif known and known[0].exponent == 1 and known[0].coefficient.is_negative:
        part, repeated = 3, polynomial([0, 1])
        C_W *= sympy.diff(sigma.expr, z).subs(z, 0) ** 2
    else:
        raise InputError("activation", str(sigma), "σ(cz) = cσ(z), or K* = 0 with K ~ 1/ℓ")
    law = as_weights("weights", weights).scaled_to(C_W)
    return walk(Network(repeated, law, layer=layer)).spread / part * ell
