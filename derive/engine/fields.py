"""The fields of the dense layer, and their forward equations by differentiating z = b + W σ(z).

An edge of a tree is either a parameter of the new layer or an older one, and older derivatives pass
through σ by the chain rule (Faà di Bruno), cutting the tree into smaller trees of the layer below:
`through.lines` does that for every layer, of which the dense one is a stage with one equation.
"""

from __future__ import annotations

from ..work.caches import cache
from .equations import Equation
from .stages import DENSE
from .through import Summand, lines
from .trees import (
    DDH_I,
    DDH_II,
    DH,
    AnyField,
    Edge,
    Field,
    H,
    Placed,
    Z,
    canonical_tree,
    slots_of,
)

__all__ = [
    "DDH_I",
    "DDH_II",
    "DH",
    "AnyField",
    "Edge",
    "Field",
    "H",
    "Placed",
    "Z",
    "canonical_tree",
    "forward",
    "slots_of",
]


@cache
def forward(
    field: AnyField, slots: tuple[int, ...], samples: tuple[int, ...]
) -> tuple[Summand, ...]:
    """The field at layer ℓ+1 as a polynomial in the weights of a dense layer, derived once.

    `slots` names the neural index of each node, `samples` its sample.
    """
    if isinstance(field, Equation):
        return field.forward(slots, samples)
    return tuple(each for line in lines(DENSE, field, slots, samples) for each in line.degree(0))
