"""Chunks computed anywhere, kept in a directory, resumed and extended."""

from . import chunks, directory, totals
from .directory import Directory
from .work import Sharing

__all__ = [
    "Directory",
    "Sharing",
    "chunks",
    "directory",
    "totals",
]
