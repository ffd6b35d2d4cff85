"""Laws of D² as weights on complex nodes, good up to the real axis from above.

E[f/(x − f)] for Im x > 0 is an integral over h ~ N(0, 1) of a function with poles at f(h) = x. Near
the support of D² those pinch the real line, so the path of h is bent to h − iκ f'/|f'|, where f has
a negative imaginary part: exact for any analytic f, and what it gives at real x is the limit from
above. The path stays on the real line at critical points of f and at kinks, toward which its pieces
shrink: there the law itself is singular.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import mpmath
import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.functions import z
from derive.errors import InputError
from derive.gaussian.piecewise import logistic_to_tanh
from derive.spectra import Atomic, Density, Law, Masked, Moments, Rational, Scaled, Slopes
from derive.spectra.gates import Gates, HaarGates
from derive.spectra.laws import Product
from derive.spectra.skips import Around
from derive.work.caches import cache

from ..brackets.functions import OWN
from ..emit.stable import stable
from .roots import root

Complex = NDArray[np.complex128]
Function = Callable[[Complex], Complex]

REACH = 9.0
"""Standard deviations beyond which the Gaussian's weight, 1e-19, is left out."""
NODES = 20
"""The most, of Gauss and Legendre's rule, on a piece of the path."""

_FINEST, _MOST = 2.0**-10, 2000  # the shortest piece in standard deviations; pieces on a side
_ZERO = 2.0**-30  # the shortest piece at a zero of f
_SMALLEST = 1e-300  # where f/max f is less, it is taken for 0
_DIGITS = 330  # more than f loses
_KNOWN = 1e-12  # the relative error of f where it counts as known
_SLOPE, _DEEPEST = 0.6, 1.0
_TURN, _FARTHEST = 1.2, 2.1  # −arg f: meant, and at most; x is between 0 and π, poles at −2π too
_FAR = (20.0, 100.0, *(10.0**k for k in range(3, 25)))  # where f is asked for its limits
_GROWS = 1.001  # from the last of these but one to the last: f has no limit
_SCAN = 4001  # points among which critical points of f are looked for


@dataclass(frozen=True)
class Nodes:
    """Σ_i weights_i δ(positions_i) of mean 1, from a law of mean `mean`.

    `support` are the intervals of the real law (a point for an atom), ascending, over the mean;
    `below` is support's top − position, exactly 0 for an atom there. They stand for the law at
    every x with |x| > `least`: below it f is lost to rounding.
    """

    positions: Complex
    below: Complex
    weights: Complex
    support: tuple[tuple[float, float], ...]
    mean: float
    least: float = 0.0

    @cached_property
    def top(self) -> float:
        """The upper end of the support."""
        return self.support[-1][1]

    @cached_property
    def mine(self) -> Complex:
        """weights · positions."""
        return np.asarray(self.weights * self.positions)

    @cached_property
    def rest(self) -> Complex:
        """1 − position, centred to rounding."""
        rest = 1.0 - self.positions
        return np.asarray(rest - np.sum(self.weights * rest))


UNIT = Nodes(np.ones(1, complex), np.zeros(1, complex), np.ones(1, complex), ((1.0, 1.0),), 1.0)
"""δ(1), for its coordinate: log(x/(x − 1)) = log(1 + M)."""


def nodes(law: Law, alone: bool = False, more: int = 0) -> Nodes:
    """The law's nodes, with so many more on each piece; InputError for one that is known by its
    moments alone.

    They resolve an x that comes as close to max φ'² as 1e-6, and 1e-15 for a law that is `alone`:
    one layer's x is z, free factors keep it off the support.
    """
    if isinstance(law, Scaled):
        return nodes(law.law, alone, more)
    if isinstance(law, Atomic):
        return _atomic(law)
    if isinstance(law, Slopes):
        return _slopes(law, 2.0**-26 if alone else _FINEST, more)
    if isinstance(law, Density):
        return _density(law, more)
    if isinstance(law, Masked):
        return _masked(law, nodes(law.law, alone, more))
    wanted = "atoms, a density, or the slopes of an activation"
    if not is_known(law):
        wanted = "one with a density or atoms; moments have no density"
    elif not has_nodes(law):
        wanted = "one without gates, and skips around one branch without a skip of its own: others "
        wanted += "have no S-transform of one coordinate (`branches` solves them)"
    raise InputError("law", str(law), wanted)


