"""Depth in proportion to width: the walk of log K, and the diffusion of the Gram matrix."""

from ..work.faces import public
from .diffusion import Diffusion, diffusion
from .values import Function
from .walks import Walk, growth, walk

__all__ = ["Diffusion", "Function", "Walk", "diffusion", "growth", "walk"]

public(__name__)
