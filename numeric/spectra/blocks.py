"""Factors |γ + A₁ + …|² of a spectral problem: members that have one Cauchy transform in common.

Each R-diagonal member A_i, the skip among them as γ times a Haar matrix, has in units of the sum's
mean m_1 (`kernel`, `derive.spectra.skips`)

    m_1 g² = w_i (1 + w_i) S_i(w_i)/share_i,        Σ_i w_i = M,

S_i = Π (1 + a w)^e Π_k S_k of mean 1: exact factors, and averages known by their nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.spectra import Law
from derive.spectra.skips import Around

from ..arrays import Array
from .contour import UNIT, Nodes, exact_powers, has_nodes, nodes, parts_of, real_number
from .lines import Interval, Spots, intervals, inverse

SCAN = 600
"""Coordinates among which gaps are looked for."""
RESOLVED = 12.0
"""−log of the distance to the end of a density at which nodes still resolve it."""
NEAR = 1e-6
"""|M|, |1 + M| at the end of a coordinate, where z is ∞ or 0."""

FARTHEST = 60.0
"""−log of the distance to 0, ∞ and atoms that still matters."""

_APART = 33.0  # −log of a distance that is rounding
_CANCELLED = 1e-12  # 1 + M of its parts, where it is rounding


@dataclass(frozen=True)
class Member:
    """One A_i.

    Attributes:
        log_share: log(E|A_i|²/m_1).
        base: 1/(1 − mass at 0) of its law: w_i stays above −1/base on x_i < 0.
        slopes, powers: a and e of the factors (1 + a w)^e of w (1 + w) S(w), but w itself.
        averages: the nodes of its other factors.
    """

    log_share: float
    base: float
    slopes: Array
    powers: Array
    averages: tuple[Nodes, ...] = ()


@dataclass(frozen=True)
class Block:
    """`count` equal factors on a corner of trace 1/scale, the skip their first member.

    Attributes:
        count, scale: n and s.
        members: the skip and its branch.
    """

    count: float
    scale: float
    members: tuple[Member, ...]

    @property
    def groups(self) -> list[Nodes]:
        """The nodes of its unknowns: of each member δ(1), for w, and its averages."""
        return [each for member in self.members for each in (UNIT, *member.averages)]


def around(law: Around, count: float, scale: float, more: int = 0) -> Block:
    """The block of a law, with so many more nodes on each piece of a path.

    Raises InputError for several branches, and for one that has no density or atoms.
    """
    if not has_nodes(law):
        nodes(law)
    mean, square = law.mean, law.skip**2
    skip = Member(_log(square / mean), 1.0, np.ones(1), np.ones(1))
    branches = [_branch(branch, mean, more) for branch in law.branches]
    return Block(count, scale, (skip, *branches))


def _branch(law: Law, mean: sympy.Expr, more: int) -> Member:
    own, zeros = sympy.S.One, 0.0
    factors: dict[float, float] = {1.0: 1.0}
    averages = []
    for part in parts_of(law):
        own *= part.mean
        zeros = max(zeros, real_number(part.atoms.get(sympy.S.Zero, sympy.S.Zero)))
        powers = exact_powers(part)
        if powers is None:
            averages.append(nodes(part, False, more))
            continue
        for exact, e in powers:
            a = real_number(exact)
            factors[a] = factors.get(a, 0.0) + e
    kept = {a: e for a, e in factors.items() if e != 0.0}
    base = next((a for a in kept if abs(a * (1.0 - zeros) - 1.0) < 1e-12), 1.0 / (1.0 - zeros))
    slopes, powers_of = np.array(list(kept), float), np.array(list(kept.values()), float)
    return Member(_log(own / mean), base, slopes, powers_of, tuple(averages))


@dataclass(frozen=True)
class Curve:
    """A block on the real line: w of its branch, w' of its skip, M and 1 + M, log t, dw/dM and
    d log x/dM; `real` where they mean something; the branch's averages, and log(t/w²), or log t
    where w is less than 1."""

    w: Array
    beside: Array
    mean: Array
    grown: Array
    log_t: Array
    share: Array
    slope: Array
    real: NDArray[np.bool_]
    averages: list[Spots]
    log_ratio: Array


@dataclass(frozen=True)
class Line:
    """A block of a skip and one branch on the real line, by the coordinate of an interval of the
    branch's one average, or of δ(1) for w · base. Where that is below 0, x and t = g² are too.

    `sign` is that of the root in w' = −½ ± √(¼ + γ²t).
    """

    block: Block
    first: Interval
    others: tuple[Interval, ...]
    sign: float

    def curve(self, u: Array) -> Curve:
        """At coordinates u, in logarithms; the phase of t is not reduced.

        With x = (1 + w)²/t, the branch's own curve is the right one where dx/dw < 0, and the sum's
        where its root falls with g: there dM/d log t has the sign of 1 + M and dx/dM < 0. Below 0
        all roots are imaginary, and in the upper half plane where 1 + M > 0.
        """
        skip, branch = self.block.members
        base = self.first.at(u)
        spots, w = [base], base.mean
        if len(branch.averages) != 1:
            w = w / branch.base
            spots = [other.at(other.coordinates(w)) for other in self.others]
        inner = 1.0 + branch.slopes * w[:, None]
        if len(branch.averages) != 1:
            inner[:, branch.slopes == branch.base] = (base.x / base.away)[:, None]
        one = base.x * (base.mean + base.rest) if branch.base == 1.0 else 1.0 + w
        size = np.where(np.abs(w) > 1.0, np.abs(w), 1.0)
        degree = branch.powers.sum() - 1.0
        log_t = np.log(np.abs(inner) / size[:, None]) @ branch.powers - branch.log_share
        log_t += np.where(size > 1.0, degree * np.log(size), np.log(np.abs(w)))  # less 2 log size
        turns = -1.0 * (w < 0) - (inner < 0) @ branch.powers  # of Im log t, over π
        # w d log t/dw, less 2 w/(1 + w): where w is large it is small.
        excess = degree - (1.0 / inner) @ branch.powers + 2.0 / one
        for spot in spots:
            logs, small = spot.log_inverse_s(np.ones(len(w)))
            log_t = log_t - logs - np.where(small, 0.0, np.log(np.abs(w)))
            turns = turns + 1.0 * ((w > -1.0) & (w < 0.0) & (spot.x > 0.0))
            excess = excess + w / (spot.x * spot.prime) - 1.0 / one
        rate = excess / w + 2.0 / one
        reduced, log_t = log_t, log_t + 2.0 * np.log(size)
        below = self.first.high <= 0.0
        square = (-1.0 if below else 1.0) * np.exp(log_t + skip.log_share)  # γ²t
        half = np.sqrt(0.25 + square)
        part = square / (0.5 + half)  # w', or −1 − w'
        beside = part if self.sign > 0 else -1.0 - part
        grown = one + part if self.sign > 0 else w - part
        by_t = 1.0 / rate + self.sign * 0.5 * square / half
        # 2 dM/d log t − (1 + M) is the sum of the same of both members, and 1: that keeps its
        # digits where M is large.
        falling = 1.0 - one * excess / (w * rate) - (0.5 + self.sign * 0.25 / half)
        falling = np.where(np.abs(grown) > 10.0, falling, 2.0 * by_t - grown)
        mean = w + beside
        real = np.isfinite(log_t) & np.isfinite(half)
        if below:
            real &= (turns == -1.0) & (mean < 0.0) & (grown > 0.0)
        else:
            real &= (turns == -2.0 * (w < -1.0)) & (excess / w > 0.0) & (by_t * grown > 0.0)
        real &= np.abs(grown) > _CANCELLED * (np.abs(grown - part) + np.abs(part))
        share = 1.0 / (by_t * rate)
        slope = falling / (by_t * grown)
        return Curve(w, beside, mean, grown, log_t, share, slope, real, spots, reduced)

    def grid(self) -> Array:
        """Coordinates: far toward 0, ∞ and atoms, and as far as nodes resolve toward a density, or
        to its end where nothing of it is seen by then."""
        first = self.first
        near, far = (
            any(start < end and close in (start, end) for start, end in first.group.support)
            for close in (first.low, first.high)
        )
        ends = -RESOLVED if near else -FARTHEST, RESOLVED if far else FARTHEST
        grid = np.linspace(*ends, SCAN)
        low, high = self.falls(grid[[0, -1]])
        beyond = [-_APART] if near and low else [], [_APART] if far and high else []
        return np.concatenate([beyond[0], grid, beyond[1]])

    def falls(self, u: Array) -> NDArray[np.bool_]:
        """True if M falls with x there, on the right side."""
        curve = self.curve(u)
        slope = -curve.slope if self.first.high <= 0.0 else curve.slope
        return np.asarray(curve.real & (slope < 0.0))

    def last(self, inside: float, outside: float) -> float:
        """The last coordinate toward `outside` at which M falls with x."""
        for _ in range(60):
            middle = 0.5 * (inside + outside)
            if self.falls(np.array([middle]))[0]:
                inside = middle
            else:
                outside = middle
        return inside

    def at(self, curve: Curve) -> Spots:
        """x, M and what belongs to them."""
        x = np.exp(2.0 * np.log(np.abs(curve.grown)) - curve.log_t)
        x = -x if self.first.high <= 0.0 else x
        prime = -1.0 / (x * curve.slope)
        return Spots(x, x - 1.0, curve.mean, curve.grown / x - curve.mean, prime)

    def at_pole(self, curve: Curve) -> Array:
        """log x where M is large, from √x = ω + w/g with ω of the skip, precise where g is ∞."""
        skip = self.block.members[0]
        part, w = 1.0 + 1.0 / curve.beside, np.clip(curve.w, -1.0, 1.0)
        own = np.sign(1.0 + curve.beside) * np.exp(0.5 * skip.log_share) * np.sqrt(part)
        return np.asarray(2.0 * np.log(np.abs(own + w * np.exp(-0.5 * curve.log_ratio))))

    def unknowns(self, curve: Curve) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Every ξ of the members at one point, from above, and dξ/dM.

        The root of a member's x has the sign of (1 + w_i)/(1 + M); where it is negative, x comes
        from below.
        """
        skip, branch = self.block.members
        w, beside = float(curve.w[0]), float(curve.beside[0])
        slope = float(curve.share[0])
        found = []
        for base, value, rate in ((skip.base, beside, 1.0 - slope), (branch.base, w, slope)):
            side = np.sign((1.0 + value) * curve.grown[0])
            whole = 1.0 + base * value
            found.append((_upper(whole, side), base * rate / whole))
        for spot in curve.averages:
            side = np.sign((1.0 + w) * curve.grown[0])
            x, away = float(spot.x[0]), float(spot.away[0])
            top = x - away
            found.append((_upper(x / away, side), top / (x * away * spot.prime[0]) * slope))
        xi, slopes = zip(*found, strict=True)
        return np.array(xi, complex), np.array(slopes, complex)


