"""Tensors at large depth: T^{(ℓ)} = Σ c_{a,b} ℓ^{−a} (log ℓ)^b at criticality, order by order.

    asymptotics(recursion("F", Orthogonal()), activations.tanh, terms=3)

Nothing is fitted: a term either follows from the recursions (`deep` solves them), and is universal,
or carries the free constant of a homogeneous solution, c_T ℓ^{−p} in T, which only the inputs and
the first layers know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import mpmath
import sympy

from .. import symbols
from ..activations.functions import Activation, as_activation
from ..arithmetic.logseries import EXACT, ZERO, LogSeries, size
from ..citations import rests_on
from ..display.labels import component_latex
from ..display.objects import Shown
from ..engine.fields import Field
from ..engine.step import Step, step
from ..engine.tensors import Name, named
from ..errors import InputError, whole
from ..expressions import as_expression
from ..layers.per_layer import PerLayer, normal, value_at
from ..symbols import K, ell
from ..weights import Gaussian, WeightEnsemble
from ..work.progress import telling
from . import staged
from .criticality import CriticalPoint
from .falling import FallingSystem, KernelSeries, falls
from .systems import Quantity, Solution, System, closed_set, quotient

__all__ = [
    "Asymptotics",
    "Breakdown",
    "Term",
    "asymptotics",
    "breakdown",
    "counterterm",
    "ell",
    "together",
]

MOST_TERMS = 100
"""Of an expansion: each power of ℓ takes longer than the one before."""
_DIGITS = 30
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
        return str(sympy.latex(_rounded(self.expr)))

    def __str__(self) -> str:
        return _printed(self.expr)


@dataclass(frozen=True, repr=False)
class Asymptotics(Shown):
    """A tensor, or a quotient of tensors, at large depth.

    Attributes:
        label: what it is, as an expression in the tensors' names.
        system: the recursions it solves.
        count: how many terms are shown; an exact polynomial in ℓ is shown whole.
    """

    label: sympy.Expr
    system: System
    count: int
    _quantity: Quantity = field(repr=False)

    @cached_property
    def series(self) -> LogSeries:
        """All terms that were found: at least one more than `count`, if there is one."""
        with telling(f"expanding {self.label} at large depth"):
            return self.system.expand(self._quantity, self.count)

    @cached_property
    def _found(self) -> tuple[Term, ...]:
        """The terms that are shown, and those of the first omitted power of ℓ."""
        free = set(self.system.constants.values())
        ordered = self.series.ordered()
        beyond = ordered[self.count][0][0] if len(ordered) > self.count else None
        found = []
        for place, ((exponent, log), value) in enumerate(ordered):
            if place < self.count or exponent == beyond or self._all_powers:
                coefficient = self.series.ring.expr(value)
                universal = not coefficient.free_symbols & free
                error = self.series.ring.radius(value)
                found.append(Term(coefficient, _number(exponent), log, universal, error))
        return tuple(found)

    @property
    def _largest(self) -> tuple[Term, ...]:
        """The terms that are shown, as they were found."""
        return self._found if self._all_powers else self._found[: self.count]

    @property
    def is_exact(self) -> bool:
        """Whether it is a polynomial in ℓ, with nothing left out."""
        falling = isinstance(self.system, FallingSystem)
        return self._all_powers and not self.system.rate and not falling

    @property
    def _all_powers(self) -> bool:
        """Whether no power of ℓ is left out."""
        return self.series.order is EXACT

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The largest terms, in order."""
        return tuple(each.factored for each in self._largest)

    @property
    def omitted(self) -> Term | None:
        """The largest term left out; None of an exact solution, and where none is found."""
        left_out = () if self._all_powers else self._found[self.count :]
        return next((each.factored for each in left_out), None)

    @property
    def expr(self) -> sympy.Expr:
        """The terms, as a function of `ell`."""
        return sympy.Add(*(term.expr for term in self.terms))

    @property
    def universal(self) -> sympy.Expr:
        """Those terms that no input and no first layer can change."""
        return sympy.Add(*(term.expr for term in self.terms if term.universal))

    @property
    def constants(self) -> dict[sympy.Symbol, str]:
        """The free constants among the terms, and what each is."""
        present = self.expr.free_symbols
        return {
            symbol: self._meaning(name)
            for name, symbol in self.system.constants.items()
            if symbol in present
        }

    def _meaning(self, name: str) -> str:
        symbol = self.system.constants[name]
        if symbol == K:
            return "the kernel, the same at every layer"
        for extent in range(2, 20):
            series = self.system.solve(extent).tensors[name]
            for (exponent, log), value in series.ordered():
                if symbol in series.ring.expr(value).free_symbols and not log:
                    if not exponent:
                        return f"the constant term of {name}"
                    power = _printed(ell ** -_number(exponent))
                    return f"the coefficient of {power} in {name}"
        raise ArithmeticError(f"{symbol} is not among the terms of {name}")

    @cached_property
    def normalised(self) -> Asymptotics:
        """The tensor over as many powers of K and Θ as its dimension asks: V/K², F/(KΘ), A/Θ², …

        A tree of r derivatives on m nodes has the dimension Θ^r K^{m/2−r} (source 000, eqs. 3.9,
        6.9–6.16).
        """
        made = self.system.recursions[-1]
        if self.label != symbols.tensor(made.name) or made.name in {"K", "Theta"}:
            raise InputError("normalised", str(self.label), "a tensor other than K and Theta")
        kernel, tangent = dimension(made.target)
        return self.over({"K": kernel, "Theta": tangent})

    def over(self, scale: Mapping[str, sympy.Rational | int]) -> Asymptotics:
        """The quotient by powers of tensors of its system: {"K": 2} for V/K².

        Raises InputError for a tensor that does not occur, or that has no power of ℓ ahead.
        """
        powers = {name: power for name, power in scale.items() if power}
        names = [made.name for made in self.system.recursions]
        if not powers.keys() <= set(names):
            raise InputError("scale", sorted(powers), f"tensors among {', '.join(names)}")
        own = self._quantity

        def divided(solution: Solution) -> LogSeries:
            total = own(solution)
            for name, power in powers.items():
                below = solution.tensors[name]
                if isinstance(total, KernelSeries):
                    total = total.quotient(below, power)
                else:
                    total = quotient(total, below, power)
            return total

        divisor = sympy.prod([symbols.tensor(name) ** power for name, power in powers.items()])
        return replace(self, label=self.label / divisor, _quantity=divided)

    def evaluate(self, layer: int, constants: Mapping[sympy.Symbol, Any] | None = None) -> float:
        """The shown terms at this layer, given the free constants that occur in them.

        Where they are powers of K, {K: value} takes the place of K's law and fixes the shift, as
        `matched` does; with neither the inputs' K counts as of order one. Raises InputError where
        one is missing.
        """
        return self._sum(self._largest, layer, constants or {})

    def remainder(self, layer: int, constants: Mapping[sympy.Symbol, Any] | None = None) -> float:
        """The omitted terms of the first power of ℓ with any; 0 for an exact solution."""
        if self.omitted is None:
            return 0.0
        left_out = [t for t in self._found[self.count :] if t.exponent == self.omitted.exponent]
        return self._sum(left_out, layer, constants or {})

    def error(self, layer: int, constants: Mapping[sympy.Symbol, Any] | None = None) -> float:
        """How far `evaluate` can be from the tensor at this layer; 0 for an exact solution.

        What the omitted terms amount to there, through the first power of ℓ of which none is shown,
        each taken positive, with what the coefficients' own errors do. At a stable K* > 0 what
        falls exponentially counts as |value| rate^ℓ. The series is asymptotic: an estimate of what
        is left out, good where ℓ is so large that each order is well below the one before, and not
        a bound.

        Arguments:
            layer: 1 or more.
            constants: values of the free constants that occur, also in the omitted terms.

        Raises InputError where one is missing.

        >>> from derive import recursion
        >>> found = recursion("K").asymptotics("tanh", 2)
        >>> zero = {symbols.constant("K"): 0}
        >>> found.error(1000, zero) < found.error(100, zero) < 1e-4
        True
        """
        if self.is_exact:
            return 0.0
        known = constants or {}
        if isinstance(self.series, KernelSeries):
            return self._error_along(self.series, layer, known)
        parts = [replace(term, coefficient=term.error) for term in self._largest]
        total = self._sum(parts, layer, {each: abs(value) for each, value in known.items()})
        if self.system.rate:
            total += abs(self.evaluate(layer, known)) * float(self.system.rate) ** layer
        if self._all_powers:
            return total
        return total + sum(abs(self._sum([term], layer, known)) for term in self._left_out)

    def _error_along(
        self, series: KernelSeries, layer: int, constants: Mapping[sympy.Symbol, Any]
    ) -> float:
        """In powers of K: the two largest omitted terms, what is dropped beside them all, relative
        to the largest of the terms, which may cancel, and what K by its law is off where it is not
        given."""
        assert isinstance(self.system, FallingSystem)
        _checked(layer)
        kernel = {**self.system.known(layer, constants), **constants}
        value = self.evaluate(layer, kernel)
        shift = float(kernel[self.system.shift])
        largest = max(
            (abs(self._sum([term], layer, kernel)) for term in self._largest), default=0.0
        )
        total = largest * series.dropped.at(float(kernel[ell]), float(kernel[K]), shift)
        left_out = () if self._all_powers else self._found[self.count : self.count + 2]
        total += sum(abs(self._sum([term], layer, kernel)) for term in left_out)
        if K not in constants:
            moved = {**kernel, K: kernel[K] + self.system.law.error(layer, shift)}
            total += abs(self.evaluate(layer, moved) - value)
        return total

    @cached_property
    def _left_out(self) -> tuple[Term, ...]:
        """The omitted terms, through the first power of ℓ of which none is shown."""
        last = self._largest[-1].exponent if self._largest else -sympy.oo
        for more in range(0, MOST_TERMS, 2):
            series = self.system.expand(self._quantity, self.count + more)
            beyond = series.ordered()[self.count :]
            found = tuple(
                Term(series.ring.expr(value), _number(exponent), log, False)
                for (exponent, log), value in beyond
            )
            further = [term.exponent for term in found if size(term.exponent) > size(last)]
            if further:
                return tuple(t for t in found if size(t.exponent) <= size(further[0]))
        raise InputError("terms", self.count, "fewer, so that the next power of ℓ is found")

    def _sum(
        self, terms: Sequence[Term], layer: int, constants: Mapping[sympy.Symbol, Any]
    ) -> float:
        _checked(layer)
        missing = {symbol for term in terms for symbol in term.coefficient.free_symbols}
        known = {**self.system.known(layer, constants), **constants}
        if missing := missing - known.keys():
            raise InputError("constants", dict(constants), f"values of {sorted(map(str, missing))}")
        with mpmath.workdps(_DIGITS):
            return float(mpmath.fsum(_value(term.expr, known) for term in terms))

    def matched(
        self, values: Mapping[str, float], layer: int, extent: int = 8
    ) -> dict[sympy.Symbol, mpmath.mpf]:
        """The free constants of a network whose tensors have these values at one deep layer.

        The series through relative order ℓ^{−extent} are solved for them, one after the other, so
        they are as accurate as what is left out at `layer`. Raises InputError for a missing value,
        or where the recursions contain other symbols. Of terms in powers of K the one constant is
        the shift, `symbols.constant("K")`, for which K's value is enough.
        """
        _checked(layer)
        if isinstance(self.system, FallingSystem):
            if "K" not in values:
                raise InputError("values", sorted(values), "K as well")
            shift = self.system.matched(float(values["K"]), layer)
            return {self.system.shift: mpmath.mpf(shift)}
        solved = self.system.solve(extent).tensors
        found: dict[sympy.Symbol, mpmath.mpf] = {}
        with mpmath.workdps(_DIGITS):
            for name, constant in self.system.constants.items():
                if name not in values:
                    raise InputError("values", sorted(values), f"{name} as well")
                series = _expression(solved[name])
                if constant not in series.free_symbols:
                    continue
                unknown = series.free_symbols - {ell, constant, *found}
                if unknown:
                    wanted = f"recursions without {', '.join(map(str, unknown))}"
                    raise InputError("recursion", name, wanted)
                free = series.xreplace(_floats({**found, ell: layer}))

                def miss(at: mpmath.mpf) -> mpmath.mpf:
                    return _value(free, {constant: at}) - values[name]  # noqa: B023

                misses = [miss(mpmath.mpf(c)) for c in (0, 1)]
                found[constant] = misses[0] / (misses[0] - misses[1])
                if name == "K":
                    found[constant] = mpmath.findroot(miss, found[constant])
        return found

    def at_inputs(self, first_weights: WeightEnsemble | None = None) -> sympy.Expr:
        """An exact solution with its constants fixed by layer 1: a polynomial in `ell` and K.

        Layer 1 has `first_weights`, by default those of the other layers, at the critical C_W.
        Raises InputError where the solution is not exact.
        """
        system = self.system
        if not self.is_exact or not system.neutral:
            raise InputError("activation", str(system.activation), "one with an exact solution")
        weights = system.weights if first_weights is None else first_weights
        values = {
            "C_W": system.point.C_W,
            "C_b": system.point.C_b,
            "K0": K / system.point.C_W,
            "lambda_b": system.lambda_b.subs(ell, 1),
            "lambda_W": system.lambda_W.subs(ell, 1),
        }
        solved = system.solve(2).tensors
        fixed: dict[sympy.Symbol, sympy.Expr] = {}
        for made in system.recursions[1:]:
            first = step(made.target, weights, first_layer=True).single_input().expr
            named_values = {each: values.get(str(each), each) for each in first.free_symbols}
            constant = system.constants[made.name]
            rest = _expression(solved[made.name]).subs(ell, 1) - constant
            fixed[constant] = sympy.expand(first.subs(named_values) - rest.subs(fixed))
        return sympy.factor(self.expr.subs(fixed))

    @property
    def _error(self) -> sympy.Expr:
        """What the first omitted term is of the order of."""
        if isinstance(self.series, KernelSeries):
            return self.omitted.expr.as_coeff_Mul()[1] if self.omitted else 1 / ell
        if self._all_powers:
            return sympy.Float(self.system.rate, 8) ** ell
        left_out = self.omitted or Term(sympy.S.One, self.series.order, 0, universal=False)
        return ell ** -_number(left_out.exponent) * sympy.log(ell) ** left_out.log

    def latex(self) -> str:
        """The expansion in LaTeX."""
        if isinstance(self.system, FallingSystem) and self._all_powers:
            return self.system.law.latex()
        names = {each: component_latex(str(each), ()) for each in self.label.free_symbols}
        left = sympy.latex(self.label, symbol_names=names)
        if self.label.is_Symbol:
            left = component_latex(str(self.label), (), r"\ell")
        parts = [sympy.latex(_rounded(term.expr)) for term in self.terms] or ["0"]
        joined = parts[0] + "".join(p if p.startswith("-") else f" + {p}" for p in parts[1:])
        error = "" if self.is_exact else rf" + O\left({sympy.latex(self._error)}\right)"
        return f"{left} = {joined}{error}"

    def __str__(self) -> str:
        system = self.system
        parts = [_printed(term.expr) for term in self.terms] or ["0"]
        joined = parts[0] + "".join(
            f" - {part[1:]}" if part.startswith("-") else f" + {part}" for part in parts[1:]
        )
        if not self.is_exact:
            joined += f" + O({_printed(self._error)})"
        lines = [
            f"{self.label} = {joined}",
            f"  {system.activation} {_place(system)}, "
            f"{system.weights.name} weights, λ_b = {_printed(system.lambda_b)}, "
            f"λ_W = {_printed(system.lambda_W)}",
        ]
        universal = [_printed(term.expr) for term in self.terms if term.universal]
        if universal:
            lines.append(f"  universal: {', '.join(universal)}")
        if isinstance(system, FallingSystem):
            if self._all_powers:
                return str(system.law)
            lines.append(f"  with K of layer ℓ, {_printed_law(system)}")
        lines += [
            f"  of the input and the first layers: {symbol}, {meaning}"
            for symbol, meaning in self.constants.items()
        ]
        return "\n".join(lines)


