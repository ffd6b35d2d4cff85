"""Closed sets of single-input recursions, solved at criticality as series in 1/ℓ and log ℓ.

The set is triangular: the kernel moves by itself, every other tensor is linear in itself and driven
by those before it. Around the fixed point the brackets are power series in K (`kernel_series`), so
K(ℓ) is solved first, then T(ℓ+1) = a(ℓ) T(ℓ) + s(ℓ) for one tensor after the other (`logseries`).
Around K* > 0 they are powers of K − K*, with numbers for coefficients (`around`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt
from typing import Any, NamedTuple, TypeAlias

import sympy
from sympy.polys.polyerrors import CoercionFailed

from ..activations.functions import Activation
from ..arithmetic.ballring import BallRing
from ..arithmetic.logseries import (
    EXACT,
    ONE,
    ZERO,
    LogSeries,
    plus,
    solve_driven,
    solve_kernel,
    solve_linear,
)
from ..arithmetic.parameters import Parameter
from ..arithmetic.rings import Element, Ring, ring
from ..display.objects import Shown, lines_latex
from ..engine.step import Step, step
from ..engine.tensors import NAMES, Name, Tensor, identify
from ..errors import InputError
from ..gaussian.brackets import Bracket
from ..gaussian.small_kernel import PowerSeries, around_zero, scale_invariant
from ..symbols import K, constant, ell
from ..weights import WeightEnsemble
from .around import FixedNetwork, half_stable, stable
from .criticality import criticality
from .points import CriticalPoint

CORRECTIONS = ("C_W1", "C_b1")
"""The 1/n parts of the variances: 0 in a solution, whose steps tell what they multiply."""

MOST = 6
"""Orders beyond those that terms are counted by."""
SQUARE = Bracket(((1, 0), (1, 0)))


class Solution(NamedTuple):
    """Every tensor of a system, and each recursion's right-hand side by what its parts multiply.

    steps[T][T] is a and steps[T][""] is s of T(ℓ+1) = a T(ℓ) + s.
    """

    tensors: dict[str, LogSeries]
    steps: dict[str, dict[str, LogSeries]]


Quantity: TypeAlias = Callable[[Solution], LogSeries]


@dataclass(frozen=True, repr=False)
class System(Shown):
    """The recursions a tensor needs, at the critical point of an activation.

    Attributes:
        recursions: single-input, each after those it needs; K first.
        lambda_b, lambda_W: learning rates at layer `ell`; a step ℓ → ℓ+1 takes those of ℓ+1.
        variances: C_b and C_W of a stable K* > 0; None at criticality.
        at: another critical point than the one of the activation's class.
    """

    recursions: tuple[Step, ...]
    activation: Activation
    lambda_b: sympy.Expr
    lambda_W: sympy.Expr
    variances: tuple[sympy.Expr | None, sympy.Expr] | None = None
    at: CriticalPoint | None = None
    _solved: dict[int, Solution] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def point(self) -> CriticalPoint:
        """The critical point of the activation's class.

        Raises InputError where there is none, and where K falls slower than every power of ℓ.
        """
        if self.at is not None:
            return _attracting(self.activation, self.at)
        found = criticality(self.activation)
        if found.universality_class == "none":
            wanted = f"one that is critical, or C_b and C_W: {found.reason}"
            raise InputError("activation", str(self.activation), wanted)
        point = found.points[0]
        if point.K is not None and not point.coefficient:
            wanted = (
                "one whose critical kernel falls as a power of ℓ: this one, linear up to a kink "
                "at d, has K ~ d²/(2 log ℓ)"
            )
            raise InputError("activation", str(self.activation), wanted)
        return point

    @property
    def C_W(self) -> sympy.Expr:
        """The variance of the weights: the given one, or the critical one."""
        return self.variances[1] if self.variances is not None else self.point.C_W

    @property
    def neutral(self) -> bool:
        """Whether every K is a fixed point."""
        return self.variances is None and self.point.K is None

    @cached_property
    def around(self) -> FixedNetwork | None:
        """The network in numbers around K* > 0; None at K* = 0 and where every K is fixed."""
        if self.variances is not None:
            return stable(self.activation, *self.variances)
        return half_stable(self.activation, self.point) if self.point.K else None

    @property
    def rate(self) -> sympy.Expr:
        """What is left out of the limits at a stable K* falls as rate^ℓ; 0 for other points."""
        if self.variances is None:
            return sympy.S.Zero
        return max(abs(each) for each in self.factors.values() if abs(each) < 1)

    @cached_property
    def factors(self) -> dict[str, sympy.Expr]:
        """At a stable K*, a of every T(ℓ+1) = a T(ℓ) + s: χ_∥ of K, χ_⊥ of Θ, …"""
        steps = self.solve(2).steps
        found = {
            name: step[name].ring.expr(step[name].coefficient(ZERO))
            for name, step in steps.items()
            if name != "K"
        }
        assert self.around is not None
        sigma = self.around.bracket(Bracket(((1, 0), (1, 0))), 2)[1]
        assert self.variances is not None
        return {"K": sympy.Float(sigma.value, 30) * self.variances[1], **found}

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
        """What a term has beside free constants, at a layer: ℓ."""
        del constants
        return {ell: sympy.sympify(layer)}

    def solve(self, extent: int) -> Solution:
        """Every tensor, through relative order ℓ^{−extent} or a little less."""
        if extent not in self._solved:
            self._solved[extent] = _Solver(self, extent).run()
        return self._solved[extent]

    def expand(self, quantity: Quantity, count: int) -> LogSeries:
        """A function of the solution with more than `count` terms known, or as many as are found.

        Raises InputError where they are fewer than `count`.
        """
        for extent in range(2 + isqrt(count) // 2, count + MOST):
            series = quantity(self.solve(extent))
            if len(series.terms) > count or series.order is EXACT:
                return series
        if len(series.terms) < count:
            raise InputError("terms", count, f"{len(series.terms)}: all to order {series.order}")
        return series

    def latex(self) -> str:
        """The recursions in LaTeX, one a line."""
        return lines_latex([made.latex() for made in self.recursions])

    def __str__(self) -> str:
        return "\n".join(map(str, self.recursions))


def closed_set(*wanted: Step) -> tuple[Step, ...]:
    """The single-input recursions that these need, K first and each after those it needs: one alone
    is the last."""
    found: dict[str, Step] = {}

    def visit(each: Step, above: tuple[str, ...]) -> None:
        for name in each.needs:
            if name.label in above:
                allowed = f"one that needs itself through {each.name} no more"
                raise InputError("recursion", name.label, allowed)
            if name.label not in found and name.label != each.name:
                visit(_single(name, wanted[0].weights), (*above, each.name))
        found[each.name] = each

    visit(_single(NAMES["K"], wanted[0].weights), ())
    for made in wanted:
        visit(made.single_input(), ())
    return tuple(found.values())


def _single(name: Name, weights: WeightEnsemble) -> Step:
    return step(name, weights).single_input()


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
    """What these recursions have of the parameters, each to its power."""
    return [
        parameters[atom.name] ** power
        for made in recursions
        for mono, _ in made.terms
        for atom, power in mono
        if isinstance(atom, Parameter) and atom.name in parameters
    ]


class _Solver:
    """One solution of a system, through a given relative order."""

    def __init__(self, system: System, extent: int) -> None:
        self.system, self.extent = system, sympy.Integer(extent)
        self.around, self.moves = system.around, not system.neutral and system.variances is None
        self.inverse = 1 / system.point.exponent if self.moves else ONE
        brackets = {each for made in system.recursions for each in made.atoms(Bracket)}
        self.ring: Any
        if self.around is None:
            self.expansions = {bracket: self._expansion(bracket) for bracket in brackets}
            self.leading = K
            if self.moves:
                self.leading = (-system.point.coefficient / self.inverse) ** -self.inverse
            self.parameters = self._parameters()
            self.ring = self._ring()
            self.fixed = LogSeries(self.ring, {})
        else:
            self.ring = self._numbers()
            self.expansions = {bracket: self._numeric(bracket) for bracket in brackets}
            self.parameters = self._parameters() | self.around.variances(self.ring)
            self.fixed = LogSeries.monomial(self.ring, self.around.kernel(self.ring))
        self.rates = {name: self._rate(name) for name in ("lambda_b", "lambda_W")}
        self._set_kernel(LogSeries(self.ring, {}))

    def run(self) -> Solution:
        """Solve one recursion after the other."""
        solution = Solution({"K": self._kernel()}, {})
        for made in self.system.recursions:
            step = self._step(made, solution.tensors)
            solution.steps[made.name] = step
            if made.name == "K":
                continue
            solution.tensors[made.name] = self._solved(made.name, step[made.name], step[""])
        return solution

    def _solved(self, name: str, factor: LogSeries, source: LogSeries) -> LogSeries:
        constant = self.ring(self.system.constants[name])
        if self.system.variances is not None:
            gain = factor.coefficient(ZERO)
            rests = not self.ring.is_zero(self.ring.domain.one - gain)
            size = self.ring.expr(gain)
            if rests and abs(size) >= 1:
                wanted = f"those at which {name} settles: it grows {_short(size)}-fold a layer"
                raise InputError("C_b, C_W", self.system.variances, wanted)
            if rests:
                return solve_driven(factor, source, self.extent)
        try:
            return solve_linear(factor, source, constant, self.extent)
        except ArithmeticError as error:
            wanted = f"one for which {name} moves by powers of ℓ: {error}"
            raise InputError("activation", str(self.system.activation), wanted) from None

    def _kernel(self) -> LogSeries:
        constant = self.ring(self.system.constants["K"])
        made = self.system.recursions[0]

        def move(kernel: LogSeries) -> LogSeries:
            self._set_kernel(kernel)
            return self._step(made, {})[""] - self.fixed

        if self.system.neutral:
            kernel = LogSeries.monomial(self.ring, constant)
        elif not self.moves:
            kernel = LogSeries(self.ring, {})
        else:
            leading = LogSeries.monomial(self.ring, self._leading(), self.inverse)
            exponent = plus(ONE, self.inverse)
            kernel = solve_kernel(move, leading, exponent, constant, self.extent)
        self._set_kernel(kernel)
        return self.fixed + kernel

    def _leading(self) -> Element:
        """Of K − K*: from K' − K* = ΔK + c ΔK^{1+e}, −1/c where e = 1."""
        if self.around is None:
            return self.ring(self.leading)
        square = next(each for each in self.expansions if each == SQUARE)
        curvature = self.parameters["C_W"] * self.expansions[square][0][2 * ONE]
        return -self.ring.power(curvature, -ONE)

    def _set_kernel(self, kernel: LogSeries) -> None:
        """K − K*, in whose powers the brackets are."""
        self.kernel = kernel
        self._powers: dict[sympy.Rational, LogSeries] = {}
        self._brackets: dict[Bracket, LogSeries] = {}

    def _step(self, made: Step, solved: Mapping[str, LogSeries]) -> dict[str, LogSeries]:
        """The right-hand side by what its parts multiply: the tensor itself, C_W1, …, or ""."""
        parts = {name: LogSeries(self.ring, {}) for name in (made.name, "", *CORRECTIONS)}
        for (mono, _), value in made.terms.items():
            term = LogSeries.monomial(self.ring, self.ring(value))
            part = ""
            for atom, power in mono:
                name = label_of(atom)
                if name in parts and name:
                    if part or power != 1:
                        raise InputError("recursion", made.name, f"one that is linear in {name}")
                    part = name
                else:
                    term = term * self._power_of(atom, power, solved)
            parts[part] = parts[part] + term
        return parts

    def _power_of(self, atom: object, power: int, solved: Mapping[str, LogSeries]) -> LogSeries:
        if isinstance(atom, Parameter) and atom.name in self.parameters:
            known = self.parameters[atom.name]
            if isinstance(known, sympy.Expr):
                return LogSeries.monomial(self.ring, self.ring(known**power))
            return LogSeries.monomial(self.ring, self.ring.power(known, ONE * power))
        if isinstance(atom, Bracket):
            found = self._bracket(atom)
        elif isinstance(atom, Tensor):
            found = solved[label_of(atom)]
        else:
            found = self.rates[label_of(atom)]
        return found.power(ONE * power, self.extent)

    def _bracket(self, bracket: Bracket) -> LogSeries:
        if bracket not in self._brackets:
            expansion, cut = self.expansions[bracket]
            total = LogSeries(self.ring, {})
            for exponent, value in expansion.items():
                element = self.ring(value) if isinstance(value, sympy.Expr) else value
                total = total + self._power(exponent).scaled(element)
            self._brackets[bracket] = total if cut is EXACT else total.truncated(cut * self.inverse)
        return self._brackets[bracket]

    def _power(self, exponent: sympy.Rational) -> LogSeries:
        """K^exponent, from the nearest lower power."""
        if exponent == 0:
            return LogSeries.monomial(self.ring, self.ring.domain.one)
        if exponent not in self._powers:
            extent = plus(self.extent, ONE)
            if exponent > 1:
                made = self._power(exponent - 1) * self._power(ONE)
            else:
                made = self.kernel.power(exponent, extent)
            self._powers[exponent] = made.truncated(plus(exponent * self.inverse, extent))
        return self._powers[exponent]

    def _expansion(self, bracket: Bracket) -> tuple[PowerSeries, sympy.Expr]:
        """The bracket in powers of K, and the power from which on it is cut."""
        activation = self.system.activation
        if self.system.neutral:
            return {ZERO: scale_invariant(activation, bracket)}, EXACT
        bare = sum(order == 0 for _, order in bracket.factors) - len(bracket.outer)
        further = sympy.ceiling((self.extent + 1) * self.system.point.exponent)
        cut = max(ZERO, sympy.Rational(bare, 2)) + further
        return around_zero(activation, bracket, cut), cut + sympy.Rational(1, 2)

    def _numeric(self, bracket: Bracket) -> tuple[dict[sympy.Rational, Element], sympy.Expr]:
        """The bracket in powers of K − K* as numbers, and the power from which on it is cut."""
        assert self.around is not None
        count = int(self.extent) + 2 if self.moves else 1
        found = self.around.bracket(bracket, count)
        terms = {ONE * k: self.ring.ball(*value) for k, value in enumerate(found)}
        return terms, ONE * count if self.moves else EXACT

    def _numbers(self) -> BallRing:
        system = self.system
        symbols = {*system.constants.values(), *system.weights.free_symbols}
        for rate in (system.lambda_b, system.lambda_W):
            symbols |= rate.free_symbols - {ell}
        return BallRing(tuple(sorted(symbols, key=str)))

    def _parameters(self) -> dict[str, Any]:
        """The hyperparameters that are the same at every layer."""
        system, known = self.system, {str(each): each for each in self.system.weights.free_symbols}
        critical = system.variances or (system.point.C_b, system.point.C_W)
        known |= dict(zip(("C_b", "C_W"), critical, strict=True))
        atoms = {each.name for made in system.recursions for each in made.atoms(Parameter)}
        unknown = atoms - known.keys() - {"lambda_b", "lambda_W", *CORRECTIONS}
        if unknown:
            wanted = f"one without {', '.join(sorted(unknown))}"
            raise InputError("recursion", system.recursions[-1].name, wanted)
        return known

    def _ring(self) -> Ring:
        system = self.system
        held = [value for found, _ in self.expansions.values() for value in found.values()]
        held += [self.leading, *system.constants.values()]
        if any(not power.is_Integer for found, _ in self.expansions.values() for power in found):
            held.append(sympy.sqrt(self.leading))
        held += [*without_layer(system.lambda_b), *without_layer(system.lambda_W)]
        held += powers_of(self.parameters, system.recursions)
        return ring(held)

    def _rate(self, name: str) -> LogSeries:
        """λ at layer ℓ+1."""
        given = getattr(self.system, name)
        try:
            here = in_layers(given, self.ring, self.extent)
        except (CoercionFailed, ValueError):
            raise InputError(name, given, "sums of powers of ℓ and of log ℓ") from None
        return here.shifted(plus(here.lowest, self.extent))


def _attracting(activation: Activation, point: CriticalPoint) -> CriticalPoint:
    if point not in criticality(activation).points:
        raise InputError("point", point, f"one of criticality({activation}).points")
    if point.decay(ell) is None:
        raise InputError("point", point, "one that attracts, from one side at least, by a power")
    return point


def _short(value: sympy.Expr) -> str:
    return str(sympy.N(value, 6))


def label_of(atom: object) -> str:
    """The name of a tensor or a hyperparameter; "" of a bracket."""
    if isinstance(atom, Tensor):
        return identify(atom)[0].label
    return atom.name if isinstance(atom, Parameter) else ""


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
