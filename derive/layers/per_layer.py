"""A quantity of every layer: a number, an expression in ℓ, a list of values, or a function of ℓ.

C_b=0.1, lambda_b=1 / symbols.ell, width_ratio=[1, 1, 2], lambda_W=lambda l: 1 / l
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np
import sympy

from ..errors import InputError, Words
from ..expressions import as_expression, parse_layer_expression
from ..symbols import ell
from ..symbols import layer as layer_symbol
from ..work.caches import cache

PerLayer: TypeAlias = (
    "sympy.Expr | float | str | Sequence[sympy.Expr | float] | Callable[[int], sympy.Expr | float]"
)


@dataclass(frozen=True)
class Tabulated:
    """A function of the layer by its values at layers 1, 2, …: one that can be sent elsewhere."""

    values: tuple[sympy.Expr | float, ...]

    def __call__(self, layer: int) -> sympy.Expr | float:
        """The value at this layer."""
        if not 1 <= layer <= len(self.values):
            raise ValueError(f"there are values at layers 1 to {len(self.values)}")
        return self.values[layer - 1]


def normal(argument: str, given: PerLayer) -> Any:
    """Its normal form: a number, an expression in `symbols.layer`, or a function.

    A list becomes a function (`Tabulated`), and a Python function that is an expression in the
    layer becomes that expression, which can be compared, printed and pickled. InputError for a
    list with what is no number.
    """
    if isinstance(given, str):
        return parse_layer_expression(argument, given)
    if isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 1):
        wanted = "finite numbers or sympy expressions, one for each layer 1, 2, …"
        if not len(given):
            raise InputError(argument, given, wanted)
        return Tabulated(tuple(as_expression(argument, each, wanted) for each in given))
    if isinstance(given, sympy.Expr):
        own = {each: layer_symbol for each in given.free_symbols if each.name in _NAMES}
        return given.xreplace(own)
    return _traced(given) if isinstance(given, FunctionType) else given


_HIGH = 20
"""The highest power of what is evaluated as a quotient of polynomials."""

_NAMES = {ell.name, layer_symbol.name}


def changes(given: PerLayer) -> bool:
    """True if it may differ from layer to layer."""
    return callable(given) or (isinstance(given, sympy.Expr) and given.has(layer_symbol))


def value_at(argument: str, given: PerLayer, layer: int | sympy.Symbol, wanted: str) -> sympy.Expr:
    """Its value at a layer, of what `normal` returns; InputError unless finite and real."""
    last = len(given.values) if isinstance(given, Tabulated) else 0
    if last and isinstance(layer, int) and layer > last:
        told = Words(f"{last} values, for layers 1 to {last}")
        raise InputError(argument, told, f"a value for each layer: there is none for layer {layer}")
    try:
        got: Any = given(layer) if callable(given) else given
    except InputError:
        raise
    except Exception as error:  # of a function of the user's
        told = Words(f"{given}, which raises {type(error).__name__}: {error}")
        raise InputError(argument, told, wanted) from error
    if isinstance(got, sympy.Expr):
        got = _at(got, layer)
    return as_expression(argument, got, wanted)


@cache(entries=2**15)
def _at(given: sympy.Expr, layer: int | sympy.Symbol) -> sympy.Expr:
    """An expression in ℓ at a layer: asked for again by every flow of a book or a session."""
    quotient = _quotient(given) if isinstance(layer, int) else None
    if quotient is not None:
        above, below = (_horner(each, int(layer)) for each in quotient)
        if below:
            return sympy.Rational(above, below)
    return given.xreplace({layer_symbol: sympy.sympify(layer)})


@cache
def _quotient(given: sympy.Expr) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Two polynomials in ℓ by their integers, from the highest power on, that it is the quotient
    of; None of what is none, or of a high degree. Integers are far faster than expressions."""
    rational = given.is_rational_function(layer_symbol) and not given.has(sympy.Float)
    if given.free_symbols != {layer_symbol} or not rational:
        return None
    if any(abs(each.exp) > _HIGH for each in given.atoms(sympy.Pow)):
        return None
    parts = sympy.fraction(sympy.together(given))
    above, below = (sympy.Poly(part, layer_symbol) for part in parts)
    if not above.domain.is_ZZ or not below.domain.is_ZZ:
        return None
    return tuple(map(int, above.all_coeffs())), tuple(map(int, below.all_coeffs()))


def _horner(coefficients: tuple[int, ...], at: int) -> int:
    total = 0
    for each in coefficients:
        total = total * at + each
    return total


def check_sendable(argument: str, given: PerLayer) -> None:
    """InputError for a function that has no name by which another process finds it."""
    if not isinstance(given, FunctionType):
        return
    named: Any = sys.modules.get(given.__module__)
    for part in given.__qualname__.split("."):
        named = getattr(named, part, None)
    if named is not given:
        wanted = (
            "for pickling an expression in the layer such as 1/symbols.ell, a list of values, or a "
            "function defined at the top of a module"
        )
        raise InputError(argument, given, wanted)


class _Traced:
    """A layer that knows arithmetic alone: what branches on it, or looks it up, raises."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: sympy.Expr) -> None:
        self.expr = expr

    def __bool__(self) -> bool:
        raise TypeError("a layer without a number")

    def __eq__(self, other: object) -> bool:
        raise TypeError("a layer without a number")

    def __neg__(self) -> _Traced:
        return _Traced(-self.expr)


def _arithmetic(operation: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], ...]:
    def forward(self: _Traced, other: Any) -> _Traced:
        return _Traced(operation(self.expr, _expr(other)))

    def backward(self: _Traced, other: Any) -> _Traced:
        return _Traced(operation(_expr(other), self.expr))

    return forward, backward


for _name in ("add", "sub", "mul", "truediv", "pow"):
    _forward, _backward = _arithmetic(getattr(operator, _name))
    setattr(_Traced, f"__{_name}__", _forward)
    setattr(_Traced, f"__r{_name}__", _backward)


def _expr(value: Any) -> sympy.Expr:
    return value.expr if isinstance(value, _Traced) else sympy.sympify(value, strict=True)


def _traced(function: FunctionType) -> Any:
    """The expression that a function is, or the function where it is more than arithmetic."""
    try:
        found = function(_Traced(layer_symbol))
        expr = _expr(found)
        same = all(
            abs(expr.xreplace({layer_symbol: sympy.Integer(at)}) - function(at)) < 1e-12
            for at in (1, 2, 3)
        )
    except Exception:  # a user's function may raise anything at what is no integer
        return function
    if not isinstance(expr, sympy.Expr) or not same:
        return function
    return expr if isinstance(found, _Traced) else found
