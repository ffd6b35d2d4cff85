"""Brackets of piecewise linear σ in closed form, in NumPy, at many covariances at once.

Positions that are multiples of one normal y, z_p = c_p y, form a factor Π σ^{(n_p)}(c_p y): a
polynomial and a sum of truncated powers c_e a_e(y − h), and c δ^{(m)} on the breakpoints h. What
several positions do at one breakpoint is the limit of smooth σ_ε → σ. There σ'' = jump · δ, and
where σ' jumps from l to r,

    Π σ'_q · δ → ∫₀¹ Π (l_q + τ (r_q − l_q)) dτ · δ,      g δ' → g δ' − ½ (g'₋ + g'₊) δ,

g continuous; σ''σ'' and σ'σ''' have no limit and give nan. A variance of 0 is the limit from above.

A singular K says nothing about derivatives across its range. Positions of one factor share theirs,
∂_p = (c_p/Σc²) d/dy, and those of variance 0 have none: right for tensors in the range of K, which
is all that a recursion asks for. The average of a product of factors is a sum of
`orthants.Moments`. Derived here.

What depends on the covariance alone is done once for all shapes: who is a multiple of whom, at
which sites h a factor may have a kink, and the moments.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.errors import InputError, as_integer
from derive.gaussian.shapes import Shape

from ..arrays import Array
from ..brackets.pieces import SLACK, table
from ..brackets.shapes import check_inputs
from .orthants import FREE, MAX_ORTHANT, Moments

_AT_ONCE = 4096
"""Covariances times choices of a site for each factor."""

FARTHEST = 39.0
"""The tail beyond so many deviations is negligible."""


def averages(activation: Activation, shapes: Sequence[Shape], K: Array) -> tuple[Array, Array]:
    """⟨∂^outer Π_p σ^{(orders_p)}(z_p)⟩ over z ~ N(0, K), and the sum of the absolute values of
    the terms that add up to it: of truncated powers, which cancel where σ is bounded and K large.

    Arguments:
        activation: continuous and piecewise linear.
        shapes: all of the same number d of positions.
        K: (t, d, d), the positions' covariances, singular or not.

    Returns:
        Two arrays (len(shapes), t). nan where K is no covariance, and where there is no limit.

    Raises:
        InputError: for another σ, for shapes of different d or of numbers that are not whole, for
            a K of another shape, and where more than 4 positions are no multiples of one another.
    """
    pieces = table(activation)
    if pieces is None:
        raise InputError("activation", activation.name, "a continuous, piecewise linear one")
    d = _positions(shapes)
    if K.ndim != 3 or K.shape[1:] != (d, d):
        raise InputError("K", f"an array of shape {K.shape}", f"covariances, (t, {d}, {d})")
    return of_pieces(pieces, shapes, K)


def of_pieces(pieces: Array, shapes: Sequence[Shape], K: Array) -> tuple[Array, Array]:
    """The averages of the σ that `table` gives these pieces of, and their sizes."""
    found, d = np.full((2, len(shapes), len(K)), math.nan), K.shape[1]
    step = max(1, _AT_ONCE // max(1, len(pieces) - 1) ** min(d, MAX_ORTHANT))
    with np.errstate(all="ignore"):
        for start in range(0, len(K), step):
            part = np.moveaxis(K[start : start + step], 0, -1)
            _fill(found[:, :, start : start + step], shapes, part, pieces)
    return found[0], found[1]


def _positions(shapes: Sequence[Shape]) -> int:
    if not shapes:
        raise InputError("shapes", shapes, "one shape or more")
    d = len(shapes[0].orders)
    for shape in shapes:
        for count in (*shape.orders, *shape.outer):
            as_integer("shapes", count, 0, wanted="orders and outer derivatives, 0 or more")
        if not len(shape.orders) == len(shape.outer) == d > 0:
            raise InputError("shapes", shape, f"{d} positions, one outer count each")
    return d


def _fill(found: Array, shapes: Sequence[Shape], K: Array, pieces: Array) -> None:
    """Put the averages at the covariances K (d, d, t), and their sizes, into `found`, (2, shapes,
    t); leave nan where K is none."""
    frames: dict[tuple[int, ...], list[_Alike]] = defaultdict(list)
    for alike in _alikes(K, pieces):
        frames[alike.sites].append(alike)
    for sites, members in frames.items():
        moments = _moments(sites, members, K) if sites else None
        start = 0
        for alike in members:
            end = start + len(alike.rows)
            for place, shape in enumerate(shapes):
                found[:, place, alike.rows] = alike.average(shape, moments, slice(start, end))
            start = end


class _Alike:
    """Covariances at which the same positions are multiples of one another: z_p = scale_p y_group.

    Attributes:
        rows: which covariances these are, t of them.
        groups: the positions of each group, the first of which leads it, larger groups first.
        resting: the positions of variance 0.
        scale: (d, t), negative where a position is a negative multiple of its leader.
        at, live: for each group (sites, t): where y meets a kink, and whether no earlier site is
            the same.
    """

    def __init__(
        self,
        rows: NDArray[np.intp],
        groups: Sequence[tuple[int, ...]],
        resting: tuple[int, ...],
        scale: Array,
        pieces: Array,
    ) -> None:
        self.rows, self.groups, self.resting = rows, groups, resting
        self.scale, self.pieces = scale, pieces
        self._parts = [Group(scale[list(group)], pieces) for group in groups]
        self.at = [each.at for each in self._parts]

    @property
    def sites(self) -> tuple[int, ...]:
        """How many there are of each group."""
        return tuple(map(len, self.at))

    def average(self, shape: Shape, moments: Moments | None, part: slice) -> Array:
        """The bracket of this shape and its size, (2, t); these are a part of the covariances of
        the moments."""
        total = np.zeros((2, len(self.rows)))
        if any(shape.outer[p] for p in self.resting):
            return total
        value = np.array([self._at_rest(shape.orders)])
        factors = []
        for own, group in zip(self._parts, self.groups, strict=True):
            outer = [shape.outer[p] for p in group]
            for p, times in zip(group, outer, strict=True):
                if times:
                    value = value * (self.scale[p] / own.length) ** times
            factors.append(own.atoms(tuple(shape.orders[p] for p in group), sum(outer)))
        if moments is None:
            total[:] = value, np.abs(value)
            return total
        if not np.isfinite(value).all():
            for each in factors:
                some = np.any([np.any(size != 0.0, axis=0) for _, size in each], axis=0)
                value = np.where(some, value, 0.0)
        axes = tuple(range(len(factors)))
        for atoms in itertools.product(*factors):
            product = value
            for g, (_, coefficients) in enumerate(atoms):
                product = product * coefficients.reshape(_axes(coefficients, g, len(factors)))
            if not product.any():
                continue
            chosen = (*(slice(len(coefficients)) for _, coefficients in atoms), part)
            moment = moments(tuple(e for e, _ in atoms)).reshape(*self.sites, -1)[chosen]
            term = np.where(product == 0.0, 0.0, product * moment)
            total[0] += term.sum(axis=axes)
            total[1] += np.abs(term).sum(axis=axes)
        return total

    def _at_rest(self, orders: tuple[int, ...]) -> float:
        """⟨f(ε y)⟩, ε → 0+, of the factor of the positions of variance 0.

        nan where that depends on how y goes with other positions, unless there are none.
        """
        if not self.resting:
            return 1.0
        one = np.ones((len(self.resting), 1))
        at = self.pieces[1:, :1]
        orders = tuple(orders[p] for p in self.resting)
        factor = _factor(orders, _Lines(one, at, self.pieces), np.ones(at.shape, bool))
        here = at == 0.0
        step = float(np.sum(factor.jumps[0][here])) if 0 in factor.jumps else 0.0
        if any(np.any(size[here] != 0.0) for size in factor.deltas.values()):
            return math.nan
        if step and self.groups:
            return math.nan
        value = float(factor.powers[0][0, 0]) if 0 in factor.powers else 0.0
        return value + 0.5 * step


class Group:
    """Positions z_p = scale_p y of one normal y: scale (p, t).

    Attributes:
        at: (sites, t), where y meets a kink.
        side: which way truncated powers grow from there.
        length: Σ scale², (t,).
    """

    def __init__(self, scale: Array, pieces: Array) -> None:
        self.at, self._live = _sites(scale, pieces)
        self.length = sum(each**2 for each in scale)
        self._lines = _Lines(scale, self.at, pieces)
        self.side = _side(self.at)
        self._plain = bool(((self.at >= 0.0) & (self.at < FARTHEST)).all())
        self._known: dict[tuple[tuple[int, ...], int], list[tuple[int, Array]]] = {}

    def atoms(self, orders: tuple[int, ...], times: int) -> list[tuple[int, Array]]:
        """(d/dy)^times of the factor: exponents as `Moments` has them, and coefficients.

        (sites, t), or (1, t) for powers that are not truncated, in units of side·y at each site.
        """
        if (orders, times) not in self._known:
            found = self._atoms(_factor(orders, self._lines, self._live), times)
            self._known[orders, times] = [atom for atom in found if atom[1].any()]
        return self._known[orders, times]

    def _atoms(self, factor: _Factor, times: int) -> Iterator[tuple[int, Array]]:
        side = self.side
        for e, size in factor.powers.items():
            if e >= times:
                yield FREE + e - times, size * side[:1] ** (e - times)
        for e, size in factor.jumps.items():
            yield e - times, self._seen(size, side * self.at, e + 1 + times)
        for m, size in factor.deltas.items():
            yield -1 - m - times, self._seen(size, self.at, m + times)

    def _seen(self, size: Array, at: Array, power: int) -> Array:
        """Coefficients times side^power, of the sites that are near enough."""
        if self._plain:
            return size
        return np.where(at < FARTHEST, size * self.side**power, 0.0)


def _axes(coefficients: Array, g: int, count: int) -> tuple[int, ...]:
    """The shape with which a group's sites are axis g of count, before the covariances."""
    sites, t = coefficients.shape
    return (*(sites if k == g else 1 for k in range(count)), t)


