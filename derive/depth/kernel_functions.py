"""The kernel map and the susceptibilities χ_∥, χ_⊥ as functions of K.

With one input the kernel moves by K' = C_b + C_W g(K), g(K) = ⟨σσ⟩_K (source 000, eq. 5.3), and two
nearby inputs by (5.4)–(5.5)

    χ_∥(K) = C_W/(2K²) ⟨σσ(z² − K)⟩_K = C_W g'(K),        χ_⊥(K) = C_W ⟨σ'σ'⟩_K .
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import sympy

from ..activations.functions import Activation
from ..display.objects import Shown
from ..errors import InputError
from ..expressions import as_expression
from ..gaussian import brackets
from ..gaussian.brackets import Average
from ..gaussian.small_kernel import average_at, small_kernel_average
from ..symbols import C_W, C_b, K
from ..work.caches import cache


@dataclass(frozen=True, repr=False)
class KernelFunction(Shown):
    """offset·C_b + factor·C_W ⟨∂^outer Π σ^{(orders)}⟩_K as a function of K: (5.3) or a χ."""

    name: str
    activation: Activation
    orders: tuple[int, ...]
    outer: int
    factor: sympy.Expr
    offset: int

    @property
    def expr(self) -> sympy.Expr:
        """The function of `K`, `C_W` and `C_b`: a closed form if one is known, else with an average
        that `evalf` evaluates once K is a number."""
        average = brackets.average(self.activation, self.orders, self.outer)
        return self.offset * C_b + C_W * self.factor * average

    @property
    def _closed(self) -> sympy.Expr | None:
        """`expr`, or None if it has no closed form."""
        return None if self.expr.has(brackets.GaussianAverage) else self.expr

    def series(self, power: int) -> sympy.Expr:
        """The expansion for small K, through K^power, with C_W and C_b."""
        average = small_kernel_average(self.activation, self.orders, power + self.outer // 2)
        average = 2 ** (self.outer // 2) * average.diff(K, self.outer // 2)
        return sympy.expand(self.offset * C_b + C_W * self.factor * average)

    def __call__(
        self, at: sympy.Expr | float, C_W: object = 1, C_b: object = 0, digits: int = 20
    ) -> mpmath.mpf:
        """The value at K = `at` ≥ 0 to this many digits: the closed form, or quadrature."""
        with mpmath.workdps(digits + 10):
            average = average_at(self.activation, self.orders, self.outer, number(at), digits + 5)
            return self.offset * number(C_b) + number(C_W) * number(self.factor) * average

    def at_weight(self, weight: sympy.Expr) -> sympy.Expr:
        """The function of K at this C_W and C_b = 0, its bracket in closed form if there is one."""
        closed = self._closed
        general = self._definition if closed is None else closed
        return sympy.simplify(general.subs({C_W: weight, C_b: 0}))

    @property
    def _definition(self) -> sympy.Expr:
        """The function with its bracket for an unspecified σ."""
        average = Average(tuple((1, order) for order in self.orders), (1,) * self.outer)
        return self.offset * C_b + C_W * self.factor * average

    def latex(self) -> str:
        """The function in LaTeX, its bracket in closed form where there is one."""
        closed = self._closed
        value = "" if closed is None else f" = {sympy.latex(closed)}"
        head = {"χ_∥": r"\chi_\parallel", "χ_⊥": r"\chi_\perp", "kernel map": "K'"}.get(self.name)
        left = "" if head is None else f"{head}(K) = "
        return f"{left}{sympy.latex(self._definition)}{value}"

    def __str__(self) -> str:
        closed = self._closed
        value = "" if closed is None else f" = {closed}"
        return f"{self.name} of {self.activation}: {self._definition}{value}"


@cache
def kernel_functions(
    activation: Activation,
) -> tuple[KernelFunction, KernelFunction, KernelFunction]:
    """Of K' (5.3), χ_∥ (5.4) and χ_⊥ (5.5)."""
    half, one = sympy.Rational(1, 2), sympy.Integer(1)
    return (
        KernelFunction("kernel map", activation, (0, 0), 0, one, 1),
        KernelFunction("χ_∥", activation, (0, 0), 2, half, 0),
        KernelFunction("χ_⊥", activation, (1, 1), 0, one, 0),
    )


def number(value: object) -> mpmath.mpf:
    """To the digits at work and five more; InputError where it is no real number."""
    exact = as_expression("C_W, C_b", value, "real numbers")
    if not exact.is_number:
        raise InputError("C_W, C_b", value, "real numbers")
    return mpmath.mpf(exact.evalf(mpmath.mp.dps + 5))


def floating(value: mpmath.mpf, digits: int) -> sympy.Expr:
    """To so many digits."""
    return sympy.Float(value, digits)