@rests_on("day2025")
def asymptotics(
    made: Step,
    activation: Activation,
    terms: int = 2,
    *,
    lambda_b: PerLayer = lambda layer: 1 / layer,
    lambda_W: PerLayer = 1,
    C_b: sympy.Expr | float | None = None,
    C_W: sympy.Expr | float | None = None,
    point: CriticalPoint | None = None,
) -> Asymptotics:
    """Solve a derived recursion, with all that it needs, at large depth and a fixed point of K.

    At criticality K* = 0 and where every K is fixed the terms are exact; around K* > 0 they are
    numbers, each with its `error` (`derive.depth.around`), and `.error(layer)` says what is left
    out of all of them at a layer. Where σ is linear up to a kink, as hard_tanh, K falls like
    1/log ℓ, and the terms are c K^q ℓ^p in K of that layer (`derive.depth.falling`).

    Arguments:
        made: from `recursion`. Its single-input form is solved, at the activation's critical C_W
            and C_b. A first layer of another ensemble changes the free constants alone.
        activation: scale-invariant, of the class K* = 0, or half-stable; any, where C_b and C_W
            are given.
        terms: how many terms ℓ^{−a} log^b ℓ, the largest first.
        lambda_b, lambda_W: learning rates: numbers, symbols, or functions of the layer made of
            powers and logarithms. The default is source 000, eq. (6.17).
        C_b, C_W: both, for a network that is not critical: of the one K* > 0 that attracts, the
            limits of the tensors up to what falls exponentially. Of a layer with a norm and a skip
            of 1, whose K grows linearly, any; with a skip below 1, C_W alone is the critical C_b.
        point: another of `criticality(activation).points` than the class's own.

    Raises:
        InputError: for an activation without a critical point, where none is given; where depth
            does not act by powers of ℓ, or of ℓ and K; where no
            K* > 0 attracts at C_b and C_W, or several, or a tensor grows exponentially there.

    >>> from derive import recursion
    >>> print(recursion("V").asymptotics("tanh", C_b=0.1, C_W=1.2))  # doctest: +ELLIPSIS
    V = 0.095096566 + O(0.47456542**ℓ)
      tanh at K* = 0.37450355 (C_W = 1.2, C_b = 0.1), gaussian weights, λ_b = 1/ℓ, λ_W = 1
      universal: 0.095096566

    Derived here; source 000, §5.3–5.4, has the first terms of K, V and G1 for tanh.
    """
    terms = whole("terms", terms, 1, MOST_TERMS, f"a number of terms, 1 to {MOST_TERMS}")
    layered = isinstance(made, Step) and made.layer is not None
    given = _variances(C_b, C_W, layered)
    system = _system(made, activation, lambda_b, lambda_W, given, point)
    if made.corrections:
        raise InputError("corrections", made.corrections, "0: variances without 1/n parts")
    name = system.recursions[-1].name
    return Asymptotics(symbols.tensor(name), system, terms, lambda solved: solved.tensors[name])


