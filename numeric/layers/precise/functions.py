"""σ and its derivatives as functions of real balls, compiled from their expressions.

What does not depend on z is computed once for each precision, and what occurs twice once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
from flint import arb, ctx

from derive.activations.functions import Activation, z
from derive.arithmetic.balls import Ball, compile_arb, constant, power
from derive.errors import InputError
from derive.work.caches import cache

Values = Callable[..., tuple[arb, ...]]
"""The values at a ball, each a ball that holds every value on it."""

_METHODS = {
    sympy.atan: "atan",
    sympy.cos: "cos",
    sympy.cosh: "cosh",
    sympy.erf: "erf",
    sympy.erfc: "erfc",
    sympy.exp: "exp",
    sympy.log: "log",
    sympy.sech: "sech",
    sympy.sin: "sin",
    sympy.sinh: "sinh",
    sympy.tan: "tan",
    sympy.tanh: "tanh",
}


@cache(entries=256)
def derivatives(activation: Activation, orders: tuple[int, ...], precision: int) -> Values:
    """σ^{(order)} of each of these orders, for an analytic σ, in balls of so many bits.

    Raises InputError for a function that is not among those of `balls.compile_arb`.
    """
    return compiled(tuple(activation.derivative(order) for order in orders), precision)


@cache(entries=256)
def products(
    activation: Activation, heads: tuple[tuple[int, ...], ...], precision: int
) -> Callable[[arb], list[arb]]:
    """Π σ^{(order)} at a ball for each of these tuples of orders, from the one without its last."""
    orders = tuple(sorted({order for head in heads for order in head}))
    function = derivatives(activation, orders, precision) if orders else None
    places: dict[tuple[int, ...], int] = {(): 0}
    steps: list[tuple[int, int]] = []
    for head in heads:
        for count in range(1, len(head) + 1):
            if head[:count] not in places:
                places[head[:count]] = len(places)
                steps.append((places[head[: count - 1]], orders.index(head[count - 1])))
    wanted = [places[head] for head in heads]

    def at(z: arb) -> list[arb]:
        values, found = function(z) if function else (), [arb(1)]
        for shorter, order in steps:
            found.append(found[shorter] * values[order] if shorter else values[order])
        return [found[place] for place in wanted]

    return at


@cache(entries=256)
def compiled(
    expressions: tuple[sympy.Expr, ...], precision: int, variables: tuple[sympy.Symbol, ...] = (z,)
) -> Values:
    """These expressions in z, or in other variables, as functions of real balls."""
    shared, results = sympy.cse(list(expressions), symbols=sympy.numbered_symbols("x"))
    code = _Code()
    for part in (*(part for _, part in shared), *results):
        code.doprint(part)
    with ctx.workprec(precision):
        names: dict[str, Any] = {name: constant(value) for value, name in code.constants.items()}
    names |= {"arb": arb, "power": power}
    found: Values = sympy.lambdify(
        list(variables), tuple(expressions), [names], printer=code, cse=lambda _: (shared, results)
    )
    return found


@cache(entries=256)
def on_balls(activation: Activation, order: int) -> Ball:
    """σ^{(order)} of an analytic σ as a function of complex balls."""
    return compile_arb(activation.derivative(order), z)


class _Code:
    """Prints expressions, and gathers the constants in them."""

    def __init__(self) -> None:
        self.constants: dict[sympy.Expr, str] = {}

    def doprint(self, expr: sympy.Expr) -> str:
        if expr.is_Symbol:
            return str(expr)
        if expr.is_Integer and abs(expr) < 2**30:
            return f"({int(expr)})"
        if not expr.free_symbols:
            return self.constants.setdefault(expr, f"c{len(self.constants)}")
        if isinstance(expr, sympy.Add):
            return f"({' + '.join(map(self.doprint, expr.args))})"
        if isinstance(expr, sympy.Mul):
            fixed, rest = expr.as_independent(*expr.free_symbols, as_Add=False)
            parts = ([] if fixed == 1 else [self.doprint(fixed)]) + [
                self.doprint(part) for part in sympy.Mul.make_args(rest)
            ]
            return f"({' * '.join(parts)})"
        if isinstance(expr, sympy.Pow):
            return self._power(*expr.as_base_exp())
        if type(expr) in _METHODS:
            return f"arb({self.doprint(expr.args[0])}).{_METHODS[type(expr)]}()"
        raise InputError("activation", expr, f"one of the functions {', '.join(_METHODS.values())}")

    def _power(self, base: sympy.Expr, exponent: sympy.Expr) -> str:
        if exponent.is_Integer:
            return f"power(arb({self.doprint(base)}), {int(exponent)})"
        if (2 * exponent).is_Integer:
            return f"power(arb({self.doprint(base)}).sqrt(), {int(2 * exponent)})"
        return f"(arb({self.doprint(base)}) ** arb({self.doprint(exponent)}))"
