r"""The equations of a law of JJᵀ that is no free product of known factors, as a tree.

Each part stands for a law by M and x, M(x) = ∫ λ/(x − λ):

    a leaf       M is a function of its own x: of nodes, of exact factors, of a gate's slopes;
    a product    M equal in all its factors,        x = ((1 + M)/M)^{1−Σn} Π x_k^{n_k};
    a sum        t = (1 + M_k)²/x_k equal in all,   M = Σ M_k,   x = (1 + M)²/t,

the sum one of free R-diagonal parts, a skip among them as γ times a Haar matrix
(`derive.spectra.skips`). A gate of matrices W_j that are not Gaussian, Σ D_j W_j with W_j free of
the diagonals and of each other, is one of sums over the diagonals' algebra, whose cumulants have
the D's of a letter on both of its sides. So with D_out = x − Σ a_j D_j², p_j = ⟨D_j²/D_out⟩,

    a_j (1 + a_j p_j) S_j(a_j p_j) = 1 + M,        M = Σ a_j p_j,        S_j = 1/C_j of Haar's.

Cross terms D₁D₂ leave no trace, as W₂ and −W₂ have one law. Derived here (for the cumulants Nica
and Speicher, *Lectures on the Combinatorics of Free Probability* (2006), lecture 15).

As many unknowns as equations: log x for each leaf, log((1 + M)/M) for one of exact factors, and
log(a_j/C_j). Derivatives are taken along, so that Newton's step and the tangent are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from derive.spectra import Jacobian, Law, Rational, Scaled
from derive.spectra.gates import Gates, HaarGates
from derive.spectra.skips import Around

from ...arrays import Array
from ..contour import Nodes, exact_powers, nodes, parts_of, real_number
from .gates import Slopes, slopes

Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class Known:
    """log M, log(1 + M) and log x of a part at each point, with their derivatives by all
    unknowns, and what is not yet 0: (points,), and (points, unknowns) of the derivatives."""

    log_m: Complex
    log_grown: Complex
    log_x: Complex
    d_m: Complex
    d_grown: Complex
    d_x: Complex
    defects: tuple[tuple[Complex, Complex], ...] = ()


class Part(Protocol):
    """A law in the tree."""

    @property
    def mean(self) -> float:
        """Its first moment."""

    @property
    def top(self) -> float:
        """The largest of its values, or ∞."""

    @property
    def unknowns(self) -> int:
        """How many it has."""

    def start(self, log_m: complex) -> list[complex]:
        """Its unknowns far from the spectrum, where M = mean/x is e^{log_m}."""

    def at(self, u: Complex, first: int) -> Known:
        """Everything at unknowns u, its own from `first` on."""


@dataclass(frozen=True)
class Exact:
    """S = Π (1 + a M)^e/mean, its unknown log((1 + M)/M)."""

    mean: float
    slopes: Array
    powers: Array
    unknowns: int = 1

    @property
    def top(self) -> float:
        """The least x of M > 0, by a grid: a hundredth too large."""
        M = np.exp(np.linspace(-25.0, 25.0, 2001))
        inner = np.log1p(self.slopes * M[:, None])
        log_x = np.log1p(1.0 / M) + np.log(self.mean) - (self.powers * inner).sum(axis=1)
        return 1.01 * float(np.exp(log_x.min()))

    def start(self, log_m: complex) -> list[complex]:
        """(1 + M)/M = 1/M."""
        return [-log_m]

    def at(self, u: Complex, first: int) -> Known:
        """x = y/S, M = 1/(y − 1)."""
        y = np.asarray(np.exp(u[:, first]), complex)
        M = np.asarray(1.0 / (y - 1.0), complex)
        rate = np.asarray(-y * M, complex)  # d log M/du
        inner = 1.0 + self.slopes * M[:, None]
        log_s = (self.powers * np.log(inner)).sum(axis=1) - np.log(self.mean)
        slope = (self.powers * self.slopes / inner).sum(axis=1) * M * rate
        log_m = _log(M)
        return Known(
            log_m, log_m + u[:, first], u[:, first] - log_s, _unit(u, first, rate),
            _unit(u, first, np.asarray(-M, complex)), _unit(u, first, 1.0 - slope),
        )  # fmt: skip


@dataclass(frozen=True)
class Averaged:
    """M = Σ w p/(x − p) by nodes, in units of the mean, its unknown log x in them."""

    nodes: Nodes
    unknowns: int = 1

    @property
    def mean(self) -> float:
        """That of the nodes' law."""
        return self.nodes.mean

    @property
    def top(self) -> float:
        """The end of the support."""
        return self.nodes.mean * self.nodes.top

    def start(self, log_m: complex) -> list[complex]:
        """x = 1/M."""
        return [-log_m]

    def at(self, u: Complex, first: int) -> Known:
        """Nodes stand for the law from above; below the axis M is the conjugate."""
        own = u[:, first]
        x, back = _above(np.exp(own), own)
        found, given = 1.0 / (x[:, None] - self.nodes.positions), self.nodes
        M = _back(found @ given.mine, back)
        rate = _back(-x * (found**2 @ given.mine), back)
        grown = np.where(np.abs(M) < 0.5, 1.0 + M, _back(x * (found @ given.weights), back))
        return _of_log_x(own + np.log(given.mean), M, grown, rate, u, first)


