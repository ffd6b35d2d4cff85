"""Tensors at large depth where the critical kernel falls like 1/log ℓ: powers of ℓ and of K(ℓ).

Where σ is linear on either side of 0 up to a kink at distance d (`logarithmic`), K falls slower
than every power of ℓ, and no series in ℓ and log ℓ holds it. But K itself serves as the variable:
every tensor is a power of ℓ times a series in K(ℓ),

    T = ℓ^p Σ_q c_q K^q ,    up to relative log ℓ/ℓ .

A bracket is what it is without kinks at ±d, a power of K, and a tail ρ t(K) with t a series in K
and ρ = e^{−d²/2K}/√(2πK): Laplace's expansion around the kink. The kernel's own step is
K' − K = −ρ τ(K), so that ℓ + s = N(K) with dN/dK = −1/(ρτ): N = n/ρ, where

    n = (2K²/d²) (1/τ + dn/dK + n/(2K)) ,

and ρ = n/ℓ is no more than a series in K over ℓ. So is a layer's step: d/dℓ of ℓ^p F(K) is
ℓ^{p−1} (pF − bF'), b = nτ = 2K²/d² + …. A recursion T' = (1 + A(K)/ℓ) T + ℓ^{p−1} S(K) then is

    (p − A) F − b F' = S ,

one order of K after the other; its homogeneous solution, which the first layers fix, goes with
ℓ^{A(0)} and is left out with A(0) < p. (So for tanh V/K² = 2ℓ/3, here with 1 + O(K) beside it.)
K's second differences and that solution are smaller by powers of ℓ, and dropped. The shift s is
what layer 1 leaves of the inputs: ℓ stands for ℓ + s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, log, pi, sqrt
from typing import Any, NamedTuple, TypeAlias, cast

import sympy

from ..arithmetic.logseries import EXACT, ONE, ZERO, LogSeries, least, plus, size
from ..arithmetic.parameters import Parameter
from ..arithmetic.rings import Ring, ring
from ..engine.atoms import parameter_name
from ..engine.step import Step
from ..errors import InputError
from ..gaussian.brackets import Bracket
from ..symbols import K, constant, ell
from .logarithmic import LogarithmicKernel, core, falling_point, logarithmic_kernel, tail
from .points import CriticalPoint
from .systems import (
    MOST,
    SQUARE,
    Quantity,
    Solution,
    System,
    label_of,
    powers_of,
    without_layer,
)

_SHIFT = 8
"""Orders of n by which s is found."""
_HALF = sympy.Rational(1, 2)


_Product: TypeAlias = tuple[tuple[str, int], ...]
"""Powers of tensors and learning rates."""


class _Coefficient(NamedTuple):
    """At a layer: core + tail/ℓ, both series in K; the core is exact."""

    core: LogSeries
    tail: LogSeries

    def __add__(self, other: _Coefficient) -> _Coefficient:  # type: ignore[override]
        return _Coefficient(self.core + other.core, self.tail + other.tail)

    def __mul__(self, other: _Coefficient) -> _Coefficient:  # type: ignore[override]
        tail = self.core * other.tail + self.tail * other.core
        return _Coefficient(self.core * other.core, tail)


class _Shown(NamedTuple):
    """Coefficients that are expressions in K already, exact."""

    def expr(self, value: sympy.Expr) -> sympy.Expr:
        return value

    def radius(self, value: sympy.Expr) -> sympy.Expr:
        return ZERO


class Dropped(NamedTuple):
    """ℓ^{−gap} K^kernel, up to log ℓ and a factor of order one; of what the first layers fix, the
    power of ((1 + s)/(ℓ + s)) that it is smaller by, and the power of K that goes with it."""

    gap: sympy.Expr
    kernel: sympy.Expr
    free: sympy.Expr = EXACT
    start: sympy.Expr = ZERO

    @classmethod
    def largest(cls, parts: Iterable[Dropped]) -> Dropped:
        """Of several; shifts and differences of K are ℓ^{−1} everywhere."""
        every = [cls(ONE, ZERO), *parts]
        found = min(every, key=lambda each: (size(each.gap), size(each.kernel)))
        free = least(*(each.free for each in every))
        return found._replace(free=free, start=min((each.start for each in every), key=size))

    def beside(self, power: sympy.Expr) -> Dropped:
        """Of a part that is K^power of what it is relative to now."""
        kernel, start = plus(self.kernel, power), plus(self.start, power)
        return self._replace(kernel=kernel, start=start)

    def at(self, layer: float, kernel: float, shift: float) -> float:
        """An estimate of it at a layer, s counted in."""
        steady = (1.0 + log(layer)) / layer ** size(self.gap) * kernel ** size(self.kernel)
        start = ((1.0 + max(shift, 0.0)) / layer) ** size(self.free) * kernel ** size(self.start)
        return float(5.0 * (steady + start))


NOTHING = Dropped(EXACT, ZERO)


@dataclass(frozen=True)
class KernelSeries:
    """ℓ^power · series(K), with the series in powers of K: its terms are smaller and smaller.

    Attributes:
        dropped: what is left out, relative to it.
    """

    power: sympy.Expr
    series: LogSeries
    dropped: Dropped

    ring = _Shown()

    @property
    def order(self) -> sympy.Expr:
        """Of ℓ^{−order}: where what is left out begins; `EXACT` of K itself."""
        return EXACT if self.series.order is EXACT else -self.power

    @property
    def terms(self) -> dict[tuple[sympy.Expr, sympy.Expr], sympy.Expr]:
        """By the powers of 1/ℓ and of K."""
        value = self.series.ring.expr
        return {
            (-self.power, q): value(each) * K**q
            for (q, _), each in sorted(self.series.terms.items(), key=lambda item: size(item[0][0]))
        }

    def ordered(self) -> list[tuple[tuple[sympy.Expr, int], sympy.Expr]]:
        """The terms, the largest first, none with a logarithm beside K."""
        return [((power, 0), value) for (power, _), value in self.terms.items()]

    def __mul__(self, other: KernelSeries) -> KernelSeries:
        product = self.series * other.series
        dropped = Dropped.largest([self.dropped, other.dropped])
        return KernelSeries(plus(self.power, other.power), product, dropped)

    def raised(self, power: sympy.Expr, extent: sympy.Expr) -> KernelSeries:
        """A power of it, to this many relative orders of K."""
        return KernelSeries(self.power * power, self.series.power(power, extent), self.dropped)

    def quotient(self, divisor: KernelSeries, power: sympy.Expr) -> KernelSeries:
        """self/divisor^power, as far as both are known."""
        extent = sympy.Integer(1)
        for each in (self.series, divisor.series):
            extent = max(extent, sympy.Integer(len(each.terms)))
        return self * divisor.raised(-power, extent)


@dataclass(frozen=True, repr=False)
class FallingSystem(System):
    """The recursions a tensor needs, where the critical kernel falls like 1/log ℓ."""

    @property
    def point(self) -> CriticalPoint:
        """The critical point at K* = 0."""
        point = falling_point(self.activation)
        assert point is not None
        return point

    @cached_property
    def law(self) -> LogarithmicKernel:
        """How K falls.

        Raises InputError for a σ whose slope does not fall at its nearest kink.
        """
        return logarithmic_kernel(self.activation)

    @cached_property
    def constants(self) -> dict[str, sympy.Symbol]:
        """None in the terms: those of the tensors are smaller by a power of ℓ, and left out."""
        return {}

    shift = constant("K")
    """s, by how many layers the inputs' K is ahead."""

    def known(
        self, layer: int, constants: Mapping[sympy.Symbol, Any]
    ) -> dict[sympy.Symbol, sympy.Expr]:
        """ℓ + s, and K by its law, as far as that goes, where it is not given.

        K fixes s; s is 0 where neither is given.
        """
        if self.shift in constants:
            shift = float(constants[self.shift])
        else:
            shift = self.matched(float(constants[K]), layer) if K in constants else 0.0
        found = {self.shift: sympy.Float(shift, 17), ell: sympy.Float(layer + shift, 17)}
        if K not in constants:
            found[K] = sympy.Float(self.law.evaluate(layer, shift), 17)
        return found

    @cached_property
    def _rest(self) -> LogSeries:
        """n."""
        return _Solver(self, _SHIFT).rest

    def matched(self, value: float, layer: int) -> float:
        """s of a network whose kernel has this value at one layer: n/ρ − ℓ, n through its smallest
        term.

        Raises InputError for a value that no kernel has.
        """
        if not 0 < value < inf:
            raise InputError("values", {"K": value}, "a positive, finite K")
        last = inf
        total, found = 0.0, self._rest
        for (q, _), element in sorted(found.terms.items(), key=lambda item: size(item[0][0])):
            term = float(found.ring.expr(element)) * value ** float(q)
            if abs(term) > last:
                break
            total, last = total + term, abs(term)
        rho = exp(-(float(self.law.distance) ** 2) / (2 * value)) / sqrt(2 * pi * value)
        return total / rho - layer

    def expand(self, quantity: Quantity, count: int) -> LogSeries:
        """A function of the solution with more than `count` terms known; K has one."""
        for extent in range(2, count + MOST):
            found = quantity(self.solve(extent))
            if len(found.terms) > count + 1 or found.order is EXACT:
                break
        return found

    def _solution(self, extent: int) -> Solution:
        return _Solver(self, extent).run()


