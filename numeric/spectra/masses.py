"""Integrals of a spectrum's density over its bulks: masses, moments, and the mass below a point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.special import roots_jacobi

from ..arrays import Array
from . import kernel
from .edges import Bulk
from .solver import Solution, Solver, path_of, thetas_of

_LEFT, _TAIL, _NEGLIGIBLE = 1e-12, 5e-11, 1e-9
LEAST_MISSING = 1e-6  # mass that no rule leaves out
_AT_POLE = 1e-3  # θ beside a pole of M, where the integrand is flat to 1e-6
_NODES = 24  # of each panel of `Masses.below`


@dataclass(frozen=True)
class Masses:
    """The data for integrals of the density: M on the bulks, and the masses of atoms.

    Attributes:
        solver: M.
        bulks: where there is a density.
        at_zero: the mass of the atom at 0.
        atoms: the mass of all atoms.
    """

    solver: Solver
    bulks: tuple[Bulk, ...]
    at_zero: float
    atoms: float

    def missing(self) -> float:
        """1 less the mass of the atoms and the bulks, by adaptive quadrature where one rule leaves
        some out; not a number where its points are not certified, and where quadrature sees
        nothing in a bulk: far down towards 0 a density is too narrow for it."""
        power, scale = np.zeros(1, int), np.ones(1)
        rule = legendre.leggauss(_NODES)
        left = 1.0 - self.atoms
        try:
            once = sum(
                float(self._panel_sums(each, self._panels(each), power, *rule).sum())
                for each in self.bulks
            )
            if abs(left - once) <= LEAST_MISSING:
                return left - once
            masses = [float(self.moments(each, power, scale)[0]) for each in self.bulks]
            return left - sum(masses) if min(masses, default=1.0) > _NEGLIGIBLE else np.nan
        except ArithmeticError:
            return np.nan

    def moments(self, bulk: Bulk, powers: NDArray[np.int_], scale: Array) -> Array:
        """∫ λ^k ρ dλ = ∫ λ^k (−Im M/π) |d log λ/ds| ds, by adaptive quadrature: each of these
        powers to some 1e-12 of its scale.

        s is θ on a bulk with two edges, where the integrand is analytic; on one that reaches 0 it
        is θ up to 1, and θ = e^{π/2 sinh(s − 1)} beyond.
        """
        coarse, fine = (legendre.leggauss(n) for n in (16, 24))
        wide = _to_the_ends(16)
        panels = self._panels(bulk)
        ends = panels[0, 0], panels[-1, 1]
        poles = [
            end if edge is not None and np.isinf(edge.w) else np.nan
            for end, edge in zip(ends, (bulk.upper, bulk.lower), strict=True)
        ]
        total = np.zeros(len(powers))
        for _ in range(30):
            outer = np.any(np.isin(panels, ends), axis=1, keepdims=True)
            rule = (np.where(outer, *pair) for pair in zip(coarse, wide, strict=True))
            first = self._panel_sums(bulk, panels, powers, *rule)
            second = self._panel_sums(bulk, panels, powers, *fine)
            # At a pole of M rounding grows like 1/s, and a finer panel would only see that.
            at_pole = ((panels == poles[0]) | (panels == poles[1])).any(axis=1)
            close = np.where(at_pole, 1e-7, 1e-12)[:, None] * scale
            done = (np.abs(first - second) <= close).all(axis=1)
            total += second[done].sum(axis=0)
            if done.all():
                break
            left = panels[~done]
            middle = left.mean(axis=1)
            panels = np.concatenate([np.c_[left[:, 0], middle], np.c_[middle, left[:, 1]]])
        else:
            total += second[~done].sum(axis=0)
        return total

    def below(self, lam: Array, points: int) -> tuple[Array, float]:
        """The mass of all bulks up to each λ, and at all, by this many points a bulk or so."""
        found, everything = np.zeros(lam.shape), 0.0
        for bulk in self.bulks:
            ends = self._panels(bulk)
            above = self._above(bulk, ends, max(1, points // (_NODES * len(ends))))
            mass = above(np.array(ends[-1, 1]))
            found = found + mass - above(_place(bulk, lam).clip(ends[0, 0], ends[-1, 1]))
            everything += float(mass)
        return np.asarray(found), everything

    def _panels(self, bulk: Bulk) -> Array:
        if bulk.lower is not None:
            marks = np.linspace(0.0, np.pi, 9)
        else:
            reach = self._reach(bulk)
            marks = np.linspace(0.0, min(reach, 1.0), 5)
            if reach > 1.0:
                marks = np.concatenate([marks, np.linspace(1.0, reach, 5)[1:]])
        return np.stack([marks[:-1], marks[1:]], axis=1)

    def _panel_sums(
        self, bulk: Bulk, panels: Array, powers: NDArray[np.int_], nodes: Array, weights: Array
    ) -> Array:
        """The integral over each panel, (panels, powers), by one rule or a row for each."""
        centre, half = panels.mean(axis=1), (panels[:, 1] - panels[:, 0]) / 2
        s = centre[:, None] + half[:, None] * nodes
        t, mass = self._rate(bulk, s.ravel())
        rows = mass * np.exp(np.minimum(np.outer(powers, t), 700.0))
        sums = (rows.reshape(len(powers), *s.shape) * weights).sum(axis=-1)
        return np.asarray((sums * half).T)

    def _rate(self, bulk: Bulk, s: Array) -> tuple[Array, Array]:
        """log λ and ρ |dλ/ds| at s.

        Beside a pole of M, a + b s² + …, where a point that is lost has its neighbour's.
        """
        kind, a, b = path_of(bulk)
        if kind == kernel.COSINE:
            thetas, rate = s, np.real(b) * np.sin(s)
            t = np.real(a + b * np.cos(s))
        else:
            thetas = np.where(s < 1.0, s, np.exp(0.5 * np.pi * np.sinh(s - 1.0)))
            rate = 2.0 * thetas * np.where(s < 1.0, 1.0, 0.5 * np.pi * np.cosh(s - 1.0) * thetas)
            t = np.real(a) - thetas**2
        order = np.argsort(thetas, kind="stable")
        M, residual, status = self.solver.along(bulk, thetas[order])
        density = np.empty(len(s))
        density[order] = np.where(status == kernel.SOLVED, -M.imag / np.pi, 0.0)
        mass = density * rate
        lost = np.flatnonzero(status == kernel.NO_CONVERGENCE)
        kept = np.ones(len(s), bool)
        for end, edge in ((0.0, bulk.upper), (np.pi, bulk.lower)):
            if lost.size and edge is not None and np.isinf(edge.w):
                away = np.abs(thetas[order] - end)
                solved = np.flatnonzero((status == kernel.SOLVED) & (away < 10 * _AT_POLE))
                at_pole = lost[away[lost] < _AT_POLE]
                if solved.size:
                    mass[order[at_pole]] = mass[order[solved[np.argmin(away[solved])]]]
                    kept[at_pole] = False
        lost = lost[kept[lost]]
        beside = np.concatenate([lost - 1, lost + 1]).clip(0, len(s) - 1)
        if lost.size and np.max(mass[order][beside]) >= _NEGLIGIBLE * np.max(mass):
            self.solver.certify(Solution(M[kept], residual[kept], status[kept]), t[order[kept]])
        return t, mass

    def _reach(self, bulk: Bulk) -> float:
        """The s with a mass of about 1e-12 left below it.

        That is about λ G(λ) where it falls slowly with log λ, and −Im M θ² where it falls fast.

        Raises ArithmeticError where the solver does not come that far, nor to 5e-11.
        """
        enough = _LEFT * max(1.0 - self.atoms, 1e-3)

        def left(theta: float) -> float:
            """About the mass below θ; not a number where the solver fails."""
            ws, _, status = self.solver.along(bulk, np.array([theta]))
            if status[0] == kernel.NO_CONVERGENCE:
                return np.nan
            if status[0] != kernel.SOLVED:
                return 0.0
            return float(min(abs(1.0 + ws[0] - self.at_zero), -ws[0].imag * theta**2))

        low = high = 1.0
        while left(high) > enough and high < 1e8:
            low, high = high, 2 * high
        while high > low * (1 + 1e-9):
            middle = np.sqrt(low * high)
            low, high = (middle, high) if left(middle) > enough else (low, middle)
        last = low if np.isnan(left(high)) else high
        if not left(last) < _TAIL:
            raise ArithmeticError(
                f"a mass of {left(last):.1e} at log λ < {bulk.upper.height - last**2:.6g} "
                "is beyond double precision"
            )
        return float(last if last < 1.0 else 1.0 + np.arcsinh(np.log(last) * 2 / np.pi))

    def _above(self, bulk: Bulk, panels: Array, parts: int) -> Callable[[Array], Array]:
        """The mass between a bulk's upper end and s: Legendre series, integrated, on each panel."""
        marks = np.concatenate([np.linspace(a, b, parts + 1)[:-1] for a, b in panels])
        marks = np.append(marks, panels[-1, 1])
        nodes, _ = legendre.leggauss(_NODES)
        half = np.diff(marks) / 2
        s = (marks[:-1] + half)[:, None] + half[:, None] * nodes
        _, rates = self._rate(bulk, s.ravel())
        return integral(marks, rates.reshape(s.shape))


