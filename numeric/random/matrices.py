"""Weight matrices built whole, for the samplers that are slow and obviously right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.errors import InputError
from derive.weights import (
    BiInvariant,
    FourMoments,
    Gaussian,
    IndependentEntries,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    WeightEnsemble,
)
from derive.work.caches import cache

from ..arrays import Array
from .entries import entries
from .lazy import singular_values
from .permuted import permuted


class Source(Protocol):
    """Where a matrix's random numbers come from: NumPy's generator, or a framework's own.

    Its arrays know `*`, `@`, `.T` and slices.
    """

    def normal(self, shape: tuple[int, ...]) -> Any:
        """Independent standard normal numbers."""

    def frame(self, n: int, columns: int) -> Any:
        """A uniform frame of orthonormal columns in R^n, (n, columns)."""

    def block(self, n_out: int, n_in: int) -> Any:
        """The upper left of a Haar matrix as large as the larger of the two."""

    def entries(self, law: IndependentEntries, count: int) -> Any:
        """Independent numbers of this law, of variance 1."""


@dataclass(frozen=True)
class OfNumPy:
    """NumPy's generator, which is advanced."""

    rng: np.random.Generator

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normal numbers."""
        return self.rng.standard_normal(shape)

    def frame(self, n: int, columns: int) -> Array:
        """A uniform frame of orthonormal columns in R^n, (n, columns)."""
        return frame(n, columns, self.rng.standard_normal)

    def block(self, n_out: int, n_in: int) -> Array:
        """The upper left of a Haar matrix as large as the larger of the two."""
        size = max(n_out, n_in)
        return self.frame(size, size)[:n_out, :n_in]

    def entries(self, law: IndependentEntries, count: int) -> Array:
        """Independent numbers of this law, of variance 1."""
        return entries(law, count, self.rng)


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
    if isinstance(weights, FourMoments):
        return float(np.sqrt(number(weights.C_W))) * permuted(weights, shape, rng)
    return np.asarray(
        product(weight_factors(weights, shape, OfNumPy(rng), zero_padded=zero_padded))
    )


def product(factors: list[Any]) -> Any:
    """The product of matrices, multiplied from the left."""
    first, *others = factors
    for each in others:
        first = first @ each
    return first


def weight_factors(
    weights: WeightEnsemble,
    shape: tuple[int, int],
    source: Source,
    *,
    zero_padded: bool = False,
) -> list[Any]:
    """Matrices whose product is W, the last to act first: two of its rank, where that is low.

    Their numbers are drawn from `source`; the other arguments and refusals are those of
    `weight_matrix`.
    """
    n_out, n_in = shape
    C, ratio = number(weights.C_W), n_out / n_in
    match weights:
        case Gaussian():
            return [float(np.sqrt(C / n_in)) * source.normal(shape)]
        case Orthogonal():
            size = max(shape)
            scale = C if size == n_in else C * size / n_in
            return [float(np.sqrt(scale)) * source.block(n_out, n_in)]
        case LowRankOrthogonal():
            rank = round(float(weights.gamma) * n_out)
            if rank > n_in:
                raise InputError("gamma", weights.gamma, f"a rank of at most the width {n_in}")
            U = float(np.sqrt(C * n_out / rank)) * source.frame(n_out, rank)
            if zero_padded:
                return [np.concatenate([U, np.zeros((n_out, n_in - rank))], axis=1)]
            return [U, source.frame(n_in, rank).T]
        case LowRankGaussian():
            rank = round(float(weights.gamma) * n_out)
            A = float(np.sqrt(C * ratio / rank)) * source.normal((rank, n_in))
            # of full rank, a square frame leaves the law of A as it is
            return [A] if rank == n_out else [source.frame(n_out, rank), A]
        case Truncated():
            size = round(float(weights.ratio) * max(shape))
            return [float(np.sqrt(C * size / n_in)) * source.frame(size, n_in)[:n_out]]
        case IndependentEntries():
            drawn = source.entries(weights, n_out * n_in).reshape(shape)
            return [float(np.sqrt(C / n_in)) * drawn]
        case BiInvariant():
            count = min(shape)
            squares = np.resize(singular_values(weights, n_in, count), count)
            S = np.sqrt(squares * (C * ratio))
            return [source.frame(n_out, count) * S, source.frame(n_in, count).T]
    raise InputError("weights", str(weights), "an ensemble that can be sampled")


@cache(entries=64)  # asked for at every matrix
def number(value: sympy.Expr) -> float:
    """A variance as a float: sympy takes its time."""
    return float(value)


def frame(n: int, columns: int, normal: Callable[[int], Array]) -> Array:
    """A uniform frame of orthonormal columns in R^n, (n, columns), columns at most n.

    Q of a Gaussian matrix, as of `frames`, by Householder's reflections. The one of column k meets
    n − k fresh Gaussian numbers, as those before it leave the law of the rest as it is: these are
    drawn, and nothing else (Stewart, *SIAM J. Numer. Anal.* 17, 403, 1980).
    """
    from scipy.linalg import lapack  # noqa: PLC0415  (a fifth of a second to import)

    below = _below(n, columns)
    x = np.zeros((columns, n))
    x[below] = normal(int(np.count_nonzero(below)))
    head = np.diagonal(x).copy()
    length = np.where(head < 0, -1.0, 1.0) * np.sqrt(np.einsum("ij,ij->i", x, x))
    x /= (head + length)[:, None]  # LAPACK's: the first entry is 1, and not looked at
    reflections = 1.0 + head / length
    Q, _, info = lapack.dorgqr(x.T, reflections, lwork=_BLOCK * columns, overwrite_a=1)
    if info:
        raise ArithmeticError(f"LAPACK refused a frame of {columns} columns: {info}")
    Q *= -np.sign(length)
    return np.asarray(Q)


_BLOCK = 64
"""Columns that LAPACK may take at a time."""


@cache(entries=4)
def _below(n: int, columns: int) -> NDArray[np.bool_]:
    """Where the transpose of (n, columns) is on or below its diagonal."""
    return np.arange(n) >= np.arange(columns)[:, None]


def frames(gaussian: Array) -> Array:
    """Q of G = Q R with R's diagonal positive, (…, n, columns): uniform for Gaussian G.

    Such a Q is unique, so a rotation of G, which leaves its law alone, rotates Q.
    """
    Q, R = np.linalg.qr(gaussian)
    signs = np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return np.asarray(Q * signs[..., None, :])
