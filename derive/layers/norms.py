"""The norms that layers have, as equations, and how a layer's text shows what it is given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..expressions import as_expression


def over_samples(entry: str, *, center: bool = True) -> str:
    """A variable at a neuron, or σ of it, normalized over all samples."""
    own = f"({entry} - mean_s({entry}))" if center else entry
    return f"{own}/sqrt(mean_s(({own})^2) + eps)"


NORMS: dict[str, tuple[str, ...]] = {
    "rms": ("q = {z} {z}/n", "y[i] = z[i]/sqrt(q + eps)"),
    "layer": ("m = {z}/n", "q = {z} {z}/n", "y[i] = (z[i] - m)/sqrt(q - m^2 + eps)"),
    "batch": (f"y[i;s] = {over_samples('z[i;s]')}",),
}
"""The equations of each norm, {z} being z at a neuron that is summed over."""

WANTED = (
    '"rms", "layer", "group(G)", which is "layer" in G groups of neurons, "rms(G)", one of these '
    'with " over positions" behind it, "batch", over the samples at each neuron, or None'
)


class Norm:
    """The equations of a norm, what it makes of z, and its ε."""

    def __init__(self, norm: str | None, eps: object) -> None:
        self.norm, self.lines = norm, _equations(norm)
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


def _equations(norm: str | None) -> tuple[str, ...]:
    """The equations of a norm by its text."""
    if norm is None:
        return ()
    if norm == "batch":
        return NORMS["batch"]
    pattern = r"(rms|layer|group(?=\())(?:\(([1-9]\d{0,5})\))?( over positions)?"
    match = re.fullmatch(pattern, str(norm))
    if match is None or not isinstance(norm, str):
        raise InputError("norm", norm, WANTED)
    kind, sets, over = match.groups()
    z = f"z[a{',p' if over else ''}{'' if sets in {None, '1'} else f':{sets}'}]"
    return tuple(line.format(z=z) for line in NORMS["layer" if kind == "group" else kind])


def shown_as(**given: object) -> list[str]:
    """name=value of what is given."""
    texts = {
        name: f"({', '.join(map(str, value))})" if isinstance(value, list | tuple) else str(value)
        for name, value in given.items()
        if value is not None
    }
    return [f"{name}={text}" for name, text in texts.items()]


def named_text(given: object) -> str | None:
    """Laws or activations as a layer's text shows them: one, or several by their names."""
    if isinstance(given, Mapping):
        return f"({', '.join(f'{name}: {value}' for name, value in given.items())})"
    return None if given is None else str(given)
