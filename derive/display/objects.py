"""How an object shows itself: its text at a prompt, its mathematics in a notebook."""

from __future__ import annotations

from abc import abstractmethod

import sympy


class Shown:
    """Objects whose `repr` is their text, and whose LaTeX a notebook shows."""

    @abstractmethod
    def latex(self) -> str:
        """The object in LaTeX, without the dollar signs."""

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"

    def __repr__(self) -> str:
        return str(self)


def lines_latex(rows: list[str]) -> str:
    """Rows of mathematics, one under the other."""
    return r"\begin{array}{l}" + r" \\ ".join(rows) + r"\end{array}"


LONGEST = 24
"""The most letters of a rational number that is shown exactly."""


def readable(expression: sympy.Expr) -> sympy.Expr:
    """The expression as it is shown: decimals, and rational numbers of more than `LONGEST` letters,
    as decimals of eight digits.

    >>> readable(sympy.Rational(10**20 + 1, 10**20) * sympy.pi)
    1.0*pi
    """
    if any(len(str(each)) > LONGEST for each in expression.atoms(sympy.Rational)):
        expression = sympy.expand(expression)
    numbers = expression.atoms(sympy.Float, sympy.Rational)
    long = {each for each in numbers if each.is_Float or len(str(each)) > LONGEST}
    return expression.xreplace({each: sympy.Float(each, 8) for each in long})


def printed(expression: sympy.Expr) -> str:
    """The expression as text, ℓ for `symbols.ell`."""
    return str(readable(expression)).replace("ell", "ℓ")


def factor_text(value: sympy.Expr) -> str:
    """A sympy expression as text, in parentheses where it is a sum."""
    return f"({value})" if sympy.sympify(value).is_Add else str(value)


def factor_latex(value: sympy.Expr) -> str:
    """A sympy expression in LaTeX, in parentheses where it is a sum."""
    text = sympy.latex(value)
    return rf"\left({text}\right)" if sympy.sympify(value).is_Add else text