def series(values: Array) -> Array:
    """The Legendre coefficients of functions with these values at Gauss's nodes, the last axis."""
    count = values.shape[-1]
    nodes, weights = legendre.leggauss(count)
    orders = np.arange(count) + 0.5
    return np.asarray((values * weights) @ legendre.legvander(nodes, count - 1) * orders)


def integral(ends: Array, values: Array) -> Callable[[Array], Array]:
    """The integral up to any point of a function on panels between these ends, from its values at
    Gauss's nodes, (panels, nodes)."""
    half = np.diff(ends) / 2
    inside = legendre.legint(series(values) * half[:, None], lbnd=-1, axis=1)
    before = np.concatenate([[0.0], np.cumsum(inside.sum(axis=1))])  # P_k(1) = 1

    def up_to(v: Array) -> Array:
        panel = np.clip(np.searchsorted(ends, v, side="right") - 1, 0, len(half) - 1)
        x = (v - ends[panel]) / half[panel] - 1.0
        return np.asarray(before[panel] + legendre.legval(x, inside[panel].T, tensor=False))

    return up_to


def _to_the_ends(count: int) -> tuple[Array, Array]:
    """A quadrature rule as Lobatto's, whose outer nodes are as good as the ends of (−1, 1): it sees
    a density begin in a corner of a panel that all nodes of Gauss's rules miss."""
    nodes = np.concatenate([[-1 + 1e-6], roots_jacobi(count - 2, 1, 1)[0], [1 - 1e-6]])
    integrals = np.zeros(count)  # of Legendre's polynomials
    integrals[0] = 2.0
    values = legendre.legvander(nodes, count - 1).T
    return nodes, np.asarray(np.linalg.solve(values, integrals), float)


def _place(bulk: Bulk, lam: Array) -> Array:
    """The s of `Masses._rate` at λ."""
    theta = thetas_of(bulk, np.log(lam))
    if bulk.lower is not None:
        return theta
    beyond = 1.0 + np.arcsinh(2.0 / np.pi * np.log(np.maximum(theta, 1.0)))
    return np.asarray(np.where(theta < 1.0, theta, beyond))
