"""Haar-random matrices of O(n), U(n), Sp(n) and Stiefel frames, and a check of exact moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sympy

from derive.errors import InputError
from derive.haar import haar_moment

Matrices = npt.NDArray[np.float64] | npt.NDArray[np.complex128]
BATCH = 2**22
"""Matrix entries held at once while a moment is checked."""


def orthogonal(n: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Haar-random O(n): `draws` matrices, shape (draws, n, n), by QR with R's diagonal positive."""
    return stiefel(n, n, draws, seed)


def stiefel(n: int, columns: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Uniform frames of orthonormal columns in R^n, shape (draws, n, columns): G = Q R with G
    Gaussian and R's diagonal positive."""
    if not _count(columns) or not _count(n) or columns > n:
        raise InputError("columns", (n, columns), "1 to n orthonormal columns in n dimensions")
    gaussian = _generator(draws, seed).standard_normal((draws, n, columns))
    q, r = np.linalg.qr(gaussian)
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    frames: npt.NDArray[np.float64] = q * signs[:, None, :]
    return frames


def unitary(n: int, draws: int, seed: int) -> npt.NDArray[np.complex128]:
    """Haar-random U(n), shape (draws, n, n), by QR with R's diagonal positive."""
    if not _count(n):
        raise InputError("n", n, "a positive integer")
    parts = _generator(draws, seed).standard_normal((2, draws, n, n))
    q, r = np.linalg.qr(parts[0] + 1j * parts[1])
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    matrices: npt.NDArray[np.complex128] = q * (diagonal / np.abs(diagonal))[:, None, :]
    return matrices


def symplectic(n: int, draws: int, seed: int) -> npt.NDArray[np.complex128]:
    """Haar-random Sp(n), unitary with S J Sᵀ = J, J = [[0, 1], [−1, 0]], shape (draws, n, n).

    The unitary polar factor of a Gaussian matrix [[A, B], [−B̄, Ā]], whose law both sides of the
    group leave alone.
    """
    if not _count(n) or n % 2:
        raise InputError("n", n, "a positive even integer")
    half = n // 2
    parts = _generator(draws, seed).standard_normal((4, draws, half, half))
    a, b = parts[0] + 1j * parts[1], parts[2] + 1j * parts[3]
    left, _, right = np.linalg.svd(np.block([[a, b], [-b.conj(), a.conj()]]))
    matrices: npt.NDArray[np.complex128] = left @ right
    return matrices


SAMPLERS: Mapping[str, Callable[[int, int, int], Matrices]] = {
    "O": orthogonal,
    "U": unitary,
    "Sp": symplectic,
}


@dataclass(frozen=True)
class HaarCheck:
    """An exact moment beside its Monte Carlo estimate (real part) and standard error."""

    exact: sympy.Rational
    mean: float
    standard_error: float

    @property
    def z(self) -> float:
        """(mean − exact)/standard error; 0 where every draw gives the exact value to rounding."""
        difference = self.mean - float(self.exact)
        rounding = 1e-12 * max(1.0, abs(self.mean))
        if abs(difference) <= rounding:
            return 0.0
        return difference / self.standard_error if self.standard_error else float("inf")


def check(
    rows: Sequence[int],
    cols: Sequence[int],
    n: int,
    group: str = "O",
    *,
    conj_rows: Sequence[int] = (),
    conj_cols: Sequence[int] = (),
    draws: int = 100_000,
    seed: int = 0,
) -> HaarCheck:
    """Compare `haar_moment` of integer indices with the average over `draws` sampled matrices.

    Equal seeds give equal numbers. Raises InputError as `haar_moment` does, and for fewer than two
    draws.
    """
    if not _count(n) or not all(isinstance(i, int) for i in (*rows, *cols, *conj_rows, *conj_cols)):
        raise InputError("rows, cols", (rows, cols), "integer indices at an integer dimension n")
    exact = haar_moment(rows, cols, n, group, conj_rows=conj_rows, conj_cols=conj_cols)
    if not _count(draws) or draws < 2:
        raise InputError("draws", draws, "2 draws or more")
    plain = (np.array(rows, int) - 1, np.array(cols, int) - 1)
    bars = (np.array(conj_rows, int) - 1, np.array(conj_cols, int) - 1)
    batch = max(1, min(draws, BATCH // n**2))
    sizes = [min(batch, draws - start) for start in range(0, draws, batch)]
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes), np.uint64)
    samples = np.concatenate(
        [
            _products(SAMPLERS[group](n, size, int(each)), plain, bars)
            for size, each in zip(sizes, seeds, strict=True)
        ]
    )
    return HaarCheck(exact, float(samples.mean()), float(samples.std(ddof=1) / np.sqrt(draws)))


def _products(
    matrices: Matrices,
    plain: tuple[npt.NDArray[np.int_], ...],
    bars: tuple[npt.NDArray[np.int_], ...],
) -> npt.NDArray[np.float64]:
    entries = matrices[:, plain[0], plain[1]].prod(axis=1)
    conjugated = matrices[:, bars[0], bars[1]].conj().prod(axis=1)
    real: npt.NDArray[np.float64] = np.real(entries * conjugated)
    return real


def _generator(draws: int, seed: int) -> np.random.Generator:
    if not _count(draws):
        raise InputError("draws", draws, "a positive integer")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise InputError("seed", seed, "a whole number from 0 to 2^64 - 1")
    return np.random.default_rng(seed)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
