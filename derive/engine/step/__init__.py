"""A tensor's step: what it is at layer ℓ+1 in terms of layer ℓ, and what that needs."""

from __future__ import annotations

from .derived import Composed, Step, compose
from .named import (
    check_alone,
    checked_fields,
    closure,
    closures,
    read_through,
    step,
    through,
)

__all__ = [
    "Composed",
    "Step",
    "check_alone",
    "checked_fields",
    "closure",
    "closures",
    "compose",
    "read_through",
    "step",
    "through",
]