def together(
    recursions: Sequence[Step],
    activation: Activation,
    terms: int = 2,
    *,
    lambda_b: PerLayer = lambda layer: 1 / layer,
    lambda_W: PerLayer = 1,
) -> dict[str, Asymptotics]:
    """`asymptotics` of each of these recursions by name, at criticality, solved as one system.

    What they share is solved once, and the free constants that `matched` finds are the same for all
    of them.

    Raises InputError as `asymptotics`, and for recursions of different weights.
    """
    terms = whole("terms", terms, 1, MOST_TERMS, f"a number of terms, 1 to {MOST_TERMS}")
    systems = [_system(made, activation, lambda_b, lambda_W) for made in recursions]
    if len({system.weights for system in systems}) != 1:
        raise InputError("recursions", list(map(str, recursions)), "some, all of the same weights")
    system = replace(systems[0], recursions=closed_set(*recursions), _solved={})

    def solution(name: str) -> Quantity:
        return lambda solved: solved.tensors[name]

    return {
        made.name: Asymptotics(symbols.tensor(made.name), system, terms, solution(made.name))
        for made in recursions
    }


def counterterm(
    activation: Activation, weights: WeightEnsemble | None = None, terms: int = 2
) -> Asymptotics:
    """c_W^{1} of layer ℓ, C_W + c_W^{1}/n, that keeps the two-point function K: G^{1} = 0.

    From the derived recursion of G^{1} with a correction of C_W (source 000, eq. 5.28), and
    c_b^{1} = 0.
    """
    terms = whole("terms", terms, 1, MOST_TERMS, f"a number of terms, 1 to {MOST_TERMS}")
    made = step("G1", Gaussian() if weights is None else weights, corrections=1)
    system = _system(made, activation, sympy.Integer(1), sympy.Integer(1))

    def tuned(solution: Solution) -> LogSeries:
        step = solution.steps["G1"]
        below = quotient(-step[""], step["C_W1"], sympy.Integer(1))
        return below.shifted(below.order, by=-1)

    return Asymptotics(symbols.parameter("C_W1"), system, terms, tuned)


