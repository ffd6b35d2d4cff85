"""Gaussian averages of truncated powers: orthant moments, at many covariances at once.

With a_e(u) = u₊^e/e! for e ≥ 0, a_{−1−m} = δ^{(m)}, so that a_e' = a_{e−1} and u a_{e−1} = e a_e,

    M(e) = ⟨Π_p a_{e_p}(x_p − h_p)⟩,      x ~ N(0, R),      R_pp = 1,

Stein's identity gives, with 1_i the unit vector of i, the recursion

    e_i M(e) = −h_i M(e − 1_i) + Σ_j R_ij M(e − 1_i − 1_j).

It lowers positive powers and raises e_i ≤ −2; a δ conditions on x_i = h_i, which leaves one
dimension less; and e = 0 is the probability of an orthant. That one grows from independent x along
R(t) = 1 + t(R − 1) by Plackett's formula (Biometrika 41 (1954)),

    dP/dt = Σ_{i<j} R_ij φ₂(h_i, h_j; t R_ij) P(x_k > h_k, k ≠ i, j | x_i = h_i, x_j = h_j),

where an integrand is singular at real t ≥ 1/(1 − λ_min(R)) and t ≤ −1/(λ_max(R) − 1) alone: with
t = 1 − s², Gauss and Legendre's rule on panels that halve towards s = 0 leaves about 1e-16.

Arrays have the covariances last: h (d, t), R (d, d, t). Every R comes with `gap` = 1 − |R|, which
keeps all digits where variables nearly coincide; those with a gap of `slack` or less do coincide,
and become one. Each M(e) is kept: other brackets of the same variables need it. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.work.caches import cache

from ..arrays import Array
from ..brackets import quadrature
from ..brackets.pieces import SLACK

Exponents: TypeAlias = tuple[int, ...]
"""e_p for a_{e_p}(x_p − h_p), FREE + n for x_p^n/n!: FREE alone leaves x_p out."""

FREE = 1000

MAX_ORTHANT = 4
"""The largest orthant whose probability is known here."""

_NODES, _WEIGHTS = quadrature.legendre(16)
_EDGES = np.array([1.0, 0.8, *0.5 ** np.arange(1.0, 60.0)])
"""Where the panels of the path s = 1 … 0 may end."""

_SURE = 9.0
"""The tail beyond so many deviations is 1e-19."""

_AT_ONCE = 1 << 12
"""Nodes to work on at once: they stay in the processor's cache."""


