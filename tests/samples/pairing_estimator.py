"""The pairing estimator on samples of one layer, by its definition."""

from __future__ import annotations

import numpy as np

from derive.errors import InputError
from derive.groups import coset_type, pair_partitions
from numeric.arrays import Array
from numeric.estimators import haar_coefficient
from numeric.estimators.unbiased import check_width


def moments_of_samples(z: Array, k: int) -> Array:
    """M_p of 2k preactivations, estimated from samples of one layer.

    Arguments:
        z: (draws, m, n), of an ensemble that is invariant under rotations of its n neurons.
        k: the number of pairs, at most n.

    Returns:
        (draws, m, …, m), one estimate per draw, each unbiased: entry [:, a, b, c, d, …] is the
        coefficient of δ_{i1 i2} δ_{i3 i4} … in E[z_i1;a z_i2;b z_i3;c z_i4;d …].

    Raises:
        InputError: if z has another shape or is not finite, or its n neurons are fewer than k.
    """
    if z.ndim != 3 or z.size == 0 or not np.isfinite(z).all():
        raise InputError("z", np.shape(z), "finite samples of shape (draws, m, n)")
    draws, m, n = z.shape
    check_width(n, k)
    gram = np.einsum("dai,dbi->dab", z, z)
    p = pair_partitions(2 * k)[0]
    out = np.zeros((draws,) + (m,) * (2 * k))
    for q in pair_partitions(2 * k):
        operands: list[object] = []
        for a, b in q:
            operands += [gram, [0, a + 1, b + 1]]
        contracted = np.einsum(*operands, list(range(2 * k + 1)))  # type: ignore[call-overload]
        out += haar_coefficient(n, coset_type(p, q)) * contracted
    return out
