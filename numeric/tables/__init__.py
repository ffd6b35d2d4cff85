"""The table that flow and simulate return: its layout, normalised, compared, drawn."""

from .plot import Accessor

__all__ = ["Accessor"]