def _side(at: Array) -> Array:
    """Which way truncated powers grow from a site: away from 0, so that nothing cancels there."""
    return np.where(at < 0.0, -1.0, 1.0)


def _alikes(K: Array, pieces: Array) -> Iterator[_Alike]:
    """The covariances K (d, d, t), parted by which positions are multiples of one another; those
    that are no covariances are left out."""
    d = len(K)
    variance = K[range(d), range(d)]
    root = np.sqrt(np.maximum(variance, 0.0))
    sizes, far = root[:, None] * root, np.abs(K)
    usable = (far <= (1.0 + 1e-9) * sizes) & (sizes < math.inf) & (variance >= 0.0)
    kept = usable.all(axis=(0, 1))
    leader = np.where(variance == 0.0, -1, np.arange(d)[:, None])
    scale = np.where(variance == 0.0, 1.0, root)
    close = far >= (1.0 - SLACK) * sizes
    for p, q in np.argwhere(close.any(axis=2)).tolist():
        if q < p:
            with_q = close[p, q] & (leader[q] == q) & (leader[p] == p)
            leader[p] = np.where(with_q, q, leader[p])
            scale[p] = np.where(with_q, np.copysign(scale[p], K[p, q]), scale[p])
    codes = (d + 1) ** np.arange(d)[::-1] @ (leader + 1)
    for code in np.unique(codes).tolist():
        rows = np.flatnonzero((codes == code) & kept)
        if not len(rows):
            continue
        groups: dict[int, tuple[int, ...]] = defaultdict(tuple)
        for p, first in enumerate(leader[:, rows[0]].tolist()):
            groups[first] += (p,)
        resting = groups.pop(-1, ())
        check_inputs(len(groups), "a multiple of another")
        ordered = sorted(groups.values(), key=lambda group: -len(group))
        yield _Alike(rows, ordered, resting, scale[:, rows], pieces)