@dataclass(frozen=True)
class _OfSlopes:
    """A law of a gate's slopes, its first unknown log(x/mean)."""

    slopes: Slopes
    variances: tuple[float, float]
    mean: float
    top: float = np.inf

    def _given(self, u: Complex, first: int) -> tuple[Complex, Array, Complex, NDArray[np.bool_]]:
        """log(x/mean), the C's, and x above the axis with where it is turned back."""
        own = u[:, first]
        x, back = _above(np.asarray(self.mean * np.exp(own), complex), own)
        return own, np.array(self.variances), x, back


@dataclass(frozen=True)
class Gate(_OfSlopes):
    """M = Σ C_j ⟨X_j/(x − C₁X₁ − C₂X₂)⟩, with nothing else unknown."""

    unknowns: int = 1

    def start(self, log_m: complex) -> list[complex]:
        """x = mean/M."""
        return [-log_m]

    def at(self, u: Complex, first: int) -> Known:
        """M = Σ C_j p_j."""
        own, C, x, back = self._given(u, first)
        p, by_x, _ = self.slopes.averages(x, np.broadcast_to(C + 0j, (len(x), 2)))
        M, rate = _back(p @ C, back), _back(x * (by_x @ C), back)
        return _of_log_x(own + np.log(self.mean), M, 1.0 + M, rate, u, first)


@dataclass(frozen=True)
class HaarGate(_OfSlopes):
    """The gate of Haar matrices, with log(a_j/C_j) unknown too."""

    unknowns: int = 3

    def start(self, log_m: complex) -> list[complex]:
        """x = mean/M and a_j = C_j."""
        return [-log_m, 0j, 0j]

    def at(self, u: Complex, first: int) -> Known:
        """With two equations for the a's."""
        own, C, x, back = self._given(u, first)
        a = C * _back(np.exp(u[:, first + 1 : first + 3]), back)
        p, by_x, by_a = self.slopes.averages(x, a)
        M = (a * p).sum(axis=1)
        d_M = np.zeros((*a.shape[:1], 3), complex)
        d_tau = np.zeros((*a.shape, 3), complex)  # of a_j p_j
        d_tau[:, :, 0] = a * by_x * x[:, None]
        d_tau[:, :, 1:] = a[:, :, None] * by_a * a[:, None, :]
        for j in range(2):
            d_tau[:, j, 1 + j] += a[:, j] * p[:, j]
        d_M[:] = d_tau.sum(axis=1)
        whole = np.zeros((len(x), u.shape[1]), complex)
        columns = slice(first, first + 3)
        defects = []
        for j in range(2):
            tau = a[:, j] * p[:, j]
            value = np.log(a[:, j] / C[j]) + np.log1p(tau) - np.log1p(M)
            slope = d_tau[:, j] / (1.0 + tau)[:, None] - d_M / (1.0 + M)[:, None]
            slope[:, 1 + j] += 1.0
            rows = whole.copy()
            rows[:, columns] = _back(slope, back)
            defects.append((_back(value, back), rows))
        d_m, d_grown = whole.copy(), whole.copy()
        d_m[:, columns] = _back(d_M / M[:, None], back)
        d_grown[:, columns] = _back(d_M / (1.0 + M)[:, None], back)
        M = _back(M, back)
        return Known(
            _log(M), np.log(1.0 + M), own + np.log(self.mean), d_m, d_grown,
            _unit(u, first, 1.0), tuple(defects),
        )  # fmt: skip


