"""Haar-random matrices of O(n), U(n), Sp(n) and Stiefel frames, and a check of exact moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sympy

from derive.errors import InputError, listed, whole
from derive.haar import Index, haar_moment

from . import checks

Matrices = npt.NDArray[np.float64] | npt.NDArray[np.complex128]
BATCH = 2**22
"""Matrix entries held at once while a moment is checked."""


def orthogonal(n: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Haar-random O(n): `draws` matrices, shape (draws, n, n), by QR with R's diagonal positive."""
    return stiefel(n, n, draws, seed)


def stiefel(n: int, columns: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Uniform frames of orthonormal columns in R^n, shape (draws, n, columns): G = Q R with G
    Gaussian and R's diagonal positive."""
    n, draws = whole("n", n, 1), whole("draws", draws, 1)
    columns = whole("columns", columns, 1, n, "1 to n orthonormal columns in n dimensions")
    gaussian = _generator(seed).standard_normal((draws, n, columns))
    q, r = np.linalg.qr(gaussian)
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    frames: npt.NDArray[np.float64] = q * signs[:, None, :]
    return frames


def unitary(n: int, draws: int, seed: int) -> npt.NDArray[np.complex128]:
    """Haar-random U(n), shape (draws, n, n), by QR with R's diagonal positive."""
    n, draws = whole("n", n, 1), whole("draws", draws, 1)
    parts = _generator(seed).standard_normal((2, draws, n, n))
    q, r = np.linalg.qr(parts[0] + 1j * parts[1])
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    matrices: npt.NDArray[np.complex128] = q * (diagonal / np.abs(diagonal))[:, None, :]
    return matrices


def symplectic(n: int, draws: int, seed: int) -> npt.NDArray[np.complex128]:
    """Haar-random Sp(n), unitary with S J Sᵀ = J, J = [[0, 1], [−1, 0]], shape (draws, n, n).

    The unitary polar factor of a Gaussian matrix [[A, B], [−B̄, Ā]], whose law both sides of the
    group leave alone.
    """
    half, odd = divmod(whole("n", n, 1), 2)
    if odd:
        raise InputError("n", n, "a positive even integer")
    draws = whole("draws", draws, 1)
    parts = _generator(seed).standard_normal((4, draws, half, half))
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
    rows: Sequence[Index],
    cols: Sequence[Index],
    n: int,
    group: str = "O",
    *,
    conj_rows: Sequence[Index] = (),
    conj_cols: Sequence[Index] = (),
    draws: int = 100_000,
    seed: int = 0,
) -> HaarCheck:
    """Compare `haar_moment` of integer indices with the average over `draws` sampled matrices.

    Equal seeds give equal numbers. Raises InputError as `haar_moment` does, and for fewer than two
    draws.
    """
    n = whole("n", n, 1, wanted="an integer dimension n, to sample it")
    lists = {"rows": rows, "cols": cols, "conj_rows": conj_rows, "conj_cols": conj_cols}
    wanted = "a list of integer indices, to sample them"
    rows, cols, conj_rows, conj_cols = (
        [whole(name, index, 1, wanted=wanted) for index in listed(name, given, wanted)]
        for name, given in lists.items()
    )
    draws, seed = whole("draws", draws, 2), checks.seed(seed)
    exact = haar_moment(rows, cols, n, group, conj_rows=conj_rows, conj_cols=conj_cols)
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


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(checks.seed(seed))
