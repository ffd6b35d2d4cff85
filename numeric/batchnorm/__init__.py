"""Ensembles with batch normalization, and their large-width map."""

from .ensembles import Chain, explicit_grams, gaps, grams, simulate, smallest_eigenvalues

__all__ = ["Chain", "explicit_grams", "gaps", "grams", "simulate", "smallest_eigenvalues"]


def __dir__() -> list[str]:
    return sorted(__all__)
