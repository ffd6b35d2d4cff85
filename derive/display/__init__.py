"""How objects show themselves: text at a prompt, mathematics in a notebook, lines that fit."""

from . import lines
from .labels import Label

__all__ = [
    "Label",
    "lines",
]
