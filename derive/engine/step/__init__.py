"""A tensor's step: what it is at layer ℓ+1 in terms of layer ℓ, and what that needs."""

from __future__ import annotations

from .derived import Composed, Step, compose
from .named import at_inputs, check_alone, checked_fields, hidden, is_dense, step
from .needs import add_name, closure, closures

__all__ = [
    "Composed",
    "Step",
    "add_name",
    "at_inputs",
    "check_alone",
    "checked_fields",
    "closure",
    "closures",
    "compose",
    "hidden",
    "is_dense",
    "step",
]
