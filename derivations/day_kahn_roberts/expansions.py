"""Derived recursions of one input, followed down the layers with symbols.

Near K* = 0 by powers of the small kernel (`small_kernel`); of polynomial activations (`follow`) and
at a fixed kernel (`normalised_vertex`) exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from derive import symbols
from derive.activations.functions import Activation
from derive.gaussian.brackets import Average
from derive.gaussian.small_kernel import small_kernel_average
from derive.network import Network
from derive.recursions import Recursion, recursion
from derive.symbols import C_W as _C_W
from derive.symbols import C_b as _C_b
from derive.symbols import K
from derive.weights import WeightEnsemble

_V = symbols.tensor("V")


def small_kernel(recursion: Recursion, activation: Activation, power: int) -> sympy.Expr:
    """The right-hand side of a single-input recursion, its brackets through K^power.

    ⟨∂^m f⟩_K = 2^{m/2} (d/dK)^{m/2} ⟨f⟩_K turns the outer derivatives of a bracket into those of
    its series. Valid as an asymptotic series, for an activation without a δ at 0.
    """

    def series(average: Average) -> sympy.Expr:
        half = len(average.bracket.outer) // 2
        orders = tuple(order for _, order in average.bracket.factors)
        inner = small_kernel_average(activation, orders, power + half)
        return 2**half * inner.diff(K, half)

    expression = recursion.single_input().expr
    averages = {average: series(average) for average in expression.atoms(Average)}
    return sympy.expand(expression.xreplace(averages))


def follow(
    activation: Activation,
    weights: WeightEnsemble,
    depth: int,
    names: Sequence[str],
    values: Mapping[sympy.Symbol, sympy.Expr],
) -> list[dict[str, sympy.Expr]]:
    """Tensors of one input at layers 1 … depth by their derived recursions, in its K0."""
    steps = {
        name: recursion(name, weights).single_input().specialise(activation).expr.subs(values)
        for name in names
    }
    layers = [
        {
            name: recursion(name, weights, first_layer=True).single_input().expr.subs(values)
            for name in names
        }
    ]
    for _ in range(depth - 1):
        known, below = {}, layers[-1]
        for name, step in steps.items():
            own = {each: below[each.name] for each in step.free_symbols if each.name in below}
            known[name] = sympy.expand(step.subs(own, simultaneous=True))
        layers.append(known)
    return layers


def through(expression: sympy.Expr, variable: sympy.Symbol, power: int) -> sympy.Expr:
    """A polynomial's terms up to variable^power."""
    terms = sympy.Poly(sympy.expand(expression), variable).all_terms()
    return sympy.Add(*(value * variable**degree for (degree,), value in terms if degree <= power))


def normalised_vertex(network: Network, depth: int) -> list[sympy.Expr]:
    """Ṽ of layers 1 … depth of a critical scale-invariant network with one input, at leading order:
    its derived first layer, then the derived step at the fixed kernel."""
    first, hidden = network.weights_at(1), network.weights_at(2)
    start, size = (
        recursion(name, first, first_layer=True).single_input().expr for name in ("V", "K")
    )
    step = recursion("V", hidden).single_input().specialise(network.activation_at(1)).expr
    values = [sympy.simplify((start / size**2).subs(_C_b, 0))]
    while len(values) < depth:
        moved = step.subs({_C_W: hidden.C_W, _V: values[-1] * K**2})
        values.append(sympy.expand(moved / K**2))
    return values
