"""Chunks computed anywhere, kept in a directory, resumed and extended."""

from . import chunks
from .work import Sharing

__all__ = [
    "Sharing",
    "chunks",
]
