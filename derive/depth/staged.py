"""Closed systems solved as series in 1/ℓ and log ℓ, a step of depth being the stages of a layer.

The series of one stage's tensors are put into the recursions of the next, each split into what the
unknown tensor multiplies and the rest. Brackets are expanded around the limit of their own kernel.
How K moves:

* K* = 0 with K ~ ℓ^{−1/e}, or every K fixed: exact;
* a half-stable K* > 0, which `fixed_points` describes, in powers of K − K* ~ 1/ℓ: in numbers;
* K* > 0 that attracts: limits of all tensors, up to what falls exponentially, in numbers;
* a skip of 1 with a norm: K = sℓ + c + …, tensors in powers of ℓ, in numbers.

The last layers of a network, if they are others, are further steps of the solved series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from math import isqrt
from typing import Any, TypeAlias

import mpmath
import sympy
from sympy.polys.polyerrors import CoercionFailed

from ..activations.functions import Activation
from ..arithmetic.ballring import BallRing, Polynomial
from ..arithmetic.balls import to_mpf
from ..arithmetic.logseries import (
    EXACT,
    ONE,
    ZERO,
    LogSeries,
    least,
    plus,
    size,
    solve_driven,
    solve_kernel,
    solve_linear,
)
from ..arithmetic.parameters import Parameter, Value
from ..arithmetic.rings import Element, Ring, ring
from ..display.objects import printed
from ..engine.atoms import parameter_name, read
from ..engine.scheme import Layered, Scheme
from ..engine.step import Step, through
from ..engine.tensors import Tensor, identify
from ..engine.through import Response
from ..errors import InputError
from ..gaussian.brackets import Bracket
from ..gaussian.large_kernel import around_infinity
from ..gaussian.oracle import Enclosure
from ..gaussian.small_kernel import around_point, around_zero, scale_invariant
from ..layers import Layer, dense
from ..symbols import K, ell
from .criticality import Criticality, criticality
from .fixed_points import DIGITS, half_stable, stable
from .layer_functions import LayerFunction, functions
from .points import CriticalPoint
from .systems import (
    CORRECTIONS,
    MOST,
    SQUARE,
    Quantity,
    Solution,
    System,
    in_layers,
    powers_of,
    without_layer,
)

Form: TypeAlias = dict[str, LogSeries]
"""The parts of a quantity, by their factors: an unknown tensor, C_W1, …, or none, ""."""

Stages: TypeAlias = Sequence[Sequence[Step]]
"""The steps through each stage of a layer."""

_LINE = 45  # digits of a C_b on a critical line
_LEAST = mpmath.mpf("1e-10")
"""The smallest K* > 0 that is found; the largest is its inverse."""
_CLOSE = mpmath.mpf("1e-12")
"""The relative error of the first estimate of K*."""
_MARGIN = mpmath.mpf("1e-4")
"""K counts as settled if |χ_∥| is below 1 by this margin."""
_SLOPE = Bracket(((1, 1), (1, 1)))


@dataclass(frozen=True, repr=False)
class StagedSystem(System):
    """The recursions that a tensor needs through a layer's stages.

    Attributes:
        stem, head: the schemes of the first and last layers, where these are others.
    """

    stem: tuple[Scheme, ...] = ()
    head: tuple[Scheme, ...] = ()

    @property
    def layer(self) -> Layered | None:
        """The layer; None for the dense one."""
        return self.recursions[-1].layer

    @cached_property
    def stages(self) -> dict[str, Stages]:
        """The steps of each tensor through the stages of the layer."""
        return {made.name: made.specialise(self.activation).stages for made in self.recursions}

    @cached_property
    def last(self) -> tuple[dict[str, Stages], ...]:
        """The same through each of the last layers."""
        return tuple(
            {
                made.name: through(made.target, scheme).specialise(scheme.sigma).stages
                for made in self.recursions
            }
            for scheme in self.head
        )

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All of these steps."""
        layers = (stages for layer in (self.stages, *self.last) for stages in layer.values())
        return tuple(each for stages in layers for stage in stages for each in stage)

    @cached_property
    def of_laws(self) -> set[sympy.Symbol]:
        """The parameters of its laws that are symbols, such as the rank over the width."""
        matrices = (each for step in self.steps for each in step.through.matrices)
        laws = {self.weights, *(each.law for each in matrices if each.law)}
        return set().union(*(each.free_symbols for each in laws))

    @cached_property
    def found(self) -> Criticality:
        """The layer's criticality."""
        digits = 20 if self.layer is None else DIGITS + 10
        return criticality(self.activation, digits, layer=self.layer)  # type: ignore[arg-type]

    @property
    def _maps(self) -> tuple[LayerFunction, LayerFunction, LayerFunction]:
        """K', χ_∥ and χ_⊥."""
        layer = self.layer or dense()
        assert isinstance(layer, Layer)
        return functions(self.activation, layer)

    @cached_property
    def point(self) -> CriticalPoint:
        """The critical point at which it is solved where no variances are given.

        Raises InputError where there is none, or where it is not one of a power of ℓ.
        """
        found = self.found
        if self.at is not None:
            return _attracting(found, self.at)
        if self.layer is None:
            if found.universality_class == "none":
                wanted = f"one that is critical, or C_b and C_W: {found.reason}"
                raise InputError("activation", str(self.activation), wanted)
            return found.points[0]
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
    def grows(self) -> bool:
        """True if K grows linearly."""
        return self.found.exponent is not None

    @property
    def rests(self) -> bool:
        """True if K tends to a K* > 0."""
        return bool(self.point.K) if self.variances is None else not self.grows

    @property
    def rate(self) -> sympy.Expr:
        """The rate: corrections to the limits at a stable K* fall as rate^ℓ; 0 for others."""
        if self.variances is None or self.grows:
            return sympy.S.Zero
        return max((abs(each) for each in self.factors.values() if abs(each) < 1), default=ZERO)

    @cached_property
    def factors(self) -> dict[str, sympy.Expr]:
        """At a stable K*, a of every T(ℓ+1) = a T(ℓ) + s: χ_∥ of K, χ_⊥ of Θ, …"""
        steps = self.solve(2).steps
        found = {
            name: step[name].ring.expr(step[name].coefficient(ZERO))
            for name, step in steps.items()
            if name != "K"
        }
        slope = self._maps[1](self.fixed.value, *reversed(self.given))
        return {"K": sympy.Float(slope, 20), **found}

    @cached_property
    def fixed(self) -> Enclosure:
        """The K* > 0 to which K tends, to 50 digits."""
        if self.variances is None:
            return half_stable(self.activation, self.point.K)
        bias, weight = self.given
        if self.layer is None:
            return stable(self.activation, bias, weight)
        move, slope, _ = self._maps
        with mpmath.workdps(DIGITS + 20):
            near = self._settled(lambda at: move(at, weight, bias, 15) - at)
            if not abs(slope(near, weight, bias, 20)) < 1 - _MARGIN:
                raise self._unsettled(f"it does not settle near {mpmath.nstr(near, 6)}")
            for _ in range(4):
                miss = move(near, weight, bias, DIGITS + 5) - near
                near -= miss / (slope(near, weight, bias, 20) - 1)
            return Enclosure(near, near * self.off)

    @property
    def off(self) -> mpmath.mpf:
        """The relative error of C_b, C_W and K*: that of C_b where it is on a critical line."""
        on_line = self.variances is not None and self.variances[0] is None
        return mpmath.mpf(10) ** -(_LINE - 2 if on_line else DIGITS)

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
        if not self._maps[0].has_C_W:
            return InputError("C_b", bias, wanted)
        return InputError("C_b, C_W", (bias, weight), wanted)

    def _solution(self, extent: int) -> Solution:
        return _Solver(self, extent).run()

    def expand(self, quantity: Quantity, count: int) -> LogSeries:
        """A function of the solution with more than `count` terms known, or as many as there are.

        A norm divides by powers of K, so that where K is a polynomial in ℓ so may be a tensor, of
        which then no further terms are found. Raises InputError where they are fewer at another K.
        """
        counts: list[int] = []
        for extent in range(2 + isqrt(count) // 2, count + MOST):
            series = quantity(self.solve(extent))
            if len(series.terms) > count or series.order is EXACT:
                return series
            counts.append(len(series.terms))
            if self.head and counts[-3:] == counts[-1:] * 3:
                return series
        if len(series.terms) < count and not (self.grows or self.head):
            raise InputError("terms", count, f"{len(series.terms)}: all to order {series.order}")
        return series

    @property
    def place(self) -> str:
        """How K moves, in words."""
        bias, weight = map(_short, self.given)
        enters = self._maps[0].has_C_W
        variances = f"C_W = {weight}, C_b = {bias}" if enters else f"C_b = {bias}"
        of = "" if self.layer is None else f"{self.layer} "
        if self.grows:
            return f"{self.layer}, where K grows linearly ({variances})"
        if self.variances is not None:
            return f"{of}at K* = {printed(sympy.Float(self.fixed.value, 20))} ({variances})"
        kind = "any K" if self.neutral else f"K* = {printed(sympy.sympify(self.point.K))}"
        return f"{of}at criticality ({kind}, {variances})"


class _Solver:
    """One solution, through a given relative order."""

    def __init__(self, system: StagedSystem, extent: int) -> None:
        self.system, self.extent = system, sympy.Integer(extent)
        self.critical = system.variances is None
        self.moves = not system.neutral and (self.critical or system.grows)
        self.known: dict[str, Any] = {str(each): each for each in system.of_laws}
        self.known |= dict(zip(("C_b", "C_W"), system.given, strict=True))
        self._check_known()
        self.exact = self.critical and not self._asks_numbers
        self.ring: Any
        self.ring = self._exact_ring() if self.exact else self._numbers()
        self.one = LogSeries.monomial(self.ring, self.ring.domain.one)
        self._brackets: dict[tuple[Activation, Bracket, int], tuple[LogSeries, LogSeries]] = {}
        self._rests: dict[int, LogSeries] = {}
        self._powers: dict[tuple[int, sympy.Expr], LogSeries] = {}
        self.fixed = LogSeries(self.ring, {})
        if not self.exact:
            self.known = {name: self._ball(value) for name, value in self.known.items()}
        if system.rests:
            self.fixed = LogSeries.monomial(self.ring, self.ring.ball(*system.fixed))
        if system.rests and self.critical:
            slope, square = (
                self._bracket(system.activation, each, self.fixed).coefficient(ZERO)
                for each in (_SLOPE, SQUARE)
            )
            weight = self.ring.power(slope, -ONE)
            bias = self.fixed.coefficient(ZERO) - weight * square
            self.known |= {"C_W": weight, "C_b": bias}
        self.rates = {name: self._rate(name) for name in ("lambda_b", "lambda_W")}

    def run(self) -> Solution:
        """Solve one recursion after the other."""
        tensors, steps = {"K": self._kernel()}, {}
        zero, inside = LogSeries(self.ring, {}), dict[tuple[int, str], Form]()
        for name, stages in self.system.stages.items():
            form = {name: zero, "": zero} | self._step(stages, name, tensors, inside)
            steps[name] = form
            if name != "K":
                tensors[name] = self._solved(name, form[name], form[""])
        return Solution(tensors, steps, self._behind(tensors))

    def _behind(self, tensors: dict[str, LogSeries]) -> dict[str, LogSeries]:
        """The tensors behind the last layers, as functions of the depth there."""
        for layer in self.system.last:
            inside = dict[tuple[int, str], Form]()
            above = {
                name: self._step(stages, name, tensors, inside)[""]
                for name, stages in layer.items()
            }
            tensors = {
                name: series.shifted(least(series.order, plus(series.lowest, self.extent)), -1)
                for name, series in above.items()
            }
        return tensors

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
            raise InputError("activation", str(self.system.activation), wanted) from None

    # the kernel

    def _kernel(self) -> LogSeries:
        system = self.system
        constant = self.ring(system.constants["K"])
        if system.neutral:
            return LogSeries.monomial(self.ring, constant)
        if not self.moves:
            return self.fixed

        def move(kernel: LogSeries) -> LogSeries:
            return (
                self._step(system.stages["K"], "K", {"K": self.fixed + kernel}, {})[""] - self.fixed
            )

        if system.grows:
            start = LogSeries.monomial(self.ring, self.ring.domain.one, -ONE)
            added = (move(start) - start).truncated(ONE / 2)
            leading = LogSeries.monomial(self.ring, added.coefficient(ZERO), -ONE)
            return solve_kernel(move, leading, ZERO, constant, plus(self.extent, ONE))
        inverse = 1 / system.point.exponent
        exponent = plus(ONE, inverse)
        if self.exact:
            first = self.ring(self._leading)
        else:  # of K' − K* = δ + c δ^{1+e}, (−c e)^{−1/e}
            start = LogSeries.monomial(self.ring, self.ring.domain.one, inverse)
            added = (move(start) - start).coefficient(exponent)
            first = self.ring.power(added * self.ring(-system.point.exponent), -inverse)
        leading = LogSeries.monomial(self.ring, first, inverse)
        return self.fixed + solve_kernel(move, leading, exponent, constant, self.extent)

    @property
    def _leading(self) -> sympy.Expr:
        point = self.system.point
        return sympy.radsimp((-point.coefficient * point.exponent) ** (-1 / point.exponent))

    # one layer

    def _step(
        self,
        stages: Stages,
        name: str,
        solved: Mapping[str, LogSeries],
        inside: dict[tuple[int, str], Form],
    ) -> Form:
        """T' as a form in T, the tensors before it being known.

        Arguments:
            inside: what is known behind each stage; what the unknown does not enter is added.
        """
        forms: dict[str, Form] = {label: {"": series} for label, series in solved.items()}
        forms.setdefault(name, {name: self.one})
        for place, stage in enumerate(stages):
            above = {}
            for each in stage:
                key = place, each.name
                form = inside[key] if key in inside else self._through(each, forms)
                if form.keys() == {""}:
                    inside[key] = form
                above[each.name] = form
            forms = above
        return forms[name]

    def _through(self, made: Step, below: Mapping[str, Form]) -> Form:
        total: Form = {}
        for (mono, _), value in made.terms.items():
            factors = (self._raised(atom, power, below, made) for atom, power in mono)
            start: Form = {"": LogSeries.monomial(self.ring, self.ring(value))}
            total = _sum(total, reduce(_product, factors, start))
        return total

    def _raised(self, atom: object, power: int, below: Mapping[str, Form], made: Step) -> Form:
        if (name := parameter_name(atom)) in self.known:
            value = self.known[name]
            exact = isinstance(value, sympy.Expr)
            raised = self.ring(value**power) if exact else self.ring.power(value, ONE * power)
            return {"": LogSeries.monomial(self.ring, raised)}

        def parameter(own: Parameter) -> Form:
            return {own.name: self.one} if own.name in CORRECTIONS else {"": self.rates[own.name]}

        def average(bracket: Bracket) -> Form:
            assert made.activation is not None
            sigma = made.sigma_at(bracket.kernel, made.activation)
            return {"": self._bracket(sigma, bracket, below[bracket.kernel][""])}

        def function(response: Response) -> Form:
            limits = {symbol: self._found(limit, below)[""] for symbol, limit in response.limits}
            return {"": self._evaluated(response.value, limits)}

        form = read(
            atom,
            parameter=parameter,
            value=lambda number: {"": self._evaluated(number.expr, {})},
            tensor=lambda tensor: self._found(tensor, below),
            bracket=average,
            response=function,
        )
        if power >= 0:
            return reduce(_product, [form] * (power - 1), form)
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
        """The bracket of σ at its kernel, which is expanded once for each."""
        key = sigma, bracket, id(kernel)
        if key not in self._brackets:
            self._brackets[key] = self._expanded(sigma, bracket, kernel), kernel
        return self._brackets[key][0]

    def _expanded(self, sigma: Activation, bracket: Bracket, kernel: LogSeries) -> LogSeries:
        """The bracket around where its kernel tends: 0, a number, or any other power of ℓ."""
        start, lowest = kernel.coefficient(ZERO), kernel.lowest
        total = LogSeries(self.ring, {})
        if size(lowest) > 0:
            cut = self._cut(bracket, lowest)
            for exponent, value in around_zero(sigma, bracket, cut).items():
                total = total + self._power(kernel, exponent).scaled(self.ring(value))
            return total.truncated((cut + sympy.Rational(1, 2)) * lowest)
        if lowest == 0 and _is_number(start):
            rest = kernel - LogSeries.monomial(self.ring, start)
            rest = self._rests.setdefault(id(kernel), rest)
            count = int(self.extent) + 2 if rest.terms else 1
            for k, each in enumerate(self._around(sigma, bracket, start, count)):
                total = total + self._power(rest, ONE * k).scaled(each)
            return total.truncated(rest.lowest * count) if rest.terms else total
        if size(lowest) < 0 and not sigma.is_scale_invariant:
            terms, end = around_infinity(sigma, bracket, int(self.extent) + 1)
            for exponent, known in terms.items():
                total = total + self._power(kernel, exponent).scaled(self.ring.ball(*known))
            return total.truncated(end * lowest)
        power, value = _monomial(_invariant(sigma, bracket))
        return kernel.power(power, self.extent).scaled(self.ring(value))

    def _cut(self, bracket: Bracket, lowest: sympy.Expr) -> sympy.Expr:
        """The power of a kernel ~ ℓ^{−lowest} through which a bracket is needed."""
        bare = sum(order == 0 for _, order in bracket.factors) - len(bracket.outer)
        return max(ZERO, sympy.Rational(bare, 2)) + sympy.ceiling((self.extent + 1) / lowest)

    def _power(self, kernel: LogSeries, exponent: sympy.Rational) -> LogSeries:
        """kernel^exponent, from the nearest lower power. `_brackets` keeps the kernel."""
        key = id(kernel), exponent
        if exponent == 0:
            return self.one
        if key not in self._powers:
            extent = plus(self.extent, ONE)
            if exponent > 1:
                made = self._power(kernel, exponent - 1) * kernel
            else:
                made = kernel.power(exponent, extent)
            self._powers[key] = made.truncated(plus(exponent * kernel.lowest, extent))
        return self._powers[key]

    def _around(
        self, sigma: Activation, bracket: Bracket, start: Polynomial, count: int
    ) -> list[Polynomial]:
        """The coefficients of the bracket in powers of K − K*, with what K*'s error adds."""
        ((_, ball),) = start.terms.items()
        with mpmath.workdps(DIGITS + 30):
            at, off = to_mpf(ball.mid()), to_mpf(ball.rad())
        with mpmath.workdps(DIGITS + 20):
            found = around_point(sigma, bracket, at, count + 1, DIGITS)
            return [
                self.ring.ball(here.value, here.radius + (k + 1) * abs(above.value) * off)
                for k, (here, above) in enumerate(pairwise(found))
            ]

    # coefficients

    def _check_known(self) -> None:
        """Raise InputError for parameters of which nothing is known."""
        atoms = {each.name for step in self.system.steps for each in step.atoms(Parameter)}
        unknown = atoms - self.known.keys() - {"lambda_b", "lambda_W", *CORRECTIONS}
        if unknown:
            wanted = f"one without {', '.join(sorted(unknown))}"
            raise InputError("recursion", self.system.recursions[-1].name, wanted)

    @property
    def _asks_numbers(self) -> bool:
        """True if coefficients are decimals: K*, C_b or C_W is, or a norm behind a K that falls."""
        system = self.system
        norms = any(stage.functions for scheme in system.head for stage in scheme.stages)
        decimals = any(each.has(sympy.Float) for each in (*system.given, system.point.coefficient))
        return system.rests or norms or decimals

    def _ball(self, value: sympy.Expr) -> Element:
        if not value.has(sympy.Float):
            return self.ring(value)
        with mpmath.workdps(DIGITS + 20):
            number = mpmath.mpf(sympy.N(value, DIGITS + 20))
            return self.ring.ball(number, abs(number) * self.system.off)

    def _numbers(self) -> BallRing:
        system = self.system
        symbols = {*system.constants.values(), *system.of_laws}
        for rate in (system.lambda_b, system.lambda_W):
            symbols |= rate.free_symbols - {ell}
        if system.layer is not None and system.layer.free_symbols:
            free = ", ".join(sorted(map(str, system.layer.free_symbols)))
            raise InputError("layer", str(system.layer), f"numbers for {free}")
        return BallRing(tuple(sorted(symbols, key=str)))

    def _exact_ring(self) -> Ring:
        system, steps = self.system, self.system.steps
        held = [*system.constants.values()]
        if self.moves:
            held.append(self._leading)
        brackets = {
            (step.through.sigma_at(each.kernel, step.activation), each)
            for step in steps
            for each in step.atoms(Bracket)
        }
        for sigma, bracket in brackets:
            assert sigma is not None
            if system.neutral:
                found = _invariant(sigma, bracket)
                held += [_monomial(found)[1], found]
                continue
            expansion = around_zero(sigma, bracket, self._cut(bracket, 1 / system.point.exponent))
            held += expansion.values()
            if any(not power.is_Integer for power in expansion):
                held.append(sympy.sqrt(self._leading))
        if any(len(stages) > 1 for stages in (*system.stages.values(), *system.last)):
            held += [*system.given, *system.of_laws]
            held += [atom.expr for step in steps for atom in step.atoms(Value)]
            held += [1 / each for each in held if each.is_number and each != 0]
        held += powers_of(self.known, steps)
        held += [*without_layer(system.lambda_b), *without_layer(system.lambda_W)]
        return ring(held)

    def _rate(self, name: str) -> LogSeries:
        """λ at layer ℓ+1."""
        given = getattr(self.system, name)
        try:
            here = in_layers(given, self.ring, self.extent)
        except (CoercionFailed, ValueError):
            raise InputError(name, given, "sums of powers of ℓ and of log ℓ") from None
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


def _invariant(sigma: Activation, bracket: Bracket) -> sympy.Expr:
    """The bracket where every K is fixed."""
    if not sigma.is_scale_invariant:
        wanted = "last layers of scale-invariant activations, where every K is fixed"
        raise InputError("activation", str(sigma), wanted)
    return scale_invariant(sigma, bracket._replace(kernel="K"))


def _monomial(value: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """(p, c) of c K^p."""
    coefficient, exponent = sympy.expand(value).as_coeff_exponent(K)
    return exponent, coefficient


def _attracting(found: Criticality, point: CriticalPoint) -> CriticalPoint:
    if point not in found.points:
        raise InputError("point", point, f"one of criticality({found.activation}).points")
    if point.decay(ell) is None:
        raise InputError("point", point, "one that attracts, from one side at least, by a power")
    return point


def _short(value: sympy.Expr) -> str:
    return f"{float(value):.8g}" if value.is_Float else printed(value)


def _is_number(element: Element) -> bool:
    """True for a ball."""
    return isinstance(element, Polynomial) and not any(map(any, element.terms))
