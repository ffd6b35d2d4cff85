"""Source of kernels from templates: what an activation fills in."""

from __future__ import annotations

from derive import activations

from . import fastmath, printer

_ACTIVATE = '''\
@driver
def activate_{order}(flat, count):
    """The derivative of σ of order {order} at so many numbers, in their place."""
    wide_vectors()
    for i in range(count):
        flat[i] = sigma(flat[i])[{order}]
'''


def sigma_source(activation: activations.Activation, orders: int) -> str:
    """`sigma(z)`, the tuple of σ and its derivatives below this order, as source."""
    derivatives = [activation.derivative(order) for order in range(orders)]
    doc = "σ and its derivatives."
    printed = printer.function(
        "sigma", [activations.z], derivatives, decorator="@scalar", doc=doc, fast=True
    )
    return fastmath.vectorised(printed)


def activate_source(order: int = 0) -> str:
    """`activate_<order>(flat, count)`: `sigma`'s entry of this order in place of each number."""
    return _ACTIVATE.format(order=order)
