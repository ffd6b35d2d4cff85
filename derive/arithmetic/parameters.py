"""The hyperparameters of a layer as atoms of the engine's polynomials."""

from __future__ import annotations

from typing import NamedTuple

import sympy

from .. import symbols


class Parameter(NamedTuple):
    """A hyperparameter of the layer ℓ+1, or a width ratio."""

    name: str

    @property
    def expr(self) -> sympy.Symbol:
        """Its symbol."""
        return symbols.parameter(self.name)


class Value(NamedTuple):
    """A number, or an expression in symbols of a user's own, in the place of a hyperparameter."""

    expr: sympy.Expr


C_W, C_B = Parameter("C_W"), Parameter("C_b")
LAMBDA_W, LAMBDA_B = Parameter("lambda_W"), Parameter("lambda_b")
R_IN = Parameter("r_in")
"""n_ℓ/n, the width that feeds the layer over the reference width."""
R_OUT = Parameter("r_out")
"""n_{ℓ+1}/n, the width that the layer feeds over the reference width."""
R_BIG = Parameter("r_big")
"""max(n_ℓ, n_{ℓ+1})/n: the size of the Haar matrix of which a rectangular layer is a block."""


def correction(variance: Parameter, order: int) -> tuple[Parameter, ...]:
    """The variance and its corrections: C_W, C_W1, C_W2, … of C_W + C_W1/n + C_W2/n² + …"""
    return (variance, *(Parameter(f"{variance.name}{g}") for g in range(1, order + 1)))
