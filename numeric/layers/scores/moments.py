r"""The moments of a sum over heads of attention, at one kernel S of the tokens.

A head draws scores s_ts = q_t·k_s/√d, q and k with covariances C_Q S and C_K S at each of d
components. A is a function of the scores, B = A S Aᵀ. With H = n/d heads, and values of covariance
C_V S, z has the kernel R = (C_O/H) Σ_h A^h V^h A^hᵀ, V^h the mean of v vᵀ over d components:

    E R = C_O C_V E B,      n Cov(R_tu, R_vw) = (C_O C_V)² [d Cov(B_tu, B_vw)
                                                         + E(B_tv B_uw + B_tw B_uv)].

The first part is of the scores, the second of the values. B_tu = Σ_sr A_ts A_ur S_sr is a sum over
scores x = ts and y = ur. Derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation

from ...arrays import Array


@dataclass(frozen=True, eq=False)
class Scores:
    """How a head reads its tokens.

    Arguments:
        bias: what is added to each score, (tokens, tokens); −∞ where t does not see s.
        gain: β² = C_Q C_K.
        size: d; None for infinitely large heads, whose scores are Gaussian.
        function: f, of each score; None for the softmax over s.
        is_tied: True if keys are the queries, at a finite d.
    """

    bias: Array
    gain: float
    size: int | None = None
    function: Activation | None = None
    is_tied: bool = False

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return len(self.bias)

    @property
    def seen(self) -> Array:
        """1 where t sees s, else 0."""
        return np.isfinite(self.bias).astype(float)

    @property
    def is_plain(self) -> bool:
        """True if every token sees all, with no bias."""
        return not self.bias.any()


class Moments(NamedTuple):
    """Averages at a kernel S of N tokens, and their estimated errors.

    Attributes:
        mean: E B, (N, N).
        covariance: Cov(B_tu, B_vw), (N, N, N, N).
        slopes: ∂E B_tu/∂S_ab, (N, N, N, N), symmetric in a and b, of which all N² are moved.
        errors: of the three.
    """

    mean: Array
    covariance: Array
    slopes: Array
    errors: tuple[Array, Array, Array]

    def moved(self, kernels: Array) -> Array:
        """E B at some kernels near the first, S: (kernels, N, N)."""
        change = kernels - kernels[0]
        return np.asarray(self.mean + np.einsum("tuab,zab->ztu", self.slopes, change))

    def source(self, size: float) -> Array:
        """n Cov(R_tu, R_vw) at this S and C_O = 1, (N, N, N, N), with heads of this size."""
        return size * self.covariance + self.of_values

    @property
    def of_values(self) -> Array:
        """The part of the values: E(B_tv B_uw + B_tw B_uv)."""
        return _crossed(self.covariance + np.multiply.outer(self.mean, self.mean))

    def error_of_source(self, size: float) -> Array:
        """The estimated error of `source`."""
        of_means = np.multiply.outer(2.0 * np.abs(self.mean), self.errors[0])
        return size * self.errors[1] + _crossed(self.errors[1] + of_means)


def _crossed(products: Array) -> Array:
    """The products at tv, uw and at tw, uv."""
    return products.transpose(0, 2, 1, 3) + products.transpose(0, 2, 3, 1)


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
