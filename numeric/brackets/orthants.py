"""Gaussian averages of truncated powers: orthant moments, in any number of dimensions up to 4.

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

Every matrix comes as R and `gap` = 1 − |R|, which keeps all digits where variables nearly coincide;
those with a gap of `slack` or less do coincide, and become one. Derived here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, scalar
from . import quadrature
from .pieces import SLACK

Counts = NDArray[np.int64]

PATH_NODES, PATH_WEIGHTS = quadrature.legendre(16)

GONE = 99
"""The exponent of a variable that is integrated out."""


@scalar
def product_gap(gap_k: float, gap_l: float) -> float:
    """1 − |r_k r_l|, from 1 − |r_k| and 1 − |r_l|."""
    return gap_k + gap_l - gap_k * gap_l


@scalar
def sine(gap: float) -> float:
    """√(1 − r²)."""
    return math.sqrt(gap * (2.0 - gap))


@scalar
def partial(
    r: float, gap: float, r_k: float, gap_k: float, r_l: float, gap_l: float
) -> tuple[float, float]:
    """The correlation of x_k and x_l given x_j, and its gap, from the three correlations.

    (r − r_k r_l)/√((1 − r_k²)(1 − r_l²)), with nothing cancelled that the gaps know.
    """
    root = max(sine(gap_k) * sine(gap_l), 1e-300)
    beyond = product_gap(gap_k, gap_l)
    alike = r_k * r_l if r == 0.0 else r
    excess = beyond - gap if r * r_k * r_l >= 0.0 else (1.0 - gap) + (1.0 - beyond)
    size = min(abs(excess) / root, 1.0)
    return math.copysign(size, alike * excess), max((root - abs(excess)) / root, 0.0)


@scalar
def threshold(h_k: float, h_j: float, r: float, gap: float) -> float:
    """(h_k − r h_j)/√(1 − r²): where x_k = h_k lies, given x_j = h_j, in its own units."""
    sign = math.copysign(1.0, r)
    return ((h_k - sign * h_j) + sign * gap * h_j) / max(sine(gap), 1e-30)


@scalar
def tail(h: float) -> float:
    """P(x > h)."""
    return 0.5 * math.erfc(h / math.sqrt(2.0))


@scalar
def normal(h: float) -> float:
    """The standard normal's density."""
    return math.exp(-0.5 * h * h) / math.sqrt(2.0 * math.pi)


@scalar
def normal_pair(h_i: float, h_j: float, r: float, gap: float) -> float:
    """The density at (h_i, h_j) of two standard normals with correlation r."""
    sign = math.copysign(1.0, r)
    square = (h_i - sign * h_j) ** 2 + 2.0 * sign * gap * h_i * h_j
    variance = gap * (2.0 - gap)
    return math.exp(-0.5 * square / variance) / (2.0 * math.pi * math.sqrt(variance))


@scalar
def quadrant(r: float, gap: float) -> float:
    """P(x_1 > 0, x_2 > 0), the arcsine law."""
    return 0.25 + math.atan2(r, sine(gap)) / (2.0 * math.pi)


@scalar
def panel_start(right: float, smallest: float) -> float:
    """Where the panel of the path s = 1 … 0 that ends at `right` begins: halving, down to 0."""
    if not right > smallest:
        return 0.0
    return 0.8 if right > 0.9 else 0.5 if right > 0.6 else 0.5 * right


@driver
def pair_orthant(h_1: float, h_2: float, r: float, gap: float) -> float:
    """P(x_1 > h_1, x_2 > h_2)."""
    if h_1 == 0.0 and h_2 == 0.0:
        return quadrant(r, gap)
    h_1, h_2 = min(max(h_1, -40.0), 40.0), min(max(h_2, -40.0), 40.0)
    total = tail(h_1) * tail(h_2)
    smallest = 1.0 if abs(r) < 0.5 else max(0.6 * sine(gap), 1e-15)
    right = 1.0 if r != 0.0 else 0.0
    while right > 0.0:
        start = panel_start(right, smallest)
        for i in range(len(PATH_NODES)):
            s = 0.5 * (right + start) + 0.5 * (right - start) * PATH_NODES[i]
            density = normal_pair(h_1, h_2, (1.0 - s * s) * r, gap + s * s * abs(r))
            total += (right - start) * PATH_WEIGHTS[i] * s * r * density
        right = start
    return total


@driver
def determinant(at: Counts, d: int, R: Array, gap: Array) -> float:
    """det R of the first d ≤ 4 places, from below."""
    a, b, c, m = at[0], at[1], at[2], at[3]
    to_b, gap_b = partial(R[b, c], gap[b, c], R[a, b], gap[a, b], R[a, c], gap[a, c])
    value = (sine(gap[a, b]) * sine(gap[a, c]) * sine(gap_b)) ** 2
    if d == 4:
        over_b, over_gap_b = partial(R[b, m], gap[b, m], R[a, b], gap[a, b], R[a, m], gap[a, m])
        over_c, over_gap_c = partial(R[c, m], gap[c, m], R[a, c], gap[a, c], R[a, m], gap[a, m])
        _, last = partial(over_c, over_gap_c, to_b, gap_b, over_b, over_gap_b)
        value *= (sine(gap[a, m]) * sine(over_gap_b) * sine(last)) ** 2
    return value