@dataclass(frozen=True)
class Product:
    """Free factors, each so many times."""

    factors: tuple[Part, ...]
    counts: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Π of the factors'."""
        return float(np.prod([f.mean**n for f, n in zip(self.factors, self.counts, strict=True)]))

    @property
    def top(self) -> float:
        """A bound, Π of the factors'."""
        return float(np.prod([f.top**n for f, n in zip(self.factors, self.counts, strict=True)]))

    @property
    def unknowns(self) -> int:
        """Those of the factors."""
        return sum(each.unknowns for each in self.factors)

    def start(self, log_m: complex) -> list[complex]:
        """M is the same in all."""
        return [u for each in self.factors for u in each.start(log_m)]

    def at(self, u: Complex, first: int) -> Known:
        """The first factor's M, and those of the others less it."""
        found = _all(self.factors, u, first)
        one = found[0]
        spare = 1 - sum(self.counts)
        log_x = spare * (one.log_grown - one.log_m)
        d_x = spare * (one.d_grown - one.d_m)
        for each, n in zip(found, self.counts, strict=True):
            log_x, d_x = log_x + n * each.log_x, d_x + n * each.d_x
        defects = [pair for each in found for pair in each.defects]
        defects += [(_turned(each.log_m - one.log_m), each.d_m - one.d_m) for each in found[1:]]
        return Known(one.log_m, one.log_grown, log_x, one.d_m, one.d_grown, d_x, tuple(defects))


@dataclass(frozen=True)
class Sum:
    """Free R-diagonal parts."""

    parts: tuple[Part, ...]

    @property
    def mean(self) -> float:
        """Σ of the parts'."""
        return float(sum(each.mean for each in self.parts))

    @property
    def top(self) -> float:
        """A bound, from that of the roots."""
        return float(sum(each.top**0.5 for each in self.parts) ** 2)

    @property
    def unknowns(self) -> int:
        """Those of the parts."""
        return sum(each.unknowns for each in self.parts)

    def start(self, log_m: complex) -> list[complex]:
        """M in proportion to the means."""
        shares = [np.log(each.mean / self.mean) for each in self.parts]
        return [
            u for each, s in zip(self.parts, shares, strict=True) for u in each.start(log_m + s)
        ]

    def at(self, u: Complex, first: int) -> Known:
        """t of the others less the first's."""
        found = _all(self.parts, u, first)
        t = [2.0 * each.log_grown - each.log_x for each in found]
        d_t = [2.0 * each.d_grown - each.d_x for each in found]
        defects = [pair for each in found for pair in each.defects]
        defects += [
            (_turned(one - t[0]), slope - d_t[0]) for one, slope in zip(t[1:], d_t[1:], strict=True)
        ]
        parts = [np.exp(each.log_m) for each in found]
        M = np.sum(parts, axis=0)
        d_M = np.sum([m[:, None] * each.d_m for m, each in zip(parts, found, strict=True)], axis=0)
        grown, d_grown = np.log(1.0 + M), d_M / (1.0 + M)[:, None]
        return Known(
            _log(M), grown, _around(2.0 * grown - t[0]), d_M / M[:, None], d_grown,
            2.0 * d_grown - d_t[0], tuple(defects),
        )  # fmt: skip