@dataclass(frozen=True, repr=False)
class Breakdown(Shown):
    """How a tensor's next order in 1/n grows beside it: T^{next}/T → `growth`, so growth/n at n.

    Attributes:
        growth: the leading term of the quotient, in `ell`.
    """

    growth: sympy.Expr

    @property
    def aspect_ratio(self) -> sympy.Expr | None:
        """L/n at which the next order is as large as the first: 1/|c| where growth = c ℓ.

        ∞ where it grows slower than ℓ, so that ever deeper networks are within the expansion at
        n ∝ L; None where L/n alone does not decide.
        """
        per_layer = self.growth / ell
        if not per_layer.has(ell):
            return 1 / sympy.Abs(per_layer)
        return sympy.oo if sympy.limit(per_layer, ell, sympy.oo) == 0 else None

    def latex(self) -> str:
        """The growth, and the L/n at which it is as large as 1, in LaTeX."""
        ratio = self.aspect_ratio
        at = "" if ratio is None else rf",\quad L/n = {sympy.latex(ratio)}"
        return rf"T^{{\mathrm{{next}}}}/T \to {sympy.latex(self.growth)}{at}"

    def __str__(self) -> str:
        return f"next order / first → {_printed(self.growth)}; L/n = {self.aspect_ratio}"


