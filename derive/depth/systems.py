"""Closed sets of single-input recursions, to be solved at large depth.

The set is triangular: the kernel moves by itself, every other tensor is linear in itself and driven
by those before it. So K(ℓ) is solved first, then T(ℓ+1) = a(ℓ) T(ℓ) + s(ℓ) for one tensor after the
other: in powers of ℓ and log ℓ by `staged`, in powers of K where that falls like 1/log ℓ by
`log_decay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import sympy

from ..activations.functions import Activation
from ..arithmetic.logseries import EXACT, ONE, ZERO, LogSeries, plus
from ..arithmetic.rings import Ring
from ..display.objects import Shown, lines_latex, printed
from ..engine.atoms import parameter_name, read
from ..engine.scheme import Scheme
from ..engine.step import Step, through
from ..engine.tensors import NAMES, identify
from ..errors import InputError
from ..gaussian.brackets import Bracket
from ..symbols import K, constant, ell
from ..weights import WeightEnsemble
from .points import CriticalPoint

CORRECTIONS = ("C_W1", "C_b1")
"""The 1/n parts of the variances: 0 in a solution, whose steps tell what they multiply."""

MOST = 6
"""Orders beyond those that terms are counted by."""
SQUARE = Bracket(((1, 0), (1, 0)))


class Solution(NamedTuple):
    """Every tensor of a system, and each recursion's right-hand side by what its parts multiply.

    steps[T][T] is a and steps[T][""] is s of T(ℓ+1) = a T(ℓ) + s. `last` are the tensors behind the
    last layers of the network.
    """

    tensors: dict[str, LogSeries]
    steps: dict[str, dict[str, LogSeries]]
    last: dict[str, LogSeries]


Quantity: TypeAlias = Callable[[Solution], LogSeries]


@dataclass(frozen=True, repr=False)
class System(Shown):
    """The recursions a tensor needs, and where their kernel tends.

    Attributes:
        recursions: single-input, each after those it needs; K first.
        lambda_b, lambda_W: learning rates at layer `ell`; a step ℓ → ℓ+1 takes those of ℓ+1.
        variances: C_b and C_W where they are given, C_b None on a critical line; None at
            criticality.
        at: another critical point than the one of the activation's class.
    """

    recursions: tuple[Step, ...]
    activation: Activation
    lambda_b: sympy.Expr
    lambda_W: sympy.Expr
    variances: tuple[sympy.Expr | None, sympy.Expr] | None = None
    at: CriticalPoint | None = None
    _solved: dict[int, Solution] = field(default_factory=dict, repr=False, compare=False)

    @property
    def point(self) -> CriticalPoint:
        """The critical point at which it is solved where no variances are given."""
        raise NotImplementedError

    @property
    def given(self) -> tuple[sympy.Expr, sympy.Expr]:
        """C_b and C_W: the given ones, or the critical ones."""
        return self.point.C_b, self.point.C_W

    @property
    def neutral(self) -> bool:
        """True if every K is a fixed point."""
        return self.variances is None and self.point.K is None

    @property
    def rate(self) -> sympy.Expr:
        """The rate: corrections to the limits at a stable K* fall as rate^ℓ; 0 for other points."""
        return ZERO

    @property
    def weights(self) -> WeightEnsemble:
        """The ensemble of the hidden layers."""
        return self.recursions[-1].weights

    @cached_property
    def constants(self) -> dict[str, sympy.Symbol]:
        """The free constant of each tensor: c_T, the coefficient of ℓ^{−p}, or K if it is fixed."""
        names = [made.name for made in self.recursions]
        found = {name: constant(name) for name in names}
        return found | ({"K": K} if self.neutral else {})

    def known(
        self, layer: int, constants: Mapping[sympy.Symbol, Any]
    ) -> dict[sympy.Symbol, sympy.Expr]:
        """Values of a term's symbols other than free constants, at a layer: ℓ."""
        del constants
        return {ell: sympy.sympify(layer)}

    def solve(self, extent: int) -> Solution:
        """Every tensor, through this relative order of what it is expanded in, or a little less."""
        if extent not in self._solved:
            self._solved[extent] = self._solution(extent)
        return self._solved[extent]

    def _solution(self, extent: int) -> Solution:
        raise NotImplementedError

    def expand(self, quantity: Quantity, count: int) -> LogSeries:
        """A function of the solution with more than `count` terms known, or as many as there are.

        Raises InputError where they are fewer than `count`.
        """
        raise NotImplementedError

    @property
    def place(self) -> str:
        """At which fixed point, in words."""
        kind = "any K" if self.neutral else f"K* = {printed(sympy.sympify(self.point.K))}"
        C_b, C_W = map(printed, self.given)
        return f"at criticality ({kind}, C_W = {C_W}, C_b = {C_b})"

    def latex(self) -> str:
        """The recursions in LaTeX, one a line."""
        return lines_latex([made.latex() for made in self.recursions])

    def __str__(self) -> str:
        return "\n".join(map(str, self.recursions))