def is_known(law: Law) -> bool:
    """True if all of its parts are known by more than moments."""
    if isinstance(law, Scaled | Masked):
        return is_known(law.law)
    if isinstance(law, Product):
        return all(map(is_known, law.laws))
    if isinstance(law, Around):
        return all(map(is_known, law.branches))
    return not isinstance(law, Moments)


def has_nodes(law: Law) -> bool:
    """True if its S-transform is known by one coordinate, as it is not of gates, of several
    branches, and of skips in the branch of a skip."""
    if isinstance(law, Scaled | Masked):
        return has_nodes(law.law)
    if isinstance(law, Around):
        parts = [part for branch in law.branches for part in parts_of(branch)]
        inner = any(isinstance(part, Around) or not has_nodes(part) for part in parts)
        return law.skip != 0 and len(law.branches) == 1 and not inner
    return not isinstance(law, Gates | HaarGates | Moments)


def parts_of(law: Law) -> list[Law]:
    """The free factors of a product."""
    if isinstance(law, Product):
        return [part for factor in law.laws for part in parts_of(factor)]
    if isinstance(law, Scaled):
        first, *others = parts_of(law.law)
        return [Scaled(first, law.factor), *others]
    return [law]


def exact_powers(law: Law) -> list[tuple[sympy.Expr, int]] | None:
    """The pairs (a, e) in m_1 S = Π (1 + a w)^e, where the law has them: also c times a projector
    of trace p, (1 + w)/(1 + w/p)."""
    if isinstance(law, Scaled):
        return exact_powers(law.law)
    if isinstance(law, Rational):
        return list(law.powers)
    if isinstance(law, Atomic):
        kept = [mass for at, mass in law.masses if at != 0]
        if len(kept) == 1:
            one = sympy.Integer(1)
            return [(one, 1), (1 / kept[0], -1)] if kept[0] != 1 else []
    return None


def real_number(value: sympy.Expr) -> float:
    """A number of a law's; InputError for a symbol."""
    number = sympy.N(value, 25)
    if not number.is_number or not number.is_real:
        raise InputError("law", str(value), "numbers throughout, to have a density")
    return float(number)


def _atomic(law: Atomic) -> Nodes:
    mean = law.mean
    pairs = sorted((real_number(at / mean), real_number(mass)) for at, mass in law.masses)
    positions, weights = (np.array(column, complex) for column in zip(*pairs, strict=True))
    support = tuple((at, at) for at, _ in pairs)
    return Nodes(positions, positions[-1] - positions, weights, support, real_number(mean))


def _slopes(law: Slopes, finest: float, more: int) -> Nodes:
    parts: list[tuple[Complex, Complex]] = []
    support: list[tuple[float, float]] = []
    least, mean = 0.0, real_number(law.mean)
    for piece in _pieces(law, finest):
        if isinstance(piece, Path):
            least = max(least, piece.smallest * piece.largest)
            parts.append(piece.nodes(more))
            support.append(piece.range)
        else:
            at, mass = piece
            parts.append((np.array([at + 0j]), np.array([mass + 0j])))
            support.append((at, at))
    return replace(_assembled(parts, support, mean, str(law)), least=least)


