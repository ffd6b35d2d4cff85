"""Rules of quadrature for Gaussian averages, and the error bounds that set their steps.

*Analytic integrands*: the trapezoid rule with step h. For F analytic on |Im z| ≤ b,

    |Σ_k h F(s k h) φ(k h) − ∫ F(s x) φ(x) dx| ≤ 2 M / (e^{2π a/h} − 1),      a = b/s,

with M the integral of |F φ| along Im x = ±a (Trefethen and Weideman, SIAM Rev. 56 (2014), thm 5.1),
so M ≤ e^{a²/2} G(b) for φ the normal density and G(b) the growth of F from the line to Im z = b,
both in units of F's size on the line. `growth` samples G at a few b; a module takes the largest h
for which one of them bounds the error by 2 e^{−accuracy}. With a factor He_m(x) beside F the growth
gains L_m(−a²)^{1/2} ≤ (1 + a²)^{m/2}: the norm of He_m(x + ia) in units of that of He_m(x).

At large s a step that resolves F is far finer than φ needs. Where F is analytic in sectors beside
the real line, z = c sinh u puts the nodes evenly on F's scale near 0 and in log z far out, some
log(s) of them. By the same theorem

    |error| ≤ 2 M / (e^{2π θ/h} − 1),      M = ∫ |F(z) He_m(z/s) φ(z/s) dz/s| along u = v ± iθ ;

`stretched_step` samples M, and sees by Cauchy's theorem whether a singularity lies between.

*Piecewise analytic integrands*: Gauss and Legendre's rule with n nodes on panels that end at the
kinks. On a panel of half-width c, for F φ bounded by M in the Bernstein ellipse whose half-axes add
up to ρ,

    |error| ≤ (64/15) c M ρ^{−2n} / (1 − ρ^{−2})      (Trefethen, SIAM Rev. 50 (2008), thm 4.5);

entire pieces have M = e^{c²(ρ − 1/ρ)²/8}, so that 20 nodes on c = 2.25 leave 1e-18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import sympy
from flint import arb, ctx
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import special

from derive.activations.functions import Activation, z
from derive.errors import InputError
from derive.gaussian.shapes import leibniz

from ..arrays import Array
from ..emit import printer
from ..emit.stable import stable
from .functions import OWN, sigmoid

ACCURACY = (36.0, 34.0, 32.0, 30.0)
"""log(1/ε) of the trapezoid rule in 1 … 4 dimensions."""

_WINDOW, _SPACING, _FARTHEST = 1.0, 0.05, 40.0

STRETCHED = 4.0
"""The scale from which nodes may be stretched."""

NEAR_REACH = 9.0
"""How far in x a sum goes, more or less, to choose the nodes that are fewer."""

_SCALES, _ANGLES = (4.0, 32.0, 1e3, 1e5, 1e6), tuple(k / 10 for k in range(1, 8))

UNBOUNDED = 1e300
"""A logarithm that stands for growth beyond doubles."""

Terms = Mapping[tuple[int, ...], int]
"""A polynomial in σ's derivatives: {orders of the factors: coefficient}."""


class Panels(NamedTuple):
    """Gauss and Legendre's rule in one of the dimensions: nodes per panel, reach, widest panel."""

    nodes: int
    reach: float
    width: float


PANELS = (Panels(20, 12.0, 4.5), Panels(20, 9.0, 4.5), Panels(12, 8.0, 4.0), Panels(12, 8.0, 4.0))
"""The panels of brackets in 1 … 4 dimensions; errors near 1e-14, 1e-13, 1e-10 and 1e-10. The
reach is for integrands that grow slowly: `panel_reach` has that of others."""

_BEYOND = (1e-15, 1e-13, 1e-10, 1e-10)
"""What of an integrand's average may lie beyond the panels."""


def strips(activation: Activation) -> tuple[float, ...]:
    """The heights b at which `growth` is sampled, all inside the strip of analyticity."""
    if activation.strip == sympy.oo:
        near = tuple(2.0 ** (j / 2) for j in range(-6, 11))
        return near + (tuple(2.0**j for j in range(6, 512, 8)) if activation.is_polynomial else ())
    width = float(activation.strip)
    return tuple(width * k / 16 for k in (1, 2, 4, 6, 8, 10, 12, 14, 15))


