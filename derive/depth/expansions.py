"""A tensor at large depth: its terms, what is left out of them, and its free constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import mpmath
import sympy

from .. import symbols
from ..arithmetic.logseries import EXACT, ZERO, LogSeries, size
from ..display.labels import component_latex
from ..display.objects import Shown, printed, readable
from ..engine.fields import Field
from ..engine.stages import STEM
from ..engine.step import step
from ..engine.tensors import Name
from ..errors import InputError
from ..symbols import K, ell
from ..weights import WeightEnsemble
from ..work.progress import telling
from .log_decay import FallingSystem, KernelSeries
from .staged import StagedSystem
from .systems import Quantity, Solution, System, quotient

MOST_TERMS = 100
"""Of an expansion: each power of ℓ takes longer than the one before."""
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
                found.append(Term(coefficient, number(exponent), log, universal, error))
        return tuple(found)

    @property
    def _largest(self) -> tuple[Term, ...]:
        """The terms that are shown, as they were found."""
        return self._found if self._all_powers else self._found[: self.count]

    @property
    def is_exact(self) -> bool:
        """True if it is a polynomial in ℓ, with nothing left out."""
        falling = isinstance(self.system, FallingSystem)
        return self._all_powers and not self.system.rate and not falling

    @property
    def _all_powers(self) -> bool:
        """True if no power of ℓ is left out."""
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
        before = " before the last layers" if self._head else ""
        if symbol == K:
            return f"the kernel, the same at every layer{before}"
        for extent in range(2, 20):
            series = self.system.solve(extent).tensors[name]
            for (exponent, log), value in series.ordered():
                if symbol in series.ring.expr(value).free_symbols and not log:
                    if not exponent:
                        return f"the constant term of {name}{before}"
                    power = printed(ell ** -number(exponent))
                    return f"the coefficient of {power} in {name}{before}"
        raise ArithmeticError(f"{symbol} is not among the terms of {name}")

    @cached_property
    def normalised(self) -> Asymptotics:
        """The tensor over as many powers of K and Θ as its dimension asks: V/K², F/(KΘ), A/Θ², …

        A tree of r derivatives on m nodes has the dimension Θ^r K^{m/2−r} (source 000, eqs. 3.9,
        6.9–6.16).
        """
        targets = {symbols.tensor(made.name): made.target for made in self.system.recursions}
        if self.label not in targets or str(self.label) in {"K", "Theta"}:
            raise InputError("normalised", str(self.label), "a tensor other than K and Theta")
        kernel, tangent = dimension(targets[self.label])
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
                below = solution.last[name]
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
                Term(series.ring.expr(value), number(exponent), log, False)
                for (exponent, log), value in beyond
            )
            further = [term.exponent for term in found if size(term.exponent) > size(last)]
            if further:
                return tuple(t for t in found if size(t.exponent) <= size(further[0]))
            if len(series.terms) <= self.count + more:  # there are no more
                return (*found, Term(sympy.S.One, series.order, 0, False))
        raise InputError("terms", self.count, "fewer, so that the next power of ℓ is found")

    def _sum(
        self, terms: Sequence[Term], layer: int, constants: Mapping[sympy.Symbol, Any]
    ) -> float:
        _checked(layer)
        missing = {symbol for term in terms for symbol in term.coefficient.free_symbols}
        known = {**self.system.known(layer, constants), **constants}
        if missing := missing - known.keys():
            raise InputError("constants", dict(constants), f"values of {sorted(map(str, missing))}")
        with mpmath.workdps(DIGITS):
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
        with mpmath.workdps(DIGITS):
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
        ends = (*system.stem, *system.head) if isinstance(system, StagedSystem) else ()
        if ends:
            wanted = "no other first or last layers, for constants that layer 1 fixes"
            raise InputError("layer", str(ends[0].layer or "dense()"), wanted)
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
            first = step(made.target, weights, stage=STEM).single_input().expr
            named_values = {each: values.get(str(each), each) for each in first.free_symbols}
            constant = system.constants[made.name]
            rest = _expression(solved[made.name]).subs(ell, 1) - constant
            fixed[constant] = sympy.expand(first.subs(named_values) - rest.subs(fixed))
        return sympy.factor(self.expr.subs(fixed))

    @property
    def _head(self) -> list[str]:
        """The last layers, with their activations."""
        head = self.system.head if isinstance(self.system, StagedSystem) else ()
        return [f"{each.layer or 'dense()'} of {each.sigma}" for each in head]

    @property
    def _error(self) -> sympy.Expr:
        """The order of the first omitted term."""
        if isinstance(self.series, KernelSeries):
            return self.omitted.expr.as_coeff_Mul()[1] if self.omitted else 1 / ell
        if self._all_powers:
            return sympy.Float(self.system.rate, 8) ** ell
        left_out = self.omitted or Term(sympy.S.One, self.series.order, 0, universal=False)
        return ell ** -number(left_out.exponent) * sympy.log(ell) ** left_out.log

    def latex(self) -> str:
        """The expansion in LaTeX."""
        if isinstance(self.system, FallingSystem) and self._all_powers:
            return self.system.law.latex()
        names = {each: component_latex(str(each), ()) for each in self.label.free_symbols}
        left = sympy.latex(self.label, symbol_names=names)
        if self.label.is_Symbol:
            left = component_latex(str(self.label), (), r"\ell")
        parts = [sympy.latex(readable(term.expr)) for term in self.terms] or ["0"]
        joined = parts[0] + "".join(p if p.startswith("-") else f" + {p}" for p in parts[1:])
        error = "" if self.is_exact else rf" + O\left({sympy.latex(self._error)}\right)"
        return f"{left} = {joined}{error}"

    def __str__(self) -> str:
        system = self.system
        parts = [printed(term.expr) for term in self.terms] or ["0"]
        joined = parts[0] + "".join(
            f" - {part[1:]}" if part.startswith("-") else f" + {part}" for part in parts[1:]
        )
        if not self.is_exact:
            joined += f" + O({printed(self._error)})"
        lines = [
            f"{self.label} = {joined}",
            f"  {system.activation} {system.place}, "
            f"{system.weights.name} weights, λ_b = {printed(system.lambda_b)}, "
            f"λ_W = {printed(system.lambda_W)}",
        ]
        universal = [printed(term.expr) for term in self.terms if term.universal]
        if universal:
            lines.append(f"  universal: {', '.join(universal)}")
        if isinstance(system, FallingSystem):
            if self._all_powers:
                return str(system.law)
            law = str(system.law).partition(": ")[2]
            lines.append(f"  with K of layer ℓ, {law}")
        if self._head:
            lines.append(f"  behind the last layers {'; '.join(self._head)}")
        lines += [
            f"  of the input and the first layers: {symbol}, {meaning}"
            for symbol, meaning in self.constants.items()
        ]
        return "\n".join(lines)


def dimension(name: Name) -> tuple[sympy.Rational, sympy.Rational]:
    """(powers of K, powers of Θ): Θ^r K^{m/2−r} for each tree of r edges on m nodes."""
    kernel, tangent = sympy.Integer(0), sympy.Integer(0)
    for each in name.fields:
        if not isinstance(each, Field):
            raise InputError("tensor", name.label, "one of z, H, dH, …, whose dimension is known")
        kernel += sympy.Rational(each.nodes, 2) - len(each.edges)
        tangent += len(each.edges)
    return kernel, tangent


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
        symbol: sympy.Float(value, max(DIGITS, mpmath.mp.dps)) if value.is_Float else value
        for symbol, value in exact.items()
    }
