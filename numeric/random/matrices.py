"""Weight matrices built whole, for the samplers that are slow and obviously right."""

from __future__ import annotations

import numpy as np

from derive.errors import InputError
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    WeightEnsemble,
)

from ..arrays import Array
from .lazy import singular_values


def weight_matrix(
    weights: WeightEnsemble,
    shape: tuple[int, int],
    rng: np.random.Generator,
    *,
    zero_padded: bool = False,
) -> Array:
    """W of shape (n_out, n_in) with E[W_ij²] = C_W/n_in (source 000, eq. 3.2).

    Arguments:
        weights: the ensemble, with numbers for its parameters, checked by `lazy.steps`.
        shape: (n_out, n_in), at which its rank is a whole number.
        rng: NumPy's generator, which it advances.
        zero_padded: of square `LowRankOrthogonal` weights [U, 0] (source 001, §3.2), not U Vᵀ.

    Raises InputError for an ensemble that cannot be sampled.
    """
    n_out, n_in = shape
    C, ratio = float(weights.C_W), n_out / n_in
    match weights:
        case Gaussian():
            return float(np.sqrt(C / n_in)) * rng.standard_normal(shape)
        case Orthogonal():
            size = max(shape)
            scale = C if size == n_in else C * size / n_in
            return float(np.sqrt(scale)) * frame(size, size, rng)[:n_out, :n_in]
        case LowRankOrthogonal():
            rank = round(float(weights.gamma) * n_out)
            U = float(np.sqrt(C * n_out / rank)) * frame(n_out, rank, rng)
            if zero_padded:
                return np.concatenate([U, np.zeros((n_out, n_in - rank))], axis=1)
            return np.asarray(U @ frame(n_in, rank, rng).T)
        case LowRankGaussian():
            rank = round(float(weights.gamma) * n_out)
            A = float(np.sqrt(C * ratio / rank)) * rng.standard_normal((rank, n_in))
            return np.asarray(frame(n_out, rank, rng) @ A)
        case Truncated():
            size = round(float(weights.ratio) * max(shape))
            return float(np.sqrt(C * size / n_in)) * frame(size, n_in, rng)[:n_out]
        case BiInvariant():
            count = min(shape)
            squares = np.resize(singular_values(weights, n_in, count), count)
            S = np.sqrt(squares * (C * ratio))
            return np.asarray((frame(n_out, count, rng) * S) @ frame(n_in, count, rng).T)
    raise InputError("weights", str(weights), "an ensemble that can be sampled")


def frame(n: int, columns: int, rng: np.random.Generator) -> Array:
    """A uniform frame of orthonormal columns in R^n, (n, columns)."""
    return frames(rng.standard_normal((n, columns)))


def frames(gaussian: Array) -> Array:
    """Q of G = Q R with R's diagonal positive, (…, n, columns): uniform for Gaussian G.

    Such a Q is unique, so a rotation of G, which leaves its law alone, rotates Q.
    """
    Q, R = np.linalg.qr(gaussian)
    signs = np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return np.asarray(Q * signs[..., None, :])
