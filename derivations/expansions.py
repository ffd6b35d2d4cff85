"""Recursions at a small kernel: every bracket of one input as its series in K.

Near K* = 0 the layers are followed by powers of K; `small_kernel` turns a derived recursion into
that series, whatever tensors multiply the brackets.
"""

from __future__ import annotations

import sympy

from derive.activations import Activation
from derive.brackets import Average
from derive.criticality import K, small_kernel_average
from derive.recursion import Recursion


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


def through(expression: sympy.Expr, variable: sympy.Symbol, power: int) -> sympy.Expr:
    """A polynomial's terms up to variable^power."""
    terms = sympy.Poly(sympy.expand(expression), variable).all_terms()
    return sympy.Add(*(value * variable**degree for (degree,), value in terms if degree <= power))
