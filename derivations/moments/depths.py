"""The depth at which neurons share the most information."""

from __future__ import annotations

import sympy

from derive.activations.functions import Activation
from derive.depth.asymptotics import asymptotics
from derive.depth.information import mutual_information, v
from derive.engine.step import step
from derive.symbols import ell
from derive.weights import Gaussian, WeightEnsemble


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