def breakdown(
    tensor: str,
    activation: Activation,
    weights: WeightEnsemble | None = None,
    *,
    lambda_b: PerLayer = lambda layer: 1 / layer,
    lambda_W: PerLayer = 1,
) -> Breakdown:
    """At which depth a tensor's next order in 1/n, by the same engine, is as large as itself."""
    name = named(tensor)
    further = _next(name, Gaussian() if weights is None else weights)
    leading = []
    for each in (further, step(name, further.weights)):
        solved = asymptotics(each, activation, 1, lambda_b=lambda_b, lambda_W=lambda_W)
        leading.append(solved.terms[0].expr)
    return Breakdown(sympy.factor(leading[0] / leading[1]))


def _next(name: Name, weights: WeightEnsemble) -> Step:
    """The recursion of the same cumulant's coefficient at one more order in 1/n."""
    return step(list(name.fields), weights, pairing=name.pairing, order=name.order + 1)


def dimension(name: Name) -> tuple[sympy.Rational, sympy.Rational]:
    """(powers of K, powers of Θ): Θ^r K^{m/2−r} for each tree of r edges on m nodes."""
    kernel, tangent = sympy.Integer(0), sympy.Integer(0)
    for each in name.fields:
        if not isinstance(each, Field):
            raise InputError("tensor", name.label, "one of z, H, dH, …, whose dimension is known")
        kernel += sympy.Rational(each.nodes, 2) - len(each.edges)
        tangent += len(each.edges)
    return kernel, tangent


