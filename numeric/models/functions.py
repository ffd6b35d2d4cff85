"""Scalar functions of other frameworks as activations of this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy

from derive import activations
from derive.activations.functions import Activation
from derive.errors import InputError
from derive.symbols import z
from derive.work.caches import cache

from ..arrays import Array

_FAR = np.array([6.3, 7.4, 9.2, 12.1, 17.3, 23.7, 30.9])
_GRID = np.concatenate([np.linspace(-5.3, 5.1, 83), _FAR, -_FAR])
_SAME = 2e-6
"""Of σ's size: single precision's constants differ from exact ones by as much."""


def relu(
    u: sympy.Expr, slope: object = 0, most: object = None, threshold: object = 0
) -> sympy.Expr:
    """[u]_+; with Keras's options slope·(u − threshold) below the threshold, and `most` at most."""
    least, below = exact(threshold or 0), exact(slope or 0)
    if least:
        found = sympy.Piecewise((u, u >= least), (below * (u - least), True))
    else:
        found = sympy.Max(0, u) + below * sympy.Min(0, u)
    return found if most is None else sympy.Min(found, exact(most))


def elu(u: sympy.Expr, alpha: object = 1) -> sympy.Expr:
    """u for u > 0, α(e^u − 1) below."""
    return _at(activations.elu(exact(alpha)), u)


def selu(u: sympy.Expr) -> sympy.Expr:
    """The scaled ELU."""
    return _at(activations.selu, u)


def celu(u: sympy.Expr, alpha: object = 1) -> sympy.Expr:
    """u for u > 0, α(e^{u/α} − 1) below."""
    a = exact(alpha)
    return sympy.Max(0, u) + a * (sympy.exp(sympy.Min(0, u) / a) - 1)


def gelu(u: sympy.Expr, approximate: object = False) -> sympy.Expr:
    """u Φ(u), or with "tanh", or True, the form that has tanh in place of Φ."""
    if approximate in (False, "none"):
        return u * (1 + sympy.erf(u / sympy.sqrt(2))) / 2
    cubic = u + exact("0.044715") * u**3
    return u * (1 + sympy.tanh(sympy.sqrt(2 / sympy.pi) * cubic)) / 2


def sigmoid(u: sympy.Expr) -> sympy.Expr:
    """1/(1 + e^{−u})."""
    return (1 + sympy.tanh(u / 2)) / 2


def silu(u: sympy.Expr) -> sympy.Expr:
    """u/(1 + e^{−u})."""
    return u * sigmoid(u)


def softplus(u: sympy.Expr, beta: object = 1) -> sympy.Expr:
    """log(1 + e^{βu})/β."""
    b = exact(beta)
    return sympy.log(1 + sympy.exp(b * u)) / b


def mish(u: sympy.Expr) -> sympy.Expr:
    """u tanh(log(1 + e^u))."""
    return _at(activations.mish, u)


def hard_tanh(u: sympy.Expr, low: object = -1, high: object = 1) -> sympy.Expr:
    """u between two values, and these outside."""
    return sympy.Max(exact(low), sympy.Min(exact(high), u))


def softsign(u: sympy.Expr) -> sympy.Expr:
    """u/(1 + |u|)."""
    return _at(activations.softsign, u)


def hard_sigmoid(u: sympy.Expr) -> sympy.Expr:
    """u/6 + 1/2 between 0 and 1."""
    return _at(activations.hard_sigmoid, u)


def _at(activation: Activation, u: sympy.Expr) -> sympy.Expr:
    return activation.expr.xreplace({z: u})


def exact(value: object) -> sympy.Expr:
    """A number as its decimal says it; InputError for none."""
    if isinstance(value, sympy.Expr):
        return value
    try:
        return sympy.Rational(str(value))
    except (TypeError, ValueError):
        raise InputError("model", value, "a finite number") from None


TORCH: Mapping[str, tuple[Callable[..., sympy.Expr], Mapping[str, Any]]] = {
    "tanh": (sympy.tanh, {}),
    "relu": (relu, {}),
    "sigmoid": (sigmoid, {}),
    "silu": (silu, {}),
    "mish": (mish, {}),
    "erf": (sympy.erf, {}),
    "sin": (sympy.sin, {}),
    "atan": (sympy.atan, {}),
    "arctan": (sympy.atan, {}),
    "softsign": (softsign, {}),
    "relu6": (lambda u: hard_tanh(u, 0, 6), {}),
    "hardswish": (lambda u: u * hard_sigmoid(u), {}),
    "hardsigmoid": (hard_sigmoid, {}),
    "tanhshrink": (lambda u: u - sympy.tanh(u), {}),
    "logsigmoid": (lambda u: -softplus(-u), {}),
    "selu": (selu, {}),
    "gelu": (gelu, {"approximate": "none"}),
    "leakyrelu": (relu, {"negative_slope": 0.01}),
    "elu": (elu, {"alpha": 1.0}),
    "celu": (celu, {"alpha": 1.0}),
    "softplus": (softplus, {"beta": 1.0}),
    "hardtanh": (hard_tanh, {"min_val": -1.0, "max_val": 1.0}),
}
"""PyTorch's by the `plain` names of their classes and functions: σ of an expression and its
options, and their defaults, in order."""


