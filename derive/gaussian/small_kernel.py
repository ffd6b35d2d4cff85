"""Brackets of one input around a fixed point of the kernel, as power series in δ = K − K*.

At K* = 0 from the Taylor coefficients f_k^± of the product f = Π σ^{(o)} on either side of 0:

    ⟨∂^m f⟩_K = K^{−m/2} ⟨f(z) He_m(z/√K)⟩_K = Σ_k K^{(k−m)/2} Σ_± (±1)^{k+m} f_k^± I_{k,m} ,
    I_{k,m} = ∫_0^∞ x^k He_m(x) e^{−x²/2} dx/√(2π) .

At K* > 0 from ⟨∂^m f⟩ = 2^{m/2} (d/dK)^{m/2} ⟨f⟩, and exactly where σ is scale-invariant.
"""

from __future__ import annotations

from math import factorial

import mpmath
import sympy
from flint import acb, arb, ctx, fmpq
from sympy.core.evalf import PrecisionExhausted

from ..arithmetic.balls import Ball, compile_arb, exactly, to_mpf
from ..arithmetic.hermite import by_parts, hermite
from ..errors import InputError
from ..symbols import K, z
from ..work.caches import cache
from . import closed_forms
from .brackets import Bracket
from .oracle import MAX_DIGITS, Enclosure, bracket, gaussian_average
from .pieces import Pieces, product_series, series_at_zero
from .shapes import Shape

_DOUBLINGS = 4  # of the digits carried, until what a closed form cancels leaves those wanted

PowerSeries = dict[sympy.Rational, sympy.Expr]
"""{e: coefficient of δ^e}, e a multiple of ½ and below 0 too, where a list has no place."""


def around_zero(activation: Pieces, bracket: Bracket, power: sympy.Rational) -> PowerSeries:
    """The bracket for small K through K^power: an asymptotic series.

    Exact in every order for a σ analytic at 0; with a kink there half-integer powers appear.

    Raises InputError where a factor has a δ-function at 0.
    """
    orders, outer = bracket.line
    if any(0 in activation.jumps(j) for order in set(orders) for j in range(order)):
        raise InputError("activation", str(activation), "one without σ's kink differentiated at 0")
    degree = int(2 * power) + outer
    series: PowerSeries = {}
    for side in (-1, 1):
        product = _product(activation, side, orders, degree)
        for k, value in enumerate(product):
            if value != 0:
                exponent = sympy.Rational(k - outer, 2)
                weight = side ** (k + outer) * half_line_moment(k, outer)
                series[exponent] = series.get(exponent, sympy.Integer(0)) + weight * value
    expanded = {exponent: sympy.expand(value) for exponent, value in series.items()}
    return {exponent: value for exponent, value in sorted(expanded.items()) if value != 0}


@cache
def half_line_moment(k: int, outer: int) -> sympy.Expr:
    """I_{k,m} = ∫_0^∞ x^k He_m(x) e^{−x²/2} dx/√(2π)."""
    return sympy.Add(
        *(
            value * 2 ** sympy.Rational(k + j, 2) * sympy.gamma(sympy.Rational(k + j + 1, 2))
            for (j,), value in sympy.Poly(hermite(outer, z), z).terms()
        )
    ) / (2 * sympy.sqrt(sympy.pi))


