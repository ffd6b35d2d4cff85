r"""The scores that are not masked, and sums over pairs and fours of them.

B_tu = Σ_sr A_ts A_ur S_sr is a sum over scores x = ts and y = ur. Derived here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import Array
from .moments import Moments

ROUNDING = 64.0 * float(np.finfo(float).eps)
"""The error of a sum over scores, relative to its terms."""


class Seen(NamedTuple):
    """The scores x that are not masked, s_ts at t = t[x], s = s[x]."""

    t: NDArray[np.int64]
    s: NDArray[np.int64]

    def values(self, S: Array) -> Array:
        """S_sr of two scores."""
        return np.asarray(S[np.ix_(self.s, self.s)])

    def queries(self, S: Array) -> Array:
        """S_tu of two scores."""
        return np.asarray(S[np.ix_(self.t, self.t)])

    def mean(self, products: Array, S: Array) -> Array:
        """E B, of the moments of two weights [x, y]."""
        at = np.eye(len(S))[self.t]
        return np.asarray(at.T @ (products * self.values(S)) @ at)

    def square(self, products: Array, S: Array) -> Array:
        """E B B, of the moments of four weights [x, y, x', y']."""
        at, values = np.eye(len(S))[self.t], self.values(S)
        found = products * values[:, :, None, None] * values
        for _ in range(4):
            found = np.tensordot(found, at, (0, 0))
        return np.asarray(found)


class Pairs(NamedTuple):
    """Averages for all pairs of scores x and y, [x, y].

    Attributes:
        products: E f_x f_y.
        queries, keys: its slopes by S_tu and by S_sr, over the gain.
        of_query, of_key: its slopes by S_tt and by S_ss, twice, over the gain.
        errors: the estimated errors of the products.
    """

    products: Array
    queries: Array
    keys: Array
    of_query: Array
    of_key: Array
    errors: Array

    def slopes(self, S: Array, gain: float, seen: Seen) -> Array:
        """∂E B/∂S."""
        t, s = np.eye(len(S))[seen.t], np.eye(len(S))[seen.s]
        values = seen.values(S)

        def at(terms: Array, first: Array, second: Array) -> Array:
            ends = "xy,xt,yu,xa,yb->tuab"
            return np.asarray(np.einsum(ends, terms, t, t, first, second, optimize=True))

        def alone(terms: Array, ends: Array) -> Array:
            rows = terms @ t
            return np.asarray(np.einsum("xu,xt,xa,xb->tuab", rows, t, ends, ends, optimize=True))

        found = at(self.products + gain * self.keys * values, s, s)
        found += at(gain * self.queries * values, t, t)
        own = alone(gain * self.of_query * values, t) + alone(gain * self.of_key * values, s)
        return found + 0.5 * (own + own.swapaxes(0, 1))

    def moments(self, S: Array, gain: float, seen: Seen, of_fours: tuple[Array, Array]) -> Moments:
        """With Cov(B, B) and its error."""
        mean, slopes = seen.mean(self.products, S), self.slopes(S, gain, seen)
        of_mean = seen.mean(self.errors, np.abs(S))
        share = of_mean.max() / max(np.abs(mean).max(), 1e-300)
        covariance, error = of_fours
        of_slopes = np.full_like(slopes, share * np.abs(slopes).max())
        slopes = 0.5 * (slopes + slopes.swapaxes(2, 3))
        return Moments(mean, covariance, slopes, (of_mean, error, of_slopes))
