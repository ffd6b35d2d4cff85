"""Random numbers and random matrices, the same on CPU and GPU."""

from . import lazy, matrices, philox
from .entries import entries
from .lazy import COLUMN, GAUSSIAN, HAAR, cholesky, combine, gram, steps
from .matrices import weight_matrix
from .permuted import check_limit
from .philox import fill_normals, fill_signs, padded, stream_key

__all__ = [
    "COLUMN",
    "GAUSSIAN",
    "HAAR",
    "check_limit",
    "cholesky",
    "combine",
    "entries",
    "fill_normals",
    "fill_signs",
    "gram",
    "lazy",
    "matrices",
    "padded",
    "philox",
    "steps",
    "stream_key",
    "weight_matrix",
]
