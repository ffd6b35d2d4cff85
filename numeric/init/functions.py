"""Activation functions of PyTorch by the names of their classes and functions, with the values of
their options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.symbols import z

from ..models import functions


def known(name: str) -> bool:
    """Whether a function of PyTorch is an activation here, by its class's or its own name."""
    return functions.plain(name) in functions.TORCH


def of_module(module: Any) -> Activation:
    """σ of a module such as `nn.LeakyReLU(0.1)`, of a class that is `known`."""
    name = type(module).__name__
    formula, options = functions.TORCH[functions.plain(name)]
    given = [getattr(module, option, default) for option, default in options.items()]
    return functions.activation(formula(z, *given), name)


def of_call(name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Activation:
    """σ of a call such as `F.leaky_relu(x, 0.1)`, of a name that is `known`, without its input.

    Raises:
        InputError: for options that are no numbers, computed in the module.
    """
    formula, options = functions.TORCH[functions.plain(name)]
    given = dict(options)
    given.update(zip(options, arguments, strict=False))
    given.update({key: value for key, value in named.items() if key in options})
    for key, value in given.items():
        if not isinstance(value, int | float | str):
            raise InputError("activation", f"{name}({key}={value})", "σ with numbers for options")
    return functions.activation(formula(z, *given.values()), name)