def _system(
    made: Step,
    activation: Activation,
    lambda_b: PerLayer,
    lambda_W: PerLayer,
    variances: tuple[sympy.Expr | None, sympy.Expr] | None = None,
    point: CriticalPoint | None = None,
) -> System:
    if not isinstance(made, Step) or not made.square or made.first_layer:
        raise InputError("recursion", made, "a derived one between hidden layers of equal width")
    activation = as_activation(activation)
    rates = (_rate("lambda_b", lambda_b), _rate("lambda_W", lambda_W))
    if made.layer is not None:
        if point is not None:
            raise InputError("point", point, "none, with a layer")
        return staged.StagedSystem(staged.closed_set(made), activation, *rates, variances)
    if point is not None and (variances or not isinstance(point, CriticalPoint)):
        wanted = "a point of criticality(activation).points, and no C_b and C_W beside it"
        raise InputError("point", point, wanted)
    if variances is None and point is None and falls(activation):
        return FallingSystem(closed_set(made), activation, *rates)
    return System(closed_set(made), activation, *rates, variances, point)


def _variances(
    C_b: object, C_W: object, line: bool = False
) -> tuple[sympy.Expr | None, sympy.Expr] | None:
    """C_b and C_W; on a layer's critical line C_W alone."""
    if C_b is None and C_W is None:
        return None
    wanted = "both, numbers of 0 or more, or neither"
    if line and C_b is None:
        return None, as_expression("C_W", C_W, "a number of 0 or more")
    if C_b is None or C_W is None:
        raise InputError("C_b, C_W", (C_b, C_W), wanted)
    values = (as_expression("C_b", C_b, wanted), as_expression("C_W", C_W, wanted))
    if not all(value.is_number and value.is_nonnegative for value in values):
        raise InputError("C_b, C_W", (C_b, C_W), wanted)
    return values