@cache(entries=64)
def _pieces(law: Slopes, finest: float) -> tuple[Path | tuple[float, float], ...]:
    """Of each piece of the activation the path, or φ'² over its mean and the mass where that is
    constant."""
    scale, mean = real_number(sympy.sqrt(law.variance)), real_number(law.mean)
    found: list[Path | tuple[float, float]] = []
    for piece in law.activation.pieces:
        lower, upper = (
            float(np.clip(float(end) / scale, -REACH, REACH)) for end in (piece.lower, piece.upper)
        )
        if lower >= upper:
            continue
        slope = logistic_to_tanh(piece.expr.diff(z))
        if not slope.has(z):
            mass = float(_gaussian_mass(piece.lower, piece.upper, law.variance))
            found.append((float(slope) ** 2 / mean, mass))
            continue
        strip = float(min(piece.strip, 4))
        paths = []
        for form in (slope, _without_cancellation(slope)):
            square = (form**2 / mean).subs(z, scale * z)
            f, df = compiled(square), compiled(square.diff(z))
            even = law.activation.is_odd
            path = Path(f, df, normal, strip / scale, lower, upper, even, finest)
            path.smallest = _lost(square, f, path)
            paths.append(path)
        best = min(paths, key=lambda each: each.smallest)
        if np.isinf(best.smallest):
            wanted = "a φ' that is known in double precision on the scale of √q*"
            raise InputError("q_star", real_number(law.variance), wanted)
        found.append(best)
    return tuple(found)


def _density(law: Density, more: int) -> Nodes:
    mean = real_number(law.mean)
    lower, upper = real_number(law.lower) / mean, real_number(law.upper) / mean
    rho = compiled(law.expr.subs(law.variable, mean * z) * mean)
    path = Path(lambda t: t, np.ones_like, rho, np.inf, lower, upper, finest=2.0**-70)
    return _assembled([path.nodes(more)], [(lower, upper)], mean, str(law))


def _masked(law: Masked, own: Nodes) -> Nodes:
    """In units of the mean, which is the law's over p."""
    p = real_number(law.keep)
    zero = np.zeros(1, complex)
    positions = np.concatenate([zero, own.positions / p])
    below = np.concatenate([zero + own.top / p, own.below / p])
    weights = np.concatenate([zero + 1.0 - p, own.weights * p])
    support = [(low / p, high / p) for low, high in own.support]
    if support[0][0] > 0.0:
        support.insert(0, (0.0, 0.0))
    return Nodes(positions, below, weights, tuple(support), own.mean / p, own.least / p)


def _assembled(
    parts: list[tuple[Complex, Complex]], support: list[tuple[float, float]], mean: float, name: str
) -> Nodes:
    positions, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    merged: list[tuple[float, float]] = []
    for low, high in sorted(support):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    defects = abs(np.sum(weights) - 1.0), abs(np.sum(weights * positions) - 1.0)
    if not max(defects) < 1e-9:
        raise InputError(
            "law", name, f"one that quadrature reaches (mass and mean off by {defects})"
        )
    below = np.asarray(merged[-1][1] - positions, complex)
    return Nodes(positions, below, weights, tuple(merged), mean)


