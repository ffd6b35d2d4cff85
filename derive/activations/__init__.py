"""Activation functions: their pieces and kinks, and averages in closed form."""

from .functions import (
    Activation,
    Piece,
    arctan,
    as_activation,
    by_name,
    erf,
    erf_scaled,
    erf_unit_cubic,
    from_expr,
    gelu,
    hard_tanh,
    leaky_relu,
    linear,
    monomial,
    names,
    polynomial,
    relu,
    shifted_relu,
    sigmoid,
    silu,
    sin,
    softplus,
    tanh,
    z,
)

__all__ = [
    "Activation",
    "Piece",
    "arctan",
    "as_activation",
    "by_name",
    "erf",
    "erf_scaled",
    "erf_unit_cubic",
    "from_expr",
    "gelu",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "monomial",
    "names",
    "polynomial",
    "relu",
    "shifted_relu",
    "sigmoid",
    "silu",
    "sin",
    "softplus",
    "tanh",
    "z",
]


def __dir__() -> list[str]:
    return sorted(__all__)
