"""Ensembles with batch normalization: gaps, Gram matrices, and their means by layer."""

from .chains import Chain, explicit_grams, smallest_eigenvalues
from .ensembles import gaps, grams, simulate

__all__ = ["Chain", "explicit_grams", "gaps", "grams", "simulate", "smallest_eigenvalues"]


def __dir__() -> list[str]:
    return sorted(__all__)