class Moments:
    """M(e) at t covariances, each computed once: moments(e) has shape (t,).

    Arguments:
        h: (d, t), the thresholds, finite.
        R, gap: (d, d, t), the correlations and 1 − |R|; the diagonal is not looked at.
        slack: (d, d, t), the gaps at which variables coincide, negative on the diagonal.

    Gives nan where two δ fall on one point, and raises ValueError for an orthant of more than 4.
    """

    def __init__(self, h: Array, R: Array, gap: Array, slack: Array) -> None:
        self.h, self.R, self.gap, self.slack = h, R, gap, slack
        self.d = len(h)
        self.centred = [not each for each in (h != 0.0).any(axis=1)]
        self._known: dict[Exponents, Array] = {}
        self._given: dict[int, _Given] = {}
        self._ended: dict[tuple[int, int], Moments] = {}
        self._parts: list[tuple[NDArray[np.intp], Moments]] = []
        self._alike: list[tuple[int, int, float]] = []
        if self.d > 1 and (gap <= slack).any():
            self._part()

    def __call__(self, e: Exponents) -> Array:
        """M(e), (t,)."""
        if e not in self._known:
            self._known[e] = self._moment(e)
        return self._known[e]

    def _part(self) -> None:
        """Find which variables coincide; where that differs from one covariance to another, part
        them."""
        pairs = [(i, j) for i in range(self.d) for j in range(i)]
        code = np.zeros((len(pairs), self.h.shape[1]), np.int64)
        for n, (i, j) in enumerate(pairs):
            kind = np.where(self.R[i, j] > 0.0, 1, 2) + 2 * (self.h[i] < self.h[j])
            code[n] = np.where(self.gap[i, j] <= self.slack[i, j], kind, 0)
        patterns, which = np.unique(code, axis=1, return_inverse=True)
        if patterns.shape[1] > 1:
            for n in range(patterns.shape[1]):
                rows = np.flatnonzero(which.ravel() == n)
                arrays = (self.h, self.R, self.gap, self.slack)
                self._parts.append((rows, Moments(*(each[..., rows] for each in arrays))))
            return
        for (i, j), kind in zip(pairs, patterns[:, 0], strict=True):
            if kind:
                high, low = (j, i) if kind > 2 else (i, j)
                self._alike.append((high, low, 1.0 if kind % 2 else -1.0))

    def _moment(self, e: Exponents) -> Array:
        if self._parts:
            whole = np.empty(self.h.shape[1])
            for rows, part in self._parts:
                whole[rows] = part(e)
            return whole
        for i, j, sign in self._alike:
            if 0 <= e[i] < FREE and 0 <= e[j] < FREE:
                return self._coincide(e, i, j, sign)
        chosen = -1
        for i, exponent in enumerate(e):
            if exponent > FREE:
                return self._by_parts(e, i)
            if exponent < -1 or (0 < exponent < FREE and (chosen < 0 or e[chosen] > 0)):
                chosen = i
        if -1 in e:
            return self._on_delta(e, e.index(-1))
        if chosen >= 0:
            return self._by_parts(e, chosen)
        at = [p for p in range(self.d) if e[p] == 0]
        return orthant(self.h[at], self.R[at][:, at], self.gap[at][:, at])

    def _by_parts(self, e: Exponents, i: int) -> Array:
        """Stein's identity: it lowers positive powers of x_i, and raises e_i ≤ −2."""
        power = e[i] - FREE if e[i] > FREE else e[i]
        step = -1 if power > 0 else 1
        total = np.zeros(self.h.shape[1])
        if e[i] < FREE and not self.centred[i]:
            total += _product(step * self.h[i], self(_shifted(e, i, step, i, 0)))
        if e[i] != FREE + 1:
            weight = 1.0 if step < 0 else power + 2.0
            if weight:
                total += weight * self(_shifted(e, i, step, i, step))
        for j in range(self.d):
            if j != i and e[j] != FREE:
                total += _product(-step * self.R[i, j], self(_shifted(e, i, step, j, -1)))
        return total / power if step < 0 else total

    def _coincide(self, e: Exponents, i: int, j: int, sign: float) -> Array:
        """M(e) where x_j = ±x_i: a_{e_i}(x − h_i) a_{e_j}(±x − h_j) is a sum of a_e(x − h)."""
        between = self.h[i] - self.h[j] if sign > 0.0 else -self.h[j] - self.h[i]
        total = np.zeros(self.h.shape[1])
        for k in range(e[j] + 1):
            weight = sign**k * math.comb(e[i] + k, k) * _power(between, e[j] - k)
            total += _product(weight, self(_shifted(e, i, k, j, FREE - e[j])))
        if sign > 0.0:
            return total
        if (i, j) not in self._ended:
            h = self.h.copy()
            h[i] = -h[j]
            self._ended[i, j] = Moments(h, self.R, self.gap, self.slack)
        for k in range(e[i] + 1):
            weight = -((-1.0) ** e[j]) * math.comb(e[j] + k, k) * _power(between, e[i] - k)
            moment = self._ended[i, j](_shifted(e, i, e[j] + k - e[i], j, FREE - e[j]))
            total += _product(weight, moment)
        return np.where(between > 0.0, total, 0.0)

    def _on_delta(self, e: Exponents, i: int) -> Array:
        """M(e) where e_i = −1: what is left given x_i = h_i."""
        if i not in self._given:
            self._given[i] = self._on_condition(i)
        given = self._given[i]
        value = given.density
        for k, u in given.fixed.items():
            if e[k] != FREE:
                value = value * _at_point(u, e[k])
        for n, k in enumerate(given.others):
            if e[k] not in (0, FREE):
                value = value * given.sines[n] ** e[k]
        left = tuple(e[k] for k in given.others)
        if all(exponent == FREE for exponent in left):
            return value
        return _product(value, given.moments(left))

    def _on_condition(self, i: int) -> _Given:
        h, r, gap = self.h, self.R[i], self.gap[i]
        alike = {j if k == i else k for k, j, _ in self._alike if i in (k, j)}
        others = [k for k in range(self.d) if k != i and k not in alike]
        fixed = {k: np.copysign(h[i], r[k] * h[i]) - h[k] for k in sorted(alike)}
        r, gap = r[others], gap[others]
        sines = sine(gap)
        left = h[others]
        if not all(self.centred):
            left = threshold(left, h[i], r, gap)
        R_, gap_, slack_ = (each[others][:, others] for each in (self.R, self.gap, self.slack))
        if len(others) > 1:
            R_, gap_ = partial(R_, gap_, r[:, None], gap[:, None], r[None], gap[None])
            ratio = sines[:, None] / sines[None]
            slack_ = slack_ * np.maximum(ratio, 1.0 / ratio)
        return _Given(normal(h[i]), fixed, others, sines, Moments(left, R_, gap_, slack_))


