"""The curve z(w) of a free product, and the continuation along it, compiled.

A *problem* is: groups k of n_k equal factors, each a discrete law Σ_i p_i δ(f_i) of mean 1 (a
quadrature rule; f_i may be complex) on a corner of trace 1/s_k; factors (1 + a_j w)^{c_j} of M⁻¹
(among them the one of 1/G, 1 + M); and jumps v_i/(1 + b_i w) of a limit law. With x_k the
subordination points, M_k(x_k) = s_k w, and w = A M (A > 1 where a projector's zeros dominate),

    log z = −log w + Σ_k n_k log1p(−x_k E_k[(1 − f)/(x_k − f)]/(1 + s_k w))
            + Σ_j c_j log(1 + a_j w) + Σ_i v_i w/(1 + b_i w) + constant.

Every logarithm has its argument in [−π, 0], and they are never combined: so Im log z is not reduced
mod 2π. With all x_k in the upper half plane, where w is in the lower one, the point with
Im log z = arg z is the one on the sheet of M_JJᵀ (Belinschi and Bercovici, *Int. Math. Res. Not.*
2005, for powers).

The unknowns are ξ_k = log(x_k/(x_k − t_k)), t_k the top of the law's support: the upper half plane
becomes the strip −π < Im ξ < 0, with full relative precision at x = 0, x = t and x = ∞ alike.

A *block* adds n [log(s w) + log(1 + s w) − θ]: n factors |Σ_i A_i|², the A's free and R-diagonal,
the skip a multiple of a Haar matrix (`derive.spectra.skips`). With g Cauchy's transform of the
symmetrized singular values, g² = w_i (1 + w_i) S_i(w_i) for every member i, so

    θ = log g² + log m_1 = θ_i = log w_i + Σ_j e_j log(1 + a_j w_i) − Σ_k log(1/S_k) − log share_i,
    s w = Σ_i w_i,        share_i = E|A_i|²/m_1,

the unknowns ξ_i = log(1 + A_i w_i), 1/A_i the share of values that are not 0, and ξ_k of those
factors of a member's law that are averages, M_k(x_k) = w_i. The roots of all x of members are in
the upper half plane, where x itself may be anywhere but on [0, ∞): ξ above the real axis stands for
Im x < 0, and there M is its mirror image and log w_i has its argument in (−2π, −π). So Im θ, not
reduced, is in (−2π, 0), and a solution with the block's own x in the upper half plane is the one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, scalar

Complex = NDArray[np.complex128]
Problem = tuple[Any, ...]
Blocks = tuple[Any, ...]
"""Where each block's members start, each member's groups and factors; (n, s) of blocks, (A, log
share) of members, (a, e) of factors. Arrays, the first three of integers; None without blocks, for
which the functions are compiled by themselves."""

SOLVED, NO_CONVERGENCE, UNRESOLVED = 0, 1, 2
"""The meanings of a status; unresolved: the density is less than rounding."""

COSINE, ROOT, LINE = 0, 1, 2
"""The path log z(θ): a + b cos θ over a bulk; a − θ² down to z = 0; a + θ b."""

_ROUNDING, _SMALL, _FLAT = 1e-13, 5e-16, 1e-9
_BESIDE = 1e-6  # how far beside [0, π] rounding may leave the argument of a block's x
_AT_REST = 1e-3  # steps of members, whose equations are not in the residual
_TRIES = 1000
_NEWTON = 30


@scalar
def exponentials(u: complex) -> tuple[complex, complex]:
    """e^u and e^u − 1, each precise."""
    cosine, sine, half = math.cos(u.imag), math.sin(u.imag), math.sin(0.5 * u.imag)
    whole, grown = math.exp(u.real), math.expm1(u.real)
    imag = whole * sine
    return complex(whole * cosine, imag), complex(grown * cosine - 2.0 * half * half, imag)


@scalar
def log1p(u: complex) -> complex:
    """log(1 + u), precise for small u; the principal branch."""
    size = u.real * (2.0 + u.real) + u.imag * u.imag
    real = 0.5 * math.log1p(size) if abs(size) < 0.5 else math.log(math.hypot(1.0 + u.real, u.imag))
    return complex(real, math.atan2(u.imag, 1.0 + u.real))


@scalar
def logarithm(u: complex) -> complex:
    """log u for u in the lower half plane or on its border: the cut is far away, on i·(0, ∞)."""
    angle = math.atan2(u.imag, u.real)
    if angle > 0.5 * math.pi:
        angle -= 2.0 * math.pi
    return complex(math.log(math.hypot(u.real, u.imag)), angle)


@scalar
def inverse(u: complex) -> complex:
    """1/u; not a number, rather than an exception, at 0."""
    size = u.real * u.real + u.imag * u.imag
    if size > 1e-290:
        return complex(u.real / size, -u.imag / size)
    real, imag = 1e200 * u.real, 1e200 * u.imag  # their squares would underflow
    size = real * real + imag * imag
    return complex(real / size * 1e200, -imag / size * 1e200)


@driver
def path(kind: int, a: complex, b: complex, theta: float) -> complex:
    """log z at θ."""
    if kind == COSINE:
        return a + b * math.cos(theta)
    if kind == ROOT:
        return a - theta * theta
    return a + theta * b


@driver
def averages(
    x: complex, away: complex, group: int, problem: Problem
) -> tuple[complex, complex, complex]:
    """E[f/(x − f)], E[(1 − f)/(x − f)] and E[f/(x − f)²] of a group; `away` is x − top."""
    offsets, f, below, rest, p = problem[:5]
    near_top = abs(away) < abs(x)
    first, second, slope = 0j, 0j, 0j
    for i in range(offsets[group], offsets[group + 1]):
        denominator = away + below[i] if near_top else x - f[i]
        over = inverse(denominator)
        weighted = p[i] * over
        mine = weighted * f[i]
        first += mine
        second += weighted * rest[i]
        slope += mine * over
    return first, second, slope


@driver
def factor(
    xi: complex, group: int, problem: Problem
) -> tuple[complex, complex, complex, complex, complex]:
    """Of a group at ξ: its M = E[f/(x − f)], 1 + M, dM/dξ, log 1/S and d log(1/S)/dξ."""
    top = problem[7][group]
    whole, grown = exponentials(xi)
    away = top * inverse(grown)
    x = away * whole
    first, second, slope = averages(x, away, group, problem)
    grown_one = x * (first + second)
    own = slope * x * away / top
    over = inverse(grown_one)
    ratio = x * first * over
    near_one = abs(ratio - 1.0) < 0.5
    log_s = log1p(-x * second * over) if near_one else logarithm(ratio)
    return first, grown_one, own, log_s, own * inverse(first * grown_one) - away / top


@driver
def member(
    i: int, xi: Complex, problem: Problem, blocks: Blocks, step: Complex, tangent: Complex
) -> tuple[complex, complex, complex, complex, complex]:
    """A member's w_i, dw_i/dξ_i, θ_i, dθ_i/dξ_i, and what the Newton steps of its other unknowns
    change in θ_i.

    Fills `step` and `tangent` of those, at a ξ_i that stays and by ξ_i.
    """
    starts, factors = blocks[1], blocks[2]
    lead, base = starts[i], blocks[4][i, 0]
    above = xi[lead].imag > 0.0
    whole, grown = exponentials(xi[lead].conjugate() if above else xi[lead])
    w, prime = grown / base, whole / base
    theta, rate = logarithm(w) - blocks[4][i, 1], inverse(w)
    for j in range(factors[i], factors[i + 1]):
        a, power = blocks[5][j]
        inner = whole if a == base else 1.0 + a * w
        theta += power * logarithm(inner)
        rate += power * a * inverse(inner)
    if above:
        w, prime, rate = w.conjugate(), prime.conjugate(), rate.conjugate()
        theta = complex(theta.real, -theta.imag - 2.0 * math.pi)
    rate *= prime
    offset = 0j
    for k in range(lead + 1, starts[i + 1]):
        above = xi[k].imag > 0.0
        first, _, own, log_s, phi = factor(xi[k].conjugate() if above else xi[k], k, problem)
        if above:
            first, own = first.conjugate(), own.conjugate()
            log_s, phi = log_s.conjugate(), phi.conjugate()
        step[k], tangent[k] = (w - first) * inverse(own), prime * inverse(own)
        theta -= log_s
        rate -= phi * tangent[k]
        offset -= phi * step[k]
    return w, prime, theta, rate, offset


@driver
def block(
    b: int,
    w: complex,
    one_plus: complex,
    prime: complex,
    xi: Complex,
    problem: Problem,
    blocks: Blocks,
    step: Complex,
    tangent: Complex,
) -> tuple[complex, complex, complex]:
    """θ at a block's first member, its Newton step at a w that stays, and dθ by ξ_0.

    Fills `step` and `tangent` of the members, at a ξ_0 that stays and by ξ_0; w = s w, 1 + s w, and
    `prime` its derivative by ξ_0. Where w and a w_i are near −1, 1 + w is the sum of 1 + w_i and of
    the others, to all digits.
    """
    members, starts = blocks[0], blocks[1]
    theta, total, pull = 0j, 0j, 0j
    nearest, held, missing = 0.5, 0j, w
    for i in range(members[b], members[b + 1]):
        mine, slope, log_t, rate, offset = member(i, xi, problem, blocks, step, tangent)
        if i == members[b]:
            theta = log_t
        over = inverse(rate)
        lead = starts[i]
        step[lead], tangent[lead] = (theta - log_t - offset) * over, over
        if blocks[4][i, 0] == 1.0 and abs(slope) < nearest:
            total += held
            nearest, held, missing = abs(slope), mine, one_plus - slope  # slope is 1 + w_i
        else:
            total += mine
        total += slope * step[lead]
        pull += slope * over
    over = inverse(pull)
    change, by_first = (missing - total) * over, prime * over
    for i in range(members[b], members[b + 1]):
        lead = starts[i]
        step[lead] += tangent[lead] * change
        tangent[lead] *= by_first
        for k in range(lead + 1, starts[i + 1]):
            step[k] += tangent[k] * step[lead]
            tangent[k] *= tangent[lead]
    return theta, change, by_first


@driver
def evaluate(
    xi: Complex,
    target: complex,
    problem: Problem,
    blocks: Blocks | None,
    step: Complex,
    tangent: Complex,
    turns: Array,
) -> tuple[complex, complex, complex]:
    """The residual log z(ξ) − target, w and 1 + w.

    Fills `step`, the Newton step in ξ that solves all equations to first order, `tangent`,
    dξ/d(log z) along the curve, and `turns`, the argument of every block's x.
    """
    counts, scales = problem[5:7]
    slopes, powers, variances, jumps, constant = problem[8:13]
    groups = xi.size
    if blocks is not None:
        groups = blocks[1][0]
    w, one_plus, w_prime = 0j, 0j, 0j
    residual = constant - target
    along, offset = 0j, 0j
    for k in range(groups):
        first, grown_one, own, log_s, phi = factor(xi[k], k, problem)
        if k == 0:
            w, one_plus, w_prime = first / scales[0], grown_one, own / scales[0]
            if scales[0] != 1.0:
                one_plus = 1.0 + w
        n = counts[k]
        if n > 0.0:
            residual += n * log_s
        phi *= n
        if k == 0:
            along += phi
            step[0], tangent[0] = 0j, 1.0 + 0j
        else:  # δξ_k = (s_k w − first)/own + (s_k w'/own) δξ_0
            step[k] = (scales[k] * w - first) * inverse(own)
            tangent[k] = scales[k] * w_prime * inverse(own)
            along += phi * tangent[k]
            offset += phi * step[k]
    # Σ c log(1 + a w) with 1 + w taken out of each: for a near 1, to all digits.
    degree = powers.sum()
    residual += degree * logarithm(one_plus) - logarithm(w)
    h = (degree - 1.0) * inverse(one_plus) - inverse(w * one_plus)
    for j in range(slopes.size):
        excess = slopes[j] - 1.0
        if excess != 0.0:
            inner = 1.0 + slopes[j] * w
            residual += powers[j] * log1p(excess * w * inverse(one_plus))
            h += powers[j] * excess * inverse(inner * one_plus)
    for i in range(variances.size):
        over = inverse(one_plus if jumps[i] == 1.0 else 1.0 + jumps[i] * w)
        residual += variances[i] * w * over
        h += variances[i] * over * over
    along += h * w_prime
    if blocks is not None:
        for b in range(turns.size):
            n, s = blocks[3][b]
            inner = one_plus if s == 1.0 else 1.0 + s * w
            theta, change, by_first = block(
                b, s * w, inner, s * w_prime, xi, problem, blocks, step, tangent
            )
            log_one = logarithm(inner)
            turns[b] = 2.0 * log_one.imag - theta.imag
            residual += n * (logarithm(s * w) + log_one - theta)
            along += n * ((inverse(w) + s * inverse(inner)) * w_prime - by_first)
            offset -= n * change
    over_along = inverse(along)
    first_step = -(residual + offset) * over_along
    for k in range(xi.size):
        step[k] += tangent[k] * first_step if k > 0 else first_step
        tangent[k] = tangent[k] * over_along
    return residual, w, one_plus


@driver
def side(
    xi: Complex,
    w: complex,
    one_plus: complex,
    tangent: Complex,
    turns: Array,
    floor: float,
    blocks: Blocks | None,
) -> int:
    """SOLVED where every x_k is in the upper half plane and w in the lower one, UNRESOLVED where
    w is on the real axis to rounding, and NO_CONVERGENCE on the wrong side.

    log z is known to `floor`, and ξ to `tangent`, dξ/d(log z), times that. No x_k may leave
    the half plane when z rises a little: the curve has real points that no z from above comes to.
    Of the members of blocks, behind the other factors, the roots of x may not.
    """
    found = SOLVED if w.imag < -_SMALL * min(abs(w), abs(one_plus)) else UNRESOLVED
    groups = xi.size
    if blocks is not None:
        groups = blocks[1][0]
        for b in range(turns.size):
            if not -_BESIDE < turns[b] < math.pi + _BESIDE:
                return NO_CONVERGENCE
        for k in range(groups, xi.size):
            slack = _ROUNDING * (1.0 + abs(xi[k])) + floor * abs(tangent[k])
            size, rise = abs(xi[k].imag), tangent[k].real
            if not size < math.pi + slack:
                return NO_CONVERGENCE
            if xi[k].imag > 0.0:
                rise = -rise
            at_zero = rise > 0.0 and xi[k].real > 0.0 and size < _FLAT * rise
            if at_zero or (rise < 0.0 and math.pi - size < -_FLAT * rise):
                return NO_CONVERGENCE
    for k in range(groups):
        slack = _ROUNDING * (1.0 + abs(xi[k])) + floor * abs(tangent[k])
        if not -math.pi - slack < xi[k].imag < slack:
            return NO_CONVERGENCE
        rise = tangent[k].real if xi[k].imag > -0.5 * math.pi else -tangent[k].real
        if rise > 0.0 and min(-xi[k].imag, math.pi + xi[k].imag) < _FLAT * rise:
            return NO_CONVERGENCE
    return NO_CONVERGENCE if w.imag > _ROUNDING * abs(w) else found


@driver
def newton(
    xi: Complex,
    target: complex,
    problem: Problem,
    blocks: Blocks | None,
    step: Complex,
    tangent: Complex,
    turns: Array,
) -> tuple[int, complex, float]:
    """Newton's method from ξ, in place: its status (see `side`), w and |residual|."""
    w, size = 0j, math.inf
    floor = 1e-15 * (1.0 + abs(target) + problem[5].sum())
    for _ in range(_NEWTON):
        residual, w, one_plus = evaluate(xi, target, problem, blocks, step, tangent, turns)
        size = abs(residual)
        if not size < math.inf:
            return NO_CONVERGENCE, w, size
        largest, shrink = 0.0, 1.0
        for k in range(xi.size):
            relative = abs(step[k]) / (abs(xi[k]) + 1e-300)
            largest = max(largest, relative)
        if largest > 0.5:
            shrink = 0.5 / largest
        for k in range(xi.size):
            xi[k] += shrink * step[k]
        at_rest = True
        if blocks is not None:
            at_rest = largest < _AT_REST
        if (largest < 1e-7 and size < 1e-2 + 1e-12 * abs(target)) or (size < floor and at_rest):
            residual, w, one_plus = evaluate(xi, target, problem, blocks, step, tangent, turns)
            if abs(one_plus) < abs(w):
                w = complex(w.real, one_plus.imag)
            return side(xi, w, one_plus, tangent, turns, floor, blocks), w, abs(residual)
    return NO_CONVERGENCE, w, size


