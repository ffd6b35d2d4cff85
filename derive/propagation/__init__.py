"""Lengths, correlations and gradients through wide networks, at any rank."""

from ..work.faces import public
from .backward import gradients
from .edge import Edge, EdgePoint, edge_of_chaos
from .fixed import FixedPoint, FixedPointErrors, depth_scales, fixed_points
from .maps import (
    chi,
    chi_parallel,
    correlation_map,
    correlation_slope,
    covariance_map,
    kernels,
    length_map,
    lengths,
    network,
)
from .steps import Equations, equations

__all__ = [
    "Edge",
    "EdgePoint",
    "Equations",
    "FixedPoint",
    "FixedPointErrors",
    "chi",
    "chi_parallel",
    "correlation_map",
    "correlation_slope",
    "covariance_map",
    "depth_scales",
    "edge_of_chaos",
    "equations",
    "fixed_points",
    "gradients",
    "kernels",
    "length_map",
    "lengths",
    "network",
]

public(__name__)
