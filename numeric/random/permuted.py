"""Weights P W₀ Q: a matrix W₀ that is drawn, its rows and columns permuted, with random signs.

Of a regular sparse one W₀'s row i has its entries in the columns i k, …, i k + k − 1, counted
modulo n_in, k = p n_in: the columns then have p n_out each.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import sympy

from derive.errors import InputError
from derive.weights import FourMoments, Permuted, RegularSparse

from ..arrays import Array
from .entries import entries


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


@singledispatch
def _core(law: FourMoments, n_out: int, n_in: int, rng: np.random.Generator) -> Array:
    raise InputError("weights", str(law), "an ensemble that can be sampled")


@_core.register
def _(law: Permuted, n_out: int, n_in: int, rng: np.random.Generator) -> Array:
    assert law.matrix is not None
    found = np.array(law.matrix(n_out, n_in, rng), float)
    if found.shape != (n_out, n_in) or not np.isfinite(found).all():
        wanted = f"a function that returns finite numbers of shape {(n_out, n_in)}"
        raise InputError("matrix", f"numbers of shape {found.shape}", wanted)
    return found


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
    if not ((part * n_in).is_integer and (part * n_out).is_integer):
        raise InputError("p", law.p, f"whole parts of the widths {n_in} and {n_out}")
    return int(part * n_in)
