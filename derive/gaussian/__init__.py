"""Gaussian averages of activations: symbols, enclosures, series, fast quadrature."""

from . import oracle, quadrature
from .brackets import Average, Bracket, Component, GaussianAverage, normal_form, specialise
from .kernel_form import HermiteAverage
from .large_kernel import around_infinity
from .oracle import gaussian_average
from .shapes import Shape, SingleShape, leibniz
from .small_kernel import around_zero, average_at, small_kernel_average

__all__ = [
    "Average",
    "Bracket",
    "Component",
    "GaussianAverage",
    "HermiteAverage",
    "Shape",
    "SingleShape",
    "around_infinity",
    "around_zero",
    "average_at",
    "gaussian_average",
    "leibniz",
    "normal_form",
    "oracle",
    "quadrature",
    "small_kernel_average",
    "specialise",
]