class _Given(NamedTuple):
    """The Gaussian that remains, given x_i = h_i.

    Attributes:
        density: of x_i at h_i.
        fixed: x_k − h_k of those that coincide with x_i.
        others: those that do not.
        sines: √(1 − R_ik²) of the others.
        moments: of the others, each in units of its own deviation.
    """

    density: Array
    fixed: dict[int, Array]
    others: list[int]
    sines: Array
    moments: Moments


def _product(weight: Array, value: Array) -> Array:
    """weight · value, 0 where the weight is, be the value what it may."""
    product = weight * value
    return product if np.isfinite(product).all() else np.where(weight == 0.0, 0.0, product)


def _shifted(e: Exponents, i: int, up: int, j: int, more: int) -> Exponents:
    """e + up 1_i + more 1_j."""
    out = list(e)
    out[i] += up
    out[j] += more
    return tuple(out)


def _power(u: Array, e: int) -> Array:
    """u^e/e!."""
    return u**e / math.factorial(e)


def _at_point(u: Array, e: int) -> Array:
    """a_e(u), with θ(0) = 1/2; nan for a δ that is met at its point."""
    there = 0.0 if e > 0 else 0.5 if e == 0 else math.nan
    beyond = np.where(u > 0.0, _power(u, e), 0.0) if e >= 0 else 0.0
    return np.where(np.abs(u) <= SLACK, there, beyond)


def sine(gap: Array) -> Array:
    """√(1 − r²)."""
    return np.sqrt(gap * (2.0 - gap))


def partial(
    r: Array, gap: Array, r_k: Array, gap_k: Array, r_l: Array, gap_l: Array
) -> tuple[Array, Array]:
    """The correlation of x_k and x_l given x_j, and its gap, from the three correlations.

    (r − r_k r_l)/√((1 − r_k²)(1 − r_l²)), with nothing cancelled that the gaps know.
    """
    root = np.maximum(sine(gap_k) * sine(gap_l), 1e-300)
    beyond = gap_k + gap_l - gap_k * gap_l
    through = r_k * r_l
    excess = np.where(r * through >= 0.0, beyond - gap, (1.0 - gap) + (1.0 - beyond))
    size = np.abs(excess)
    sign = np.where(r == 0.0, through, r) * excess
    return np.copysign(np.minimum(size / root, 1.0), sign), np.maximum((root - size) / root, 0.0)


def threshold(h_k: Array, h_j: Array, r: Array, gap: Array) -> Array:
    """(h_k − r h_j)/√(1 − r²): where x_k = h_k lies, given x_j = h_j, in its own units."""
    near = np.copysign(h_j, r * h_j)
    return ((h_k - near) + gap * near) / np.maximum(sine(gap), 1e-30)


