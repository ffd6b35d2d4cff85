"""Rules of quadrature for Gaussian averages: nodes, and the error bounds that set their steps."""

from __future__ import annotations

from .integrands import UNBOUNDED, Terms, degree, growth, rate, settled, strips
from .panels import PANELS, Panels, legendre, panel_reach, smooth_width
from .trapezoid import (
    ACCURACY,
    FINEST,
    NEAR_REACH,
    STRETCHED,
    accuracy,
    reach,
    steps,
    stretch,
    stretched_step,
)

__all__ = [
    "ACCURACY",
    "FINEST",
    "NEAR_REACH",
    "PANELS",
    "STRETCHED",
    "UNBOUNDED",
    "Panels",
    "Terms",
    "accuracy",
    "degree",
    "growth",
    "legendre",
    "panel_reach",
    "rate",
    "reach",
    "settled",
    "smooth_width",
    "steps",
    "stretch",
    "stretched_step",
    "strips",
]
