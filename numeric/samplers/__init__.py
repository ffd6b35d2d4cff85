"""Networks in, sums of products of their statistics out: four ways."""

from . import jets
from .arithmetic import Arithmetic
from .base import Sampler
from .ensemble import Ensemble, checked_ensemble
from .explicit import ExplicitSampler
from .innovations import InnovationSampler
from .kernels import KernelSampler
from .paths import PathSampler
from .staged import Parts, ProbeSampler

__all__ = [
    "Arithmetic",
    "Ensemble",
    "ExplicitSampler",
    "InnovationSampler",
    "KernelSampler",
    "Parts",
    "PathSampler",
    "ProbeSampler",
    "Sampler",
    "checked_ensemble",
    "jets",
]