def plain(name: str) -> str:
    """The name of a class and of a function in one spelling: LeakyReLU, leaky_relu.

    >>> plain("LeakyReLU") == plain("leaky_relu")
    True
    """
    return name.lower().replace("_", "")


def activation(expr: sympy.Expr, where: str) -> Activation:
    """The activation that is this function of z, by a name where it has one.

    Arguments:
        where: what an error calls it.

    Raises InputError for what is no activation of `derive.activations`.
    """
    known = _catalogue().values()
    same = [each for each in known if each.expr == expr]
    for each in same or (each for each in known if alike(expr, each.expr)):
        return each
    try:
        return activations.from_expr(expr)
    except InputError as error:
        raise InputError("model", f"{where}, σ(z) = {expr}", error.wanted) from None


def scaled(expr: sympy.Expr, where: str) -> tuple[Activation, sympy.Expr]:
    """The activation and the factor c of c σ(z). c is 1 unless σ is then a named function."""
    known = _catalogue().values()
    for each in known:
        if alike(expr, each.expr):
            return each, sympy.S.One
    for each in known:
        if (factor := multiple(expr, each.expr)) is not None:
            return each, factor
    return activation(expr, where), sympy.S.One


def multiple(expr: sympy.Expr, other: sympy.Expr) -> sympy.Expr | None:
    """The c with expr = c·other, as functions of z; None if there is none.

    >>> multiple(sympy.tanh(z) / 3, sympy.tanh(z))
    1/3
    """
    if alike(expr, other):
        return sympy.S.One
    ours, known = _on_grid(expr), _on_grid(other)
    at = abs(known).argmax()
    if not np.isfinite(ours).all() or not known[at] or not ours[at]:
        return None
    ratio = float(ours[at] / known[at])
    if not (abs(ours - ratio * known) <= _SAME * (abs(ratio) + abs(ours))).all():
        return None
    factor = expr.as_coeff_Mul()[0] / other.as_coeff_Mul()[0]
    near = sympy.nsimplify(ratio, rational=True, tolerance=1e-12)
    return factor if abs(float(factor) - ratio) <= 1e-9 * abs(ratio) else near


def affine(expr: sympy.Expr, other: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr] | None:
    """The a ≠ 0 and b with expr = a + b·other, as functions of z; None if there are none.

    >>> affine(1 - sympy.tanh(z), sympy.tanh(z))
    (1, -1)
    """
    if not expr.free_symbols == other.free_symbols == {z}:
        return None
    ours, known = _on_grid(expr), _on_grid(other)
    columns = np.stack([np.ones_like(known), known], axis=1)
    if not np.isfinite(ours).all() or not np.isfinite(known).all() or not np.ptp(known):
        return None
    (a, b), *_ = np.linalg.lstsq(columns, ours)
    shift, factor = (sympy.nsimplify(each, rational=True, tolerance=1e-9) for each in (a, b))
    same = alike(expr, shift + factor * other)
    return (shift, factor) if same and shift and factor else None


@cache
def _catalogue() -> dict[str, Activation]:
    slopes = ("0.01", "0.2", "0.1", "0.25", "0.3")
    fixed = (name for name in activations.names() if not {"(", ":"} & {*name})
    named = [*fixed, "elu", *(f"leaky_relu({slope})" for slope in slopes)]
    found = {name: activations.by_name(name) for name in named}
    return found | {"gelu(tanh)": activations.from_expr(gelu(z, "tanh"), "gelu(tanh)")}


@cache
def _on_grid(expr: sympy.Expr) -> Array:
    function = sympy.lambdify(z, expr, ["scipy", "numpy"])
    with np.errstate(all="ignore"):
        return np.asarray(function(_GRID) + 0 * _GRID, float)


def alike(expr: sympy.Expr, other: sympy.Expr) -> bool:
    """True if two expressions are the same function of z, to single precision."""
    if expr == other:
        return True
    ours, known = _on_grid(expr), _on_grid(other)
    return bool(np.isfinite(ours).all() and (abs(ours - known) <= _SAME * (1 + abs(known))).all())
