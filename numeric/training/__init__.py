"""Trained networks: by theory, to order 1/n, and in ensembles that are really trained.

The functions are for users; the modules are what the book's own experiments build on.
"""

from derive.work.faces import public

from . import ensembles, losses, networks, optimizers
from .flows import flow
from .inference import posterior
from .rates import learning_rate
from .simulations import simulate

__all__ = [
    "ensembles",
    "flow",
    "learning_rate",
    "losses",
    "networks",
    "optimizers",
    "posterior",
    "simulate",
]

public(__name__)
