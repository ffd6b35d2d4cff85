"""Python-flint's balls, from and to sympy and mpmath; sympy expressions as functions of them.

A compiled function takes a ball and a flag, the pair that `acb.integral` asks for: with the flag
set, a ball that meets a branch cut gives a value that is not finite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias, TypeVar

import mpmath
import sympy
from flint import acb, arb, ctx, fmpq

from ..errors import InputError

Ball = Callable[[acb, bool], acb]
Matrix: TypeAlias = "list[list[arb]]"
_Number = TypeVar("_Number", arb, acb)

_MEROMORPHIC: dict[type[sympy.Basic], Callable[[acb], acb]] = {
    sympy.cos: acb.cos,
    sympy.cosh: acb.cosh,
    sympy.erf: acb.erf,
    sympy.erfc: acb.erfc,
    sympy.exp: acb.exp,
    sympy.sech: acb.sech,
    sympy.sin: acb.sin,
    sympy.sinh: acb.sinh,
    sympy.tan: acb.tan,
    sympy.tanh: acb.tanh,
}
_CONSTANTS: dict[sympy.Expr, Callable[[], acb]] = {
    sympy.pi: lambda: acb(arb.pi()),
    sympy.E: lambda: acb(1).exp(),
    sympy.I: lambda: acb(0, 1),
}


def compile_arb(expr: sympy.Expr, variable: sympy.Symbol) -> Ball:
    """expr as a function (ball, analytic) → a ball that holds every value of expr on it.

    What expr contains more than once, such as the tanh of tanh's derivatives, is evaluated once.
    Raises InputError for a function that is not among the ones listed here, or another symbol.
    """
    return _compile(expr, variable, {}, Counter(sympy.preorder_traversal(expr)))


def _compile(
    expr: sympy.Expr,
    variable: sympy.Symbol,
    compiled: dict[sympy.Expr, Ball],
    times: Counter[sympy.Basic],
) -> Ball:
    """`compile_arb`, with what is compiled already and how often each part occurs."""
    if expr not in compiled:
        ball = _node(
            expr, [_compile(each, variable, compiled, times) for each in expr.args], variable
        )
        compiled[expr] = _once(ball) if expr.args and times[expr] > 1 else ball
    return compiled[expr]


def _once(function: Ball) -> Ball:
    """The function, which remembers its last value."""
    last: list[tuple[acb | None, bool, int, acb]] = [(None, False, 0, acb(0))]

    def remembered(x: acb, analytic: bool) -> acb:
        given, flag, precision, value = last[0]
        if given is not x or flag != analytic or precision != ctx.prec:
            value = function(x, analytic)
            last[0] = x, analytic, ctx.prec, value
        return value

    return remembered


def _node(expr: sympy.Expr, parts: list[Ball], variable: sympy.Symbol) -> Ball:
    """An expression as a function of a ball, its arguments being functions already."""
    if expr == variable:
        return lambda x, analytic: x
    if expr.is_Integer and abs(expr) < 2**30:
        integer = acb(int(expr))  # exact in any precision
        return lambda x, analytic: integer
    if expr.is_Rational:
        rational = fmpq(int(expr.p), int(expr.q))
        return lambda x, analytic: acb(arb(rational))
    if expr.is_Float:
        return _node(sympy.Rational(expr), [], variable)
    if expr in _CONSTANTS:
        constant = _CONSTANTS[expr]
        return lambda x, analytic: constant()
    match expr:
        case sympy.Add():
            return reduce(_sum, parts)
        case sympy.Mul():
            return reduce(_product, parts)
        case sympy.Pow() if expr.exp.is_Integer:
            power = int(expr.exp)
            return lambda x, analytic: parts[0](x, analytic) ** power
        case sympy.Pow() if (2 * expr.exp).is_Integer:
            odd = int(2 * expr.exp)
            return lambda x, analytic: parts[0](x, analytic).sqrt(analytic=analytic) ** odd
        case sympy.Pow():
            return lambda x, analytic: parts[0](x, analytic).pow(
                parts[1](x, analytic), analytic=analytic
            )
        case sympy.log():
            return lambda x, analytic: parts[0](x, analytic).log(analytic=analytic)
        case sympy.atan():
            return lambda x, analytic: _atan(parts[0](x, analytic), analytic)
        case sympy.asin():
            return lambda x, analytic: _asin(parts[0](x, analytic), analytic)
    if type(expr) in _MEROMORPHIC:
        function = _MEROMORPHIC[type(expr)]
        return lambda x, analytic: function(parts[0](x, analytic))
    raise InputError(
        "expr",
        expr,
        "one variable and the functions log, atan, asin, "
        + ", ".join(f.__name__ for f in _MEROMORPHIC),
    )


def constant(value: sympy.Expr) -> arb:
    """A real number as a ball that holds it. Raises InputError as `compile_arb` does."""
    return compile_arb(value, sympy.Dummy())(acb(0), False).real


def ball(value: object) -> arb:
    """A number as a ball that holds it: of Python, of NumPy or a sympy expression."""
    if isinstance(value, sympy.Expr):
        return constant(value)
    numerator, denominator = value.as_integer_ratio()  # type: ignore[attr-defined]
    return arb(fmpq(int(numerator), int(denominator)))


def power(base: _Number, exponent: int) -> _Number:
    """base^exponent by products: Arb has no power of a ball around 0."""
    if exponent < 0:
        return 1 / power(base, -exponent)
    total = base * 0 + 1
    for bit in f"{exponent:b}":
        total = total * total * base if bit == "1" else total * total
    return total


def vanishes(expr: sympy.Expr, variable: sympy.Symbol, at: sympy.Expr) -> bool:
    """True if expr is zero for every value of the variable.

    It is not where a ball around its value at one point, `at`, leaves out 0, which is soon told;
    else sympy's `simplify` decides.
    """
    try:
        with ctx.workprec(128):
            value = compile_arb(expr, variable)(acb(constant(at)), False)
            if not value.contains(acb(0)):
                return False
    except InputError:
        pass
    return bool(sympy.simplify(expr) == 0)


def integral(function: Ball, left: acb | arb | int, right: acb | arb | int, **limits: Any) -> acb:
    """`acb.integral`, which passes over an exception in the function, or an interrupt, and goes on
    with whatever value stood there before: here none goes on, and the exception is raised."""
    failed: list[BaseException] = []

    def careful(x: acb, analytic: bool) -> acb:
        try:
            acb(0)  # SystemError, if what came before a `try` was passed over
            return acb(0) if failed else function(x, analytic)
        except BaseException as error:
            failed.append(error)
            return acb(0)  # with which it soon comes to its end

    try:
        value = acb.integral(careful, left, right, **limits)
    except SystemError as error:  # … returned a result with an exception set
        raise error.__cause__ or error from None
    if failed:
        first = failed[0]
        raise (first.__cause__ or first) if isinstance(first, SystemError) else first
    return value


def to_mpf(ball: arb) -> mpmath.mpf:
    """The dyadic number at the middle of a ball, exactly."""
    mantissa, exponent = ball.mid().man_exp()
    return mpmath.mp.make_mpf(mpmath.libmp.from_man_exp(int(mantissa), int(exponent)))


def exactly(value: mpmath.mpf) -> sympy.Rational:
    """The number itself: every mpf is a dyadic rational."""
    return sympy.Rational(*mpmath.libmp.to_rational(value._mpf_))


def _sum(left: Ball, right: Ball) -> Ball:
    return lambda x, analytic: left(x, analytic) + right(x, analytic)


def _product(left: Ball, right: Ball) -> Ball:
    return lambda x, analytic: left(x, analytic) * right(x, analytic)


def _atan(u: acb, analytic: bool) -> acb:
    """The arctangent, whose cuts lie where 1 + u² is negative."""
    if analytic and not (1 + u * u).log(analytic=True).is_finite():
        return acb("nan", "nan")
    return u.atan()


def _asin(u: acb, analytic: bool) -> acb:
    """The arcsine, whose cuts lie where 1 − u² is negative."""
    if analytic and not (1 - u * u).sqrt(analytic=True).is_finite():
        return acb("nan", "nan")
    return u.asin()
