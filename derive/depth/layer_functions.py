"""The kernel map of any layer and its susceptibilities χ_∥, χ_⊥, as functions of K, C_W and C_b.

As `kernel_functions` of the dense layer, with brackets at more kernels than K: behind a norm, say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import mpmath
import sympy

from ..activations.functions import Activation
from ..display.objects import Shown
from ..engine.step import Composed, compose, step
from ..errors import InputError
from ..gaussian import closed_forms
from ..gaussian.brackets import Average, Bracket, unspecified
from ..gaussian.small_kernel import average_at
from ..layers import Layer
from ..symbols import C_W, C_b, K, tensor
from ..work.caches import cache
from .kernel_functions import number

THETA = tensor("Theta")


@dataclass(frozen=True, repr=False)
class LayerFunction(Shown):
    """A function of K, C_W and C_b with brackets: K', a χ, or what is made of them.

    Attributes:
        name: what it is.
        activation: σ.
        expr: the function, with brackets of the unspecified σ.
        kernels: of the brackets other than at K, by their labels.
        sigmas: the layer's own activations, by the labels of their brackets' kernels.
    """

    name: str
    activation: Activation
    expr: sympy.Expr
    kernels: tuple[tuple[str, sympy.Expr], ...] = ()
    sigmas: tuple[tuple[str, Activation], ...] = ()

    def sigma(self, average: Average) -> Activation:
        """The activation of a bracket."""
        return dict(self.sigmas).get(average.bracket.kernel, self.activation)

    def kernel(self, average: Average) -> sympy.Expr:
        """At which K a bracket is taken."""
        return dict(self.kernels).get(average.bracket.kernel, K)

    @property
    def has_C_W(self) -> bool:
        """True if C_W enters; False if the layer's own C fixes all variances."""
        return any(each.has(C_W) for each in (self.expr, *dict(self.kernels).values()))

    @property
    def averages(self) -> tuple[Average, ...]:
        """Its brackets, those in kernels not included."""
        return tuple(sorted(self.expr.atoms(Average), key=str))

    def without_biases(self) -> LayerFunction:
        """This function at C_b = 0."""
        kernels = tuple((label, kernel.subs(C_b, 0)) for label, kernel in self.kernels)
        return replace(self, expr=self.expr.subs(C_b, 0), kernels=kernels)

    def derivative(self, name: str) -> LayerFunction:
        """By K, with Price's theorem: d⟨f⟩/dK = ½⟨f''⟩ at the bracket's own kernel."""
        return replace(self, name=name, expr=self._diff(self.expr))

    def _diff(self, expr: sympy.Expr) -> sympy.Expr:
        plain = {each: sympy.Dummy() for each in expr.atoms(Average)}
        bare = expr.xreplace(plain)
        total = bare.diff(K)
        for each, symbol in plain.items():
            factors, outer, label = each.bracket
            sample = factors[0][0]
            curved = unspecified(Bracket(factors, tuple(sorted((*outer, sample, sample))), label))
            total += bare.diff(symbol) * curved / 2 * self._diff(self.kernel(each))
        return sympy.expand(total.xreplace({symbol: each for each, symbol in plain.items()}))

    @property
    def closed(self) -> sympy.Expr | None:
        """The function with every bracket in closed form; None where one has none."""
        value = self._closed(self.expr)
        return None if value is None else sympy.simplify(value)

    def _closed(self, expr: sympy.Expr) -> sympy.Expr | None:
        known = {}
        for each in expr.atoms(Average):
            factors, outer, _ = each.bracket
            orders = tuple(order for _, order in factors)
            value = closed_forms.average(self.sigma(each), orders, len(outer))
            at = self._closed(self.kernel(each))
            if value is None or at is None:
                return None
            known[each] = value.subs(K, at)
        return expr.xreplace(known)

    def __call__(
        self, at: sympy.Expr | float, C_W: object = 1, C_b: object = 0, digits: int = 20
    ) -> mpmath.mpf:
        """The value at K = `at` and these variances, to this many digits."""
        with mpmath.workdps(digits + 10):
            known = {"K": number(at), "C_W": number(C_W), "C_b": number(C_b)}
            return self._value(self.expr, known, digits)

    def _value(self, expr: sympy.Expr, known: dict[str, mpmath.mpf], digits: int) -> mpmath.mpf:
        averages = sorted(expr.atoms(Average), key=str)
        values = []
        for each in averages:
            factors, outer, _ = each.bracket
            orders = tuple(order for _, order in factors)
            here = self._value(self.kernel(each), known, digits)
            values.append(average_at(self.sigma(each), orders, len(outer), here, digits + 5))
        compiled = _compiled(expr, tuple(averages))
        return mpmath.mpf(compiled(known["K"], known["C_W"], known["C_b"], *values))

    def _text(self, printed: Callable[[Any], str], at: str) -> str:
        used = {each.bracket.kernel for each in self.averages}
        return "".join(
            at.format(printed(sympy.Symbol(label)), printed(kernel))
            for label, kernel in self.kernels
            if label in used
        )

    def latex(self) -> str:
        """The function in LaTeX, with the kernels of its brackets."""
        names = {"χ_∥": r"\chi_\parallel", "χ_⊥": r"\chi_\perp", "ζ": r"\zeta", "C_b": "C_b"}
        left = names.get(self.name, "K'")
        return rf"{left} = {sympy.latex(self.expr)}" + self._text(sympy.latex, r",\quad {} = {}")

    def __str__(self) -> str:
        return f"{self.name} = {self.expr}" + self._text(str, ", {} = {}")


@cache(entries=256)
def _compiled(expr: sympy.Expr, averages: tuple[Average, ...]) -> Callable[..., Any]:
    """The expression as a function of K, C_W, C_b and its averages."""
    plain = [sympy.Dummy() for _ in averages]
    bare = expr.xreplace(dict(zip(averages, plain, strict=True)))
    free = bare.free_symbols - set(plain) - {K, C_W, C_b}
    if free:
        raise InputError(
            "layer",
            ", ".join(sorted(map(str, free))),
            "numbers in place of these symbols, for a value",
        )
    found: Callable[..., Any] = sympy.lambdify([K, C_W, C_b, *plain], bare, "mpmath")
    return found


@cache
def functions(
    activation: Activation, layer: Layer
) -> tuple[LayerFunction, LayerFunction, LayerFunction]:
    """K', χ_∥ and χ_⊥ of a layer, from its derived recursions."""
    kernel, tangent = (step(name, layer=layer).single_input() for name in ("K", "Theta"))
    move = _function("K'", activation, compose(kernel, opened=True))
    perp = _function("χ_⊥", activation, compose(tangent, opened=True))
    perp = replace(perp, expr=sympy.expand(perp.expr).coeff(THETA, 1))
    return move, move.derivative("χ_∥"), perp


def sigmas(activation: Activation, layer: Layer) -> tuple[Activation, ...]:
    """The activations of a layer, each once, if the network's activation is this one."""
    found = (each for stage in layer.stages for each in stage.sigmas(activation))
    return tuple(dict.fromkeys(found))


def _function(name: str, activation: Activation, made: Composed) -> LayerFunction:
    own = tuple(made.kernels.items()), tuple(made.sigmas.items())
    return LayerFunction(name, activation, made.expr, *own)


def float_to(value: object, digits: int) -> sympy.Expr:
    """The value to so many digits."""
    return sympy.Float(sympy.N(value, digits + 5), digits)