@dataclass
class Path:
    """A path below the real interval [lower, upper] on which Im f ≤ 0."""

    f: Function
    df: Function
    weight: Function
    strip: float
    lower: float
    upper: float
    even: bool = False
    finest: float = _FINEST
    smallest: float = _SMALLEST
    nodes_of_piece: int = NODES
    at_zero: float = _ZERO
    beside: tuple[Function, Function] | None = None  # another function that turns little, and its'

    def __post_init__(self) -> None:
        self.factor = 1.0
        if self.even and self.lower == -self.upper:
            self.lower, self.factor = 0.0, 2.0
        grid = np.linspace(self.lower, self.upper, _SCAN)
        line = grid.astype(complex)
        self.largest = float(np.abs(self.f(line)).max())
        values = self.df(line).real.copy()
        values[np.abs(values) < 1e-14 * np.abs(values).max()] = 0.0
        marks = [self.lower, self.upper]
        for i in range(_SCAN - 1):
            if i > 0 and values[i] == 0.0 > values[i - 1] * values[i + 1]:
                marks.append(float(grid[i]))
            elif values[i] * values[i + 1] < 0:
                marks.append(
                    root(lambda s: float(self.df(np.array([s + 0j]))[0].real), *grid[i : i + 2])
                )
        self.marks = sorted(set(marks))

    @property
    def range(self) -> tuple[float, float]:
        """The values of f on the interval, an end at ±REACH standing for infinity."""
        ends = self.f(np.array(self.marks) + 0j).real
        ends = ends[np.isfinite(ends)]
        outer = [np.sign(end) for end in self.marks if abs(end) == REACH]
        far = self.f(np.outer(outer, _FAR) + 0j).real
        for beyond in far:
            known = beyond[np.isfinite(beyond)]
            if np.isinf(beyond).any() or (len(known) > 1 and known[-1] > _GROWS * known[-2] > 0.0):
                raise InputError(
                    "activation", "a slope without bound", "a bounded slope, for a density"
                )
        limits = far[np.isfinite(far)]
        if limits.size and limits.max() <= 2.0 * ends.max():  # else they are out of reach
            ends = np.append(ends, limits)
        low, high = float(ends.min()), float(ends.max())
        return (0.0 if low < 1e-9 * high else low), high

    def nodes(self, more: int = 0) -> tuple[Complex, Complex]:
        """Positions f and weights along the path, with so many more on each piece."""
        h, dh = self.line(more)
        weights = self.factor * self.weight(h) * dh
        kept = np.abs(weights) > 1e-20
        return self.f(h)[kept], weights[kept]

    def line(self, more: int = 0) -> tuple[Complex, Complex]:
        """The nodes themselves, and dh."""
        pieces = [self._between(left, right, more) for left, right in pairwise(self.marks)]
        h, dh = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return h, dh

    def _between(self, left: float, right: float, more: int) -> tuple[Complex, Complex]:
        """Gauss–Legendre nodes on straight pieces between two critical points."""
        tilt = 1.0
        for _ in range(12):
            h, dh = self._on(self._corners(left, right, tilt), more)
            values = self.f(h)
            size = self.largest
            turned = (values.imag > 1e-15 * size) | (np.angle(values) < -_FARTHEST)
            turned &= np.abs(values) > self.smallest * size
            if np.isfinite(values).all() and not turned.any():
                return h, dh
            tilt /= 2
        raise InputError("activation", "a path on which φ'² turns", "a φ' that is less steep")

    def _on(self, corners: Complex, more: int) -> tuple[Complex, Complex]:
        """As many nodes on each piece as ρ^{−2n} e^{−h²/2} = e^{−36} asks for, ρ Bernstein's for a
        pole on the real line."""
        nodes, weights = [], []
        for start, stop in pairwise(corners):
            centre, half = (start + stop) / 2, (stop - start) / 2
            decay = 2 * np.arcsinh(max(-centre.imag / abs(half), 0.5))
            weight = np.abs(self.weight(np.array([start, stop]))).max()
            count = int(np.ceil((36 + min(np.log(weight + 1e-30), 0.0)) / decay)) if weight else 4
            y, v = np.polynomial.legendre.leggauss(min(max(count, 4), self.nodes_of_piece) + more)
            nodes.append(centre + half * y)
            weights.append(half * v)
        return np.concatenate(nodes), np.concatenate(weights)

    def _corners(self, left: float, right: float, tilt: float) -> Complex:
        """The path's corners: fine toward both ends, and no coarser than f/f' while f matters."""
        middle = 0.5 * (left + right)
        sign = np.sign(self.df(np.array([middle + 0j]))[0].real) or 1.0
        largest = self.largest
        zeros = [e for e in (left, right) if abs(self.f(np.array([e + 0j]))[0]) < 1e-9 * largest]
        zeros = [e for e in zeros if abs(e) < REACH]
        narrowing = [bool(abs(end) < REACH or np.isinf(self.strip)) for end in (left, right)]

        def depth(s: float) -> float:
            """How far below the axis the path goes at s."""
            ends = [s - left] * narrowing[0] + [right - s] * narrowing[1]
            at = np.array([s + 0j])
            value, slope = abs(self.f(at)[0]), abs(self.df(at)[0])
            with np.errstate(over="ignore"):
                turn = _TURN * value / slope if slope > 0 else np.inf
                if self.beside is not None:
                    other, rate = (abs(each(at)[0]) for each in self.beside)
                    turn = min(turn, 0.5 * _TURN * other / rate if rate > 0 else np.inf)
            return tilt * min(_SLOPE * min(ends, default=np.inf), turn, _DEEPEST, 0.5 * self.strip)

        def wide(s: float) -> float:
            """How wide a piece may be at s: twice the depth, and freely where f is negligible."""
            matters = abs(self.f(np.array([s + 0j]))[0]) > self.smallest * largest
            near_zero = min(abs(s - each) for each in zeros) < 0.25 if zeros else False
            finest = min(self.at_zero, self.finest) if near_zero else self.finest
            return max(2 * depth(s), finest) if matters or near_zero else _DEEPEST / 2

        def climb(start: float) -> list[float]:
            """Steps from an end to the middle."""
            reached, ahead = [start], np.sign(middle - start)
            while reached[-1] != middle:
                width = wide(reached[-1])
                ahead_of = reached[-1] + ahead * min(width, abs(middle - reached[-1]))
                width = max(min(width, wide(ahead_of)), abs(start) * 2.0**-46)
                last = (middle - reached[-1]) * ahead < 1.3 * width
                reached.append(middle if last else reached[-1] + ahead * width)
                if len(reached) > _MOST:
                    wanted = "a φ' that is less steep on the scale of √q*"
                    raise InputError("q_star", f"φ'² at {start:.3g} … {middle:.3g} √q*", wanted)
            return reached

        points = climb(left)[:-1] + climb(right)[::-1]
        return np.array([s - 1j * sign * depth(s) if left < s < right else s + 0j for s in points])


