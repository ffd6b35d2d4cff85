"""Observables, and tensors read off samples without bias."""

from . import moments, observables, polynomials, unbiased
from .controls import adjusted, controlled
from .observables import Plan, components, expanded, plan_of
from .probes import Probes, needed, spare
from .sums import haar_coefficient

__all__ = [
    "Plan",
    "Probes",
    "adjusted",
    "components",
    "controlled",
    "expanded",
    "haar_coefficient",
    "moments",
    "needed",
    "observables",
    "plan_of",
    "polynomials",
    "spare",
    "unbiased",
]