@cache
def _product(
    activation: Pieces, side: int, orders: tuple[int, ...], degree: int
) -> tuple[sympy.Expr, ...]:
    """The Taylor coefficients of Π σ^{(orders)} on one side of 0, through z^degree."""
    most = degree + max(orders, default=0)
    taylor = _taylor(activation, side, -(-most // 8) * 8)  # few degrees, which are cached
    return product_series(taylor, orders, degree)


@cache
def _taylor(activation: Pieces, side: int, degree: int) -> tuple[sympy.Expr, ...]:
    return tuple(map(sympy.radsimp, series_at_zero(activation.beside_zero(side), degree)))


@cache
def scale_invariant(activation: Pieces, bracket: Bracket) -> sympy.Expr:
    """The bracket of a scale-invariant σ, a power of `K`."""
    value = closed_forms.average(activation, *bracket.line)
    if value is None:
        raise InputError("activation", str(activation), f"one with a closed form of {bracket}")
    return sympy.expand(sympy.simplify(value))


def around_point(
    activation: Pieces, bracket: Bracket, at: mpmath.mpf, count: int, digits: int
) -> tuple[Enclosure, ...]:
    """The first coefficients of the bracket in powers of K − K*, at K* = `at` > 0.

    The k-th is 1/(2^k k!) ⟨∂^{m+2k} Π σ^{(o)}⟩, by parts K^{−m/2−k} ⟨Π σ^{(o)} He_{m+2k}(z/√K)⟩,
    so that σ is not differentiated any further. Each with its radius: digits relative to the
    average of what is integrated, or absolute where that is small.

    Raises InputError where an average does not reach the digits.
    """
    orders, outer = bracket.line
    found = []
    for k in range(count):
        value, radius = _by_parts_at(activation, tuple(sorted(orders)), outer + 2 * k, at, digits)
        scale = 2**k * factorial(k)
        found.append(Enclosure(value / scale, radius / scale))
    return tuple(found)


@cache
def _by_parts_at(
    activation: Pieces, orders: tuple[int, ...], outer: int, at: mpmath.mpf, digits: int
) -> Enclosure:
    if digits > MAX_DIGITS:
        with mpmath.workdps(digits + 20):
            closed = closed_average(activation, orders, outer, at, digits)
            if closed is not None:
                return Enclosure(closed, abs(closed) * mpmath.mpf(10) ** -digits)
    if not activation.is_smooth:
        return bracket(activation, Shape(orders, (outer,) + (0,) * (len(orders) - 1)), at, digits)
    variance, pairs = exactly(at), outer // 2
    weight = sympy.expand(by_parts(outer, z, variance) * variance**pairs)
    product = sympy.prod([activation.derivative(order) for order in orders])
    value, radius = gaussian_average(product * weight, at, digits)
    with mpmath.workdps(digits + 20):
        return Enclosure(value / at**pairs, radius / at**pairs)


def average_at(
    activation: Pieces, orders: tuple[int, ...], outer: int, at: mpmath.mpf, digits: int
) -> mpmath.mpf:
    """⟨∂^outer Π σ^{(orders)}⟩ at K = `at` ≥ 0: the closed form if it keeps its digits, else
    quadrature, in mpmath's working precision, and 0 where that is below its error."""
    closed = closed_average(activation, orders, outer, at, digits)
    if closed is not None:
        return closed
    shape = Shape(orders, (outer,) + (0,) * (len(orders) - 1))
    value, radius = bracket(activation, shape, at, digits)
    return value if abs(value) > radius else mpmath.mpf(0)


def closed_average(
    activation: Pieces, orders: tuple[int, ...], outer: int, at: mpmath.mpf, digits: int
) -> mpmath.mpf | None:
    """⟨∂^outer Π σ^{(orders)}⟩ at K = `at` by its closed form; None where there is none, or where
    it cancels nearly all of the digits that are carried."""
    closed = _closed(activation, tuple(sorted(orders)), outer) if at > 0 else None
    if closed is None:
        return None
    exact, bits = exactly(at), int(3.33 * digits) + 8
    if isinstance(closed, sympy.Expr):
        inner = 2 * abs(int(mpmath.log10(at)))  # arcsin near 1 loses half of its argument's digits
        try:
            value = closed.evalf(digits + inner, subs={K: exact}, strict=True)
        except PrecisionExhausted:
            return None
        return mpmath.mpf(value.as_real_imag()[0])  # closed forms may pass through i
    for doublings in range(_DOUBLINGS):
        with ctx.workprec((bits + 40) << doublings):
            ball = closed(acb(arb(fmpq(int(exact.p), int(exact.q)))), False).real
            if ball.rel_accuracy_bits() >= bits:
                return to_mpf(ball)
    return None


@cache
def _closed(activation: Pieces, orders: tuple[int, ...], outer: int) -> Ball | sympy.Expr | None:
    """The closed form as a function of balls, or as it is where Arb does not have its functions."""
    closed = closed_forms.average(activation, orders, outer)
    if closed is None:
        return None
    try:
        return compile_arb(closed, K)
    except InputError:
        return closed


def small_kernel_average(activation: Pieces, orders: tuple[int, ...], power: int) -> sympy.Expr:
    """⟨Π σ^{(orders)}⟩_K for small K, through K^power, as a sum of powers of `K`."""
    factors = tuple((1, order) for order in sorted(orders))
    terms = around_zero(activation, Bracket(factors), sympy.Integer(power))
    return sympy.expand(sympy.Add(*(value * K**exponent for exponent, value in terms.items())))
