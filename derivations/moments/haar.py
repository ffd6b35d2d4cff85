"""Haar-random matrices of O(n), U(n), Sp(n) and Stiefel frames, and a check of exact moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sympy

from derive.errors import InputError, as_integer, as_sequence
from derive.groups.moments import Index, haar_moment
from derive.work.progress import telling
from derive.work.resources import check_memory, check_time, number
from numeric import checks
from numeric.random.matrices import frames

Matrices = npt.NDArray[np.float64] | npt.NDArray[np.complex128]
BATCH = 2**22
"""Matrix entries held at once while a moment is checked."""

_HELD = 128
"""Bytes for an entry while it is sampled."""

_RATE = 10**8
"""n³ + 100 of the matrices that are sampled in a second, or more."""


def orthogonal(n: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Haar-random O(n), (draws, n, n).

    >>> Q = orthogonal(3, draws=5, seed=0)
    >>> Q.shape, bool(np.allclose(Q @ Q.transpose(0, 2, 1), np.eye(3)))
    ((5, 3, 3), True)
    """
    return stiefel(n, n, draws, seed)


def stiefel(n: int, columns: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Uniform frames of orthonormal columns in R^n, (draws, n, columns): G = Q R, G Gaussian.

    With R's diagonal positive Q is unique. A rotation of G, which leaves its law alone, rotates Q.
    """
    return frames(_generator(seed).standard_normal((draws, n, columns)))


def unitary(n: int, draws: int, seed: int) -> npt.NDArray[np.complex128]:
    """Haar-random U(n), (draws, n, n), as in `stiefel`."""
    parts = _generator(seed).standard_normal((2, draws, n, n))
    q, r = np.linalg.qr(parts[0] + 1j * parts[1])
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    matrices: npt.NDArray[np.complex128] = q * (diagonal / np.abs(diagonal))[:, None, :]
    return matrices


def symplectic(n: int, draws: int, seed: int) -> npt.NDArray[np.complex128]:
    """Haar-random Sp(n), (draws, n, n): unitary, with S J Sᵀ = J, J = [[0, 1], [−1, 0]].

    The unitary polar factor of a Gaussian matrix [[A, B], [−B̄, Ā]], whose law both sides of the
    group leave alone. Raises InputError for odd n.
    """
    half, odd = divmod(n, 2)
    if odd:
        raise InputError("n", n, "a positive even integer")
    parts = _generator(seed).standard_normal((4, draws, half, half))
    a, b = parts[0] + 1j * parts[1], parts[2] + 1j * parts[3]
    left, _, right = np.linalg.svd(np.block([[a, b], [-b.conj(), a.conj()]]))
    matrices: npt.NDArray[np.complex128] = left @ right
    return matrices


def permutation(n: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Uniform permutation matrices, (draws, n, n): P_ij = 1 where i is the image of j."""
    columns = _generator(seed).permuted(np.tile(np.arange(n), (draws, 1)), axis=1)
    matrices: npt.NDArray[np.float64] = np.eye(n)[columns]
    return matrices


def signed_permutation(n: int, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Uniform permutation matrices whose entries have independent signs, (draws, n, n)."""
    signs = _generator(seed ^ 1).choice([-1.0, 1.0], (draws, 1, n))
    signed: npt.NDArray[np.float64] = permutation(n, draws, seed) * signs
    return signed


SAMPLERS: Mapping[str, Callable[[int, int, int], Matrices]] = {
    "O": orthogonal,
    "U": unitary,
    "Sp": symplectic,
    "S": permutation,
    "B": signed_permutation,
}


@dataclass(frozen=True)
class HaarCheck:
    """An exact moment beside its Monte Carlo estimate.

    Attributes:
        exact: of `haar_moment`.
        mean: over the draws, its real part.
        standard_error: of the mean.
    """

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
    """Compare `haar_moment` of integer indices with the average over sampled matrices.

    Arguments:
        rows, cols, conj_rows, conj_cols, n, group: as in `haar_moment`, all of them integers.
        draws: matrices, 2 or more.

    Raises InputError as `haar_moment` does, and for too many matrices.

    >>> found = check([1, 1], [1, 1], n=4, draws=1000)  # E Q_11² = 1/n
    >>> found.exact, abs(found.z) < 5
    (1/4, True)
    """
    n = as_integer("n", n, 1, wanted="an integer dimension n, to sample it")
    lists = {"rows": rows, "cols": cols, "conj_rows": conj_rows, "conj_cols": conj_cols}
    wanted = "a list of integer indices, to sample them"
    rows, cols, conj_rows, conj_cols = (
        [as_integer(name, index, 1, wanted=wanted) for index in as_sequence(name, given, wanted)]
        for name, given in lists.items()
    )
    draws, seed = as_integer("draws", draws, 2), checks.seed(seed)
    exact = haar_moment(rows, cols, n, group, conj_rows=conj_rows, conj_cols=conj_cols)
    plain = (np.array(rows, int) - 1, np.array(cols, int) - 1)
    bars = (np.array(conj_rows, int) - 1, np.array(conj_cols, int) - 1)
    batch = max(1, min(draws, BATCH // n**2))
    what = f"{number(draws)} matrices of dimension {number(n)}"
    check_memory("n", n, _HELD * n**2 * batch, what)
    check_memory("draws", draws, 24 * draws, what)
    seconds = draws * (n**3 + 100) // _RATE
    check_time("draws", draws, seconds, what)
    sizes = [min(batch, draws - start) for start in range(0, draws, batch)]
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes), np.uint64)
    parts = []
    with telling(f"sampling {what}", seconds, draws) as progress:
        for size, each in zip(sizes, seeds, strict=True):
            parts.append(_products(SAMPLERS[group](n, size, int(each)), plain, bars))
            progress.advance(size)
    samples = np.concatenate(parts)
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
    return np.random.default_rng(seed)
