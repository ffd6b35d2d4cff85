"""Weight matrices that are sampled only on the vectors they meet; exact in law at every width.

The rows of X are m vectors. With X = √n_in Rᵀ Q, Q an orthonormal basis of their span,

    W Xᵀ = √C_W G R                 Gaussian W, G standard normal, n_out × rank
    W Xᵀ = √(C_W N) F R             a block of a Haar matrix on N ≥ n_in, n_out,
                                    F the first n_out rows of a uniform frame, N × rank

at a cost of O(n m²). The other ensembles are products of such factors (`steps`). Vectors may
repeat, be collinear or vanish: R comes from their Gram matrix only where that keeps its digits,
else from Gram–Schmidt with pivoting on the vectors themselves. Source: derived here; the
conditioning technique of Bolthausen (*Commun. Math. Phys.* 325, 2014).
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import NamedTuple

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
from derive.work.resources import check_memory, number

from ..arrays import Array
from ..emit.jit import driver, reduction
from .permuted import check_core
from .philox import fill_normals, padded

GAUSSIAN, HAAR, DIAGONAL, ENTRIES = 0, 1, 2, 3
"""The kinds of factors of a weight matrix."""

BIAS, COLUMN, FACTOR = 0, 1, 1 << 20
"""Streams of a layer: its biases; column k of its factor t is COLUMN + FACTOR·t + k."""


class Step(NamedTuple):
    """One factor of a weight matrix, with `size` rows.

    GAUSSIAN: entries N(0, scale²). HAAR: scale times a block of a Haar matrix of dimension `big`.
    DIAGONAL: scale times square roots of the values, over and over. ENTRIES: scale times entries of
    a law of variance 1 (`random.entries`), which no vector's product has a simpler law for.
    """

    kind: int
    size: int
    big: int
    scale: float
    values: tuple[float, ...] = ()


@singledispatch
def steps(ensemble: WeightEnsemble, n_in: int, n_out: int) -> list[Step]:
    """The factors of W, the first to act first; their product has E[W_ij²] = C_W/n_in.

    Raises:
        InputError: for an ensemble that cannot be sampled, or not at these widths.
    """
    raise InputError("weights", str(ensemble), "an ensemble that can be sampled")


@steps.register
def _(ensemble: Gaussian, n_in: int, n_out: int) -> list[Step]:
    return [Step(GAUSSIAN, n_out, n_out, math.sqrt(_number(ensemble, "C_W") / n_in))]


@steps.register
def _(ensemble: Orthogonal, n_in: int, n_out: int) -> list[Step]:
    return [_block(ensemble, max(n_in, n_out), n_in, n_out)]


@steps.register
def _(ensemble: Truncated, n_in: int, n_out: int) -> list[Step]:
    return [_block(ensemble, _whole(ensemble, "ratio", max(n_in, n_out)), n_in, n_out)]


@steps.register
def _(ensemble: LowRankGaussian, n_in: int, n_out: int) -> list[Step]:
    rank = _whole(ensemble, "gamma", n_out)
    scale = math.sqrt(_number(ensemble, "C_W") / (_number(ensemble, "gamma") * n_in))
    return [Step(GAUSSIAN, rank, rank, scale), Step(HAAR, n_out, n_out, 1.0)]


@steps.register
def _(ensemble: LowRankOrthogonal, n_in: int, n_out: int) -> list[Step]:
    rank = _whole(ensemble, "gamma", n_out)
    if rank > n_in:
        raise InputError("gamma", ensemble.gamma, f"a rank of at most the width {n_in}")
    scale = math.sqrt(_number(ensemble, "C_W") / _number(ensemble, "gamma"))
    return [Step(HAAR, rank, n_in, scale), Step(HAAR, n_out, n_out, 1.0)]


@steps.register
def _(ensemble: IndependentEntries, n_in: int, n_out: int) -> list[Step]:
    return [Step(ENTRIES, n_out, n_out, math.sqrt(_number(ensemble, "C_W") / n_in))]


@steps.register
def _(ensemble: FourMoments, n_in: int, n_out: int) -> list[Step]:
    check_core(ensemble, n_in, n_out)
    return [Step(ENTRIES, n_out, n_out, math.sqrt(_number(ensemble, "C_W")))]


@steps.register
def _(ensemble: BiInvariant, n_in: int, n_out: int) -> list[Step]:
    if not ensemble.moments:
        raise InputError("moments", (), "numbers, to sample the weights")
    values = singular_values(ensemble, n_in, min(n_in, n_out))
    scale = math.sqrt(_number(ensemble, "C_W") * n_out / n_in)
    return [
        Step(HAAR, n_in, n_in, 1.0),
        Step(DIAGONAL, n_out, n_out, scale, values),
        Step(HAAR, n_out, n_out, 1.0),
    ]


@cache(entries=64)  # asked for at every matrix
def singular_values(ensemble: BiInvariant, n_in: int, count: int) -> tuple[float, ...]:
    """The squares of as many singular values, equally frequent, as there are trace moments.

    In units of p_1, for a scale of the moments is none of the weights, they are the roots of the
    polynomial whose power sums are the moments (Newton's identities).

    Raises:
        InputError: for symbols, if they are not real, or `count` is not a multiple of their number.
    """
    moments, size = ensemble.moments, len(ensemble.moments)
    if not moments or not all(sympy.sympify(p).is_number for p in moments):
        raise InputError("moments", moments, "numbers (p_1, p_2, …), to be sampled")
    if count % size:
        raise InputError("moments", moments, f"a number of moments that divides the width {count}")
    sums = [sympy.Rational(size * n_in, count) * sympy.nsimplify(p) for p in ensemble.ratios(size)]
    elementary = [sympy.Integer(1)]
    for k in range(1, size + 1):
        signed = ((-1) ** (j - 1) * elementary[k - j] * sums[j - 1] for j in range(1, k + 1))
        elementary.append(sympy.Add(*signed) / k)
    x = sympy.Dummy()
    coefficients = [(-1) ** k * value for k, value in enumerate(elementary)]
    roots = sympy.Poly(coefficients, x).nroots(n=30, maxsteps=200)
    if any(abs(sympy.im(root)) > 1e-12 or sympy.re(root) < -1e-12 for root in roots):
        raise InputError("moments", moments, f"moments of {size} equally frequent squares")
    return tuple(max(float(sympy.re(root)), 0.0) for root in roots)


def _block(ensemble: WeightEnsemble, big: int, n_in: int, n_out: int) -> Step:
    return Step(HAAR, n_out, big, math.sqrt(_number(ensemble, "C_W") * big / n_in))


def _number(ensemble: WeightEnsemble, name: str) -> float:
    value = getattr(ensemble, name)
    try:
        return float(value)
    except TypeError:
        raise InputError(name, value, "a number, not a symbol") from None


def _whole(ensemble: WeightEnsemble, name: str, width: int) -> int:
    size, given = _number(ensemble, name) * width, getattr(ensemble, name)
    near = math.isfinite(size) and math.isclose(size, round(size), rel_tol=1e-12)
    if not near or round(size) < 1:
        raise InputError(name, given, f"a whole part of the width {width}")
    check_memory(name, given, 32 * round(size), f"vectors of {number(round(size))} neurons")
    return round(size)


@reduction
def sum_of(x: Array) -> float:
    """The sum of x."""
    found = 0.0
    for i in range(x.size):
        found += x[i]
    return found


@reduction
def dot(x: Array, y: Array) -> float:
    """x·y."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@reduction
def four_dots(x: Array, Y: Array) -> tuple[float, float, float, float]:
    """x·y for the four rows y of Y."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(x.size):
        a += x[i] * Y[0, i]
        b += x[i] * Y[1, i]
        c += x[i] * Y[2, i]
        d += x[i] * Y[3, i]
    return a, b, c, d


@driver
def gram(X: Array, S: Array) -> None:
    """S ← X Xᵀ/n for X (m, n)."""
    m, n = X.shape
    for a in range(m):
        whole = (a + 1) - (a + 1) % 4
        for b in range(0, whole, 4):
            dots = four_dots(X[a], X[b : b + 4])
            for k in range(4):
                S[a, b + k] = dots[k] / n
        for b in range(whole, a + 1):
            S[a, b] = dot(X[a], X[b]) / n
        for b in range(a):
            S[b, a] = S[a, b]


@driver
def grams(X: Array, S: Array) -> None:
    """S ← X Xᵀ/n of each draw: X (draws, m, n)."""
    for s in range(X.shape[0]):
        gram(X[s], S[s])


@driver
def add_multiple(x: Array, factor: float, y: Array) -> None:
    """x ← x + factor·y."""
    for i in range(x.size):
        x[i] += factor * y[i]


@driver
def put_multiple(x: Array, factor: float, y: Array) -> None:
    """x ← factor·y."""
    for i in range(x.size):
        x[i] = factor * y[i]


KEPT = 1e-4
"""The part of a vector's square outside the span of those before that a Gram matrix must show."""


@driver
def cholesky(S: Array, R: Array) -> int:
    """R with S = RᵀR, R[k, a] = 0 for a < k; the rank, or −1 where a pivot loses its digits.

    Zero vectors are passed over. The other pivots keep a part `KEPT` or more of the diagonal.
    """
    m, rank = S.shape[0], 0
    for a in range(m):
        if S[a, a] == 0.0:
            continue
        for b in range(a):
            R[rank, b] = 0.0
        for b in range(a, m - (m - a) % 4, 4):
            w, x, y, z = S[a, b], S[a, b + 1], S[a, b + 2], S[a, b + 3]
            for k in range(rank):
                along = R[k, a]
                w -= along * R[k, b]
                x -= along * R[k, b + 1]
                y -= along * R[k, b + 2]
                z -= along * R[k, b + 3]
            R[rank, b], R[rank, b + 1], R[rank, b + 2], R[rank, b + 3] = w, x, y, z
        for b in range(m - (m - a) % 4, m):
            w = S[a, b]
            for k in range(rank):
                w -= R[k, a] * R[k, b]
            R[rank, b] = w
        pivot = R[rank, a]
        if not pivot > KEPT * S[a, a]:
            return -1
        norm = 1.0 / math.sqrt(pivot)
        for b in range(a, m):
            R[rank, b] *= norm
        rank += 1
    return rank


@driver
def divide(U: Array, R: Array, rank: int) -> None:
    """R ← U⁻¹ R for an upper triangle U, on the first rows."""
    m = R.shape[1]
    for k in range(rank - 1, -1, -1):
        norm = 1.0 / U[k, k]
        for b in range(0, m - m % 4, 4):
            w, x, y, z = R[k, b], R[k, b + 1], R[k, b + 2], R[k, b + 3]
            for j in range(k + 1, rank):
                along = U[k, j]
                w -= along * R[j, b]
                x -= along * R[j, b + 1]
                y -= along * R[j, b + 2]
                z -= along * R[j, b + 3]
            R[k, b], R[k, b + 1] = norm * w, norm * x
            R[k, b + 2], R[k, b + 3] = norm * y, norm * z
        for b in range(m - m % 4, m):
            w = R[k, b]
            for j in range(k + 1, rank):
                w -= U[k, j] * R[j, b]
            R[k, b] = norm * w


@driver
def combine(R: Array, rank: int, G: Array, Z: Array) -> None:
    """Z ← Rᵀ G: Z (m, n) from the first n entries of the rows of G."""
    n = Z.shape[1]
    for a in range(Z.shape[0]):
        used = rank
        while used > 0 and R[used - 1, a] == 0.0:
            used -= 1
        row = Z[a]
        row.fill(0.0)
        for k in range(0, used - used % 4, 4):
            w, x, y, z = R[k, a], R[k + 1, a], R[k + 2, a], R[k + 3, a]
            for i in range(n):
                row[i] += w * G[k, i] + x * G[k + 1, i] + y * G[k + 2, i] + z * G[k + 3, i]
        for k in range(used - used % 4, used):
            add_multiple(row, R[k, a], G[k, :n])


@driver
def triangle(X: Array, Q: Array, R: Array, squares: Array) -> int:
    """Factor X = Rᵀ Q with Q orthonormal rows, and return the rank: rows of Q and R in use.

    Arguments:
        X: (m, n), the vectors; destroyed.
        Q: (m, n), filled with the basis.
        R: (m, m), filled with the coefficients, R[k, a] of basis vector k in vector a.
        squares: (2, m), room for squared lengths.

    The pivot is the vector with the largest part, relative to its own length, outside the span of
    those before; the factorization ends where rounding alone is left. So a short vector keeps its
    direction beside a long one, and a zero vector has none.
    """
    m, n = X.shape
    tolerance = (16.0 * n * 2.0**-52) ** 2
    whole, rest = squares[0], squares[1]  # rest: outside the span so far, −1 once in the basis
    for a in range(m):
        whole[a] = rest[a] = dot(X[a], X[a])
        for k in range(m):
            R[k, a] = 0.0
    for rank in range(min(m, n)):
        pivot, largest = -1, tolerance
        for a in range(m):
            if rest[a] > largest * whole[a]:
                pivot, largest = a, rest[a] / whole[a]
        if pivot < 0:
            return rank
        for k in range(rank):  # what rounding left along the basis
            along = dot(Q[k], X[pivot])
            add_multiple(X[pivot], -along, Q[k])
            R[k, pivot] += along
        norm = math.sqrt(dot(X[pivot], X[pivot]))
        put_multiple(Q[rank], 1.0 / norm, X[pivot])
        R[rank, pivot] = norm
        rest[pivot] = -1.0
        for a in range(m):
            if rest[a] >= 0.0:
                R[rank, a] = dot(Q[rank], X[a])
                add_multiple(X[a], -R[rank, a], Q[rank])
                rest[a] = dot(X[a], X[a])
    return int(min(m, n))


@driver
def orthonormalise(G: Array, size: int) -> None:
    """Make the rows G[k, :size] orthonormal, in order and keeping their side: QR with R_kk > 0.

    A standard normal G becomes a uniform frame, because the sign of R's diagonal is fixed.
    """
    for k in range(G.shape[0]):
        row = G[k, :size]
        for _ in range(2):  # twice is enough: Giraud, Langou and Rozložník (2005)
            for j in range(k):
                add_multiple(row, -dot(G[j, :size], row), G[j, :size])
        put_multiple(row, 1.0 / math.sqrt(dot(row, row)), row)


@driver
def factorise(S: Array, X: Array, R: Array, spare: tuple[Array, Array, Array]) -> int:
    """R with S = X Xᵀ/n = RᵀR, and its rank.

    Arguments:
        S, X: the Gram matrix and the vectors (m, n).
        spare: two more (m, n) and (2, m): room for what S alone cannot do.
    """
    rank = cholesky(S, R)
    if rank < 0:
        copy, basis, squares = spare
        for a in range(X.shape[0]):
            put_multiple(copy[a], 1.0, X[a])
        rank = triangle(copy, basis, R, squares)
        for k in range(rank):
            put_multiple(R[k], 1.0 / math.sqrt(X.shape[1]), R[k])
    return rank


@driver
def fill_columns(
    G: Array, drawn: int, draw: int, source: tuple[NDArray[np.uint64], int, int]
) -> None:
    """The normal numbers of a factor's columns, `drawn` in each row of G, and zeros behind them.

    Arguments:
        draw: the network's number.
        source: as of `apply`.
    """
    key, layer, use = source
    for k in range(G.shape[0]):
        fill_normals(G[k], key, draw, layer, use + k)
        for i in range(drawn, G.shape[1]):
            G[k, i] = 0.0


@driver
def apply(
    S: Array,
    X: Array,
    Z: Array,
    W: Array,
    draws: NDArray[np.int64],
    factor: tuple[int, int, float],
    source: tuple[NDArray[np.uint64], int, int],
) -> None:
    """Z ← W Xᵀ, transposed, for a factor W of each draw: (draws, vectors, n).

    Arguments:
        S: X Xᵀ/n_in of each draw, (draws, vectors, vectors).
        W: of a block of a Haar matrix on N what the normal numbers that its frame is made of do to
            X instead, √(C_W) G R, (draws, vectors, N); (draws, vectors, 0) where that is not asked.
        draws: the networks' numbers, in the order of X.
        factor: (GAUSSIAN or HAAR, big, scale) of a `Step`.
        source: (key, layer, stream of the first column) of the random numbers.
    """
    kind, big, scale = factor
    _, vectors, n_in = X.shape
    drawn = big if kind == HAAR else Z.shape[2]
    scale *= math.sqrt(n_in)
    G, square = np.empty((vectors, padded(drawn))), (vectors, vectors)
    R, U, rows = np.empty(square), np.empty(square), np.empty(square)
    spare = (np.empty((vectors, n_in)), np.empty((vectors, n_in)), np.empty((2, vectors)))
    for s in range(draws.size):
        rank = factorise(S[s], X[s], R, spare)
        fill_columns(G[:rank], drawn, draws[s], source)
        if kind == HAAR:
            if W.shape[2]:
                combine(R, rank, G, W[s])
                for a in range(vectors):
                    put_multiple(W[s, a], scale / math.sqrt(big), W[s, a])
            orthogonal(G[:rank], drawn, R, rows[:rank], U[:rank])
        for k in range(rank):
            put_multiple(R[k], scale, R[k])
        combine(R, rank, G, Z[s])


@driver
def orthogonal(G: Array, size: int, R: Array, S: Array, U: Array) -> None:
    """Change R, or G itself, so that Rᵀ G becomes Rᵀ F with F the frame of G = (QR, R_kk > 0).

    Arguments:
        G: rows of `size` normals, then zeros.
        S, U: room for two matrices of as many rows.
    """
    rank = G.shape[0]
    gram(G, S)
    if cholesky(S, U) == rank:
        divide(U, R, rank)
        for k in range(rank):
            put_multiple(R[k], 1.0 / math.sqrt(G.shape[1]), R[k])
    else:
        orthonormalise(G, size)


@driver
def add_bias(
    C_b: float,
    Z: Array,
    samples: int,
    draws: NDArray[np.int64],
    source: tuple[NDArray[np.uint64], int],
) -> None:
    """Add b with b_i ~ N(0, C_b) to the first rows of each draw: one b per neuron, shared."""
    key, layer = source
    n = Z.shape[2]
    b = np.empty(padded(n))
    for s in range(draws.size):
        fill_normals(b, key, draws[s], layer, BIAS)
        for a in range(samples):
            add_multiple(Z[s, a], math.sqrt(C_b), b[:n])


PARTS = fill_normals, gram, cholesky, triangle, factorise, fill_columns, divide, combine, orthogonal
"""Functions that the kernels of samplers call, compiled once for all of them."""