def _rate(name: str, given: PerLayer) -> sympy.Expr:
    wanted = "0 or more at every layer: a number, a symbol or a function of the layer"
    got = value_at(name, normal(name, given), ell, wanted)
    value = sympy.expand(sympy.nsimplify(got, rational=True))
    if any(value.subs(ell, layer).is_negative for layer in (1, 2, 10**6)):
        raise InputError(name, got, wanted)
    return value


def _checked(layer: int) -> None:
    """Raises InputError for what is no layer."""
    if isinstance(layer, bool) or not layer >= 1:
        raise InputError("layer", layer, "1 or more")


def _expression(series: LogSeries) -> sympy.Expr:
    """The known terms of a series, in `ell`."""
    return sympy.Add(
        *(
            series.ring.expr(value) * ell**-exponent * sympy.log(ell) ** log
            for (exponent, log), value in series.terms.items()
        )
    )


def _value(expression: sympy.Expr, known: Mapping[sympy.Symbol, Any]) -> mpmath.mpf:
    """An expression as a number of mpmath's precision, all its symbols known."""
    digits = mpmath.mp.dps
    return mpmath.mpmathify(expression.xreplace(_floats(known)).evalf(digits))


def _floats(known: Mapping[sympy.Symbol, Any]) -> dict[sympy.Symbol, sympy.Expr]:
    """Numbers for symbols: floats as what they are exactly, so that no product rounds to them."""
    exact = {symbol: sympy.sympify(value) for symbol, value in known.items()}
    return {
        symbol: sympy.Float(value, max(_DIGITS, mpmath.mp.dps)) if value.is_Float else value
        for symbol, value in exact.items()
    }


def _place(system: System) -> str:
    """At which fixed point, in words."""
    if isinstance(system, staged.StagedSystem):
        return system.place
    if system.variances is not None and system.around is not None:
        C_b, C_W = map(_as_given, system.variances)
        return (
            f"at K* = {_printed(sympy.Float(system.around.K.value, 20))} (C_W = {C_W}, C_b = {C_b})"
        )
    point = system.point
    kind = "any K" if system.neutral else f"K* = {_printed(sympy.sympify(point.K))}"
    C_b, C_W = _printed(point.C_b), _printed(point.C_W)
    return f"at criticality ({kind}, C_W = {C_W}, C_b = {C_b})"


def _printed_law(system: FallingSystem) -> str:
    """The law of K without σ's name."""
    return str(system.law).partition(": ")[2]


def _as_given(value: sympy.Expr) -> str:
    """A float in as few digits as tell it apart, as Python prints it."""
    return str(float(value)) if value.is_Float else str(value)


def _number(exponent: sympy.Expr) -> sympy.Expr:
    """An exponent as it is, or as a decimal number where it stands for one."""
    many = exponent.is_Rational and exponent.q > _SIMPLE
    return sympy.Float(exponent, _DIGITS) if many else exponent


def _rounded(expression: sympy.Expr) -> sympy.Expr:
    """With decimal numbers of eight digits."""
    return expression.xreplace(
        {each: sympy.Float(each, 8) for each in expression.atoms(sympy.Float)}
    )


def _printed(expression: sympy.Expr) -> str:
    return str(_rounded(expression)).replace("ell", "ℓ")
