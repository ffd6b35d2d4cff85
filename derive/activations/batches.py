"""Functions of all samples at one neuron: y_s = φ(z_s; z_1, …, z_m), as batch normalization is.

φ is an expression in z, the value of its own sample, and in means over the samples at the neuron.
Each mean is of an expression in z and in the means before it. s(…) stands for σ, so that one φ
serves every activation:

    y[i;s] = z[i;s]/sqrt(mean_s(z[i;s]^2) + eps)         s(y[i;s])

A permutation of the samples permutes the y_s. Derived here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import sympy

from ..errors import InputError
from ..expressions import parse_with
from ..symbols import real, z
from .functions import Activation

SIGMA = sympy.Function("s")
"""σ, of an expression."""

MEAN = "mean_s"
"""The mean over samples, in text."""

WANTED = (
    "a function of all samples at a neuron, such as z/sqrt(mean_s(z^2) + eps), in numbers, "
    "symbols, s(…) and mean_s(…)"
)


class Slope(sympy.Function):
    """σ^{(k)} of an expression, of k and the expression."""

    def fdiff(self, argindex: int = 2) -> sympy.Expr:
        """σ^{(k+1)}."""
        order, at = self.args
        return Slope(order + 1, at)


def slope(expr: sympy.Expr, *by: sympy.Symbol) -> sympy.Expr:
    """The derivative of an expression with σ by symbols, one after another."""
    found = expr.replace(SIGMA, partial(Slope, 0))
    for each in by:
        found = found.diff(each)
    return found.replace(lambda own: own.func == Slope and own.args[0] == 0, _value)


def _value(of: sympy.Expr) -> sympy.Expr:
    return SIGMA(of.args[1])


@dataclass(frozen=True)
class BatchFunction:
    """φ.

    Attributes:
        means: a symbol for each mean over the samples, and the expression that it is the mean of.
        value: φ, in z and these symbols.
    """

    means: tuple[tuple[sympy.Symbol, sympy.Expr], ...]
    value: sympy.Expr

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols that are no numbers yet."""
        own = {z, *(symbol for symbol, _ in self.means)}
        expressions = (self.value, *(expr for _, expr in self.means))
        return {symbol for expr in expressions for symbol in expr.free_symbols} - own

    @property
    def activated(self) -> BatchFunction:
        """σ of the function."""
        return replace(self, value=SIGMA(self.value))

    def is_scale_invariant(self, sigma: Activation) -> bool:
        """True if φ of λ z is φ of z for all λ > 0, as of a norm without ε."""
        degrees: dict[sympy.Symbol, sympy.Expr | None] = {z: sympy.S.One}
        for symbol, expr in self.means:
            degrees[symbol] = _degree(expr, degrees, sigma)
        return _degree(self.value, degrees, sigma) == 0

    def at_samples(self, values: Sequence[sympy.Expr]) -> sympy.Expr:
        """φ of the first sample, of a batch that has these values."""
        known: dict[sympy.Symbol, sympy.Expr] = {}
        for symbol, expr in self.means:
            own = expr.subs(known)
            known[symbol] = sympy.Add(*(own.subs(z, each) for each in values)) / len(values)
        return self.value.subs(known).subs(z, values[0])

    def offset(self, sigma: Activation) -> sympy.Expr | None:
        """e, if φ does not change where z, the mean of z, and that of z² plus e are scaled by λ, λ
        and λ², as of a norm with ε = e; None if there is none."""
        first, second = sympy.Dummy(), sympy.Dummy()
        value = self.by_moments(first, second)
        degrees = {z: sympy.S.One, first: sympy.S.One, second: sympy.Integer(2)}
        sums = sorted((each for each in value.atoms(sympy.Add) if each.has(second)), key=str)
        for e in (sympy.S.Zero, *(each.as_coeff_Add()[0] / each.coeff(second) for each in sums)):
            moved = value.subs(second, second - e)
            if e.is_number and e >= 0 and _degree(moved, degrees, sigma) == 0:
                return e
        return None

    def by_moments(self, first: sympy.Symbol, second: sympy.Symbol) -> sympy.Expr:
        """φ in z and in the means of z and of z², for which these symbols stand.

        Raises InputError if another mean is needed, such as that of σ(z).
        """
        known: dict[sympy.Symbol, sympy.Expr] = {}
        for symbol, expr in self.means:
            polynomial = expr.as_poly(z)
            if polynomial is None or polynomial.degree() > 2:
                wanted = "means of z and of z² over the samples, for exchangeable samples"
                raise InputError("layer", f"the mean of {expr}", wanted)
            powers = (sympy.Integer(1), first, second)
            total = sum(c * powers[degree] for (degree,), c in polynomial.terms())
            known[symbol] = sympy.expand(total.subs(known))
        return self.value.subs(known)

    @cached_property
    def is_shift_invariant(self) -> bool:
        """True if φ of z + c is φ of z, as of a norm that takes the mean off."""
        by = sympy.Dummy(real=True)
        moved = {z: z + by}
        for symbol, expr in self.means:
            change = sympy.simplify(expr.subs(moved, simultaneous=True) - expr)
            if change.free_symbols - {by}:
                return False
            moved[symbol] = symbol + change
        change = sympy.simplify(self.value.subs(moved, simultaneous=True) - self.value)
        return bool(change == 0)

    @cached_property
    def arguments(self) -> tuple[sympy.Expr, ...]:
        """The arguments of σ."""
        expressions = (self.value, *(expr for _, expr in self.means))
        found = (each for expr in expressions for each in expr.atoms(SIGMA))
        return tuple(dict.fromkeys(each.args[0] for each in found))

    @property
    def centred_arguments(self) -> tuple[bool, ...]:
        """Where σ's arguments vanish: False if at z_s = 0, True if at z_s = the mean of z.

        Raises InputError for other arguments.
        """
        centre = next((symbol for symbol, expr in self.means if expr == z), None)
        found = []
        for argument in self.arguments:
            over = sympy.numer(sympy.together(argument))
            found.append(centre is not None and over.has(centre))
            linear = z - centre if found[-1] else z
            if not _is_multiple(over, linear):
                wanted = "an activation with kinks of a multiple of z or of z - mean_s(z) only"
                raise InputError("layer", str(argument), wanted)
        return tuple(dict.fromkeys(found))

    def __str__(self) -> str:
        shown = self.value
        for symbol, expr in reversed(self.means):
            shown = shown.subs(symbol, sympy.Function(MEAN)(expr))
        return str(shown)


