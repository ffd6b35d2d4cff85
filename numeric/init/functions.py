"""Activation functions of PyTorch by the names of their classes and functions, with the values of
their options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.symbols import z

from ..models import functions

OPTIONS: Mapping[str, tuple[Callable[..., sympy.Expr], Mapping[str, Any]]] = {
    "tanh": (sympy.tanh, {}),
    "relu": (functions.relu, {}),
    "sigmoid": (functions.sigmoid, {}),
    "silu": (functions.silu, {}),
    "mish": (functions.mish, {}),
    "erf": (sympy.erf, {}),
    "sin": (sympy.sin, {}),
    "atan": (sympy.atan, {}),
    "arctan": (sympy.atan, {}),
    "softsign": (functions.softsign, {}),
    "relu6": (lambda u: functions.hard_tanh(u, 0, 6), {}),
    "hardswish": (lambda u: u * functions.hard_sigmoid(u), {}),
    "hardsigmoid": (functions.hard_sigmoid, {}),
    "tanhshrink": (lambda u: u - sympy.tanh(u), {}),
    "logsigmoid": (lambda u: -functions.softplus(-u), {}),
    "selu": (functions.selu, {}),
    "gelu": (functions.gelu, {"approximate": "none"}),
    "leakyrelu": (functions.leaky_relu, {"negative_slope": 0.01}),
    "elu": (functions.elu, {"alpha": 1.0}),
    "celu": (functions.celu, {"alpha": 1.0}),
    "softplus": (functions.softplus, {"beta": 1.0}),
    "hardtanh": (functions.hard_tanh, {"min_val": -1.0, "max_val": 1.0}),
}
"""σ of an expression and its options, and their defaults, in order."""


def known(name: str) -> bool:
    """Whether a function of PyTorch is an activation here, by its class's or its own name."""
    return _plain(name) in OPTIONS


def of_module(module: Any) -> Activation:
    """σ of a module such as `nn.LeakyReLU(0.1)`, of a class that is `known`."""
    name = type(module).__name__
    formula, options = OPTIONS[_plain(name)]
    given = [getattr(module, option, default) for option, default in options.items()]
    return functions.activation(formula(z, *given), name)


def of_call(name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Activation:
    """σ of a call such as `F.leaky_relu(x, 0.1)`, of a name that is `known`, without its input.

    Raises:
        InputError: for options that are no numbers, computed in the module.
    """
    formula, options = OPTIONS[_plain(name)]
    given = dict(options)
    given.update(zip(options, arguments, strict=False))
    given.update({key: value for key, value in named.items() if key in options})
    for key, value in given.items():
        if not isinstance(value, int | float | str):
            raise InputError("activation", f"{name}({key}={value})", "σ with numbers for options")
    return functions.activation(formula(z, *given.values()), name)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