@driver
def plackett(
    at: Counts, d: int, first: int, second: int, h: Array, R: Array, gap: Array, left: float
) -> float:
    """The term of the places first, second in dP/dt at t = 1 − left."""
    t, i, j = 1.0 - left, at[first], at[second]
    if R[i, j] == 0.0:
        return 0.0
    r, gap_r = t * R[i, j], gap[i, j] + left * abs(R[i, j])
    at_j = threshold(h[j], h[i], r, gap_r)
    third = 0 if first > 0 else 1 if second > 1 else 2
    k = at[third]
    r_k, gap_k = t * R[k, i], gap[k, i] + left * abs(R[k, i])
    to_k, gap_to_k = partial(t * R[k, j], gap[k, j] + left * abs(R[k, j]), r_k, gap_k, r, gap_r)
    at_k = threshold(threshold(h[k], h[i], r_k, gap_k), at_j, to_k, gap_to_k)
    density = R[i, j] * normal_pair(h[i], h[j], r, gap_r)
    if d == 3:
        return float(density * tail(at_k))
    m = at[6 - first - second - third]
    r_m, gap_m = t * R[m, i], gap[m, i] + left * abs(R[m, i])
    to_m, gap_to_m = partial(t * R[m, j], gap[m, j] + left * abs(R[m, j]), r_m, gap_m, r, gap_r)
    at_m = threshold(threshold(h[m], h[i], r_m, gap_m), at_j, to_m, gap_to_m)
    both, gap_both = partial(t * R[k, m], gap[k, m] + left * abs(R[k, m]), r_k, gap_k, r_m, gap_m)
    both, gap_both = partial(both, gap_both, to_k, gap_to_k, to_m, gap_to_m)
    return float(density * pair_orthant(at_k, at_m, both, gap_both))


@driver
def orthant(e: Counts, h: Array, R: Array, gap: Array) -> float:
    """P(x_p > h_p for every p that is not GONE), no two of them alike."""
    d, total, centred = 0, 1.0, True
    at = np.zeros(4, np.int64)
    for p in range(len(h)):
        if e[p] != GONE:
            at[d] = p
            d += 1
            total *= tail(h[p])
            centred = centred and h[p] == 0.0
    a, b, c = at[0], at[1], at[2]
    if d < 2:
        return total
    if d == 2:
        return pair_orthant(h[a], h[b], R[a, b], gap[a, b])
    if d == 3 and centred:
        pairs = quadrant(R[a, b], gap[a, b]) + quadrant(R[a, c], gap[a, c])
        return 0.5 * (pairs + quadrant(R[b, c], gap[b, c])) - 0.25
    smallest = max(0.6 * math.sqrt(determinant(at, d, R, gap)), 1e-15)
    right = 1.0
    while right > 0.0:
        start = panel_start(right, smallest)
        for node in range(len(PATH_NODES)):
            s = 0.5 * (right + start) + 0.5 * (right - start) * PATH_NODES[node]
            weight = (right - start) * PATH_WEIGHTS[node] * s
            for first in range(d):
                for second in range(first + 1, d):
                    total += weight * plackett(at, d, first, second, h, R, gap, s * s)
        right = start
    return total


@scalar
def power(u: float, e: int) -> float:
    """u^e/e!, e ≥ 0."""
    value = 1.0
    for k in range(1, e + 1):
        value *= u / k
    return value


@scalar
def choose(n: int, k: int) -> float:
    """The binomial coefficient."""
    value = 1.0
    for j in range(k):
        value *= (n - j) / (j + 1)
    return value


@scalar
def at_point(u: float, e: int) -> float:
    """a_e(u), with θ(0) = 1/2; nan for a δ that is met at its point."""
    if abs(u) <= SLACK:
        return 0.0 if e > 0 else 0.5 if e == 0 else math.nan
    return power(u, e) if u > 0.0 and e >= 0 else 0.0


@driver
def coincide(i: int, j: int, e: Counts, h: Array, sign: float, terms: Array) -> int:
    """a_{e_i}(x − h_i) a_{e_j}(sign x − h_j), h_i ≥ h_j, as Σ weight a_e(x − h): rows of `terms`.

    Returns how many there are.
    """
    between = h[i] - h[j] if sign > 0.0 else -h[j] - h[i]
    if sign < 0.0 and between <= 0.0:
        return 0
    filled = 0
    for k in range(e[j] + 1):
        flip = -1.0 if sign < 0.0 and k % 2 else 1.0
        terms[filled, 0] = flip * power(between, e[j] - k) * choose(e[i] + k, k)
        terms[filled, 1], terms[filled, 2] = e[i] + k, h[i]
        filled += 1
    if sign > 0.0:
        return filled
    for k in range(e[i] + 1):
        flip = 1.0 if e[j] % 2 else -1.0
        terms[filled, 0] = flip * power(between, e[i] - k) * choose(e[j] + k, k)
        terms[filled, 1], terms[filled, 2] = e[j] + k, -h[j]
        filled += 1
    return filled


