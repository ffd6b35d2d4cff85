"""Gaussian averages for checking the engine: exact ones of polynomials, and a grid for the rest.

Neither uses the engine's way with brackets: polynomials are averaged by Wick's theorem one factor
at a time, other functions by the trapezoid rule in whitened coordinates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy

from derive.activations.functions import Activation, z
from derive.gaussian.brackets import Average, Component
from derive.work.caches import cache

Integral = Callable[[sympy.Expr], sympy.Expr]
"""⟨f⟩_K of a function f of z_1, z_2, …"""

STEP, REACH = 0.2, 9.5
"""Of the trapezoid rule, in standard deviations: e^{−2π·1.2/0.2} and e^{−9.5²/2} are below 1e-16,
for functions that are analytic within 1.2 standard deviations of the real axis."""


def variables(samples: int) -> tuple[sympy.Symbol, ...]:
    """z_1 … z_samples."""
    return tuple(sympy.symbols(f"z_1:{samples + 1}", real=True))


def wick(K: sympy.Matrix) -> Integral:
    """Averages of polynomials in z_1, z_2, … at z ~ N(0, K), exact."""

    @cache(entries=2**16)
    def monomial(powers: tuple[int, ...]) -> sympy.Expr:
        first = next((a for a, power in enumerate(powers) if power), None)
        if first is None:
            return sympy.Integer(1)
        rest = tuple(power - (a == first) for a, power in enumerate(powers))
        return sum(
            power * K[first, b] * monomial(tuple(p - (a == b) for a, p in enumerate(rest)))
            for b, power in enumerate(rest)
            if power
        )

    def average(function: sympy.Expr) -> sympy.Expr:
        terms = sympy.Poly(function, *variables(K.rows)).terms()
        return sympy.Add(
            *(value * monomial(powers) for powers, value in terms if sum(powers) % 2 == 0)
        )

    return average


def on_grid(K: sympy.Matrix) -> Integral:
    """Averages of analytic functions of z_1, z_2, … at z ~ N(0, K), to rounding."""
    axis = np.arange(-REACH, REACH + STEP / 2, STEP)
    whitened = np.array(np.meshgrid(*[axis] * K.rows, indexing="ij")).reshape(K.rows, -1)
    weight = np.exp(-0.5 * (whitened**2).sum(axis=0)) * (STEP / np.sqrt(2 * np.pi)) ** K.rows
    points = np.linalg.cholesky(np.array(K, float)) @ whitened

    def average(function: sympy.Expr) -> sympy.Expr:
        values = sympy.lambdify(variables(K.rows), function, "numpy")(*points)
        return sympy.Float(float(weight @ np.broadcast_to(values, weight.shape)))

    return average


def evaluate(
    expression: sympy.Expr, activation: Activation, K: sympy.Matrix, integral: Integral
) -> sympy.Expr:
    """A recursion's right-hand side with its brackets and its kernel at the covariance K."""
    names = variables(K.rows)

    def value(average: Average) -> sympy.Expr:
        factors, outer, _ = average.bracket
        parts = [activation.derivative(order).subs(z, names[a - 1]) for a, order in factors]
        inner = sympy.prod(parts)
        return integral(sympy.diff(inner, *(names[a - 1] for a in outer)) if outer else inner)

    entries = ((a, b) for a in range(K.rows) for b in range(a, K.rows))
    return expression.xreplace(
        {Component("K", (a + 1, b + 1)): K[a, b] for a, b in entries}
        | {average: value(average) for average in expression.atoms(Average)}
    )
