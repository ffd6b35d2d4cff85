"""Weights P W₀ Q: a matrix W₀ that is drawn, its rows and columns permuted, with random signs.

Of a regular sparse one W₀'s row i has its entries in the columns i k, …, i k + k − 1, counted
modulo n_in, k = p n_in: the columns then have p n_out each.

Moments of four weights are all that enters at order 1/n if, with w_i the rows of W₀ at C_W = 1,

    n E x²/(1 + x) → 0    for x = (|w_i|² − 1)², Σ_j W_ij⁴, (w_i·w_k)² of two rows.

Given the layer below, two neurons are normal of covariance w_i·w_k but for Σ_j W_ij⁴ and the like,
and each x is of order 1/n on average. An average over them is its Taylor series up to x, but for
E x^{3/2} ≤ (E x E x²)^{1/2} = o(1/n) where x is small, and for E x elsewhere. Otherwise a part 1/n
of the rows, or of the pairs, is another in the limit, and all its cumulants are of order 1/n.
Columns may differ by any amount: with squared lengths c_j at C_W = 1, six weights bring at most
n^{-3} Σ_j c_j³ = O(n^{-3/2}), as `column` of order n^{-2} has Σ_j c_j² = O(n). Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

import numpy as np
import sympy

from derive.errors import InputError
from derive.weights import FourMoments, Permuted, RegularSparse
from derive.weights.permuted import MOMENTS
from derive.work.caches import cache
from derive.work.resources import check_memory

from ..arrays import Array
from .entries import entries

_MATRICES, _BOUND = 16, 10.0
"""Matrices whose moments are looked at, and how many standard errors they may be off: Student's t
of 15 degrees is beyond with probability 5e-8."""
_LIMIT = ((128, 16), (512, 16), (2048, 2))
"""The larger width where rows are looked at for the limit, and how many matrices of each: the last
where the others do not tell."""
_LEAST = 32
"""The smaller width beside 512."""
_FALLS, _NOTHING = 0.4, 1e-4
"""The part of n E x²/(1 + x) allowed at a width four times larger, where x² ~ n^{-2} leaves a
quarter and a limit other than 0 all; and what is too little to be seen."""
_LARGE, _FEW = 0.5, 0.1
"""n E[x; x > 1/2] is a half and more of one such row, whatever the others are, and falls faster
than any power in their absence; what of it may be there."""
_STAYS, _RARE = 0.7, 0.05
"""The part that remains at the next width, and of n at most, if it is said to be constant."""
_OFF = 4.5
"""Standard errors by which a row is off in each half of the matrices."""
_ROUNDING = 1e-6
"""Of a moment, or of 1/n_in² where that is larger: what single precision may bring."""


def permuted(law: FourMoments, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """P W₀ Q of shape (n_out, n_in) at C_W = 1, from NumPy's generator, which it advances.

    Raises InputError for a law that cannot be sampled, or not at these widths.
    """
    n_out, n_in = shape
    check_core(law, n_in, n_out)
    core = _core(law, n_out, n_in, rng)
    core = core[rng.permutation(n_out)][:, rng.permutation(n_in)]
    core *= rng.choice([-1.0, 1.0], (n_out, 1))
    core *= rng.choice([-1.0, 1.0], n_in)
    return core


def check_core(law: FourMoments, n_in: int, n_out: int) -> None:
    """Raise InputError where W₀ of these widths cannot be drawn."""
    if isinstance(law, Permuted) and law.matrix is None:
        wanted = "matrix=…, a function that draws W₀, to be sampled"
        raise InputError("weights", str(law), wanted)
    if isinstance(law, RegularSparse):
        _counts(law, n_in, n_out)
    elif isinstance(law, Permuted):
        _check_moments(law, n_in, n_out)


@cache(entries=64)  # asked for at every matrix
def _check_moments(law: Permuted, n_in: int, n_out: int) -> None:
    """Raise InputError where what is drawn has other moments than the law: by `_BOUND` errors."""
    if min(n_in, n_out) < 2:
        raise InputError("n_in, n_out", (n_in, n_out), "two neurons or more, to be permuted")
    rng = np.random.default_rng(0)
    drawn = np.array([sums(_core(law, n_out, n_in, rng)) for _ in range(_MATRICES)])
    given = law.moments(sympy.Integer(n_in), sympy.Integer(n_out))
    if symbols := sympy.Tuple(*given).free_symbols:
        missing = ", ".join(sorted(map(str, symbols)))
        raise InputError("weights", str(law), f"numbers for {missing}, to be sampled")
    errors = drawn.std(axis=0) / np.sqrt(_MATRICES - 1)
    names = ("second", *MOMENTS)
    for name, mean, error, value in zip(
        names, drawn.mean(axis=0), errors, (1 / n_in, *map(float, given)), strict=True
    ):
        if not abs(mean - value) <= _BOUND * error + _ROUNDING * max(abs(value), n_in**-2):
            got = f"matrices whose {name} moment is {mean:.9g} ± {error:.2g}"
            wanted = (
                f"{value:.9g}, at widths {n_in}, {n_out}, to {_BOUND:g} standard errors of "
                f"{_MATRICES} matrices; they do not know of what none of them shows"
            )
            raise InputError("matrix", got, wanted)


_TAILS = (
    "(|w_i|² − 1)², rows of other lengths",
    "Σ_j W_ij⁴, rows of few large entries",
    "(w_i·w_k)², rows along each other",
)


_FIXED = tuple(f"{name}, the same ones in all matrices" for name in _TAILS[:2])


def check_limit(law: FourMoments, r_in: float, r_out: float) -> None:
    """Raise InputError where W₀ is drawn and more than its moments of four enters at order 1/n.

    Arguments:
        law: any; those without a W₀ of the user's pass.
        r_in, r_out: the widths in units of n.
    """
    if isinstance(law, Permuted) and law.matrix is not None:
        _check_limit(law, r_in, r_out)


@cache(entries=64)
def _check_limit(law: Permuted, r_in: float, r_out: float) -> None:
    widths = [
        (round(r_in * n / max(r_in, r_out)), round(r_out * n / max(r_in, r_out))) for n, _ in _LIMIT
    ]
    if min(widths[1]) < _LEAST:
        wanted = (
            f"{_LEAST} or more neurons beside {_LIMIT[1][0]} for drawn weights, to be looked at; "
            "without matrix=… their moments of four are taken to be enough"
        )
        raise InputError("width_ratio", f"layers of {widths[1][0]} and {widths[1][1]}", wanted)
    list(_drawn(law, *widths[1], 1))  # of these widths at all
    _check_moments(law, *widths[1])
    found = [
        _looked_at(law, *sizes, count)
        for sizes, (_, count) in zip(widths[:2], _LIMIT[:2], strict=True)
    ]
    if not _told(found, widths):
        what = f"matrices of {widths[2][1]} x {widths[2][0]}"
        check_memory("matrix", str(law), 6 * 8 * max(widths[2]) ** 2, what)
        found.append(_looked_at(law, *widths[2], _LIMIT[2][1]))
        if not _told(found, widths):
            large = found[-1][1]
            at = int(np.argmax(large))
            got = f"n E[x; x > 1/2] = {large[at]:.3g} at n = {widths[2][1]} for x = {_TAILS[at]}"
            wanted = (
                "next to none: whether moments of six weights and more enter at order 1/n cannot "
                "be told at this width (independent sparse entries are Sparse(p), without matrix)"
            )
            raise InputError("matrix", got, wanted)
    last = len(found) - 2
    for names, at, part in ((_FIXED, 0, 2), (_TAILS, last, 0)):
        (_, n), (_, more) = widths[at : at + 2]
        for name, one, other in zip(names, found[at][part], found[at + 1][part], strict=True):
            if other > max(_FALLS * one, _NOTHING):
                got = f"n E x²/(1 + x) = {one:.3g} at n = {n}, {other:.3g} at {more} for x = {name}"
                raise InputError("matrix", got, _FALLING)


_FALLING = "one that falls as 1/n: else moments of six weights and more enter at order 1/n"


def _told(found: list[tuple[Array, Array, Array]], widths: list[tuple[int, int]]) -> bool:
    """True if there are no large x at the last width; InputError where they stay as they are."""
    (_, before, _), (_, large, _) = found[-2:]
    n, more = (sizes[1] for sizes in widths[len(found) - 2 : len(found)])
    for name, one, other in zip(_TAILS, before, large, strict=True):
        if other > max(_STAYS * one, _FEW) and other < _RARE * more:
            got = f"n E[x; x > 1/2] = {one:.3g} at n = {n}, {other:.3g} at {more} for x = {name}"
            wanted = "one that goes to 0: else moments of six weights and more enter at order 1/n"
            raise InputError("matrix", got, wanted)
    return bool((large <= _FEW).all())


def _looked_at(law: Permuted, n_in: int, n_out: int, count: int) -> tuple[Array, Array, Array]:
    """n_out times the averages of `tails` over so many matrices, and those of x² over the rows that
    are off in all of them (`_FIXED`)."""
    each, rows = [], []
    for W in _drawn(law, n_in, n_out, count):
        each.append(tails(W))
        rows.append([(W**2).sum(axis=1), (W**4).sum(axis=1)])
    smooth, large = n_out * np.mean(each, axis=0)
    lengths, fourths = (fixed(values) for values in np.swapaxes(rows, 0, 1))
    return smooth, large, np.array([(lengths**2).sum(), fourths.sum()])


def fixed(values: Array) -> Array:
    """δ² of each row whose average over matrices, (matrices, rows), is off the others' by δ; 0 of a
    row that is not in both halves of the matrices. Their chances do not correlate."""
    halves = [each.mean(axis=0) for each in np.array_split(values, 2)]
    off = np.array([each - each.mean() for each in halves])
    error = np.sqrt(2.0 * values.var(axis=0, ddof=1).mean() / len(values))
    seen = (abs(off) > _OFF * error).all(axis=0)
    return np.asarray(np.where(seen, off.prod(axis=0).clip(0.0), 0.0))


def _drawn(law: Permuted, n_in: int, n_out: int, count: int) -> Iterator[Array]:
    """So many W₀; InputError where `matrix` draws none of these widths."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        try:
            yield _core(law, n_out, n_in, rng)
        except MemoryError:
            raise
        except Exception as error:
            if isinstance(error, InputError) and not isinstance(error, _OtherShapeError):
                raise
            got = f"{type(error).__name__}: {error}"
            wanted = (
                f"a function that draws W₀ of shape {(n_out, n_in)} too, so that `flow` can tell "
                "whether moments of four weights are enough; without matrix=… it takes them for "
                "that"
            )
            raise InputError("matrix", got, wanted) from error


