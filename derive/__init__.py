"""Symbols: what is true of random deep networks, derived with sympy.

>>> from derive import recursion, Orthogonal
>>> print(recursion("V", weights=Orthogonal()).single_input())
V(ℓ+1) = C_W**2*(V*⟨(σ²)''⟩**2/4 - 3*⟨σ²⟩**2 + ⟨σ⁴⟩)
"""

from typing import TYPE_CHECKING

from .work.faces import face

if TYPE_CHECKING:
    from . import (
        activations,
        batchnorm,
        deep,
        exact,
        layers,
        linear,
        propagation,
        spectra,
        symbols,
        training,
    )
    from .activations.functions import Activation
    from .citations import cite
    from .depth.criticality import criticality
    from .engine.equations import Equation
    from .engine.orbits import Exchangeable
    from .errors import InputError
    from .groups.moments import haar_moment
    from .groups.pairings import coset_type, pair_partitions
    from .groups.traces import trace_moment, trace_series
    from .groups.weingarten import weingarten
    from .network import Network
    from .recursions import Recursion, recursion
    from .weights import (
        BiInvariant,
        Gaussian,
        Independent,
        LowRankGaussian,
        LowRankOrthogonal,
        Orthogonal,
        PermutationInvariant,
        Permuted,
        Rademacher,
        RegularSparse,
        Sparse,
        StudentT,
        Truncated,
        TruncatedNormal,
        Uniform,
        WeightEnsemble,
    )
    from .work.caches import clear_caches

__all__ = [
    "Activation",
    "BiInvariant",
    "Equation",
    "Exchangeable",
    "Gaussian",
    "Independent",
    "InputError",
    "LowRankGaussian",
    "LowRankOrthogonal",
    "Network",
    "Orthogonal",
    "PermutationInvariant",
    "Permuted",
    "Rademacher",
    "Recursion",
    "RegularSparse",
    "Sparse",
    "StudentT",
    "Truncated",
    "TruncatedNormal",
    "Uniform",
    "WeightEnsemble",
    "activations",
    "batchnorm",
    "cite",
    "clear_caches",
    "coset_type",
    "criticality",
    "deep",
    "exact",
    "haar_moment",
    "layers",
    "linear",
    "pair_partitions",
    "propagation",
    "recursion",
    "spectra",
    "symbols",
    "trace_moment",
    "trace_series",
    "training",
    "weingarten",
]

_HOMES = {
    "Activation": "activations.functions",
    "Equation": "engine.equations",
    "Exchangeable": "engine.orbits",
    "InputError": "errors",
    "Network": "network",
    "Recursion": "recursions",
    "cite": "citations",
    "clear_caches": "work.caches",
    "coset_type": "groups.pairings",
    "criticality": "depth.criticality",
    "haar_moment": "groups.moments",
    "pair_partitions": "groups.pairings",
    "recursion": "recursions",
    "trace_moment": "groups.traces",
    "trace_series": "groups.traces",
    "weingarten": "groups.weingarten",
}
"""Where names live that are neither modules nor weights: each is loaded when it is asked for."""
_MODULES = {name for name in __all__ if name.islower()}.difference(_HOMES)
_WEIGHTS = dict.fromkeys(set(__all__).difference(_HOMES, _MODULES), "weights")

__getattr__ = face(__name__, _HOMES | _WEIGHTS, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