def tail(h: Array) -> Array:
    """P(x > h)."""
    return 0.5 * erfc(h / math.sqrt(2.0)) if h.any() else np.full(h.shape, 0.5)


def erfc(x: Array) -> Array:
    """1 − erf(x)."""
    from scipy import special  # noqa: PLC0415  (a fifth of a second to import)

    return np.asarray(special.erfc(x))


def normal(h: Array) -> Array:
    """The standard normal's density."""
    return np.exp(-0.5 * h * h) / math.sqrt(2.0 * math.pi)


def normal_pair(h_i: Array, h_j: Array, r: Array, gap: Array) -> Array:
    """The density at (h_i, h_j) of two standard normals with correlation r."""
    near = np.copysign(h_j, r * h_j)
    variance = gap * (2.0 - gap)
    square = ((h_i - near) ** 2 + 2.0 * gap * h_i * near) / variance
    return np.exp(-0.5 * square) / (2.0 * math.pi * np.sqrt(variance))


def quadrant(r: Array, gap: Array) -> Array:
    """P(x_1 > 0, x_2 > 0), the arcsine law."""
    return 0.25 + np.arctan2(r, sine(gap)) / (2.0 * math.pi)


def pair_orthant(h_1: Array, h_2: Array, r: Array, gap: Array) -> Array:
    """P(x_1 > h_1, x_2 > h_2), all of one shape (t,)."""
    if not h_1.any() and not h_2.any():
        return quadrant(r, gap)
    low, high = np.clip(np.sort([h_1, h_2], axis=0), -40.0, 40.0)
    smallest = np.where(np.abs(r) < 0.5, 1.0, 0.6 * sine(gap))
    total, todo = _decided(low, high, r, gap, smallest)
    low, high, r, gap = (each[todo] for each in (low, high, r, gap))
    found: Array = tail(low) * tail(high)
    for rows, s, weights in _path(smallest[todo]):
        a, b, c, g = (each[rows, None] for each in (low, high, r, gap))
        density = normal_pair(a, b, (1.0 - s * s) * c, g + s * s * np.abs(c))
        found[rows] += r[rows] * np.sum(density * weights, axis=-1)
    total[todo] = found
    return total


