"""Deep linear networks, exact at any widths: correlators, cumulants and norms."""

from ..work.faces import public
from .correlators import (
    chain,
    connected,
    contraction_factor,
    correlator,
    cumulants,
    loop_census,
    row_sum,
)

__all__ = [
    "chain",
    "connected",
    "contraction_factor",
    "correlator",
    "cumulants",
    "loop_census",
    "row_sum",
]

public(__name__)