def closed_set(*wanted: Step) -> tuple[Step, ...]:
    """The single-input recursions that these need, K first and each after those it needs: one alone
    is the last."""
    found: dict[str, Step] = {}
    made = wanted[0]
    scheme = Scheme(made.weights, made.equal_widths, made.corrections, True, made.layer)

    def visit(each: Step, above: tuple[str, ...]) -> None:
        for name in each.needs:
            if name.label in above:
                allowed = f"one that needs itself through {each.name} no more"
                raise InputError("recursion", name.label, allowed)
            if name.label not in found and name.label != each.name:
                visit(through(name, scheme), (*above, each.name))
        found[each.name] = each

    visit(through(NAMES["K"], scheme), ())
    for each in wanted:
        visit(each.single_input(), ())
    return tuple(found.values())


def in_field(series: LogSeries) -> LogSeries:
    """The same series over the fractions of its ring, so that it can be divided by."""
    over, source = series.ring.fractions, series.ring.domain
    terms = {key: over.domain.convert_from(value, source) for key, value in series.terms.items()}
    return LogSeries(over, terms, series.order)


def quotient(numerator: LogSeries, divisor: LogSeries, power: sympy.Rational) -> LogSeries:
    """numerator / divisor^power, as far as both are known; a few orders if both are exact."""
    below = in_field(divisor)
    if not below.terms and below.order is not EXACT:
        return LogSeries(below.ring, {}, -divisor.order)
    extent = sympy.Integer(MOST)
    if below.order is not EXACT:
        extent = plus(below.order, -below.lowest)
    return in_field(numerator) * below.power(-sympy.Rational(power), extent)


def powers_of(parameters: Mapping[str, sympy.Expr], recursions: Iterable[Step]) -> list[sympy.Expr]:
    """The parameters in these recursions, each to its power."""
    return [
        parameters[name] ** power
        for made in recursions
        for mono, _ in made.terms
        for atom, power in mono
        if (name := parameter_name(atom)) in parameters
    ]


def label_of(atom: object) -> str:
    """The name of a tensor or a hyperparameter; "" of a bracket."""
    return read(
        atom,
        parameter=lambda own: own.name,
        tensor=lambda own: identify(own)[0].label,
        other=lambda _: "",
    )


def without_layer(expression: sympy.Expr) -> list[sympy.Expr]:
    """The largest parts of an expression in which ℓ does not occur."""
    if not expression.has(ell):
        return [expression]
    return [part for each in expression.args for part in without_layer(each)]


def in_layers(expression: sympy.Expr, over: Ring, extent: sympy.Expr) -> LogSeries:
    """An expression in ℓ as a series at large ℓ."""
    if not expression.has(ell):
        return LogSeries.monomial(over, over(expression))
    if expression == ell:
        return LogSeries.monomial(over, over.domain.one, -ONE)
    if expression == sympy.log(ell):
        return LogSeries.monomial(over, over.domain.one, log=1)
    if expression.is_Add or expression.is_Mul:
        total, *others = (in_layers(each, over, extent) for each in expression.args)
        for other in others:
            total = total + other if expression.is_Add else total * other
        return total
    if expression.is_Pow and expression.exp.is_Rational:
        return in_layers(expression.base, over, extent).power(expression.exp, extent)
    raise ValueError(expression)