@driver
def condition(
    i: int,
    e: Counts,
    h: Array,
    R: Array,
    gap: Array,
    slack: Array,
    e_: Counts,
    h_: Array,
    R_: Array,
    gap_: Array,
    slack_: Array,
) -> float:
    """Fill the arrays marked _ with what is left given x_i = h_i, and return what it is worth."""
    d = len(e)
    value = normal(h[i])
    for k in range(d):
        e_[k] = GONE if k == i else e[k]
        h_[k] = h[k]
        if e_[k] == GONE:
            continue
        if gap[k, i] <= slack[k, i]:
            value *= at_point(math.copysign(h[i], R[k, i] * h[i]) - h[k], e[k])
            e_[k] = GONE
            continue
        value *= sine(gap[k, i]) ** e[k]
        h_[k] = threshold(h[k], h[i], R[k, i], gap[k, i])
        for m in range(k):
            if e_[m] != GONE:
                r, gap_r = partial(R[k, m], gap[k, m], R[k, i], gap[k, i], R[m, i], gap[m, i])
                ratio = sine(gap[k, i]) / sine(gap[m, i])
                R_[k, m], R_[m, k] = r, r
                gap_[k, m], gap_[m, k] = gap_r, gap_r
                slack_[k, m] = slack[k, m] * max(ratio, 1.0 / ratio)
                slack_[m, k] = slack_[k, m]
    return value


@driver
def shifted(e: Counts, i: int, up: int, j: int, more: int) -> Counts:
    """e + up 1_i + more 1_j."""
    out = e.copy()
    out[i] += up
    out[j] += more
    return out


@driver
def moment(e: Counts, h: Array, R: Array, gap: Array, slack: Array, known: Array) -> float:
    """M(e), where e_p = GONE leaves x_p out and h_p = −∞ stands for x_p^e/e! without truncation.

    slack: (d, d), the gaps at which variables coincide; known: one number, the probability of the
    orthant, or nan until it is needed. Gives nan where two δ fall on one point. Keeps e for itself.
    """
    d = len(e)
    for i in range(d):
        for j in range(d):
            if not (
                i != j and GONE > e[i] >= 0 and GONE > e[j] >= 0
                and h[i] >= h[j] and h[j] > -math.inf and gap[i, j] <= slack[i, j]
            ):  # fmt: skip
                continue
            terms = np.empty((e[i] + e[j] + 2, 3))
            total, h_, fresh = 0.0, h.copy(), np.empty(1)
            for k in range(coincide(i, j, e, h, R[i, j], terms)):
                e_ = shifted(e, i, int(terms[k, 1]) - e[i], j, GONE - e[j])
                h_[i], fresh[0] = terms[k, 2], math.nan
                if terms[k, 0] != 0.0:
                    total += terms[k, 0] * moment(e_, h_, R, gap, slack, fresh)
            return total
    chosen = -1
    for i in range(d):
        if h[i] == -math.inf and e[i] < 0:
            return 0.0
        if h[i] == -math.inf and e[i] == 0:
            e[i] = GONE
        elif h[i] == -math.inf and e[i] != GONE:
            chosen = i
    if chosen < 0:
        for i in range(d):
            if e[i] == -1:
                e_, h_, R_ = np.empty_like(e), np.empty_like(h), np.ones_like(R)
                gap_, slack_, fresh = np.zeros_like(R), np.zeros_like(R), np.empty(1)
                fresh[0] = math.nan
                value = condition(i, e, h, R, gap, slack, e_, h_, R_, gap_, slack_)
                if value == 0.0 or math.isnan(value):
                    return value
                return value * moment(e_, h_, R_, gap_, slack_, fresh)
            if e[i] < -1 or (e[i] > 0 and e[i] != GONE and (chosen < 0 or e[chosen] > 0)):
                chosen = i
    if chosen < 0:
        if math.isnan(known[0]):
            known[0] = orthant(e, h, R, gap)
        return float(known[0])
    i, total = chosen, 0.0
    step = -1 if e[i] > 0 else 1
    near = 0.0 if h[i] == -math.inf else step * h[i]
    if near != 0.0:
        total += near * moment(shifted(e, i, step, i, 0), h, R, gap, slack, known)
    for j in range(d):
        weight = -step * R[i, j]
        if j == i:
            weight = 1.0 if step < 0 else e[i] + 2.0
        if e[j] != GONE and weight != 0.0:
            e_ = shifted(e, i, step, j, step if j == i else -1)
            total += weight * moment(e_, h, R, gap, slack, known)
    return total / e[i] if step < 0 else total