OPEN = BatchFunction((), sympy.Function("phi")(z))
"""Any function of all samples at a neuron."""


def parse_batch_function(text: str, given: Mapping[str, sympy.Expr]) -> BatchFunction:
    """Read φ from text, in z.

    Arguments:
        text: such as "z/sqrt(mean_s(z**2) + eps)".
        given: the values of other names.

    Raises InputError for other text.
    """
    means: dict[sympy.Expr, sympy.Symbol] = {}

    def mean(expr: sympy.Expr) -> sympy.Expr:
        return means.setdefault(expr, real(f"mean_{len(means) + 1}"))

    value = parse_with(text, {"z": z, **given}, {"s": SIGMA, MEAN: mean}, WANTED)
    return BatchFunction(tuple((symbol, expr) for expr, symbol in means.items()), value)


def _degree(
    expr: sympy.Expr, degrees: Mapping[sympy.Symbol, sympy.Expr | None], sigma: Activation
) -> sympy.Expr | None:
    """The power of λ that the expression is multiplied by if z is multiplied by λ; None if it is
    none."""
    if not expr.args:
        return degrees.get(expr, sympy.S.Zero)
    below = [_degree(each, degrees, sigma) for each in expr.args]
    if None in below:
        return None
    if expr.is_Mul:
        return sympy.Add(*below)
    if expr.is_Pow and expr.exp.is_number:
        return below[0] * expr.exp
    if expr.is_Add:
        return below[0] if len(set(below)) == 1 else None
    if expr.func == SIGMA and below == [1] and sigma.is_scale_invariant:
        return sympy.S.One
    return None if any(below) else sympy.S.Zero


def _is_multiple(expr: sympy.Expr, linear: sympy.Expr) -> bool:
    """True if an expression is another one, linear in z, times what does not depend on z."""
    return not sympy.simplify(expr / linear).has(z)