def tails(W: Array) -> tuple[list[float], list[float]]:
    """Averages over the rows of W, and their pairs, for the x of `_TAILS`: of x²/(1 + x), and of x
    where it is above 1/2."""
    gram = W @ W.T
    rows = len(W)
    lengths = np.diagonal(gram).copy()
    np.fill_diagonal(gram, 0.0)
    each = (lengths - 1.0) ** 2, (W**4).sum(axis=1), gram**2
    counts = (rows, rows, rows * max(1, rows - 1))
    smooth = [
        float((x**2 / (1.0 + x)).sum() / count) for x, count in zip(each, counts, strict=True)
    ]
    return smooth, [
        float(x[x > _LARGE].sum() / count) for x, count in zip(each, counts, strict=True)
    ]


def sums(W: Array) -> tuple[float, ...]:
    """Averages over the rows and columns of W: W_11², and those of `MOMENTS`, in their order."""
    (n_out, n_in), S = W.shape, W**2
    cells, above, across = n_out * n_in, n_out - 1, n_in - 1
    fourth, rows, columns = (S**2).sum(), (S.sum(1) ** 2).sum(), (S.sum(0) ** 2).sum()
    gram = W @ W.T if n_out <= n_in else W.T @ W
    return (
        float(S.sum()) / cells,
        float(fourth) / cells,
        float(rows - fourth) / (cells * across),
        float(columns - fourth) / (cells * above),
        float(S.sum() ** 2 - rows - columns + fourth) / (cells * across * above),
        float((gram**2).sum() - rows - columns + fourth) / (cells * across * above),
    )


