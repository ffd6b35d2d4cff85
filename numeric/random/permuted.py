"""Weights P W₀ Q: a matrix W₀ that is drawn, its rows and columns permuted, with random signs.

Of a regular sparse one W₀'s row i has its entries in the columns i k, …, i k + k − 1, counted
modulo n_in, k = p n_in: the columns then have p n_out each.
"""

from __future__ import annotations

from functools import lru_cache, singledispatch

import numpy as np
import sympy

from derive.errors import InputError
from derive.weights import FourMoments, Permuted, RegularSparse
from derive.weights.permuted import MOMENTS

from ..arrays import Array
from .entries import entries

_MATRICES, _BOUND = 16, 10.0
"""Matrices whose moments are looked at, and how many standard errors they may be off: Student's t
of 15 degrees is beyond with probability 5e-8."""
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


@lru_cache(maxsize=64)  # asked for at every matrix
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
    if found.shape != (n_out, n_in) or not np.isfinite(found).all():
        raise InputError("matrix", f"numbers of shape {found.shape}", wanted)
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
