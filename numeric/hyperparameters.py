"""The numbers that the engine's symbols stand for, layer by layer.

The network gives C_W, C_b, λ_W, λ_b and the ratios of widths; the symbols of a user's `Equation`
are given beside it: parameters={"a": 0.5, "rate": lambda layer: 1 / layer}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import sympy

from derive.arithmetic.parameters import Parameter
from derive.arithmetic.polynomials import of_kind
from derive.engine.equations import Equation
from derive.engine.fields import AnyField
from derive.errors import InputError, Words
from derive.network import Network

from .arrays import Array

Given: TypeAlias = "Mapping[str, float | Callable[[int], float]] | None"
"""Numbers, or functions of the layer ℓ = 1, 2, …, by the symbols' names."""

KNOWN = frozenset({"C_W", "C_b", "lambda_W", "lambda_b", "r_in", "r_out", "r_big"})
"""The names that every network gives."""

WANTED = "a number, or a function of the layer, for each symbol of the equations"


def hyperparameters(net: Network, depth: int, n_0: int, width: int | None) -> dict[str, Array]:
    """The network's parameters at layers 1 … depth; without a width n is n_0, or r_1 n is.

    Raises:
        InputError: for what is still a symbol.
    """
    columns = _columns(net, depth)
    numbers = {name: _numbers(name, column) for name, column in columns.items()}
    out = numbers.pop("width_ratio")
    into = np.array([out[0] if width is None else n_0 / width, *out[:-1]])
    return numbers | {"r_in": into, "r_out": out, "r_big": np.maximum(into, out)}


def exactly(net: Network, depth: int, n_0: int, width: int | None) -> dict[str, list[object]]:
    """The same as the network has it: sympy's numbers and fractions."""
    columns = _columns(net, depth)
    out = columns.pop("width_ratio")
    into = [out[0] if width is None else Fraction(n_0, width), *out[:-1]]
    big = [max(pair, key=sympy.sympify) for pair in zip(into, out, strict=True)]
    return columns | {"r_in": into, "r_out": out, "r_big": big}


def _columns(net: Network, depth: int) -> dict[str, list[object]]:
    """By layer, as the network has them."""

    def column(value: Callable[[int], object], *, same: bool) -> list[object]:
        """Its values at all layers; looked up once where all are the same."""
        return [value(1)] * depth if same else [value(layer) for layer in range(1, depth + 1)]

    equal = net.widths is None and not net.changes("width_ratio")
    one_law = net.weights_at(1, depth=depth) == net.weights
    columns = {
        "width_ratio": column(net.width_ratio_at, same=equal),
        "C_W": column(partial(_variance, net, depth), same=one_law),
        "C_b": column(net.C_b_at, same=not net.changes("C_b")),
        "lambda_W": column(net.lambda_W_at, same=not net.changes("lambda_W")),
        "lambda_b": column(net.lambda_b_at, same=not net.changes("lambda_b")),
    }
    columns |= {
        f"{variance}{order}": column(partial(net.correction_at, variance, order), same=False)
        for variance in ("C_W", "C_b")
        for order in range(1, net.corrections + 1)
    }
    return columns


def _variance(net: Network, depth: int, layer: int) -> sympy.Expr:
    return net.weights_at(layer, depth=depth).C_W


def own_parameters(
    given: Given, fields: Iterable[AnyField], known: Iterable[str], depth: int
) -> dict[str, Array]:
    """The equations' own symbols at layers 1 … depth, from what the user gives.

    Arguments:
        fields: what is measured.
        known: the names that the network gives.

    Raises:
        InputError: for symbols without a number, for names that are no symbol of theirs, and for
            values that are not finite real numbers.
    """
    wanted = symbols_of(fields) - set(known)
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise InputError("parameters", given, f"a mapping: {WANTED}")
    if missing := sorted(wanted - set(given)):
        raise InputError("parameters", given, f"numbers for {', '.join(missing)}")
    if strange := sorted(map(str, set(given) - wanted)):
        symbols = ", ".join(sorted(wanted)) or "none here"
        raise InputError("parameters", ", ".join(strange), f"symbols of the equations, {symbols}")
    return {name: _values(name, given[name], depth) for name in sorted(wanted)}


def symbols_of(fields: Iterable[AnyField]) -> set[str]:
    """The symbols in these equations, and in those that they use."""
    found: set[str] = set()
    for field in fields:
        if isinstance(field, Equation):
            atoms = (atom for term in field.terms for atom, _ in term.parameters)
            found |= {parameter.name for parameter in of_kind(atoms, Parameter)}
            below = {placed.field for term in field.terms for placed in term.fields}
            found |= symbols_of(below - {field})
    return found


def _values(name: str, value: object, depth: int) -> Array:
    column = [value(layer) if callable(value) else value for layer in range(1, depth + 1)]
    try:
        if any(isinstance(each, str | bool) for each in column):
            raise TypeError
        numbers = np.array([float(each) for each in column])  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError("parameters", Words(f"{name} = {value}"), WANTED) from None
    if not np.isfinite(numbers).all():
        raise InputError("parameters", Words(f"{name} = {value}"), "finite numbers")
    return numbers


def _float(value: Any) -> float:
    """The nearest float; of a fraction without mpmath, which takes thirty times as long."""
    if isinstance(value, sympy.Rational) and value.is_finite:
        with suppress(OverflowError):
            return int(value.p) / int(value.q)
    return float(value)


def _numbers(name: str, column: list[object]) -> Array:
    numbers = np.empty(len(column))
    for at, value in enumerate(column):
        if at and value is column[at - 1]:
            numbers[at] = numbers[at - 1]
            continue
        try:
            numbers[at] = _float(value)
        except TypeError:
            wanted = f"a number at every layer, not a symbol as at layer {at + 1}"
            raise InputError(name, value, wanted) from None
    if not np.isfinite(numbers).all():
        at = int(np.argmin(np.isfinite(numbers)))
        raise InputError(name, column[at], f"a number that a float can hold, at layer {at + 1} too")
    return numbers