def growth(activation: Activation, integrands: Sequence[Terms]) -> tuple[float, ...]:
    """log G(b) for each b of `strips`: the largest over the integrands F and over x of

        |F(x ± i b)| / max_{|t − x| ≤ 1} |F(t)|,

    made nondecreasing in b. Sampled on |x| ≤ 40 with spacing 1/20.
    """
    orders = {order for terms in integrands for factors in terms for order in factors}
    largest, table = 0.0, []
    for b in (0.0, *strips(activation)):
        values = {order: _on_line(activation, order, b) for order in orders}
        sizes = [np.abs(_combine(terms, values)) for terms in integrands]
        if b == 0.0:
            real = [_windowed(size) for size in sizes]
            continue
        for size, reference in zip(sizes, real, strict=True):
            seen = reference > 1e-250
            with np.errstate(over="ignore", invalid="ignore"):
                ratio = (size[seen] / reference[seen]).max(initial=1.0)
            largest = max(largest, math.log(ratio) if math.isfinite(ratio) else math.inf)
        table.append(largest if math.isfinite(largest) else UNBOUNDED)
    return tuple(table)


def settled(activation: Activation, orders: Sequence[int], outer: int) -> int:
    """How many of the derivatives outside Π σ^{(order)} to put inside where z ~ N(0, K) is broad.

    The fewest that leave a function which dies out, so that it averages to O(K^{-1/2}) and not to
    O(1); none where no number of them does, as for σ that oscillates.
    """
    for inside in range(outer + 1):
        terms = leibniz(orders, inside)
        values = {m: _on_line(activation, m, 0.0) for factors in terms for m in factors}
        size, x = np.abs(_combine(terms, values)), np.abs(_line())
        with np.errstate(invalid="ignore"):
            if size[x > 0.75 * _FARTHEST].max() <= 0.2 * size[x < 0.25 * _FARTHEST].max():
                return inside
    return 0


def stretch(activation: Activation) -> float:
    """c of z = c sinh u: no farther than σ's nearest singularity."""
    return float(min(activation.strip, 2))


def stretched_step(
    activation: Activation,
    integrands: Sequence[tuple[Terms, int]],
    digits: float = ACCURACY[0],
    away: float = 0.0,
) -> float:
    """The largest step in u, z = c sinh u, that keeps the trapezoid rule for F(z) He_m(z/s) within
    2 e^{−digits} of its size, for every (F, m) of these and every scale s from `STRETCHED` on; 0
    where there is none, as for σ that oscillates.

    M is sampled at a few s; it must have settled between the last two. A normal density around μ
    beside F, |μ| as many standard deviations `away`, grows by e^{(μ/s)² sin²θ/(2 cos 2θ)}.
    """
    c, best, worst = stretch(activation), 0.0, 0.0
    orders = {order for terms, _ in integrands for factors in terms for order in factors}
    reach = math.asinh(12.0 * _SCALES[-1] / c)
    v = np.arange(-reach, reach, _SPACING)
    real = _contour(activation, orders, c, v, 0.0)
    lines = [_norms(integrands, real, scale) for scale in _SCALES]
    for angle in _ANGLES:
        path = _contour(activation, orders, c, v, angle)
        grown = []
        for scale, (size, total) in zip(_SCALES, lines, strict=True):
            sizes, totals = _norms(integrands, path, scale)
            seen = size > 0
            if not (np.isfinite(size).all() and np.isfinite(sizes).all()):
                return best
            if not (np.abs(totals - total)[seen] <= 1e-6 * (sizes + size)[seen]).all():
                return best
            grown.append(float(np.log(sizes[seen] / size[seen]).max(initial=0.0)))
        if not grown[-1] <= grown[-2] + 0.1:
            return best
        worst = max(worst, *grown)
        beside = 0.5 * (away * math.sin(angle)) ** 2 / math.cos(2.0 * angle)
        best = max(best, 2.0 * math.pi * angle / (digits + worst + beside))
    return best


class _Contour(NamedTuple):
    """z = c sinh(v + iθ) along a line, dz, and the derivatives of σ there."""

    z: NDArray[Any]
    dz: NDArray[Any]
    values: dict[int, NDArray[Any]]


def _contour(
    activation: Activation, orders: set[int], c: float, v: NDArray[Any], angle: float
) -> _Contour:
    at = c * np.sinh(v + 1j * angle)
    values = {order: _far_out(activation, order)(at) for order in orders}
    return _Contour(at, c * np.cosh(v + 1j * angle) * _SPACING, values)


