"""Attention: weights A[t,s] of positions, functions of scores c[t,s] of two positions.

A set of neurons (a head) of d neurons has the scores

    c[t,s] = d^{-power} Σ_a q[a,t] k[a,s],     A[t,s] = softmax_s(c[t,s] + B[t,s]),

B a fixed table, −inf where s is masked; or A[t,s] = f(c[t,s] + B[t,s]) for an elementwise f; or
shaped, A = 1 + softmax(c + B) − softmax(B), which is 1 where scores vanish.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from ..activations.functions import Activation, as_activation
from ..errors import InputError, Words
from ..groups.pairings import mobius, set_partitions
from ..symbols import n, z
from ..work.caches import cache
from .trees import Kind

Array: TypeAlias = NDArray[np.float64]
Table: TypeAlias = "tuple[tuple[float, ...], ...]"
"""B[t][s], a row for each position."""

SOFTMAX, SHAPED = "softmax", "shaped"
OF_ALL = frozenset({SOFTMAX, SHAPED})
"""Functions of the scores of all positions s."""


class Scores(NamedTuple):
    """The scores of one attention, and the function that makes weights of them.

    Attributes:
        symbol: the name of c.
        query, key: the variables q and k; tied keys are the queries themselves.
        sets: the number of heads, of equal size, a number or a symbol.
        power: 1 for scores over d, 1/2 for scores over √d.
        function: f; None for the softmax over s.
        table: B; () for none.
        is_normal: True for scores of infinitely large queries and keys, which are Gaussian.
        shaped: True for 1 + softmax(c + B) − softmax(B).
    """

    symbol: sympy.Symbol
    query: Kind
    key: Kind
    sets: int | sympy.Expr = 1
    power: Fraction = Fraction(1)
    function: Activation | None = None
    table: Table = ()
    is_normal: bool = False
    shaped: bool = False

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.name if self.function else SHAPED if self.shaped else SOFTMAX

    @property
    def size(self) -> int | None:
        """d, the neurons of a head, where there are n/d heads; None for a number of heads."""
        found = sympy.sympify(n / self.sets)
        return int(found) if found.is_Integer else None

    @property
    def key_size(self) -> int | None:
        """The neurons of a query; None for infinitely many."""
        return None if self.is_normal else self.size

    def heads(self, width: int) -> int:
        """The number of heads of so many neurons.

        Raises InputError for neurons that do not fall into heads of one size, and for a symbol.
        """
        found = sympy.sympify(width / sympy.Integer(self.size) if self.size else self.sets)
        if not found.is_number:
            raise InputError("heads", found, "a number of heads, not a symbol, to be sampled")
        if not found.is_Integer or width % int(found):
            own = f"heads of {self.size} neurons" if self.size else f"{found} heads"
            raise InputError("width", width, f"a multiple, for {own}")
        return int(found)

    @property
    def is_tied(self) -> bool:
        """True if the scores have a limit other than 0."""
        return self.query.group == self.key.group

    def weights(self, limits: Array, order: int = 0) -> Array:
        """A, or its derivatives by scores, at these scores.

        Arguments:
            limits: c*[…, t, s].
            order: k, of the derivative ∂^k A[t,s] / ∂c[t,r_1] … ∂c[t,r_k].

        Returns:
            An array […, t, s, r_1, …, r_k].
        """
        scores = limits + np.array(self.table) if self.table else limits
        if self.function is not None:
            return _elementwise(self.function, scores, order)
        found = _softmax(scores, order)
        if self.shaped and not order:
            T = limits.shape[-1]
            found += np.eye(T) - _softmax(self.bias(T), 0)
        return found

    def bias(self, positions: int) -> Array:
        """B, (positions, positions); 0 where there is no table."""
        return np.array(self.table) if self.table else np.zeros((positions, positions))


def _softmax(scores: Array, order: int) -> Array:
    """The joint cumulant of order + 1 indicators of positions, s drawn with the chance A[t,s]: the
    derivatives of log Σ_s e^c."""
    T = scores.shape[-1]
    chances = scores - scores.max(axis=-1, keepdims=True)
    np.exp(chances, out=chances)
    chances /= chances.sum(axis=-1, keepdims=True)
    if not order:
        return np.asarray(chances)
    at = np.indices((T,) * (order + 1))
    total = np.zeros((*scores.shape[:-1], *at.shape[1:]))
    for blocks in set_partitions(tuple(range(order + 1))):
        term = np.full(total.shape, float(mobius(len(blocks))))
        for block in blocks:
            equal = np.all([at[k] == at[block[0]] for k in block], axis=0)
            term *= np.where(equal, chances[..., at[block[0]]], 0.0)
        total += term
    return total


def _elementwise(function: Activation, scores: Array, order: int) -> Array:
    """f^{(k)}(c[t,s]) where all r are s; 0 where s is masked."""
    open_to = np.isfinite(scores)
    kinks = [float(kink) for kink in function.kinks] if order else []
    if np.isin(scores, kinks).any():
        got = f"scores whose limit is a kink of {function}"
        wanted = "a smooth function, or a table that moves them off it, beyond the leading order"
        raise InputError("score", Words(got), wanted)
    values = _derivative(function, order)(np.where(open_to, scores, 0.0))
    values = np.where(open_to, np.broadcast_to(values, scores.shape), 0.0)
    at = np.indices((scores.shape[-1],) * (order + 1))
    found = values[..., at[0]]
    for r in at[1:]:
        found = np.where(r == at[0], found, 0.0)
    return np.asarray(found)


@cache(entries=64)
def _derivative(function: Activation, order: int) -> Callable[[Array], Array]:
    value = function.derivative(order)
    found: Callable[[Array], Array] = sympy.lambdify(z, value, ["scipy", "numpy"])
    return found


def as_table(given: ArrayLike) -> Table:
    """A table (positions, positions) of numbers, −inf where a position is masked.

    Raises InputError for other arrays, and for a position that reads none.
    """
    wanted = "a square table over positions, of numbers or −inf, each row with a number"
    try:
        found = np.asarray(given, float)
    except (TypeError, ValueError):
        raise InputError("tables", given, wanted) from None
    square = found.ndim == 2 and found.size and found.shape[0] == found.shape[1]
    if not square or np.isnan(found).any() or (found == inf).any():
        raise InputError("tables", given, wanted)
    if not np.isfinite(found).any(axis=1).all():
        raise InputError("tables", given, wanted)
    return tuple(tuple(row) for row in found.tolist())


def as_score(given: str | Activation) -> Activation | None:
    """A function of scores, or that of this name; None for softmax and "shaped"."""
    try:
        return None if isinstance(given, str) and given in OF_ALL else as_activation(given)
    except InputError as error:
        raise InputError("score", given, f"softmax, shaped, or {error.wanted}") from None
