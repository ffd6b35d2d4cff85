"""Ratios of depth to width: where the expansion in 1/n ends, and where information is largest."""

from __future__ import annotations

import sympy

from derive.activations.functions import Activation
from derive.depth.asymptotics import asymptotics
from derive.depth.information import mutual_information, v
from derive.engine.step import step
from derive.engine.tensors import named
from derive.layers.per_layer import PerLayer
from derive.symbols import ell
from derive.weights import Gaussian, WeightEnsemble


def breakdown(
    tensor: str,
    activation: Activation,
    weights: WeightEnsemble | None = None,
    *,
    lambda_b: PerLayer = lambda layer: 1 / layer,
    lambda_W: PerLayer = 1,
) -> sympy.Expr:
    """How a tensor's next order in 1/n, by the same engine, grows beside its first: the leading
    term of their quotient in `ell`, of which a width n has one n-th."""
    name, weights = named(tensor), weights or Gaussian()
    further = step(list(name.fields), weights, pairing=name.pairing, order=name.order + 1)
    after, before = (
        asymptotics(each, activation, 1, lambda_b=lambda_b, lambda_W=lambda_W).terms[0].expr
        for each in (further, step(name, weights))
    )
    return sympy.factor(after / before)


def aspect_ratio(growth: sympy.Expr) -> sympy.Expr:
    """L/n at which the next order is as large as the first, if deep: 1/|c| if growth = c ℓ.

    ∞ if the growth is slower than ℓ: the expansion is then valid at any depth if n ∝ L. 0 if it is
    faster: the expansion then fails at large depth even if n ∝ L.
    """
    per_layer = growth / ell
    if not per_layer.has(ell):
        return 1 / sympy.Abs(per_layer)
    return sympy.oo if sympy.limit(per_layer, ell, sympy.oo) == 0 else sympy.S.Zero


def optimal_aspect_ratio(
    activation: Activation, weights: WeightEnsemble | None = None, outputs: sympy.Expr | int = 1
) -> sympy.Expr | None:
    """The L/n at which deep critical networks with so many outputs have the most information.

    `mutual_information` is largest at one v, and v = ν L/n with ν from the vertex at large depth
    (`asymptotics`). None where V/K² does not grow with depth, as under orthogonal weights:
    then depth brings no more information and costs none (source 000, §5.5).
    """
    vertex = asymptotics(step("V", weights or Gaussian()), activation, 1).normalised
    slope = sympy.limit(vertex.expr / ell, ell, sympy.oo)
    if not slope.is_positive:
        return None
    one, two = sympy.symbols("N_1 N_2", positive=True)
    shared = mutual_information(one, two)
    best = next(root for root in sympy.solve(sympy.diff(shared, v), v) if root != 0)
    total = sympy.sympify(outputs)
    return sympy.simplify(best.subs(two, total - one) / slope)
