"""Closed systems of a layer with norms, skips or gates, solved at large depth.

As `systems` for the dense layer, with a step of depth that leads through stages: the series of one
stage's tensors are put into the recursions of the next, each split into what the unknown tensor
multiplies and the rest. Brackets are expanded around the limit of their own kernel. How K moves:

* a fixed point at K* = 0, K ~ ℓ^{−1/e}, or every K fixed: exact, as at the dense layer's;
* K* > 0 that attracts: limits of all tensors, up to what falls exponentially, in numbers;
* a skip of 1 with a norm: K = sℓ + c + …, tensors in powers of ℓ, in numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import product
from math import isqrt
from typing import Any, TypeAlias

import mpmath
import sympy

from ..activations.functions import Activation
from ..arithmetic.ballring import BallRing, Polynomial
from ..arithmetic.balls import to_mpf
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
from ..arithmetic.parameters import Parameter, Value
from ..arithmetic.rings import Element, Ring, ring
from ..engine.scheme import Layered, Scheme
from ..engine.step import Step, through
from ..engine.tensors import NAMES, Tensor, identify
from ..engine.through import Response
from ..errors import InputError
from ..gaussian.brackets import Bracket
from ..gaussian.small_kernel import around_point, around_zero, scale_invariant
from ..layers import Layer
from ..symbols import K, ell
from .layer_functions import functions
from .layered import LayerCriticality, criticality
from .points import CriticalPoint
from .systems import Quantity, Solution, System, in_layers, label_of, powers_of, without_layer

Form: TypeAlias = dict[str, LogSeries]
"""What a quantity is, by what its parts multiply: the unknown tensor, or nothing, ""."""

DIGITS = 50
"""Of the averages."""
_LINE = 45  # digits of a C_b on a critical line
_SIMPLE = 10**6  # denominators of exponents beyond stand for decimal numbers
_MULTIPLES = 5
_LEAST = mpmath.mpf("1e-10")
"""The smallest K* > 0 that is found; the largest is its inverse."""
_CLOSE = mpmath.mpf("1e-12")
"""The relative error of the first estimate of K*."""
_MARGIN = mpmath.mpf("1e-4")
"""K counts as settled if |χ_∥| is below 1 by this margin."""


def closed_set(made: Step) -> tuple[Step, ...]:
    """The single-input recursions that one through a layer needs, K first and itself last."""
    found: dict[str, Step] = {}
    scheme = Scheme(made.weights, made.square, made.corrections, True, made.layer)

    def visit(each: Step, above: tuple[str, ...]) -> None:
        for name in each.needs:
            if name.label in above:
                wanted = f"one that needs itself through {each.name} no more"
                raise InputError("recursion", name.label, wanted)
            if name.label not in found and name.label != each.name:
                visit(through(name, scheme), (*above, each.name))
        found[each.name] = each

    visit(through(NAMES["K"], scheme), ())
    visit(made.single_input(), ())
    return tuple(found.values())


@dataclass(frozen=True)
class _Numbers(BallRing):
    """Balls among whose exponents a multiple of an earlier one, as Θ² has, is known as one."""

    known: list[sympy.Expr] = field(default_factory=list, compare=False)

    def exponent(self, element: Polynomial) -> sympy.Expr:
        """A number as an exponent; a small multiple of an earlier one and an integer as that."""
        found = super().exponent(element)
        if found.q < _SIMPLE:
            return found
        for base, multiple in product(self.known, range(1, _MULTIPLES)):
            rest = found - multiple * base
            whole = sympy.Integer(round(rest))
            if abs(rest - whole) < sympy.Rational(1, 10 ** (_LINE - 5)):
                return multiple * base + whole
        self.known.append(found)
        return found


@dataclass(frozen=True, repr=False)
class StagedSystem(System):
    """The recursions that a tensor needs through a layer's stages.

    `variances` are C_b and C_W where they are given; C_b is None on a critical line.
    """

    @property
    def layer(self) -> Layer:
        """The layer."""
        found: Layered | None = self.recursions[-1].layer
        assert isinstance(found, Layer)
        return found

    @cached_property
    def of_laws(self) -> set[sympy.Symbol]:
        """The parameters of its laws that are symbols, such as the rank over the width."""
        matrices = (each for stage in self.layer.stages for each in stage.matrices)
        return set().union(*((each.law or self.weights).free_symbols for each in matrices))

    @cached_property
    def found(self) -> LayerCriticality:
        """The layer's criticality."""
        found = criticality(self.activation, DIGITS + 10, layer=self.layer)
        assert isinstance(found, LayerCriticality)
        return found

    @cached_property
    def point(self) -> CriticalPoint:
        """The critical point at which it is solved where no variances are given.

        Raises InputError where there is none, or where it is not one of a power of ℓ.
        """
        found = self.found
        if found.universality_class == "none":
            both = "C_b and C_W" if found.kernel_map.has_C_W else "C_b"
            wanted = f"one that is critical with {self.activation}, or {both}: {found.reason}"
            raise InputError("layer", str(self.layer), wanted)
        wanted = "C_b and C_W"
        if found.line is not None:
            wanted = "C_W, with C_b or with the critical one: the layer is critical on a line"
        elif found.exponent is not None:
            wanted = "C_b and C_W: K grows linearly at all of them"
        elif found.universality_class == "half-stable":
            wanted = "C_b and C_W: at a half-stable point of a layer nothing is solved"
        if found.universality_class not in {"K* = 0", "scale-invariant"}:
            raise InputError("C_b, C_W", None, wanted)
        return found.points[0]

    @cached_property
    def given(self) -> tuple[sympy.Expr, sympy.Expr]:
        """C_b and C_W."""
        if self.variances is None:
            return self.point.C_b, self.point.C_W
        bias, weight = self.variances
        if bias is None:
            bias = sympy.Float(self.found.bias(weight, _LINE), _LINE)
        return bias, weight

    @property
    def C_W(self) -> sympy.Expr:
        """The variance of the weights: the given one, or the critical one."""
        return self.given[1]

    @property
    def grows(self) -> bool:
        """Whether K grows linearly."""
        return self.found.exponent is not None

    @property
    def around(self) -> None:
        """No dense network's numbers."""
        return

    @property
    def rate(self) -> sympy.Expr:
        """What is left out of the limits at a stable K* falls as rate^ℓ; 0 for others."""
        if self.variances is None or self.grows:
            return sympy.S.Zero
        return max((abs(each) for each in self.factors.values() if abs(each) < 1), default=ZERO)

    @cached_property
    def factors(self) -> dict[str, sympy.Expr]:
        """At a stable K*, a of every T(ℓ+1) = a T(ℓ) + s."""
        steps = self.solve(2).steps
        found = {
            name: step[name].ring.expr(step[name].coefficient(ZERO))
            for name, step in steps.items()
            if name != "K"
        }
        slope = self.found.chi_parallel(self.fixed, *reversed(self.given))
        return {"K": sympy.Float(slope, 15), **found}

    @cached_property
    def fixed(self) -> mpmath.mpf:
        """The K* that attracts at these variances, to 50 digits and more."""
        move, slope, _ = functions(self.activation, self.layer)
        bias, weight = self.given
        with mpmath.workdps(DIGITS + 20):
            near = self._settled(lambda at: move(at, weight, bias, 15) - at)
            if not abs(slope(near, weight, bias, 20)) < 1 - _MARGIN:
                raise self._unsettled(f"it does not settle near {mpmath.nstr(near, 6)}")
            for _ in range(4):
                miss = move(near, weight, bias, DIGITS + 5) - near
                near -= miss / (slope(near, weight, bias, 20) - 1)
            return near

    def _settled(self, drift: Callable[[mpmath.mpf], mpmath.mpf]) -> mpmath.mpf:
        """The K at which iteration from K = 1 settles, to 12 digits; `drift` is K' − K.

        Steps follow K' − K and double, up to K/4, until K' − K vanishes or changes sign.
        """
        near, times = mpmath.mpf(1), 1
        here = drift(near)
        while _LEAST < near < 1 / _LEAST:
            if abs(here) <= near * _CLOSE:
                return near
            ahead = near + here * min(mpmath.mpf(times), near / 4 / abs(here))
            there = drift(ahead)
            if there * here < 0:
                ends, close = (near, ahead), near * _CLOSE
                return mpmath.findroot(
                    drift, ends, solver="illinois", tol=close, maxsteps=100, verify=False
                )
            near, here, times = ahead, there, 2 * times
        raise self._unsettled("it falls to 0" if here < 0 else "it grows without end")

    def _unsettled(self, cause: str) -> InputError:
        wanted = f"variances at which K settles exponentially at a K* > 0; here {cause}"
        bias, weight = map(str, self.given)
        if not self.found.kernel_map.has_C_W:
            return InputError("C_b", bias, wanted)
        return InputError("C_b, C_W", (bias, weight), wanted)

    def solve(self, extent: int) -> Solution:
        """Every tensor, through relative order ℓ^{−extent} or a little less."""
        if extent not in self._solved:
            self._solved[extent] = _Solver(self, extent).run()
        return self._solved[extent]

    def expand(self, quantity: Quantity, count: int) -> LogSeries:
        """A function of the solution with more than `count` terms known, or as many as there are.

        A norm divides by powers of K, so that where K is a polynomial in ℓ so may be a tensor, of
        which then no further terms are found.
        """
        for extent in range(2 + isqrt(count) // 2, count + 4):
            series = quantity(self.solve(extent))
            if len(series.terms) > count or series.order is EXACT:
                break
        return series

    @property
    def place(self) -> str:
        """How K moves, in words."""
        bias, weight = (sympy.N(each, 8) if each.is_Float else each for each in self.given)
        enters = self.found.kernel_map.has_C_W
        variances = f"C_W = {weight}, C_b = {bias}" if enters else f"C_b = {bias}"
        if self.grows:
            return f"{self.layer}, where K grows linearly ({variances})"
        if self.variances is not None:
            return f"{self.layer} at K* = {mpmath.nstr(self.fixed, 8)} ({variances})"
        kind = "any K" if self.neutral else f"K* = {self.point.K}"
        return f"{self.layer} at criticality ({kind}, {variances})"


class _Solver:
    """One solution, through a given relative order."""

    def __init__(self, system: StagedSystem, extent: int) -> None:
        self.system, self.extent = system, sympy.Integer(extent)
        self.critical = system.variances is None
        self.exact = self.critical and not any(
            each.has(sympy.Float) for each in (*system.given, system.point.coefficient)
        )
        self.stages = {made.name: made.stages for made in system.recursions}
        self.steps = [each for made in self.stages.values() for part in made for each in part]
        self.ring: Any = self._exact_ring() if self.exact else self._numbers()
        bias, weight = system.given
        self.parameters = {
            "C_b": self._ball(bias),
            "C_W": self._ball(weight),
            **{str(each): self.ring(each) for each in system.of_laws - {weight}},
        }
        self.rates = {name: self._rate(name) for name in ("lambda_b", "lambda_W")}

    def run(self) -> Solution:
        """Solve one recursion after the other."""
        kernel = self._kernel()
        solution = Solution({"K": kernel}, {})
        for made in self.system.recursions:
            form = self._step(made.name, solution.tensors)
            solution.steps[made.name] = form
            if made.name != "K":
                zero = LogSeries(self.ring, {})
                factor, source = form.get(made.name, zero), form.get("", zero)
                solution.tensors[made.name] = self._solved(made.name, factor, source)
        return solution

    def _solved(self, name: str, factor: LogSeries, source: LogSeries) -> LogSeries:
        constant = self.ring(self.system.constants[name])
        gain = factor.coefficient(ZERO)
        rests = not self.ring.is_zero(self.ring.domain.one - gain)
        if rests and not self.critical:
            size = self.ring.expr(gain)
            if abs(size) >= 1:
                wanted = f"those at which {name} settles: it grows {sympy.N(size, 6)}-fold a layer"
                raise InputError("C_b, C_W", tuple(map(str, self.system.given)), wanted)
            return solve_driven(factor, source, self.extent)
        try:
            return solve_linear(factor, source, constant, self.extent)
        except ArithmeticError as error:
            wanted = f"one for which {name} moves by powers of ℓ: {error}"
            raise InputError("layer", str(self.system.layer), wanted) from None

    # the kernel

    def _kernel(self) -> LogSeries:
        system = self.system
        constant = self.ring(system.constants["K"])
        if not self.critical and not system.grows:
            return LogSeries.monomial(self.ring, self._known(system.fixed))
        if system.neutral:
            return LogSeries.monomial(self.ring, constant)

        def move(kernel: LogSeries) -> LogSeries:
            return self._step("K", {"K": kernel})[""]

        if system.grows:
            start = LogSeries.monomial(self.ring, self.ring.domain.one, -ONE)
            added = (move(start) - start).truncated(ONE / 2)
            leading = LogSeries.monomial(self.ring, added.coefficient(ZERO), -ONE)
            return solve_kernel(move, leading, ZERO, constant, plus(self.extent, ONE))
        inverse = 1 / system.point.exponent
        leading = LogSeries.monomial(self.ring, self._ball(self._leading), inverse)
        return solve_kernel(move, leading, plus(ONE, inverse), constant, self.extent)

    @property
    def _leading(self) -> sympy.Expr:
        point = self.system.point
        return sympy.radsimp((-point.coefficient * point.exponent) ** (-1 / point.exponent))

    # one layer

    def _step(self, name: str, solved: Mapping[str, LogSeries]) -> Form:
        """T' as a form in T, the tensors before it being known."""
        one = LogSeries.monomial(self.ring, self.ring.domain.one)
        forms: dict[str, Form] = {label: {"": series} for label, series in solved.items()}
        if name != "K":
            forms[name] = {name: one}
        for stage in self.stages[name]:
            forms = {each.name: self._through(each, forms) for each in stage}
        return forms[name]

    def _through(self, made: Step, below: Mapping[str, Form]) -> Form:
        total: Form = {}
        for (mono, _), value in made.terms.items():
            factors = (self._raised(atom, power, below, made) for atom, power in mono)
            start: Form = {"": LogSeries.monomial(self.ring, self.ring(value))}
            total = _sum(total, reduce(_product, factors, start))
        return total

    def _raised(self, atom: object, power: int, below: Mapping[str, Form], made: Step) -> Form:
        if isinstance(atom, Parameter) and atom.name in self.parameters:
            value = self.ring.power(self.parameters[atom.name], ONE * power)
            return {"": LogSeries.monomial(self.ring, value)}
        if isinstance(atom, Parameter):
            form = {"": self.rates[label_of(atom)]}
        elif isinstance(atom, Value):
            form = {"": self._evaluated(atom.expr, {})}
        elif isinstance(atom, Bracket):
            sigma = made.sigma_at(atom.kernel, self.system.activation)
            form = {"": self._bracket(sigma, atom, below[atom.kernel][""])}
        elif isinstance(atom, Response):
            limits = {symbol: self._found(limit, below)[""] for symbol, limit in atom.limits}
            form = {"": self._evaluated(atom.value, limits)}
        else:
            assert isinstance(atom, Tensor)
            form = self._found(atom, below)
        if power >= 0:
            one: Form = {"": LogSeries.monomial(self.ring, self.ring.domain.one)}
            return reduce(_product, [form] * power, one)
        return {"": form[""].power(ONE * power, self.extent)}

    def _found(self, atom: Tensor, below: Mapping[str, Form]) -> Form:
        return below[identify(atom)[0].label]

    def _evaluated(
        self, expression: sympy.Expr, known: Mapping[sympy.Symbol, LogSeries]
    ) -> LogSeries:
        """A function of collective variables at series."""
        if expression in known:
            return known[expression]
        if not expression.free_symbols & known.keys():
            return LogSeries.monomial(self.ring, self.ring(expression))
        if expression.is_Add or expression.is_Mul:
            first, *others = (self._evaluated(each, known) for each in expression.args)
            for other in others:
                first = first + other if expression.is_Add else first * other
            return first
        if expression.is_Pow and expression.exp.is_Rational:
            return self._evaluated(expression.base, known).power(expression.exp, self.extent)
        wanted = "collective variables in powers alone"
        raise InputError("layer", str(self.system.layer), wanted)

    def _bracket(self, sigma: Activation, bracket: Bracket, kernel: LogSeries) -> LogSeries:
        """The bracket of σ at its kernel, expanded around where that tends."""
        start = kernel.coefficient(ZERO)
        if self.critical and self.system.neutral:
            power, value = _monomial(scale_invariant(sigma, bracket._replace(kernel="K")))
            return kernel.power(power, self.extent).scaled(self.ring(value))
        if self.critical:
            bare = sum(order == 0 for _, order in bracket.factors) - len(bracket.outer)
            further = sympy.ceiling((self.extent + 1) * self.system.point.exponent)
            cut = max(ZERO, sympy.Rational(bare, 2)) + further
            total = LogSeries(self.ring, {})
            for exponent, value in around_zero(sigma, bracket, cut).items():
                part = kernel.power(exponent, plus(self.extent, ONE))
                total = total + part.scaled(self.ring(value))
            end = (cut + sympy.Rational(1, 2)) * kernel.lowest
            return total.truncated(end)
        rest = kernel - LogSeries.monomial(self.ring, start)
        moves = bool(rest.terms)
        count = int(self.extent) + 2 if moves else 1
        at = _middle(start)
        total, powered = LogSeries(self.ring, {}), LogSeries.monomial(self.ring, self.ring.one)
        with mpmath.workdps(DIGITS + 20):
            values = around_point(sigma, bracket, at, count, DIGITS)
            balls = [self.ring.ball(v.value, v.radius + _off(v.value)) for v in values]
        for ball in balls:
            total = total + powered.scaled(ball)
            powered = powered * rest
        return total.truncated(rest.lowest * count) if moves else total

    # coefficients

    def _ball(self, value: sympy.Expr) -> Element:
        if self.exact or not value.has(sympy.Float):
            return self.ring(value)
        with mpmath.workdps(DIGITS + 20):
            return self._known(mpmath.mpf(sympy.N(value, DIGITS + 20)))

    def _known(self, number: mpmath.mpf) -> Element:
        """C_b, C_W or K*, to the digits of C_b where that is on a critical line."""
        on_line = self.system.variances is not None and self.system.variances[0] is None
        digits = _LINE - 2 if on_line else DIGITS
        return self.ring.ball(number, abs(number) * mpmath.mpf(10) ** -digits)

    def _numbers(self) -> _Numbers:
        system = self.system
        symbols = {*system.constants.values(), *system.of_laws}
        for rate in (system.lambda_b, system.lambda_W):
            symbols |= rate.free_symbols - {ell}
        if system.layer.free_symbols:
            free = ", ".join(sorted(map(str, system.layer.free_symbols)))
            raise InputError("layer", str(system.layer), f"numbers for {free}")
        return _Numbers(tuple(sorted(symbols, key=str)))

    def _exact_ring(self) -> Ring:
        system = self.system
        held = [*system.constants.values(), *system.given, *system.of_laws]
        if not system.neutral:
            held.append(self._leading)
        brackets = {
            (step.sigma_at(each.kernel, system.activation), each)
            for step in self.steps
            for each in step.atoms(Bracket)
        }
        for sigma, bracket in brackets:
            if system.neutral:
                found = scale_invariant(sigma, bracket._replace(kernel="K"))
                held += [_monomial(found)[1], found]
            else:
                held += around_zero(sigma, bracket, 2 * ONE).values()
        held += [atom.expr for step in self.steps for atom in step.atoms(Value)]
        held += [1 / each for each in held if each.is_number and each != 0]
        held += powers_of({str(each): each for each in system.of_laws}, self.steps)
        held += [*without_layer(system.lambda_b), *without_layer(system.lambda_W)]
        return ring(held)

    def _rate(self, name: str) -> LogSeries:
        """λ at layer ℓ+1."""
        here = in_layers(getattr(self.system, name), self.ring, self.extent)
        return here.shifted(plus(here.lowest, self.extent))


def _product(one: Form, other: Form) -> Form:
    """Of two forms, one of which at most has the unknown."""
    total: Form = {}
    for a, x in one.items():
        for b, y in other.items():
            if a and b:
                raise InputError("recursion", a, f"one that is linear in {a}")
            total = _sum(total, {a or b: x * y})
    return total


def _sum(one: Form, other: Form) -> Form:
    total = dict(one)
    for part, series in other.items():
        total[part] = total[part] + series if part in total else series
    return total


def _monomial(value: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """(p, c) of c K^p."""
    coefficient, exponent = sympy.expand(value).as_coeff_exponent(K)
    return exponent, coefficient


def _off(value: mpmath.mpf) -> mpmath.mpf:
    return abs(value) * mpmath.mpf(10) ** -DIGITS


def _middle(element: Any) -> mpmath.mpf:
    """The number that an element is, to all of its digits."""
    ((powers, value),) = element.terms.items()
    assert not any(powers)
    with mpmath.workdps(DIGITS + 30):
        return to_mpf(value.mid())
