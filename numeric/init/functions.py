"""Activation functions of PyTorch, as formulas of this library: by the names of their classes and
functions, with the values of their options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from derive.activations.functions import Activation, by_name
from derive.errors import InputError

OPTIONS: Mapping[str, tuple[Callable[..., str], Mapping[str, Any]]] = {
    "tanh": (lambda: "tanh", {}),
    "relu": (lambda: "relu", {}),
    "sigmoid": (lambda: "sigmoid", {}),
    "silu": (lambda: "silu", {}),
    "mish": (lambda: "expr: mish(z)", {}),
    "erf": (lambda: "expr: erf(z)", {}),
    "sin": (lambda: "sin", {}),
    "atan": (lambda: "arctan", {}),
    "arctan": (lambda: "arctan", {}),
    "softsign": (lambda: "expr: z/(1+Abs(z))", {}),
    "relu6": (lambda: "expr: Min(6,Max(0,z))", {}),
    "hardswish": (lambda: "expr: z*Min(1,Max(0,z/6+1/2))", {}),
    "hardsigmoid": (lambda: "expr: Min(1,Max(0,z/6+1/2))", {}),
    "tanhshrink": (lambda: "expr: z-tanh(z)", {}),
    "logsigmoid": (lambda: "expr: -log(1+exp(-z))", {}),
    "selu": (
        lambda: "expr: 1.0507009873554805*Max(0,z)+1.7580993408473766*Min(0,exp(z)-1)",
        {},
    ),
    "gelu": (
        lambda approximate: (
            "gelu" if approximate == "none" else "expr: z/2*(1+tanh(sqrt(2/pi)*(z+0.044715*z**3)))"
        ),
        {"approximate": "none"},
    ),
    "leakyrelu": (lambda negative_slope: f"leaky_relu({negative_slope})", {"negative_slope": 0.01}),
    "elu": (lambda alpha: f"expr: Max(0,z)+{alpha}*Min(0,exp(z)-1)", {"alpha": 1.0}),
    "celu": (lambda alpha: f"expr: Max(0,z)+Min(0,{alpha}*(exp(z/{alpha})-1))", {"alpha": 1.0}),
    "softplus": (
        lambda beta: "softplus" if beta == 1 else f"expr: log(1+exp({beta}*z))/{beta}",
        {"beta": 1.0},
    ),
    "hardtanh": (
        lambda min_val, max_val: (
            "hard_tanh"
            if (min_val, max_val) == (-1, 1)
            else f"expr: Max({min_val},Min({max_val},z))"
        ),
        {"min_val": -1.0, "max_val": 1.0},
    ),
}
"""The formula of σ by its options, and their defaults, in order."""


def known(name: str) -> bool:
    """Whether a function of PyTorch is an activation here, by its class's or its own name."""
    return _plain(name) in OPTIONS


def of_module(module: Any) -> Activation:
    """σ of a module such as `nn.LeakyReLU(0.1)`, of a class that is `known`."""
    formula, options = OPTIONS[_plain(type(module).__name__)]
    return by_name(formula(**{name: getattr(module, name, old) for name, old in options.items()}))


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
    return by_name(formula(**given))


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
