"""Source of kernels from templates: what an activation fills in."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from derive import activations

from . import fastmath, jit, modules, printer


def sigma_source(activation: activations.Activation, orders: int) -> str:
    """`sigma(z)`, the tuple of σ and its derivatives below this order, as source."""
    derivatives = [activation.derivative(order) for order in range(orders)]
    doc = "σ and its derivatives."
    printed = printer.function(
        "sigma", [activations.z], derivatives, decorator="@scalar", doc=doc, fast=True
    )
    return fastmath.vectorised(printed)


@cache
def load_template(
    template: str, stem: str, kernels: tuple[ModuleType, ...], **fields: str
) -> ModuleType:
    """The module of a template, with the hash of the kernels that it calls."""
    fingerprint = jit.fingerprint(jit, *kernels)
    prelude, entry = modules.PRELUDE, jit.ENTRY
    source = template.format(fingerprint=fingerprint, prelude=prelude, entry=entry, **fields)
    return modules.load(source, stem)