def _norms(
    integrands: Sequence[tuple[Terms, int]], path: _Contour, scale: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """∫ |F He_m φ dz| of each integrand; ∫ F He_m φ dz/(1 + e^{−z}), which no symmetry hides."""
    with np.errstate(all="ignore"):
        x = path.z / scale
        weight = np.where(np.abs(x) < 38.0, np.exp(-0.5 * x * x) * path.dz / scale, 0.0)
        sizes, totals = [], []
        for terms, degree in integrands:
            he = np.polynomial.hermite_e.hermeval(x, [0.0] * degree + [1.0])
            part = np.where(weight == 0.0, 0.0, _sum(terms, path.values) * he * weight)
            sizes.append(np.abs(part).sum())
            totals.append((part * sigmoid(path.z)).sum())
    return np.array(sizes), np.array(totals)


@cache
def _far_out(activation: Activation, order: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """σ^{(order)} in a form that neither overflows nor meets a cut of log right or left of 0."""
    compiled = sympy.lambdify(z, stable(activation.derivative(order)), [OWN, "scipy", "numpy"])

    def values(at: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.asarray(compiled(at), complex), at.shape)

    return values


def _combine(terms: Terms, values: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.broadcast_to(_sum(terms, values), _line().shape)


def _sum(terms: Terms, values: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
    total = np.zeros(1, complex)
    for factors, coefficient in terms.items():
        product = np.full(1, float(coefficient), complex)
        for order in factors:
            product = product * values[order]
        total = total + product
    return total


def _windowed(size: NDArray[Any]) -> NDArray[Any]:
    reach = round(_WINDOW / _SPACING)
    padded = np.pad(np.nan_to_num(size), reach, mode="edge")
    return np.asarray(sliding_window_view(padded, 2 * reach + 1).max(axis=1))


def _line() -> NDArray[Any]:
    return np.arange(-_FARTHEST, _FARTHEST + _SPACING / 2, _SPACING)


@cache
def _on_line(activation: Activation, order: int, b: float) -> NDArray[Any]:
    """σ^{(order)}(x + i b), b > 0; σ is real on the real line, so −b has the same size."""
    with np.errstate(all="ignore"):
        return np.asarray(_compiled(activation, order)(_line() + 1j * b), complex)


@cache
def _compiled(activation: Activation, order: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    found: Callable[[NDArray[Any]], NDArray[Any]]
    found = sympy.lambdify(z, activation.derivative(order), ["scipy", "numpy"])
    return found


@cache
def rate(activation: Activation) -> float:
    """log|σ(z)|/|z| far out, 0 for algebraic growth: how far σ moves the weight of the Gaussian."""
    ends = (activation.pieces[0].expr, -10_000), (activation.pieces[-1].expr, 10_000)
    rates = [
        float(sympy.log(abs(value)).evalf()) / abs(at)
        for expr, at in ends
        if (value := expr.subs(z, sympy.Integer(at)).evalf(30)) != 0
    ]
    fastest = max(rates, default=0.0)
    return fastest if fastest > 0.02 else 0.0


@cache
def degree(activation: Activation, order: int) -> float:
    """How fast |σ^{(order)}| grows far out, as a power of |z|: 0 where it is bounded."""
    at = np.array([-2e3, -1e3, 1e3, 2e3], complex)
    if activation.is_smooth:
        values = _far_out(activation, order)(at)
    else:
        ends = [Activation("piece", activation.pieces[end].expr) for end in (0, -1)]
        left, right = (_far_out(end, order)(at) for end in ends)
        values = np.concatenate([left[:2], right[2:]])
    size = np.abs(values)
    with np.errstate(all="ignore"):
        powers = np.log2(size[[0, 3]] / size[[1, 2]])
    return float(powers[np.isfinite(powers)].max(initial=0.0))


def reach(rank: int, powers: float, digits: float | None = None) -> float:
    """How far the nodes of `rank` latent variables go for an integrand that grows as |y|^powers.

    |y|^powers has all but e^{−digits} of its average within: an incomplete Γ function. The digits
    are those of `accuracy` unless others are given.
    """
    digits = accuracy(rank) if digits is None else digits
    inside = special.gammainccinv(0.5 * (powers + max(rank, 1)), math.exp(-digits))
    return max(math.sqrt(2.0 * digits) + 0.5, math.sqrt(2.0 * float(inside)))


def panel_reach(rank: int, powers: float) -> float:
    """How far the panels of `rank` latent variables go for an integrand that grows as |y|^powers.

    Of |y|^powers times any function of y/|y| the part Γ(a, r²/2)/Γ(a), a = (powers + rank)/2, of
    the average lies beyond r.
    """
    place = max(rank, 1) - 1
    inside = special.gammainccinv(0.5 * (powers + place + 1), _BEYOND[place])
    return max(PANELS[place].reach, math.sqrt(2.0 * float(inside)))


@cache
def smooth_width(activation: Activation) -> float:
    """How wide in z a panel may be: ∞ for polynomial pieces, else twice their strip, at most 4."""
    bounds = [
        2.0 * min(float(Activation("piece", piece.expr).strip), 2.0)
        for piece in activation.pieces
        if not piece.expr.is_polynomial(z)
    ]
    width = min(bounds, default=math.inf)
    if width <= 0:
        raise InputError("activation", activation.name, "pieces that are analytic up to the kinks")
    return width


def support_source(activation: Activation) -> str:
    """The constants and rules that brackets of this activation use, for the top of a module."""
    if activation.is_smooth:
        heights = printer.constant("STRIPS", strips(activation))
        return "\n\n".join([heights + FINEST_SOURCE, TRAPEZOID_SOURCE])
    tables = [
        printer.constant(f"{label}_{nodes}", values, array=True)
        for nodes in dict.fromkeys(rule.nodes for rule in PANELS)
        for label, values in zip(("NODES", "WEIGHTS"), legendre(nodes), strict=True)
    ]
    kinks = printer.constant("KINKS", [float(kink) for kink in activation.kinks])
    width = f"SMOOTH = {printer.literal(smooth_width(activation))}  # the widest panel in z\n"
    return "\n\n".join([FINEST_SOURCE + kinks + width + "".join(tables), PANELS_SOURCE])


@cache
def legendre(nodes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Gauss and Legendre's nodes and weights on (−1, 1), rounded once: NumPy's own weights lack
    three digits."""
    with ctx.workprec(128):
        found = [arb.legendre_p_root(nodes, k, weight=True) for k in reversed(range(nodes))]
    x, w = np.array([[float(each.mid()) for each in pair] for pair in found]).T
    return x, w


def accuracy(rank: int) -> float:
    """log(1/ε) of the trapezoid rule with so many latent variables."""
    return (ACCURACY[0], *ACCURACY)[rank] if rank <= len(ACCURACY) else ACCURACY[-1]


def steps(
    scale: Array, strips: Array, growth: Array, digits: float, widest: float, degree: int = 0
) -> Array:
    """The step for each scale, as `step` of an emitted module finds it; nan where it is too fine.

    Arguments:
        strips, growth: from functions of these names.
        digits: log(1/ε), as `accuracy` has it.
    """
    needed = digits + growth
    with np.errstate(divide="ignore"):
        a = np.minimum(strips / np.asarray(scale)[..., None], np.sqrt(2.0 * needed))
    needed = needed + 0.5 * degree * np.log1p(a * a)
    largest = (2.0 * math.pi * a / (needed + 0.5 * a * a)).max(axis=-1)
    return np.where(largest > FINEST, np.minimum(largest, widest), math.nan)


FINEST = 1e-5
"""The smallest step in x that is tried."""

FINEST_SOURCE = f"FINEST = {FINEST!r}  # the smallest step in x that is tried\n"

TRAPEZOID_SOURCE = '''\
@driver
def step(scale, strips, growth, accuracy, widest, degree=0):
    """The largest step h in x that keeps the trapezoid rule for F(scale x) within 2 exp(-accuracy).

    2 pi a/h = accuracy + a^2/2 + growth[j] bounds the error for every a <= strips[j]/scale, with
    degree/2 log(1 + a^2) added for a Hermite polynomial of that degree in x beside F. The widest
    step is for small scales, where growth overrates what F contributes. A scale that would need a
    step below FINEST gives nan, and so does its bracket.
    """
    largest = 0.0
    for j in range(len(strips)):
        needed = accuracy + growth[j]
        a = min(strips[j] / scale, math.sqrt(2.0 * needed))
        needed += 0.5 * degree * math.log(1.0 + a * a)
        largest = max(largest, 2.0 * math.pi * a / (needed + 0.5 * a * a))
    return min(largest, widest) if largest > FINEST else math.nan


@driver
def trapezoid(level, B, strips, growth, accuracy, reach):
    """Nodes and normal weights of one latent variable; a single node where no position has it."""
    scale = 0.0
    for k in range(level, B.shape[0]):
        scale = max(scale, abs(B[k, level]))
    if scale == 0.0:
        return np.zeros(1), np.ones(1)
    h = step(scale, strips, growth, accuracy, 3.0 / math.sqrt(accuracy))
    if math.isnan(h):
        return np.zeros(1), np.full(1, math.nan)
    count = int(math.ceil(reach / h))
    y = np.empty(2 * count + 1)
    w = np.empty(2 * count + 1)
    for k in range(-count, count + 1):
        y[count + k] = h * k
        w[count + k] = h / math.sqrt(2.0 * math.pi) * math.exp(-0.5 * (h * k) ** 2)
    return y, w
'''
"""The trapezoid rule of emitted modules."""

PANELS_SOURCE = '''\
@driver
def split(points, count, reach, width):
    """Edges of panels from -reach to reach that end at points[:count], none wider than width."""
    ends = np.empty(count + 2)
    ends[0], filled = -reach, 1
    for j in range(count):
        if not -reach < points[j] < reach:
            continue
        place = filled
        while ends[place - 1] > points[j]:
            ends[place] = ends[place - 1]
            place -= 1
        ends[place] = points[j]
        filled += 1
    ends[filled] = reach
    total = 1
    for j in range(filled):
        total += int(math.ceil((ends[j + 1] - ends[j]) / width))
    edges = np.empty(total)
    edges[0], total = -reach, 1
    for j in range(filled):
        parts = int(math.ceil((ends[j + 1] - ends[j]) / width))
        for part in range(1, parts):
            edges[total] = ends[j] + (ends[j + 1] - ends[j]) * (part / parts)
            total += 1
        if parts > 0:
            edges[total] = ends[j + 1]  # to the last digit: a kink may be near 0
            total += 1
    return edges


@driver
def legendre(edges, nodes, weights):
    """Nodes and normal weights of Gauss and Legendre's rule on every panel."""
    size = len(nodes)
    y = np.empty((len(edges) - 1) * size)
    w = np.empty_like(y)
    for j in range(len(edges) - 1):
        centre, half = 0.5 * (edges[j + 1] + edges[j]), 0.5 * (edges[j + 1] - edges[j])
        for i in range(size):
            x = centre + half * nodes[i]
            y[j * size + i] = x
            w[j * size + i] = half * weights[i] * math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return y, w
'''
"""Panels of emitted modules that integrate over kinks."""

LATENT_PANELS_SOURCE = '''\
@driver
def panels(level, rank, B, latent, kinks, smooth, reach, width, nodes, weights):
    """Nodes and weights of latent variable `level`, given those before it, within a ball.

    Panels end where a position crosses a kink. Where it only does so on average, with a spread of
    less than 1, they resolve that spread; and likewise for the sharpest combination of two.
    """
    if level >= rank:
        return np.zeros(1), np.ones(1)
    left = reach * reach
    for j in range(level):
        left -= latent[j] * latent[j]
    if left <= 0.0:
        return np.zeros(0), np.zeros(0)
    d = B.shape[0]
    mean = np.zeros(d)
    points = np.empty(5 * d * d * len(kinks) * len(kinks))
    count, steepest = 0, 0.0
    for k in range(level, d):
        steepest = max(steepest, abs(B[k, level]))
        for j in range(level):
            mean[k] += B[k, j] * latent[j]
        for m in range(min(level + 1, k), k + 1):
            c, s = 1.0, 0.0
            if m < k:
                kk, mm, km = 0.0, 0.0, 0.0
                for j in range(level + 1, rank):
                    kk += B[k, j] * B[k, j]
                    mm += B[m, j] * B[m, j]
                    km += B[k, j] * B[m, j]
                angle = 0.5 * math.atan2(-2.0 * km, mm - kk)
                c, s = math.cos(angle), math.sin(angle)
            slope = c * B[k, level] + s * B[m, level]
            rest = 0.0
            for j in range(level + 1, rank):
                combined = c * B[k, j] + s * B[m, j]
                rest += combined * combined
            spread = math.sqrt(rest) / abs(slope)
            if not (spread < 1.0 and abs(slope) > 1e-12 * (abs(B[k, level]) + abs(B[m, level]))):
                continue
            for first in range(len(kinks)):
                for second in range(len(kinks)):
                    if m == k and first != second:
                        continue
                    away = c * (kinks[first] - mean[k]) + s * (kinks[second] - mean[m])
                    for side in range(-2, 3):
                        if side == 0 or spread > 0.0:
                            points[count] = away / slope + 0.5 * side * reach * spread
                            count += 1
    edges = split(points, count, math.sqrt(left), min(width, smooth / steepest))
    return legendre(edges, nodes, weights)
'''
"""Panels of one latent variable among several."""

FACTORISE_SOURCE = '''\
@driver
def factorise(K):
    """Positions z = B y for independent normal y, by Cholesky's method with pivots.

    Returns order (row k of B belongs to position order[k]), B with its columns from `rank` on zero,
    and rank, which is -1 where K is not finite or a variance is negative.
    """
    d = K.shape[0]
    order = np.arange(d)
    B = np.zeros((d, d))
    scale = np.empty(d)
    for k in range(d):
        if not 0.0 <= K[k, k] < math.inf:
            return order, B, -1
        scale[k] = math.sqrt(K[k, k])
    left = np.zeros((d, d))
    for k in range(d):
        for j in range(d):
            if not math.isfinite(K[k, j]):
                return order, B, -1
            if scale[k] > 0.0 and scale[j] > 0.0:
                left[k, j] = K[k, j] / scale[k] / scale[j]
    rank = 0
    for level in range(d):
        best = level
        for k in range(level + 1, d):
            if left[order[k], order[k]] > left[order[best], order[best]] + 1e-9:
                best = k
        pivot = order[best]
        if left[pivot, pivot] <= 1e-13:
            break
        order[best] = order[level]
        order[level] = pivot
        for j in range(level):
            swapped = B[best, j]
            B[best, j] = B[level, j]
            B[level, j] = swapped
        root = math.sqrt(left[pivot, pivot])
        for k in range(level, d):
            B[k, level] = left[order[k], pivot] / root
        B[level, level] = root
        for k in range(level + 1, d):
            for j in range(level + 1, d):
                left[order[k], order[j]] -= B[k, level] * B[j, level]
        rank += 1
    for k in range(d):
        for j in range(rank):
            B[k, j] *= scale[order[k]]
    return order, B, rank
'''
"""The latent variables of several positions."""

INVERSE_SOURCE = '''\
@driver
def inverse(order, B, rank):
    """M with M M^T the pseudo-inverse of K = B B^T: the basis of B's range dual to its columns."""
    d = B.shape[0]
    Q = B.copy()
    R = np.zeros((d, d))
    for c in range(rank):
        for b in range(c):
            for k in range(d):
                R[b, c] += Q[k, b] * Q[k, c]
            for k in range(d):
                Q[k, c] -= R[b, c] * Q[k, b]
        R[c, c] = math.sqrt((Q[:, c] ** 2).sum())
        for k in range(d):
            Q[k, c] /= R[c, c]
    M = np.zeros((d, d))
    for c in range(rank - 1, -1, -1):
        for k in range(d):
            value = Q[k, c]
            for b in range(c + 1, rank):
                value -= R[c, b] * M[order[k], b]
            M[order[k], c] = value / R[c, c]
    return M
'''
"""The pseudo-inverse behind Hermite's polynomials of several positions."""


def rule_source() -> str:
    """`rule(rank)`: the panels' nodes and weights on (-1, 1), reach and width."""
    *cases, last = (
        f"return NODES_{nodes}, WEIGHTS_{nodes}, {reach!r}, {width!r}"
        for nodes, reach, width in PANELS
    )
    lines = [f"if rank <= {rank}:\n    {case}" for rank, case in enumerate(cases, start=1)]
    return "\n".join(
        [
            "@scalar",
            "def rule(rank):",
            '    """Nodes, weights, reach and widest panel for this many latent variables."""',
            *printer.indented([*lines, last]),
            "",
        ]
    )
