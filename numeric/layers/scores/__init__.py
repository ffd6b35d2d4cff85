"""Averages over the scores of attention whose heads have a fixed size."""

from .atoms import at_kernels
from .exchangeable import alike_mean
from .moments import Moments, Scores
from .quasi import shared_source
from .rule import means, moments

__all__ = ["Moments", "Scores", "alike_mean", "at_kernels", "means", "moments", "shared_source"]