class _Solver:
    """One solution of a system, through a given relative order of K."""

    def __init__(self, system: FallingSystem, extent: int) -> None:
        self.system, self.extent = system, sympy.Integer(extent)
        self.activation, self.distance = system.activation, system.law.distance
        brackets = {each for made in system.recursions for each in made.atoms(Bracket)} | {SQUARE}
        cores = {each: core(self.activation, each) for each in brackets}
        tails = {each: tail(self.activation, each, self.distance, extent + 2) for each in brackets}
        self.parameters = self._parameters()
        self.ring = self._ring([*cores.values(), *(found for found, _ in tails.values())])
        self.one = LogSeries.monomial(self.ring, self.ring.domain.one)
        self.nothing = LogSeries(self.ring, {})
        C_W = self.ring(self.parameters["C_W"])
        found = {each: self._series(*tails[each]) for each in brackets}
        loss = found[SQUARE].scaled(-C_W)
        self.rest = self._depth(loss)
        self.fall = self.rest * loss
        self.brackets = {
            each: _Coefficient(self._series(cores[each]), self.rest * found[each])
            for each in brackets
        }
        self.rates = {name: self._rate(name) for name in ("lambda_b", "lambda_W")}

    def run(self) -> Solution:
        """Solve one recursion after the other."""
        kernel = KernelSeries(
            ZERO, LogSeries.monomial(self.ring, self.ring.domain.one, ONE), NOTHING
        )
        tensors = {"K": kernel}
        for made in self.system.recursions[1:]:
            tensors[made.name] = self._solved(made, tensors)
        solved = cast("dict[str, LogSeries]", tensors)
        return Solution(solved, {}, solved)

    def _depth(self, loss: LogSeries) -> LogSeries:
        """n of ℓ = n/ρ, from K' − K = −ρ·loss."""
        inverse = loss.power(-ONE, self.extent + 2)
        scale = 2 * ONE / self.distance**2
        total = inverse
        for _ in range(int(self.extent) + 3):
            found = self._times(total, scale, 2)
            total = inverse + _slope(found) + self._times(found, _HALF, -1)
        return self._times(total, scale, 2)

    def _times(self, series: LogSeries, factor: sympy.Expr, power: int) -> LogSeries:
        """factor · K^power · series."""
        return series * LogSeries.monomial(self.ring, self.ring(factor), ONE * power)

    def _solved(self, made: Step, solved: Mapping[str, KernelSeries]) -> KernelSeries:
        """(p − A) F − b F' = S, or F = S/(1 − a) where a layer forgets the tensor."""
        own, source = self._split(made, solved)
        name, parts = made.name, own.core.terms
        gain = own.core.coefficient(ZERO)
        if any(q for q, _ in parts) or own.tail.lowest < 0:
            raise self._refused(name, "whose own factor has a limit")
        value = self.ring.expr(gain)
        if not value.is_number or abs(value) > 1:
            raise self._refused(name, f"that does not grow by {value} a layer")
        if source is None:
            raise self._refused(name, "that other tensors drive: the first layers alone fix it")
        if value != 1:
            inverse = self.ring.power(self.ring.domain.one - gain, -ONE)
            return KernelSeries(source.power, source.series.scaled(inverse), source.dropped)
        power = plus(source.power, ONE)
        exponent = self.ring.exponent(own.tail.coefficient(ZERO))
        if size(exponent) >= size(power):
            raise self._refused(
                name, f"that other tensors drive faster than the first layers' ℓ^{exponent}"
            )
        growth = LogSeries.monomial(self.ring, self.ring(power)) - own.tail
        inverse = self.ring.power(growth.coefficient(ZERO), -ONE)
        series, rest = (
            self.nothing,
            source.series.truncated(plus(source.series.lowest, self.extent)),
        )
        while rest.terms:
            at = rest.lowest
            new = LogSeries.monomial(self.ring, rest.coefficient(at) * inverse, at)
            series = series + new
            rest = rest - growth * new + self.fall * _slope(new)
        series = series.truncated(rest.order)
        left = plus(power, -exponent)
        free = Dropped(left, plus(ZERO, -series.lowest), left)
        return KernelSeries(power, series, Dropped.largest([source.dropped, free]))

    def _refused(self, name: str, wanted: str) -> InputError:
        recursion = self.system.recursions[-1].name
        return InputError("recursion", recursion, f"one without {name}, or a {name} {wanted}")

    def _split(
        self, made: Step, solved: Mapping[str, KernelSeries]
    ) -> tuple[_Coefficient, KernelSeries | None]:
        """The factor of the tensor itself, and the largest power of ℓ of the rest.

        What multiplies the same tensors is added up before, for there cores cancel exactly.
        """
        own = _Coefficient(self.nothing, self.nothing)
        groups: dict[_Product, _Coefficient] = defaultdict(lambda: own)
        mine = own
        for (mono, _), value in made.terms.items():
            product = _Coefficient(LogSeries.monomial(self.ring, self.ring(value)), self.nothing)
            rest, name = [], ""
            for atom, power in mono:
                label = label_of(atom)
                if atom in self.brackets:
                    for _ in range(power):
                        product = product * self.brackets[atom]
                elif parameter_name(atom) in self.parameters:
                    known = self.ring(self.parameters[label] ** power)
                    product = _Coefficient(product.core.scaled(known), product.tail.scaled(known))
                elif label == made.name and power == 1:
                    name = label
                else:
                    rest.append((label, power))
            if name and rest:
                raise InputError("recursion", made.name, f"one that is linear in {made.name}")
            if name:
                mine = mine + product
            else:
                groups[tuple(rest)] = groups[tuple(rest)] + product
        return mine, self._driving(made.name, groups, solved)

    def _driving(
        self,
        name: str,
        groups: Mapping[_Product, _Coefficient],
        solved: Mapping[str, KernelSeries],
    ) -> KernelSeries | None:
        """The sum of coefficient × tensors over the groups, at the largest power of ℓ."""
        found: dict[sympy.Expr, list[KernelSeries]] = defaultdict(list)
        for labels, coefficient in groups.items():
            known = [
                (self.rates | dict(solved))[label].raised(ONE * power, self.extent)
                for label, power in labels
            ]
            leading = coefficient.core
            total = KernelSeries(ZERO, leading, NOTHING)
            if leading.is_zero:
                total = KernelSeries(-ONE, coefficient.tail, NOTHING)
            for each in known:
                total = total * each
            if not total.series.is_zero:
                found[total.power].append(total)
        if not found:
            return None
        highest = max(found, key=size)
        total, *others = found[highest]
        series = total.series
        for each in others:
            series = series + each.series
        if not series.terms:
            raise self._refused(name, "whose largest parts do not cancel")
        dropped = [
            each.dropped.beside(plus(each.series.lowest, -series.lowest)) for each in found[highest]
        ]
        dropped += [
            Dropped(plus(highest, -power), plus(each.series.lowest, -series.lowest))
            for power, parts in found.items()
            for each in parts
            if power != highest
        ]
        return KernelSeries(highest, series, Dropped.largest(dropped))

    def _series(
        self, terms: Mapping[sympy.Expr, sympy.Expr], order: sympy.Expr = EXACT
    ) -> LogSeries:
        return LogSeries(
            self.ring,
            {(q, 0): self.ring(value) for q, value in terms.items() if size(q) < size(order)},
            order,
        )

    def _parameters(self) -> dict[str, sympy.Expr]:
        """The hyperparameters that are the same at every layer."""
        system = self.system
        known = {str(each): each for each in system.weights.free_symbols}
        known |= {"C_b": system.point.C_b, "C_W": system.point.C_W}
        atoms = {each.name for made in system.recursions for each in made.atoms(Parameter)}
        unknown = atoms - known.keys() - {"lambda_b", "lambda_W"}
        if unknown:
            wanted = f"one without {', '.join(sorted(unknown))}"
            raise InputError("recursion", system.recursions[-1].name, wanted)
        return known

    def _ring(self, expansions: Iterable[Mapping[sympy.Expr, sympy.Expr]]) -> Ring:
        system = self.system
        held = [value for found in expansions for value in found.values()]
        held += [self.distance, *without_layer(system.lambda_b), *without_layer(system.lambda_W)]
        held += powers_of(self.parameters, system.recursions)
        return ring(held)

    def _rate(self, name: str) -> KernelSeries:
        """The largest power of ℓ in λ."""
        given = getattr(self.system, name)
        if given == 0:
            return KernelSeries(ZERO, self.nothing, NOTHING)
        powers = {}
        for term in sympy.Add.make_args(given):
            value, rest = term.as_independent(ell)
            base, power = rest.as_base_exp()
            if rest != 1 and (base != ell or not power.is_Rational):
                raise InputError(name, given, "sums of powers of ℓ")
            powers[ZERO if rest == 1 else power] = value
        highest = max(powers, key=size)
        series = LogSeries.monomial(self.ring, self.ring(powers[highest]))
        gaps = (plus(highest, -power) for power in powers if power != highest)
        dropped = Dropped.largest(Dropped(gap, ZERO) for gap in gaps)
        return KernelSeries(highest, series, dropped)


def _slope(series: LogSeries) -> LogSeries:
    """d/dK."""
    over = series.ring
    terms = {(plus(q, -ONE), 0): value * over(q) for (q, _), value in series.terms.items() if q}
    return LogSeries(over, terms, plus(series.order, -ONE))
