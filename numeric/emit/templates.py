"""Source of kernels from templates: what an activation fills in."""

from __future__ import annotations

from derive import activations

from . import fastmath, printer


def sigma_source(activation: activations.Activation, orders: int) -> str:
    """`sigma(z)`, the tuple of σ and its derivatives below this order, as source."""
    derivatives = [activation.derivative(order) for order in range(orders)]
    doc = "σ and its derivatives."
    printed = printer.function(
        "sigma", [activations.z], derivatives, decorator="@scalar", doc=doc, fast=True
    )
    return fastmath.vectorised(printed)
