"""The kernel map of a layer and its susceptibilities χ_∥, χ_⊥, as functions of K, C_W and C_b.

With one input the kernel moves by K' = F(K), and two nearby inputs by χ_∥ = F'(K) and χ_⊥. Of the
dense layer these are (source 000, eqs. 5.3–5.5)

    K' = C_b + C_W ⟨σσ⟩_K,    χ_∥ = C_W/(2K²) ⟨σσ(z² − K)⟩_K,    χ_⊥ = C_W ⟨σ'σ'⟩_K ;

of others brackets may be at more kernels than K: behind a norm, say. `affine` finds where
F = aK + s and χ_⊥ = a + u/K, always or at large K.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import mpmath
import sympy

from ..activations.functions import Activation
from ..display.objects import Shown
from ..engine.step import Composed, compose, step
from ..errors import InputError
from ..expressions import as_expression
from ..gaussian import brackets
from ..gaussian.brackets import Average, Bracket, unspecified
from ..gaussian.small_kernel import around_zero, average_at
from ..layers import Layer
from ..symbols import C_W, C_b, K, tensor
from ..work.caches import cache

THETA = tensor("Theta")


@dataclass(frozen=True, repr=False)
class LayerFunction(Shown):
    """A function of K, C_W and C_b with brackets: K', a χ, or what is made of them.

    Attributes:
        name: what it is.
        activation: σ.
        bare: the function, with brackets of the unspecified σ.
        kernels: of the brackets other than at K, by their labels.
        sigmas: the layer's own activations, by the labels of their brackets' kernels.
    """

    name: str
    activation: Activation
    bare: sympy.Expr
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
        return any(each.has(C_W) for each in (self.bare, *dict(self.kernels).values()))

    @property
    def averages(self) -> tuple[Average, ...]:
        """Its brackets, those in kernels not included."""
        return tuple(sorted(self.bare.atoms(Average), key=str))

    def without_biases(self) -> LayerFunction:
        """This function at C_b = 0."""
        kernels = tuple((label, kernel.subs(C_b, 0)) for label, kernel in self.kernels)
        return replace(self, bare=self.bare.subs(C_b, 0), kernels=kernels)

    def derivative(self, name: str) -> LayerFunction:
        """By K, with Price's theorem: d⟨f⟩/dK = ½⟨f''⟩ at the bracket's own kernel."""
        return replace(self, name=name, bare=self._diff(self.bare))

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
    def expr(self) -> sympy.Expr:
        """The function with its brackets in closed form; where none is known, with averages that
        `evalf` evaluates once K is a number."""
        return self._averaged(self.bare)

    def _averaged(self, expr: sympy.Expr) -> sympy.Expr:
        known = {}
        for each in expr.atoms(Average):
            value = brackets.average(self.sigma(each), *each.bracket.line)
            known[each] = value.subs(K, self._averaged(self.kernel(each)))
        return expr.xreplace(known)

    @property
    def closed(self) -> sympy.Expr | None:
        """The function with every bracket in closed form; None where one has none."""
        value = self.expr
        return None if value.has(brackets.GaussianAverage) else sympy.simplify(value)

    def series(self, power: int) -> sympy.Expr:
        """The expansion for small K, through K^power.

        Raises InputError where a bracket's kernel stays finite there, as behind a norm.
        """
        found = small(self, power)
        if found is None:
            raise InputError("layer", self.name, "one whose brackets' kernels vanish with K")
        return found

    def __call__(
        self, at: sympy.Expr | float, C_W: object = 1, C_b: object = 0, digits: int = 20
    ) -> mpmath.mpf:
        """The value at K = `at` and these variances, to this many digits."""
        with mpmath.workdps(digits + 10):
            known = {"K": number(at), "C_W": number(C_W), "C_b": number(C_b)}
            return self._value(self.bare, known, digits)

    def _value(self, expr: sympy.Expr, known: dict[str, mpmath.mpf], digits: int) -> mpmath.mpf:
        averages = sorted(expr.atoms(Average), key=str)
        values = []
        for each in averages:
            orders, outer = each.bracket.line
            here = self._value(self.kernel(each), known, digits)
            values.append(average_at(self.sigma(each), orders, outer, here, digits + 5))
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
        return rf"{left} = {sympy.latex(self.bare)}" + self._text(sympy.latex, r",\quad {} = {}")

    def __str__(self) -> str:
        return f"{self.name} = {self.bare}" + self._text(str, ", {} = {}")


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
    perp = replace(perp, bare=sympy.expand(perp.bare).coeff(THETA, 1))
    return move, move.derivative("χ_∥"), perp


@dataclass(frozen=True)
class Affine:
    """F = gain·K + added and χ_⊥ = gain + spread/K, at every K, or up to what falls at large K."""

    gain: sympy.Expr
    added: sympy.Expr
    spread: sympy.Expr
    like: LayerFunction
    exact: bool

    def function(self, name: str, expr: sympy.Expr) -> LayerFunction:
        """A function of this law's constants, such as `spread`/`added`."""
        return replace(self.like, name=name, bare=expr)


