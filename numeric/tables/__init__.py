"""The table that flow and simulate return: its layout, normalised, compared, drawn."""

from . import layout
from .compare import FALSE_ALARMS, WEAK, Comparison, Row, compare
from .digits import as_text, from_text
from .layout import tensors
from .normalise import natural_size
from .plot import Accessor

__all__ = [
    "FALSE_ALARMS",
    "WEAK",
    "Accessor",
    "Comparison",
    "Row",
    "as_text",
    "compare",
    "drawing",
    "from_text",
    "layout",
    "natural_size",
    "tensors",
]
