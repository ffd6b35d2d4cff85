"""Symbols: what is true of random deep networks, derived with sympy.

>>> from derive import recursion, Orthogonal
>>> print(recursion("V", weights=Orthogonal()).single_input())
V(ℓ+1) = C_W**2*(V*⟨(σ²)''⟩**2/4 - 3*⟨σ²⟩**2 + ⟨σ⁴⟩)
"""

from . import activations, exact
from .activations import Activation
from .criticality import criticality
from .errors import InputError
from .network import Network
from .pairings import coset_type, pair_partitions
from .recursion import Recursion, recursion
from .weights import Gaussian, Orthogonal, WeightEnsemble
from .weingarten import weingarten

__all__ = [
    "Activation",
    "Gaussian",
    "InputError",
    "Network",
    "Orthogonal",
    "Recursion",
    "WeightEnsemble",
    "activations",
    "coset_type",
    "criticality",
    "exact",
    "pair_partitions",
    "recursion",
    "weingarten",
]
