"""A term of a tensor at large depth, and how such terms are printed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from ..arithmetic.logseries import ZERO
from ..display.objects import Shown, readable
from ..symbols import ell

DIGITS = 30
"""Of numbers that stand among the terms."""
_SIMPLE = 10**6  # denominators of exponents beyond stand for decimal numbers


@dataclass(frozen=True, repr=False)
class Term(Shown):
    """coefficient · ℓ^{−exponent} (log ℓ)^log; universal if no free constant is in it.

    `error` is how far the coefficient can be off, 0 where it is exact.
    """

    coefficient: sympy.Expr
    exponent: sympy.Expr
    log: int
    universal: bool
    error: sympy.Expr = ZERO

    @property
    def expr(self) -> sympy.Expr:
        """The term as a function of `ell`."""
        return self.coefficient * ell**-self.exponent * sympy.log(ell) ** self.log

    @property
    def factored(self) -> Term:
        """The same with its coefficient in factors, where that is exact."""
        if self.coefficient.has(sympy.Float):
            return self
        return replace(self, coefficient=sympy.factor(self.coefficient))

    def latex(self) -> str:
        """The term in LaTeX."""
        return str(sympy.latex(readable(self.expr)))

    def __str__(self) -> str:
        return printed(self.expr)


def number(exponent: sympy.Expr) -> sympy.Expr:
    """An exponent as it is, or as a decimal number where it stands for one."""
    many = exponent.is_Rational and exponent.q > _SIMPLE
    return sympy.Float(exponent, DIGITS) if many else exponent


def printed(expression: sympy.Expr) -> str:
    """As text, ℓ for `ell`."""
    return str(readable(expression)).replace("ell", "ℓ")