def affine(activation: Activation, layer: Layer) -> Affine | None:
    """The law at large K where all brackets have kernels that stay finite there."""
    move, _, perp = functions(activation, layer)
    if any(kernel.has(Average) and kernel.has(K) for _, kernel in move.kernels):
        return None
    limits = tuple((label, sympy.limit(at, K, sympy.oo)) for label, at in move.kernels)
    at = {each: move.kernel(each) for each in (*move.averages, *perp.averages)}
    ends = {each: sympy.limit(kernel, K, sympy.oo) for each, kernel in at.items()}
    if any(end.has(sympy.oo) for end in ends.values()):
        return None
    plain = {each: sympy.Dummy(positive=True) for each in at}
    back = {symbol: each for each, symbol in plain.items()}
    one, other = (each.bare.xreplace(plain) for each in (move, perp))
    gain = sympy.limit(one / K, K, sympy.oo)
    added = sympy.limit(sympy.expand(one - gain * K), K, sympy.oo)
    spread = sympy.limit(sympy.expand((other - gain) * K), K, sympy.oo)
    if not all(each.is_finite is not False for each in (gain, added, spread)):
        return None
    exact = not any(kernel.has(K) for kernel in at.values())
    exact = exact and all(
        sympy.simplify(each) == 0 for each in (one - gain * K - added, (other - gain) * K - spread)
    )
    gain, added, spread = (sympy.factor_terms(e.xreplace(back)) for e in (gain, added, spread))
    return Affine(gain, added, spread, replace(move, kernels=limits), exact)


def against_one(gain: sympy.Expr) -> int:
    """The sign of gain − 1; a symbol stands for a skip below 1."""
    if not gain.is_number:
        return -1
    return int(sympy.sign(sympy.nsimplify(gain) - 1))


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


def number(value: object) -> mpmath.mpf:
    """To the digits at work and five more; InputError where it is no real number."""
    exact = as_expression("C_W, C_b", value, "real numbers")
    if not exact.is_number:
        raise InputError("C_W, C_b", value, "real numbers")
    return mpmath.mpf(exact.evalf(mpmath.mp.dps + 5))


def floating(value: mpmath.mpf, digits: int) -> sympy.Expr:
    """To so many digits."""
    return sympy.Float(value, digits)


def small(function: LayerFunction, power: int) -> sympy.Expr | None:
    """The function for small K, through K^power; None where a kernel does not vanish with K."""

    def expanded(expr: sympy.Expr) -> sympy.Expr | None:
        known = {}
        for each in sorted(expr.atoms(Average), key=str):
            at = expanded(function.kernel(each))
            if at is None or at.subs(K, 0) != 0:
                return None
            small = around_zero(function.sigma(each), each.bracket, sympy.Integer(power))
            parts = (_raised(at, exponent, power).items() for exponent in small)
            terms = zip(small.values(), parts, strict=True)
            known[each] = sympy.Add(*(v * c * K**e for v, part in terms for e, c in part))
        value = expr.xreplace(known)
        rational = {each for each in value.atoms(sympy.Pow) if each.exp.is_negative and each.has(K)}
        value = value.xreplace({each: _taylor(each, power) for each in rational})
        cut = {e: c for e, c in by_powers(value).items() if e <= power}
        return sympy.Add(*(c * K**e for e, c in cut.items()))

    return expanded(function.bare)


def by_powers(value: sympy.Expr) -> dict[sympy.Rational, sympy.Expr]:
    """{e: coefficient of K^e}."""
    found: dict[sympy.Rational, sympy.Expr] = {}
    for term in sympy.Add.make_args(sympy.expand(value)):
        rest, exponent = term.as_coeff_exponent(K)
        found[exponent] = found.get(exponent, sympy.S.Zero) + rest
    return found


def _taylor(value: sympy.Expr, power: int) -> sympy.Expr:
    """A function that is regular at K = 0, through K^power."""
    total = sympy.S.Zero
    for k in range(power + 1):
        total += sympy.simplify(value.subs(K, 0)) * K**k / sympy.factorial(k)
        value = value.diff(K)
    return total


def _raised(
    at: sympy.Expr, exponent: sympy.Rational, power: int
) -> dict[sympy.Rational, sympy.Expr]:
    """(c K + R)^exponent by the binomial series, through K^power, R being of higher order."""
    lead = at.coeff(K, 1)
    rest, powered = by_powers(at - lead * K), {sympy.S.Zero: sympy.S.One}
    factor, found = sympy.S.One, dict[sympy.Rational, sympy.Expr]()
    left = exponent
    while powered and factor:
        for e, c in powered.items():
            term = sympy.expand(factor * lead**left * c)
            found[e + left] = found.get(e + left, sympy.S.Zero) + term
        factor *= left / (exponent - left + 1)
        left -= 1
        powered = _product(powered, rest, power - left)
    return {e: c for e, c in found.items() if e <= power}


def _product(
    one: dict[sympy.Rational, sympy.Expr], other: dict[sympy.Rational, sympy.Expr], end: sympy.Expr
) -> dict[sympy.Rational, sympy.Expr]:
    """The product of two sums of powers of K, through K^end."""
    total: dict[sympy.Rational, sympy.Expr] = {}
    for (a, x), (b, y) in product(one.items(), other.items()):
        if a + b <= end and y != 0:
            total[a + b] = total.get(a + b, sympy.S.Zero) + sympy.expand(x * y)
    return total
