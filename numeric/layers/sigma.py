"""Expressions in z as NumPy functions: σ, its derivatives, its pieces.

Integer powers are products, exponentials in quotients stay finite, 1 − tanh² and 1 ± tanh keep
their digits far out (`stable`), sums that cancel near 0 are series there (`cancelling`), and what
the expressions share is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy

from derive.activations.functions import Activation
from derive.symbols import z
from derive.work.caches import cache

from ..arrays import Array
from ..brackets.functions import OWN
from ..emit.stable import stable
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
    printed = [_with_products(stable(each)) for each in expressions]
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


_OWN = {"_IntegerPower": _integer_power, **OWN}


def orders_of(terms: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The orders of derivatives that occur in these products, ascending."""
    return tuple(sorted({order for factors in terms for order in factors}))
