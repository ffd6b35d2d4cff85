"""Random numbers and random matrices, the same on CPU and GPU."""

from typing import TYPE_CHECKING

from derive.work.faces import face

from .entries import entries
from .permuted import check_limit

if TYPE_CHECKING:
    from . import lazy, matrices, philox
    from .lazy import COLUMN, GAUSSIAN, HAAR, cholesky, combine, gram, steps
    from .matrices import weight_matrix
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

_HOMES = {
    **dict.fromkeys(("COLUMN", "GAUSSIAN", "HAAR", "cholesky", "combine", "gram", "steps"), "lazy"),
    **dict.fromkeys(("fill_normals", "fill_signs", "padded", "stream_key"), "philox"),
    "weight_matrix": "matrices",
}
__getattr__ = face(__name__, _HOMES, ("lazy", "matrices", "philox"))
"""Kernels are compiled with numba, which takes a fifth of a second to import; names need not be."""
