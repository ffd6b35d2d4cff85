"""The norms that layers have, as equations, and how a layer's text shows what it is given."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from ..expressions import as_expression

NORMS: dict[str | None, tuple[str, ...]] = {
    None: (),
    "rms": ("q = z[a] z[a]/n", "y[i] = z[i]/sqrt(q + eps)"),
    "layer": ("m = z[a]/n", "q = z[a] z[a]/n", "y[i] = (z[i] - m)/sqrt(q - m^2 + eps)"),
}


class Norm:
    """The equations of a norm, what it makes of z, and its ε."""

    def __init__(self, norm: str | None, eps: object) -> None:
        if not isinstance(norm, str | None) or norm not in NORMS:
            raise InputError("norm", norm, '"rms", "layer" or None')
        self.norm, self.lines = norm, NORMS[norm]
        self.eps = as_expression("eps", eps, "a finite number, 0 or more, or a symbol")
        if self.eps.is_negative:
            raise InputError("eps", eps, "a finite number, 0 or more, or a symbol")
        if norm is None and self.eps != 0:
            raise InputError("eps", eps, "0, because there is no norm")
        self.name = "z" if norm is None else "y"
        self.values: dict[str, Any] = {} if norm is None else {"eps": self.eps}

    def shown(self, before: str) -> list[str]:
        """The norm as it stands in a layer's text."""
        if self.norm is None:
            return []
        return [f"{before}{self.norm}", *shown_as(eps=self.eps if self.eps != 0 else None)]


def shown_as(**given: object) -> list[str]:
    """name=value of what is given."""
    texts = {
        name: f"({', '.join(map(str, value))})" if isinstance(value, list | tuple) else str(value)
        for name, value in given.items()
        if value is not None
    }
    return [f"{name}={text}" for name, text in texts.items()]
