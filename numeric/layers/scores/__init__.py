"""Averages over the scores of attention whose heads have a fixed size."""

from .moments import Moments, Scores
from .quasi import shared_source
from .rule import at_kernels, means, moments
from .softmax import alike_mean

__all__ = ["Moments", "Scores", "alike_mean", "at_kernels", "means", "moments", "shared_source"]