class _OtherShapeError(InputError):
    """A matrix of other widths than was asked for."""


@singledispatch
def _core(law: FourMoments, n_out: int, n_in: int, rng: np.random.Generator) -> Array:
    raise InputError("weights", str(law), "an ensemble that can be sampled")


@_core.register
def _(law: Permuted, n_out: int, n_in: int, rng: np.random.Generator) -> Array:
    assert law.matrix is not None
    wanted = f"a function that returns finite real numbers of shape {(n_out, n_in)}"
    drawn = law.matrix(n_out, n_in, rng)
    try:
        found = np.asarray(drawn)
    except ValueError:
        raise InputError("matrix", "rows of unequal lengths", wanted) from None
    if found.dtype.kind not in "biuf":
        raise InputError("matrix", f"an array of type {found.dtype}", wanted)
    if found.shape != (n_out, n_in):
        raise _OtherShapeError("matrix", f"numbers of shape {found.shape}", wanted)
    if bad := int((~np.isfinite(found)).sum()):
        raise InputError("matrix", f"{bad} numbers that are infinite or NaN", wanted)
    return np.array(found, float)


@_core.register
def _(law: RegularSparse, n_out: int, n_in: int, rng: np.random.Generator) -> Array:
    count = _counts(law, n_in, n_out)
    columns = np.arange(n_out * count) % n_in
    if law.of is None:
        values = rng.standard_normal(columns.size)
    else:
        values = entries(law.of, columns.size, rng)
    found = np.zeros((n_out, n_in))
    found[np.repeat(np.arange(n_out), count), columns] = values / np.sqrt(count)
    return found


def _counts(law: RegularSparse, n_in: int, n_out: int) -> int:
    """p n_in, a whole number as p n_out is."""
    part = sympy.sympify(law.p)
    if not part.is_number:
        raise InputError("p", law.p, "a number, not a symbol, to be sampled")
    law.check_widths(n_in, n_out)
    return int(part * n_in)