@driver
def march(
    problem: Problem,
    blocks: Blocks | None,
    kind: int,
    a: complex,
    b: complex,
    thetas: Array,
    theta: float,
    xi: Complex,
    tangent: Complex,
    ws: Complex,
    xs: Complex,
    residuals: Array,
    status: NDArray[np.int64],
) -> None:
    """Follow the curve from θ, where ξ and dξ/dθ are given, through ascending or descending θs.

    Each step predicts along the tangent and corrects by Newton's method; one that leaves the half
    planes or does not converge is quartered, one that succeeds lets the next be four times longer.
    """
    groups = xi.size
    trial, step, slope = np.empty_like(xi), np.empty_like(xi), np.empty_like(xi)
    turns = np.empty(0)
    if blocks is not None:
        turns = np.empty(blocks[3].shape[0])
    stride = math.inf
    for i in range(thetas.size):
        status[i] = NO_CONVERGENCE
        ws[i], residuals[i] = complex(math.nan, math.nan), math.inf
        for _ in range(_TRIES):
            change = thetas[i] - theta
            if abs(change) > stride:
                change = math.copysign(stride, change)
            reach = thetas[i] if change == thetas[i] - theta else theta + change
            for k in range(groups):
                move = tangent[k] * change
                size = abs(xi[k])
                if abs(move) > 0.5 * size:
                    move *= 0.5 * size / abs(move)
                trial[k] = xi[k] + move
            found, w, residual = newton(
                trial, path(kind, a, b, reach), problem, blocks, step, slope, turns
            )
            close = True
            for k in range(groups):
                close = close and abs(trial[k] - xi[k]) < 1.5 * abs(xi[k])
            if found == NO_CONVERGENCE or not close:
                stride = 0.25 * abs(change)
                if theta + stride == theta:
                    break
                continue
            rate = b
            if kind == COSINE:
                rate = -b * math.sin(reach)
            elif kind == ROOT:
                rate = complex(-2.0 * reach, 0.0)
            for k in range(groups):
                xi[k] = trial[k]
                tangent[k] = slope[k] * rate
            stride = 4.0 * max(abs(change), 0.25 * stride)
            theta = reach
            if theta == thetas[i]:
                ws[i], residuals[i], status[i] = w, residual, found
                for k in range(groups):
                    xs[i, k] = xi[k]
                break