def _sites(scale: Array, pieces: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Where y meets a kink of a position scale·y, and whether no earlier site is the same: (sites,
    t) each, one site at least."""
    distinct = scale[:1] if (scale == scale[0]).all() else scale
    at: list[Array] = []
    live: list[NDArray[np.bool_]] = []
    for site in (kink / each for each in distinct for kink in pieces[1:, 0]):
        fresh = np.ones(site.shape, bool)
        for other, on in zip(at, live, strict=True):
            fresh &= ~(on & _same(site, other))
        if fresh.any():
            at.append(site)
            live.append(fresh)
    if not at:
        return np.zeros((1, scale.shape[1])), np.zeros((1, scale.shape[1]), bool)
    return np.array(at), np.array(live)


def _same(a: Array, b: Array) -> NDArray[np.bool_]:
    """True if two sites are one, to rounding."""
    return np.less_equal(np.abs(a - b), 2.0 * SLACK * (1.0 + np.abs(b)))


def _moments(sites: tuple[int, ...], members: Sequence[_Alike], K: Array) -> Moments:
    """The moments of the groups' leaders, for every choice of a site for each: (*sites, t)."""
    count, t = len(sites), sum(len(alike.rows) for alike in members)
    h = np.empty((count, *sites, t))
    R, gap = np.ones((2, count, count, *sites, t))
    slack = np.where(np.eye(count, dtype=bool)[..., None], -1.0, np.full(h[0].size, SLACK))
    sides = []
    for g in range(count):
        at = np.concatenate([alike.at[g] for alike in members], axis=1)
        axes = _axes(at, g, count)
        h[g] = np.minimum(np.abs(at), FARTHEST).reshape(axes)
        sides.append(_side(at).reshape(axes))
        for k in range(g):
            r = np.concatenate([_correlation(alike, g, k, K) for alike in members])
            R[g, k] = R[k, g] = r * sides[g] * sides[k]
            gap[g, k] = gap[k, g] = 1.0 - np.abs(r)
    flat = (count, count, -1)
    return Moments(h.reshape(count, -1), R.reshape(flat), gap.reshape(flat), slack)


def _correlation(alike: _Alike, g: int, k: int, K: Array) -> Array:
    """Of two groups' leaders, the same in either order to the last bit: averages of variables that
    are almost alike add up to less than the last digit of 1 − |r| changes in each."""
    a, b = alike.groups[g][0], alike.groups[k][0]
    r: Array = K[a, b, alike.rows] / (alike.scale[a] * alike.scale[b])
    return r


class _Factor(NamedTuple):
    """Π σ^{(n_p)}(scale_p y) = Σ_e powers_e y^e/e! + Σ_sites (Σ_e jumps_e a_e + Σ_m deltas_m
    δ^{(m)})(y − at), but a_e(at − y) (−1)^{e+1} at sites below 0: (1, t) and (sites, t) each.
    """

    powers: dict[int, Array]
    jumps: dict[int, Array]
    deltas: dict[int, Array]


def _factor(orders: tuple[int, ...], lines: _Lines, live: NDArray[np.bool_]) -> _Factor:
    """Of positions on these lines, each site counted where live."""
    if max(orders) > 1:
        return _Factor({}, {}, _deltas(orders, lines, live))
    before, after, origin = lines.parted(lines.taylor(orders))
    powers = {
        e: math.factorial(e) * origin[e] for e in np.flatnonzero(origin.any(axis=(1, 2))).tolist()
    }
    jump = after - before
    real = live & (np.abs(jump) > 1e-15 * (np.abs(after) + np.abs(before)))
    jumps = {
        e: np.where(real[e], math.factorial(e) * jump[e], 0.0)
        for e in np.flatnonzero(real.any(axis=(1, 2))).tolist()
    }
    return _Factor(powers, jumps, {})


class _Lines:
    """The lines on which positions scale (p, t) are beside the sites, at (sites, t).

    An axis holds all sites approached from below, then all from above, and last y = 0 from below.

    Attributes:
        piece: (p, 2 sites + 1, t), the piece of σ on which a position is.
        slope, value: of that piece, and σ there.
    """

    def __init__(self, scale: Array, at: Array, pieces: Array) -> None:
        self.scale, self.pieces = scale, pieces
        self._sites = len(at)
        places = np.concatenate([at, at, np.zeros((1, at.shape[1]))])
        side = np.repeat([-1.0, 1.0, -1.0], [len(at), len(at), 1])[:, None]
        own = scale[:, None]
        z, up = own * places, side * own > 0.0
        self.piece = np.zeros(z.shape, np.int64)
        for kink in pieces[1:, 0]:
            self.piece += np.where(_same(kink / own, places), up, z > kink)
        self.slope = pieces[self.piece, 2]
        self.value = pieces[self.piece, 1] + self.slope * z

    def parted(self, found: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The parts with those axes last: below the sites, above them, and at 0."""
        n = self._sites
        return found[..., :n, :], found[..., n : 2 * n, :], found[..., 2 * n :, :]

    def taylor(self, orders: tuple[int, ...], skipped: int | None = None) -> Array:
        """The coefficients in y of the product, one position skipped: behind an axis of powers."""
        product = np.ones((1, *self.value.shape[1:]))
        for p, order in enumerate(orders):
            if p == skipped:
                continue
            if order > 0:
                product = (self.slope[p] if order == 1 else 0.0) * product
                continue
            lower = product
            product = np.zeros((len(lower) + 1, *lower.shape[1:]))
            np.multiply(self.value[p], lower, out=product[:-1])
            product[1:] += self.slope[p] * self.scale[p] * lower
        return product


def _deltas(orders: tuple[int, ...], lines: _Lines, live: NDArray[np.bool_]) -> dict[int, Array]:
    """The coefficients of δ^{(m)} at the sites; nan where there is no limit."""
    left, right, _ = lines.parted(lines.piece)
    slopes, values = lines.parted(lines.slope)[:2], lines.parted(lines.value)[:2]
    kinked = left != right
    carriers = [p for p, order in enumerate(orders) if order > 1]
    unclear = live & (np.sum(kinked[carriers], axis=0) > 1)
    found: dict[int, Array] = defaultdict(lambda: np.zeros(live.shape))
    for p in carriers:
        m = orders[p] - 2
        early, late = np.ones((2, *live.shape))
        for q, order in enumerate(orders):
            if q == p:
                continue
            if m > 0 and (order > 0 or m > 1):
                unclear |= live & kinked[p] & kinked[q]
            before, after = (each[q] for each in slopes)
            if order != 1:
                before = after = values[0][q] if order == 0 else np.zeros(live.shape)
            middle, half = 0.5 * (before + after), 0.5 * (after - before) / math.sqrt(3.0)
            early, late = early * (middle - half), late * (middle + half)
        low, high = np.minimum(left[p], right[p]), np.maximum(left[p], right[p])
        rise = lines.pieces[high, 2] - lines.pieces[low, 2]
        jump = rise / np.abs(lines.scale[p]) / lines.scale[p] ** m
        around = zip(*lines.parted(lines.taylor(orders, p))[:2], strict=True)
        for k, (before, after) in enumerate(itertools.islice(around, m + 1)):
            size = 0.5 * (early + late) if m == 0 else 0.5 * (before + after)
            ways = (-1) ** k * math.perm(m, k)
            found[m - k] += np.where(live & kinked[p], ways * size * jump, 0.0)
    sure = {m: np.where(unclear, 0.0, size) for m, size in found.items()}
    if unclear.any():
        sure[0] = np.where(unclear, math.nan, sure.get(0, 0.0))
    return sure