def _decided(
    low: Array, high: Array, r: Array, gap: Array, smallest: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """P(x_1 > low, x_2 > high) where the path is long and one of the two decides to rounding: and
    where none does.

    With r > 0, x_1 > low on x_2 = high is sure of x_2 > high all the more. With r < 0, if x_1 < low
    and x_2 < high exclude one another in this sense, what is left is 1 − P(x_1 < low) − P(x_2 <
    high); and if x_1 > low on x_2 = high is rare, it is rarer above.
    """
    total, left = np.zeros(low.shape), smallest < 0.5
    if not left.any():
        return total, ~left
    at_low, at_high, above = threshold(low, high, r, gap), threshold(high, low, r, gap), tail(high)
    sure = left & (at_low < -_SURE) & (r > 0.0)
    apart = left & (at_low < -_SURE) & (at_high < -_SURE) & (r < 0.0)
    never = left & (tail(at_low) < 1e-17 * tail(low)) & (r < 0.0)
    total = np.where(sure, above, np.where(apart, above - tail(-low), total))
    return total, ~(sure | apart | never)


def orthant(h: Array, R: Array, gap: Array) -> Array:
    """P(x_p > h_p for every p) of d ≤ 4 normals, no two of them alike: h (d, t), R (d, d, t)."""
    d = len(h)
    if d > MAX_ORTHANT:
        raise ValueError(f"an orthant of {d} dimensions; wanted: {MAX_ORTHANT} or fewer")
    if d < 2:
        return tail(h[0]) if d else np.ones(h.shape[1])
    if d == 2:
        return pair_orthant(h[0], h[1], R[0, 1], gap[0, 1])
    if d == 3 and not h.any():
        pairs = quadrant(R[0, 1], gap[0, 1]) + quadrant(R[0, 2], gap[0, 2])
        return 0.5 * (pairs + quadrant(R[1, 2], gap[1, 2])) - 0.25
    total: Array = np.prod(tail(h), axis=0)
    for rows, s, weights in _path(0.6 * np.sqrt(_determinant(R, gap))):
        terms = _plackett(h[:, rows, None], R[:, :, rows, None], gap[:, :, rows, None], s)
        total[rows] += np.sum(terms.sum(axis=0) * weights, axis=-1)
    return total


def _path(smallest: Array) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
    """Gauss and Legendre's rule for ∫₀¹ dt on panels of s, t = 1 − s², which halve towards s = 0
    until they end within `smallest`: rows that share a rule, its nodes and its weights."""
    descending = -np.maximum(smallest, 1e-15)
    panels = 1 + np.searchsorted(-_EDGES, descending)
    for n in np.unique(panels):
        s, weights = _rule(int(n))
        rows = np.flatnonzero(panels == n)
        step = max(1, _AT_ONCE // len(s))
        for start in range(0, len(rows), step):
            yield rows[start : start + step], s, weights


@cache
def _rule(panels: int) -> tuple[Array, Array]:
    right = _EDGES[:panels, None]
    left = np.append(_EDGES[1:panels], 0.0)[:, None]
    s = (0.5 * (right + left) + 0.5 * (right - left) * _NODES).ravel()
    return s, ((right - left) * _WEIGHTS).ravel() * s


def _determinant(R: Array, gap: Array) -> Array:
    """det R of 3 or 4 normals, from below."""

    def given_first(k: int, m: int) -> tuple[Array, Array]:
        return partial(R[k, m], gap[k, m], R[0, k], gap[0, k], R[0, m], gap[0, m])

    to_1, gap_1 = given_first(1, 2)
    root = sine(gap[0, 1]) * sine(gap[0, 2]) * sine(gap_1)
    if len(R) == 4:
        (over_1, over_gap_1), (over_2, over_gap_2) = given_first(1, 3), given_first(2, 3)
        _, last = partial(over_2, over_gap_2, to_1, gap_1, over_1, over_gap_1)
        root = root * sine(gap[0, 3]) * sine(over_gap_1) * sine(last)
    return root**2


_PAIRS = {
    3: np.array([(0, 1, 2), (0, 2, 1), (1, 2, 0)]).T,
    4: np.array(
        [(0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2), (1, 2, 0, 3), (1, 3, 0, 2), (2, 3, 0, 1)]
    ).T,
}
"""Each pair of so many normals, and then the others."""


def _plackett(h: Array, R: Array, gap: Array, s: Array) -> Array:
    """The terms of the pairs in dP/dt at t = 1 − s²: (pairs, t, nodes)."""
    left = s * s
    centred = not h.any()

    def at(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[Array, Array]:
        r = R[a, b]
        return (1.0 - left) * r, gap[a, b] + left * np.abs(r)

    def given_both(k: NDArray[np.int64]) -> tuple[tuple[Array, Array], tuple[Array, Array], Array]:
        """Correlations of x_k with x_i, with x_j given x_i, and its threshold given both."""
        with_i = at(k, i)
        with_j = partial(*at(k, j), *with_i, *pair)
        if centred:
            return with_i, with_j, np.zeros(with_i[0].shape)
        return with_i, with_j, threshold(threshold(h[k], h[i], *with_i), at_j, *with_j)

    i, j = _PAIRS[len(h)][:2]
    pair = at(i, j)
    density = R[i, j] * normal_pair(h[i], h[j], *pair)
    at_j = threshold(h[j], h[i], *pair)
    if len(h) == 3:
        alone: Array = density * tail(given_both(_PAIRS[3][2])[2])
        return alone
    k, m = _PAIRS[4][2:]
    (k_i, k_j, at_k), (m_i, m_j, at_m) = given_both(k), given_both(m)
    both = partial(*partial(*at(k, m), *k_i, *m_i), *k_j, *m_j)
    flat = (each.ravel() for each in (at_k, at_m, *both))
    value: Array = density * pair_orthant(*flat).reshape(density.shape)
    return value
