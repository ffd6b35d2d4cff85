"""Ensembles of weights: laws that rotations of the neurons keep, and that permutations keep."""

from ..work.faces import public
from .entries import Independent, IndependentEntries, PermutationInvariant
from .laws import Rademacher, Sparse, StudentT, TruncatedNormal, Uniform
from .named import as_weights
from .permuted import FourMoments, Permuted, RegularSparse
from .rotations import (
    NO_C_W,
    BiInvariant,
    Frames,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    WeightEnsemble,
    are_moments,
    larger,
)

__all__ = [
    "NO_C_W",
    "BiInvariant",
    "FourMoments",
    "Frames",
    "Gaussian",
    "Independent",
    "IndependentEntries",
    "LowRankGaussian",
    "LowRankOrthogonal",
    "Orthogonal",
    "PermutationInvariant",
    "Permuted",
    "Rademacher",
    "RegularSparse",
    "Sparse",
    "StudentT",
    "Truncated",
    "TruncatedNormal",
    "Uniform",
    "WeightEnsemble",
    "are_moments",
    "as_weights",
    "larger",
]

public(__name__)