def system(law: Jacobian, more: int = 0) -> Product:
    """The tree of a Jacobian's law, with so many more nodes on each piece of a path.

    Raises InputError for symbols, and for laws that are known by their moments alone.
    """
    return _product([(each.law, int(real_number(each.count))) for each in law.factors], more)


def _product(factors: Sequence[tuple[Law, int]], more: int) -> Product:
    """Exact factors as one."""
    parts, counts = list[Part](), list[int]()
    powers, mean = dict[float, float](), 1.0
    for law, count in factors:
        for each in parts_of(law):
            exact = exact_powers(each)
            if exact is None:
                parts.append(_part(each, more))
                counts.append(count)
                continue
            mean *= real_number(each.mean) ** count
            for a, e in exact:
                slope = real_number(a)
                powers[slope] = powers.get(slope, 0.0) + e * count
    kept = {a: e for a, e in powers.items() if e != 0.0}
    if kept or mean != 1.0 or not parts:
        parts.append(Exact(mean, np.array(list(kept)), np.array(list(kept.values()))))
        counts.append(1)
    return Product(tuple(parts), tuple(counts))


def _part(law: Law, more: int) -> Part:
    if isinstance(law, Scaled):
        return _product([(law.law, 1), (Rational(law.factor), 1)], more)
    if isinstance(law, Around):
        branches = [_product([(each, 1)], more) for each in law.branches]
        square = real_number(law.skip**2)
        nothing = np.zeros(0)
        return Sum(tuple([Exact(square, nothing, nothing)] if square else []) + tuple(branches))
    if isinstance(law, Gates | HaarGates):
        variances = real_number(law.C_1), real_number(law.C_2)
        kind = Gate if isinstance(law, Gates) else HaarGate
        return kind(slopes(law, more), variances, real_number(law.moment(1)))
    return Averaged(nodes(law, False, more))


def _all(parts: Sequence[Part], u: Complex, first: int) -> list[Known]:
    found = []
    for each in parts:
        found.append(each.at(u, first))
        first += each.unknowns
    return found


def _of_log_x(
    log_x: Complex, M: Complex, grown: Complex, rate: Complex, u: Complex, at: int
) -> Known:
    """Of a leaf whose unknown is log x, with dM/d log x."""
    return Known(
        _log(M), np.log(grown), log_x,
        _unit(u, at, rate / M), _unit(u, at, rate / grown), _unit(u, at, 1.0),
    )  # fmt: skip


def _unit(u: Complex, at: int, value: Complex | float) -> Complex:
    """A row of derivatives by one unknown."""
    rows = np.zeros(u.shape, complex)
    rows[:, at] = value
    return rows


def _log(M: Complex) -> Complex:
    """log M with its phase from −2π to 0, that of x from 0 to 2π."""
    return np.asarray(np.log(-M) - 1j * np.pi)


def _turned(value: Complex) -> Complex:
    """With its phase from −π to π."""
    turns = np.round(value.imag / (2.0 * np.pi))
    return np.asarray(value - 2j * np.pi * turns)


def _around(log_x: Complex) -> Complex:
    """With its phase from 0 to 2π, but for rounding."""
    turns = np.floor(log_x.imag / (2.0 * np.pi) + 1e-6)
    return np.asarray(log_x - 2j * np.pi * turns)


def _above(x: Complex, log_x: Complex) -> tuple[Complex, NDArray[np.bool_]]:
    """x or its conjugate, and where it is the conjugate."""
    back = log_x.imag > np.pi
    return np.where(back, x.conj(), x), back


def _back(values: Complex, back: NDArray[np.bool_]) -> Complex:
    """The conjugates there."""
    where = back.reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(np.where(where, values.conj(), values))