def _without_cancellation(expr: sympy.Expr) -> sympy.Expr:
    """The same function by e^{−2u} for tanh u and erfc(−u) for 1 + erf u."""
    for node in expr.atoms(sympy.tanh):
        decay = sympy.Dummy("decay")
        ratio = sympy.factor(expr.subs(node, (1 - decay) / (1 + decay)))
        expr = ratio.subs(decay, sympy.exp(-2 * node.args[0]))
    for node in expr.atoms(sympy.erf):
        expr = sympy.expand(expr.subs(node, sympy.erfc(-node.args[0]) - 1))
    return expr


def _lost(expr: sympy.Expr, f: Function, path: Path) -> float:
    """f/max f below which cancellation leaves its double precision value unknown."""
    exact = sympy.lambdify(z, expr, "mpmath")
    grid = np.linspace(path.lower, path.upper, 60)[1:-1]
    line = grid.astype(complex)
    found = f(line).real
    if not np.isfinite(found).all():
        return np.inf
    moved = _KNOWN * 0.01 * np.abs(path.df(line))  # as if h were off: harmless
    with mpmath.workdps(_DIGITS):
        truth = [exact(mpmath.mpf(s)) for s in grid]
        wrong = [
            float(t / path.largest)
            for t, value, slack in zip(truth, found, moved, strict=True)
            if abs(t - value) > _KNOWN * t + slack and t > _SMALLEST * path.largest
        ]
    return max(wrong, default=_SMALLEST)


def compiled(expr: sympy.Expr) -> Function:
    """A function of complex numbers, of any shape."""
    function = sympy.lambdify(z, stable(expr), [OWN, "scipy", "numpy"])

    def evaluate(h: Complex) -> Complex:
        with np.errstate(all="ignore"):
            return np.asarray(np.broadcast_to(function(h), h.shape), complex)

    return evaluate


def normal(h: Complex) -> Complex:
    """The Gaussian's density."""
    return np.asarray(np.exp(-h * h / 2) / np.sqrt(2 * np.pi))


def _gaussian_mass(lower: sympy.Expr, upper: sympy.Expr, variance: sympy.Expr) -> sympy.Expr:
    root = sympy.sqrt(2 * variance)
    return sympy.N((sympy.erf(upper / root) - sympy.erf(lower / root)) / 2, 20)
