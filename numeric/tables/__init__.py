"""The table that flow and simulate return: its layout, normalised, compared, drawn."""

from . import layout
from .compare import FALSE_ALARMS, WEAK, Comparison, Row, compare
from .layout import tensors
from .normalise import natural_size
from .plot import Accessor

__all__ = [
    "FALSE_ALARMS",
    "WEAK",
    "Accessor",
    "Comparison",
    "Row",
    "compare",
    "layout",
    "natural_size",
    "tensors",
]