def lines(block: Block) -> list[Line]:
    """Every choice of intervals and of the sign."""
    averages = block.members[1].averages
    first = intervals(averages[0] if len(averages) == 1 else UNIT)
    others = [intervals(each) for each in averages] if len(averages) > 1 else []
    return [
        Line(block, one, rest, sign)
        for one in first
        for rest in product(*others)
        for sign in (1.0, -1.0)
    ]


@dataclass(frozen=True)
class Run:
    """A part of a line on which M falls with x, between two coordinates; `high` is the largest x,
    or ∞, and `span` the least and the greatest M."""

    line: Line
    start: float
    stop: float
    high: float
    span: Array

    def at(self, u: Array) -> Spots:
        """Everything at coordinates u."""
        return self.line.at(self.line.curve(u))

    def coordinates(self, values: Array) -> Array:
        """The u with M = value; NaN where there is none."""
        return inverse(lambda u: self.line.curve(u).mean, self.start, self.stop, values)


def runs(block: Block) -> list[Run]:
    """The parts of all its lines, x ascending."""
    found: list[tuple[float, Run]] = []
    for line in lines(block):
        grid = line.grid()
        on = line.falls(grid)
        changes = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]])))
        for i, j in zip(changes[::2], changes[1::2] - 1, strict=True):
            start, stop = grid[i], grid[j]
            if i > 0:
                start = line.last(grid[i], grid[i - 1])
            if j + 1 < len(grid):
                stop = line.last(grid[j], grid[j + 1])
            if start < stop:
                ends = line.curve(np.array([start, stop]))
                x = line.at(ends).x
                infinite = bool((np.abs(ends.mean) < NEAR).any() and x.max() > 0.0)
                high = np.inf if infinite else float(x.max())
                found.append((float(x.min()), Run(line, start, stop, high, np.sort(ends.mean))))
    return [run for _, run in sorted(found, key=lambda each: each[0])]


def _upper(value: float, side: float) -> complex:
    """log of a real number that is reached from the half plane of `side`, as ξ is."""
    return complex(np.log(abs(value)), -side * np.pi if value < 0 else 0.0)


def _log(value: sympy.Expr) -> float:
    return real_number(sympy.log(value))
