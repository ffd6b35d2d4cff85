"""Trained networks: by theory, to order 1/n, and in ensembles that are really trained."""

from .flows import flow
from .inference import posterior
from .rates import learning_rate
from .simulations import simulate

__all__ = ["flow", "learning_rate", "posterior", "simulate"]


def __dir__() -> list[str]:
    return sorted(__all__)
