"""The gain of an initialization, √C_W, with the biases that belong to it and the reason why.

`torch.nn.init` multiplies a matrix of variance 1/n_in, or one with orthonormal rows or columns, by
a gain; here C_W = n_in E[W_ij²], so that the gain is √C_W. It is critical where χ_∥ = χ_⊥ = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from ..display.objects import Shown

LONGEST = 30
"""Letters of an exact number that is shown."""


@dataclass(frozen=True, repr=False)
class Gain(Shown):
    """√C_W for the matrices behind σ, the variance of the biases, and why.

    Attributes:
        activation: σ, by its name.
        C_W: n_in E[W_ij²] of the matrices.
        C_b: variance of the biases.
        reason: what makes these critical, in a sentence, and where they are not.

    `float(gain)` is √C_W as a number, `gain.value` as an expression.
    """

    activation: str
    C_W: sympy.Expr
    C_b: sympy.Expr
    reason: str

    @property
    def value(self) -> sympy.Expr:
        """√C_W."""
        return sympy.sqrt(self.C_W)

    @property
    def std_b(self) -> float:
        """√C_b, the standard deviation of the biases."""
        return float(sympy.sqrt(self.C_b))

    def __float__(self) -> float:
        return float(self.value)

    @property
    def _is_short(self) -> bool:
        return bool(rounded(self.value) == self.value)

    def latex(self) -> str:
        """√C_W and C_b in LaTeX."""
        exact = rf"{sympy.latex(self.value)} \approx " if self._is_short else ""
        bias = sympy.latex(rounded(self.C_b))
        return rf"\sqrt{{C_W}} = {exact}{float(self):.6g},\; C_b = {bias}"

    def __str__(self) -> str:
        exact = f" = {self.value}" if self._is_short and not self.value.is_Integer else ""
        bias = rounded(self.C_b)
        return f"{float(self):.6g}{exact} (C_b = {bias}): {self.reason}"


def rounded(value: sympy.Expr) -> sympy.Expr:
    """With eight digits if it is not exact or has more than `LONGEST` letters."""
    is_long = value.has(sympy.Float) or len(str(value)) > LONGEST
    return value.evalf(20).evalf(8) if is_long else value


def short(value: sympy.Expr) -> str:
    """`rounded`, written out."""
    return str(rounded(value))
