"""Deep linear networks, exact at any widths: correlators, cumulants and norms."""

from .correlators import (
    chain,
    coefficient,
    connected,
    contraction_factor,
    correlator,
    cumulants,
    loop_census,
    norm_moment,
    norm_variance,
    pairing_matrix,
    row_sum,
)

__all__ = [
    "chain",
    "coefficient",
    "connected",
    "contraction_factor",
    "correlator",
    "cumulants",
    "loop_census",
    "norm_moment",
    "norm_variance",
    "pairing_matrix",
    "row_sum",
]


def __dir__() -> list[str]:
    return sorted(__all__)
