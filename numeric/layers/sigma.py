"""Expressions in z as NumPy functions: σ, its derivatives, its pieces.

Integer powers are products, exponentials in quotients stay finite (`printer.stable`), 1 − tanh² and
1 ± tanh are exponentials, which do not cancel far out, sums that cancel near 0 are series there
(`cancelling`), and what the expressions share is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import sympy

from derive.activations.functions import Activation
from derive.symbols import z

from ..arrays import Array
from ..brackets.functions import OWN
from ..emit import printer
from . import cancelling

Functions = Callable[[Array], list[Array]]
"""Of points, any shape: the values there of several functions."""


@cache
def derivatives(activation: Activation, orders: tuple[int, ...]) -> Functions:
    """σ^{(order)} for each of these orders, where σ has no kink."""
    return compiled(tuple(activation.derivative(order) for order in orders))


@cache
def compiled(expressions: tuple[sympy.Expr, ...]) -> Functions:
    """Expressions in z, real for real z."""
    printed = [_with_products(_with_tails(printer.stable(each))) for each in expressions]
    evaluate = sympy.lambdify(z, printed, [_OWN, "scipy", "numpy"], cse=True)

    def plain(at: Array) -> list[Array]:
        found = map(np.asarray, evaluate(at))
        return [each if each.shape == at.shape else np.full(at.shape, each) for each in found]

    with np.errstate(all="ignore"):
        near = [
            cancelling.series(*each)
            for each in zip(expressions, plain(cancelling.NEAR), strict=True)
        ]
    if not any(near):
        return plain

    def values(at: Array) -> list[Array]:
        return [
            each.put(found, at) if each else found
            for each, found in zip(near, plain(at), strict=True)
        ]

    return values


def _with_products(expr: sympy.Expr) -> sympy.Expr:
    return expr.replace(
        lambda part: part.is_Pow and part.exp.is_Integer and abs(part.exp) > 1,
        lambda part: _IntegerPower(part.base, part.exp),
    )


def _with_tails(expr: sympy.Expr) -> sympy.Expr:
    """c − c tanh² u and c ± c tanh u by what falls off as e^{−2|u|}: where a broad z meets them,
    the rounding of 1 would be as large as the rest."""
    if not expr.has(sympy.tanh):
        return expr
    return expr.replace(lambda part: part.is_Add, _tails_of)


def _tails_of(total: sympy.Add) -> sympy.Expr:
    constant, rest = total.as_coeff_Add()
    for term in rest.args if rest.is_Add else (rest,):
        coefficient, factor = term.as_coeff_Mul()
        base, power = factor.as_base_exp()
        if not constant or not isinstance(base, sympy.tanh):
            continue
        (u,) = base.args
        if power == 2 and coefficient == -constant:
            return rest - term + constant * _SechSquared(u)
        if power == 1 and abs(coefficient) == abs(constant):
            return rest - term + 2 * constant * printer.Sigmoid(2 * u * coefficient / constant)
    return total


class _SechSquared(sympy.Function):
    """1/cosh²."""


def _sech_squared(u: Array) -> Array:
    fallen = np.exp(-2.0 * np.abs(u))
    return np.asarray(4.0 * fallen / ((1.0 + fallen) * (1.0 + fallen)))


class _IntegerPower(sympy.Function):
    """base^exponent for an integer exponent."""


def _integer_power(base: Any, exponent: int) -> Any:
    """By squaring: NumPy's own `**` calls `pow` for every exponent but 2."""
    if exponent < 0:
        return 1.0 / _integer_power(base, -exponent)
    if exponent == 1:
        return base
    half = _integer_power(base, exponent // 2)
    return half * half * base if exponent % 2 else half * half


_OWN = {"_IntegerPower": _integer_power, "_SechSquared": _sech_squared, **OWN}


def orders_of(terms: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The orders of derivatives that occur in these products, ascending."""
    return tuple(sorted({order for factors in terms for order in factors}))
