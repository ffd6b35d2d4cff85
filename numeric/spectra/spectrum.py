"""The eigenvalues of JJᵀ, as wide as can be: density, atoms, edges, moments, and their checks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy.special import roots_jacobi

from derive.citations import note
from derive.errors import InputError, check_installed, whole
from derive.spectra import Jacobian, Law

from ..arrays import Array
from ..layers.precise.tables import LEAST, MOST
from . import accuracy, kernel
from .contour import has_nodes
from .edges import Bulk, bulks
from .problem import Problem, march

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

Complex = NDArray[np.complex128]

ACCURACY = 1e-11
"""What |log z(w) − log z| may be, over the number of factors plus |log z|."""

_LEFT, _TAIL, _NEGLIGIBLE = 1e-12, 5e-11, 1e-9
_MISSING = 1e-6  # mass that no rule leaves out
_AT_POLE = 1e-3  # θ beside a pole of M, where the integrand is flat to 1e-6
_RESTARTS = 4
_NODES = 24  # of each panel of `Spectrum.cumulative`
_TINY = 1e-300
MAX_ORDER, MAX_POINTS = 16, 10**6


@dataclass(frozen=True)
class Solution:
    """M = z G − 1 (source 002, eq. 9) at every point, with what certifies it.

    Attributes:
        M: the moment generating function, from above the real axis.
        residual: |log z(w) − log z|, its phase not reduced mod 2π.
        status: 0 where solved and on the right sheet, 2 where M is real to rounding, 1 where it
            failed.
    """

    M: Complex
    residual: Array
    status: NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum:
    """The law of the eigenvalues of JJᵀ (the squared singular values of J), at infinite width.

    From `jacobian`, `limit` and their like: `density(λ)`, `atoms`, `edges`, `moments(order)`,
    `cumulative(λ)`, `plot()`. The density and the atoms have the mass 1 together; m_k is the limit
    of E tr (JJᵀ)^k/n (source 002, eqs. 6–10). Every value is certified by the residual of its
    equation, or an ArithmeticError.

    Attributes:
        law: its derivation, a `derive.spectra.Jacobian` or `Limit`.

    >>> from derive import Gaussian, spectra
    >>> s = Spectrum(spectra.jacobian("linear", Gaussian(), 1))  # Marchenko and Pastur's
    >>> s.moments(4), np.round(s.edges, 9)
    (array([ 1.,  2.,  5., 14.]), array([[0., 4.]]))
    >>> bool(np.isclose(s.density(1.0), np.sqrt(3) / (2 * np.pi)))
    True
    """

    law: Law

    @cached_property
    def problem(self) -> Problem:
        """What the solver is told."""
        note("pennington2018", "belinschi2005")
        return Problem(self.law)

    @property
    def has_density(self) -> bool:
        """Whether there is more than moments and atoms, as there is not of gates."""
        factors = self.law.factors if isinstance(self.law, Jacobian) else ()
        return all(has_nodes(each.law) for each in factors)

    @cached_property
    def _arrays(self) -> tuple[kernel.Problem, kernel.Blocks | None]:
        return self.problem.arrays, self.problem.block_arrays

    @cached_property
    def atoms(self) -> dict[float, float]:
        """{position: mass}, from the exact ones of the law."""
        found = {self._float(at): self._float(m) for at, m in self.law.atoms.items()}
        return dict(sorted(found.items()))

    @cached_property
    def atoms_error(self) -> dict[float, tuple[float, float]]:
        """{position: (error of the position, error of the mass)}, for `atoms`."""
        return {
            self._float(at): (self._rounded_off(at), self._rounded_off(mass))
            for at, mass in self.law.atoms.items()
        }

    @cached_property
    def _copies(self) -> list[Spectrum]:
        """The same law with disturbed problems (`accuracy`)."""
        found = []
        for problem in accuracy.disturbed(self.law):
            made = Spectrum(self.law)
            made.__dict__["problem"] = problem
            found.append(made)
        return found

    @cached_property
    def _bulks(self) -> tuple[Bulk, ...]:
        """Without one at 0 that has less mass than rounding leaves to 1 + M."""
        found = bulks(self.problem)
        if found and found[0].lower is None and np.isfinite(found[0].upper.w):
            mass = 1.0 + found[0].upper.w / self.problem.base - self.atoms.get(0.0, 0.0)
            if abs(mass) < _LEFT:
                return found[1:]
        return found

    @property
    def intervals(self) -> tuple[Bulk, ...]:
        """`edges` with what is known of the curve at each."""
        return self._bulks

    @cached_property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """The intervals on which there is a density, (lower, upper), ascending."""
        return tuple(
            (
                0.0 if b.lower is None else self._float(sympy.exp(b.lower.height)),
                self._float(sympy.exp(b.upper.height)),
            )
            for b in self._bulks
        )

    @cached_property
    def edges_error(self) -> tuple[tuple[float, float], ...]:
        """The errors of `edges`, estimated; infinite where a gap is too narrow to be resolved."""
        edges, size = np.array(self.edges).reshape(-1, 2), np.zeros((len(self.edges), 2))
        for k, bulk in enumerate(self._bulks):
            for end, edge in enumerate((bulk.lower, bulk.upper)):
                if edge is not None:
                    size[k, end] = np.finfo(float).eps * (1.0 + abs(edge.height))
        copies = [np.array(each.edges).reshape(-1, 2) for each in self._copies]
        if any(each.shape != edges.shape for each in copies):
            return tuple((np.inf, np.inf) for _ in self.edges)
        error = accuracy.departure(edges, copies) + size * edges
        return tuple((float(low), float(high)) for low, high in error)

    def density(self, eigenvalues: ArrayLike) -> Array:
        """ρ(λ) of the eigenvalues λ > 0 of JJᵀ, atoms left out; 0 outside the edges.

        Of the shape of `eigenvalues`; −Im G(λ + i0)/π (source 002, eq. 8).

        Raises InputError for a λ that is not a positive number, and ArithmeticError where the
        solver does not certify a value, or where density and atoms have not the mass 1.
        """
        lam = _positive("eigenvalues", eigenvalues)
        return np.asarray(self.log_density(np.log(lam)) / lam)

    def singular_density(self, values: ArrayLike) -> Array:
        """The density 2s ρ(s²) of the singular values s > 0 of J, atoms left out.

        Raises as `density`.
        """
        s = _positive("values", values)
        return np.asarray(2.0 * s * self.density(s * s))

    def density_error(self, eigenvalues: ArrayLike) -> Array:
        """The errors of `density` at these eigenvalues, estimated.

        By the departures of two disturbed solutions (`accuracy`): large next to an edge, and
        infinite where one of them loses its way. Raises as `density` does.

        >>> from derive import Gaussian, spectra
        >>> s = Spectrum(spectra.jacobian("linear", Gaussian(), 1))
        >>> off = abs(s.density(1.0) - np.sqrt(3) / (2 * np.pi))
        >>> bool(off <= s.density_error(1.0) < 1e-13)
        True
        """
        lam = _positive("eigenvalues", eigenvalues)
        heights = np.log(lam)
        size = np.finfo(float).eps * (1.0 + np.abs(heights))
        values, copies = self.log_density(heights), []
        for each in self._copies:
            # λ is rounded to a logarithm: that is one more disturbance
            for sign in (-1.0, 1.0):
                solved = each.solve(heights + sign * size)
                lost = solved.status == kernel.NO_CONVERGENCE
                kept = np.where(solved.status == kernel.SOLVED, -solved.M.imag / np.pi, 0.0)
                copies.append(np.where(lost, np.nan, kept))
        return np.asarray(accuracy.departure(values, copies) / lam)

    def singular_density_error(self, values: ArrayLike) -> Array:
        """The errors of `singular_density` at these singular values, estimated.

        Raises as `density` does.
        """
        s = _positive("values", values)
        return np.asarray(2.0 * s * self.density_error(s * s))

    def curve(self, points: int = 600) -> tuple[Array, Array]:
        """Singular values, this many between any two edges and denser near them, with their
        density: two arrays of `points` for each interval of `edges`.

        Raises InputError for a number of points outside 1 … 10⁶.
        """
        points = whole("points", points, 1, MAX_POINTS)
        parts = (1 - np.cos(np.pi * (np.arange(points) + 0.5) / points)) / 2
        between = [
            np.sqrt(low) + (np.sqrt(high) - np.sqrt(low)) * parts for low, high in self.edges
        ]
        values = np.concatenate([np.zeros(0), *between])
        return values, self.singular_density(values) if values.size else values

    def plot(self, title: str = "", points: int = 600) -> Figure:
        """The density of J's singular values, with an arrow for each atom.

        Returns a matplotlib `Figure`.
        """
        check_installed("plot", "plot", "matplotlib")
        return _figure(self, title, points)

    def __str__(self) -> str:
        """The law with its edges, atoms and moments; or why there are none of them."""
        lines = [f"eigenvalues of JJᵀ: {self.law}"]
        for part in (self._edge_lines, self._atom_lines, self._moment_lines):
            try:
                lines += [f"  {line}" for line in part()]
            except (InputError, ArithmeticError) as refusal:
                if (line := f"  {refusal}") not in lines:
                    lines.append(line)
        return "\n".join(lines)

    def _edge_lines(self) -> list[str]:
        return [f"density on {low:.6g} … {high:.6g}" for low, high in self.edges]

    def _atom_lines(self) -> list[str]:
        return [f"atom at {at:.6g}, mass {mass:.6g}" for at, mass in self.atoms.items()]

    def _moment_lines(self) -> list[str]:
        values = list(self.moments(1))
        with suppress(InputError):  # a law that is known by fewer
            for k in (2, 3, 4):
                values.append(self._float(self.law.moment(k)))
        return [f"moments {', '.join(f'{value:.6g}' for value in values)}, …"]

    def __repr__(self) -> str:
        return str(self)

    def latex(self) -> str:
        """The law's derivation in LaTeX."""
        return self.law.latex()

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"

    def log_density(self, heights: ArrayLike) -> Array:
        """λ ρ(λ) at log λ = heights, of any size: −Im M/π; 0 where that is less than 1e-12 |M|.

        Raises ArithmeticError where the solver does not certify a value, and where density and
        atoms together have not the mass 1.
        """
        solved = self.solve(heights)
        self._certify(solved, np.asarray(heights, float))
        if abs(self._missing) > _MISSING:
            raise ArithmeticError(
                f"the densities and atoms that were found have the mass {1.0 - self._missing:.9g}, "
                "not 1"
            )
        resolved = solved.status == kernel.SOLVED
        return np.asarray(np.where(resolved, -solved.M.imag / np.pi, 0.0))

    def solve(self, heights: ArrayLike) -> Solution:
        """M at λ + i0 for log λ = heights; 0 outside the bulks' interior, where it is not solved.

        Raises InputError for heights that are not finite.
        """
        t = np.asarray(heights, float)
        if not np.isfinite(t).all():
            raise InputError("heights", heights, "finite logarithms of eigenvalues")
        flat = t.ravel()
        M = np.zeros(flat.size, complex)
        residual, status = np.zeros(flat.size), np.zeros(flat.size, np.int64)
        for bulk in self._bulks:
            low = -np.inf if bulk.lower is None else bulk.lower.height
            inside = np.flatnonzero((flat > low) & (flat < bulk.upper.height))
            if inside.size:
                order = inside[np.argsort(-flat[inside], kind="stable")]
                M[order], residual[order], status[order] = self._along(bulk, flat[order])
        return Solution(M.reshape(t.shape), residual.reshape(t.shape), status.reshape(t.shape))

    def generating_function(self, points: ArrayLike) -> Complex:
        """M(z) at points of the open upper half plane, followed down from infinity one by one.

        Raises InputError for other points, ArithmeticError where the solver loses its way.
        """
        z = np.asarray(points, complex)
        if not (z.imag > 0).all():
            raise InputError("points", points, "numbers with positive imaginary part")
        found = np.array([self._follow(complex(np.log(each)))[0] for each in z.ravel()], complex)
        return np.asarray(found.reshape(z.shape))

    def moments(self, order: int) -> Array:
        """m_1 … m_order, from the exact ones of the law: an array, of at most 16.

        Raises InputError for another order, and for a law with symbols.
        """
        order = whole("order", order, 0, MAX_ORDER)
        return np.array([self._float(self.law.moment(k)) for k in range(1, order + 1)])

    def moments_error(self, order: int) -> Array:
        """The errors of `moments`: what rounding the exact ones leaves.

        Raises as `moments` does.
        """
        order = len(self.moments(order))
        return np.array([self._rounded_off(self.law.moment(k)) for k in range(1, order + 1)])

    def _rounded_off(self, exact: sympy.Expr) -> float:
        """How far `_float` is from the number, which itself is known to 18 digits."""
        found, number = self._float(exact), sympy.N(exact, 30)
        away = abs(sympy.Rational(found) - number) if np.isfinite(found) else sympy.oo
        return float(away) + 1e-18 * abs(found)

    def _float(self, exact: sympy.Expr) -> float:
        """A number of the law's; InputError where a float does not hold it."""
        number = sympy.N(exact, 20)
        if not number.is_number:
            raise InputError("law", str(self.law), "numbers throughout, no symbols")
        found = float(number)
        if not np.isfinite(found) or (number != 0 and abs(found) < _TINY):
            wanted = f"one whose edges and moments are between {_TINY} and 1e308"
            raise InputError("law", f"{self.law}, with a number {sympy.N(number, 3)}", wanted)
        return found

    def integrated_moments(self, order: int) -> Array:
        """Total mass and m_1 … m_order from the density and the atoms: the self-check."""
        order = len(self.moments(order))
        total = np.zeros(order + 1)
        powers = np.arange(order + 1)
        for at, mass in self.atoms.items():
            total += mass * at**powers if at else mass * (powers == 0)
        for bulk in self._bulks:
            total += self._integrate(bulk, powers)
        return total

    def integrated_moments_error(self, order: int) -> Array:
        """The errors of `integrated_moments`: how far they are from 1 and the exact moments.

        The first is the mass that is missing. Raises as `moments` does.
        """
        exact = np.concatenate([[1.0], self.moments(order)])
        own = np.concatenate([[0.0], self.moments_error(order)])
        return np.asarray(np.abs(self.integrated_moments(order) - exact) + own)

    @cached_property
    def _missing(self) -> float:
        """1 less the mass of the atoms and the bulks, by adaptive quadrature where one rule leaves
        some out; not a number where its points are not certified, and where quadrature sees
        nothing in a bulk: far down towards 0 a density is too narrow for it."""
        power = np.zeros(1, int)
        rule = np.polynomial.legendre.leggauss(_NODES)
        left = 1.0 - sum(float(sympy.N(mass, 20)) for mass in self.law.atoms.values())
        try:
            once = sum(
                float(self._panel_sums(each, self._panels(each), power, *rule).sum())
                for each in self._bulks
            )
            if abs(left - once) <= _MISSING:
                return left - once
            masses = [float(self._integrate(each, power)[0]) for each in self._bulks]
            return left - sum(masses) if min(masses, default=1.0) > _NEGLIGIBLE else np.nan
        except ArithmeticError:
            return np.nan

    def _integrate(self, bulk: Bulk, powers: NDArray[np.int_]) -> Array:
        """∫ λ^k ρ dλ = ∫ λ^k (−Im M/π) |d log λ/ds| ds, by adaptive quadrature.

        s is θ on a bulk with two edges, where the integrand is analytic; on one that reaches 0 it
        is θ up to 1, and θ = e^{π/2 sinh(s − 1)} beyond.
        """
        coarse, fine = (np.polynomial.legendre.leggauss(n) for n in (16, 24))
        wide = _to_the_ends(16)
        panels = self._panels(bulk)
        ends = panels[0, 0], panels[-1, 1]
        poles = [
            end if edge is not None and np.isinf(edge.w) else np.nan
            for end, edge in zip(ends, (bulk.upper, bulk.lower), strict=True)
        ]
        total = np.zeros(len(powers))
        scale = np.concatenate([[1.0], self.moments(len(powers) - 1)])
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
        t, mass = self._mass(bulk, s.ravel())
        rows = mass * np.exp(np.minimum(np.outer(powers, t), 700.0))
        sums = (rows.reshape(len(powers), *s.shape) * weights).sum(axis=-1)
        return np.asarray((sums * half).T)

    def _mass(self, bulk: Bulk, s: Array) -> tuple[Array, Array]:
        """log λ and ρ |dλ/ds| at s.

        Beside a pole of M, a + b s² + …, where a point that is lost has its neighbour's.
        """
        kind, a, b = _path(bulk)
        if kind == kernel.COSINE:
            thetas, rate = s, np.real(b) * np.sin(s)
            t = np.real(a + b * np.cos(s))
        else:
            thetas = np.where(s < 1.0, s, np.exp(0.5 * np.pi * np.sinh(s - 1.0)))
            rate = 2.0 * thetas * np.where(s < 1.0, 1.0, 0.5 * np.pi * np.cosh(s - 1.0) * thetas)
            t = np.real(a) - thetas**2
        order = np.argsort(thetas, kind="stable")
        M, residual, status = self._solve_thetas(bulk, thetas[order])
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
            self._certify(Solution(M[kept], residual[kept], status[kept]), t[order[kept]])
        return t, mass

    def _reach(self, bulk: Bulk) -> float:
        """The s with a mass of about 1e-12 left below it.

        That is about λ G(λ) where it falls slowly with log λ, and −Im M θ² where it falls fast.

        Raises ArithmeticError where the solver does not come that far, nor to 5e-11.
        """
        enough = _LEFT * max(1.0 - sum(self.atoms.values()), 1e-3)
        at_zero = self.atoms.get(0.0, 0.0)

        def left(theta: float) -> float:
            """About the mass below θ; not a number where the solver fails."""
            ws, _, status = self._solve_thetas(bulk, np.array([theta]))
            if status[0] == kernel.NO_CONVERGENCE:
                return np.nan
            if status[0] != kernel.SOLVED:
                return 0.0
            return float(min(abs(1.0 + ws[0] - at_zero), -ws[0].imag * theta**2))

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

    def cumulative(self, eigenvalues: ArrayLike, points: int = 4096) -> Array:
        """P(eigenvalue ≤ λ), atoms included, by the density's integral, panel after panel.

        Arguments:
            eigenvalues: λ > 0, of any shape.
            points: at which the density is taken, more or less, for each bulk; 2 … 10⁶.

        `cumulative_error` says how good it is. Raises InputError for other arguments.
        """
        lam, points = _positive("eigenvalues", eigenvalues), whole("points", points, 2, MAX_POINTS)
        return self._cumulative(lam, points)[0]

    def _cumulative(self, lam: Array, points: int) -> tuple[Array, float]:
        """Up to each λ, and at all."""
        found = np.zeros(lam.shape)
        for at, mass in self.atoms.items():
            found = found + mass * (lam >= at)
        whole_mass = sum(self.atoms.values())
        for bulk in self._bulks:
            ends = self._panels(bulk)
            above = self._above(bulk, ends, max(1, points // (_NODES * len(ends))))
            everything = above(np.array(ends[-1, 1]))
            found = found + everything - above(_place(bulk, lam).clip(ends[0, 0], ends[-1, 1]))
            whole_mass += float(everything)
        return np.asarray(found), whole_mass

    def _above(self, bulk: Bulk, panels: Array, parts: int) -> Callable[[Array], Array]:
        """The mass between a bulk's upper end and s: Legendre series, integrated, on each panel."""
        marks = np.concatenate([np.linspace(a, b, parts + 1)[:-1] for a, b in panels])
        marks = np.append(marks, panels[-1, 1])
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        half = np.diff(marks) / 2
        s = (marks[:-1] + half)[:, None] + half[:, None] * nodes
        _, rates = self._mass(bulk, s.ravel())
        orders = np.arange(_NODES) + 0.5
        series = (rates.reshape(s.shape) * weights) @ legendre.legvander(nodes, _NODES - 1) * orders
        series = legendre.legint(series * half[:, None], lbnd=-1, axis=1)
        before = np.concatenate([[0.0], np.cumsum(series.sum(axis=1))])  # P_k(1) = 1

        def above(s: Array) -> Array:
            panel = np.clip(np.searchsorted(marks, s, side="right") - 1, 0, len(half) - 1)
            x = (s - marks[panel]) / half[panel] - 1.0
            return np.asarray(before[panel] + legendre.legval(x, series[panel].T, tensor=False))

        return above

    def cumulative_error(self, eigenvalues: ArrayLike, points: int = 4096) -> Array:
        """The errors of `cumulative`: by half as many points, and the mass that is missing.

        Next to an atom, as close as its position is known, the error is its mass. Raises as
        `cumulative` does.
        """
        lam, points = _positive("eigenvalues", eigenvalues), whole("points", points, 2, MAX_POINTS)
        found, everything = self._cumulative(lam, points)
        error = 2.0 * np.abs(found - self._cumulative(lam, max(2, points // 2))[0])
        error = error + abs(everything - 1.0) + 1e-12
        for at, mass in self.atoms.items():
            error = error + mass * (np.abs(lam - at) <= self.atoms_error[at][0])
        return np.asarray(error)

    def generating_function_error(self, points: ArrayLike) -> Array:
        """The errors of `generating_function` at these points, estimated.

        Raises as `generating_function` does.
        """
        values = self.generating_function(points)
        return accuracy.departure(
            values, [each.generating_function(points) for each in self._copies]
        )

    def table(
        self, eigenvalues: ArrayLike = (), order: int = 4, *, precision: int | None = None
    ) -> xarray.Dataset:
        """The density at some eigenvalues, edges, atoms and moments, each with its error.

        Arguments:
            eigenvalues: λ > 0, in a row.
            order: of the moments, 0 to 16.
            precision: how many decimal digits every number has, 16 … 1000, in place of a float's.

        Returns:
            `density` by `eigenvalue`; `edges` by `interval` and `end`; `atoms` and `masses` by
            `atom`; `moments` by `order`; what there is none of is left out. Beside each stands
            `<name>_error`: the estimates of `density_error` and its like. With a precision the
            numbers are `decimal.Decimal`s (`numeric.tables.digits` brings them to files), and the
            errors bounds: every number is a zero of its equations proved in balls (`precise`).

        Raises InputError for other arguments; with a precision where φ'² has no enclosure, for an
        edge at a pole of M, and for eigenvalues too close to an edge. Derived here.

        >>> from derive import Gaussian, spectra
        >>> s = Spectrum(spectra.jacobian("linear", Gaussian(), 1))
        >>> table = s.table([1.0, 5.0], precision=30)
        >>> print(*table["density"].to_numpy())
        0.275664447710896024755663249156 0
        >>> float(table["density_error"][0]) < 1e-29
        True
        """
        from . import tables  # noqa: PLC0415  (python-flint, which only this needs)

        lam = (
            np.atleast_1d(_positive("eigenvalues", eigenvalues))
            if np.size(eigenvalues)
            else (np.zeros(0))
        )
        if lam.ndim != 1:
            raise InputError("eigenvalues", f"shape {lam.shape}", "numbers in a row")
        order = whole("order", order, 0, MAX_ORDER)
        if precision is None:
            return tables.floats(self, lam, order)
        precision = whole("precision", precision, LEAST, MOST)
        return tables.digits(self, lam, order, precision)

    def inside(self, bulk: Bulk, height: float) -> tuple[complex, Complex, int]:
        """M, every ξ and the status at one height inside a bulk."""
        M, xi, _, status = self._solved(bulk, self._thetas(bulk, np.array([height])))
        return complex(M[0]), xi[0], int(status[0])

    def _along(self, bulk: Bulk, heights: Array) -> tuple[Complex, Array, NDArray[np.int64]]:
        """Solve at descending heights inside one bulk."""
        return self._solve_thetas(bulk, self._thetas(bulk, heights))

    @staticmethod
    def _thetas(bulk: Bulk, heights: Array) -> Array:
        """The θs of heights inside a bulk."""
        kind, a, b = _path(bulk)
        if kind == kernel.COSINE:
            # From the nearer end: arccos near ±1 loses what the half-angle keeps.
            width = 2 * np.real(b)
            lower = np.real(a - b)
            return np.asarray(
                2
                * np.arctan2(
                    np.sqrt(np.maximum(np.real(a + b) - heights, 0.0) / width),
                    np.sqrt(np.maximum(heights - lower, 0.0) / width),
                )
            )
        return np.asarray(np.sqrt(np.real(a) - heights))

    def _solve_thetas(self, bulk: Bulk, thetas: Array) -> tuple[Complex, Array, NDArray[np.int64]]:
        """M, its residual and status at ascending θs."""
        M, _, residual, status = self._solved(bulk, thetas)
        return M, residual, status

    def _solved(
        self, bulk: Bulk, thetas: Array
    ) -> tuple[Complex, Complex, Array, NDArray[np.int64]]:
        """M and every ξ at ascending θs: outward from where the bulk's solution is known."""
        theta, xi, tangent = self._start(bulk)
        split = int(np.searchsorted(thetas, theta))
        parts = []
        for piece in (thetas[:split][::-1], thetas[split:]):
            parts.append(self._outward(_path(bulk), piece, (theta, xi, tangent)))
        below, above = parts
        ws, xi, residual, status = (
            np.concatenate([one[::-1], other]) for one, other in zip(below, above, strict=True)
        )
        return np.asarray(ws / self.problem.base, complex), xi, residual.astype(float), status

    def _outward(
        self,
        path: tuple[int, complex, complex],
        thetas: Array,
        start: tuple[float, Complex, Complex],
    ) -> tuple[Complex, Complex, Array, NDArray[np.int64]]:
        """`_march`; where it loses its way, on from a point that is reached from infinity.

        It does where the density is less than rounding and an x passes by 0, where ξ is infinite.
        """
        found = self._march(path, thetas, start)
        status = found[-1]
        for _ in range(_RESTARTS):
            lost = np.flatnonzero(status == kernel.NO_CONVERGENCE)
            if not lost.size:
                break
            rest, theta = slice(lost[0], None), float(thetas[lost[0]])
            try:
                _, xi = self._follow(complex(kernel.path(*path, theta).real))
            except ArithmeticError:
                break
            for array, part in zip(
                found, self._march(path, thetas[rest], (theta, xi, 0 * xi)), strict=True
            ):
                array[rest] = part
        return found

    def _march(
        self,
        path: tuple[int, complex, complex],
        thetas: Array,
        start: tuple[float, Complex, Complex],
    ) -> tuple[Complex, Complex, Array, NDArray[np.int64]]:
        """w, ξ, |residual| and status; failed, too, where the nodes do not stand for their law."""
        ws, xs, residual, status = march(self._arrays, path, thetas, start)
        for group, xi in zip(self.problem.groups, xs.T, strict=True):
            if group.least:
                solved = np.flatnonzero(status != kernel.NO_CONVERGENCE)
                sizes = group.top * np.abs(np.exp(xi[solved]) / np.expm1(xi[solved]))
                status[solved[sizes < group.least]] = kernel.NO_CONVERGENCE
        return ws, xs, residual, status

    def _start(self, bulk: Bulk) -> tuple[float, Complex, Complex]:
        """θ, ξ and dξ/dθ at the upper edge; or inside the bulk, where an atom about to be born at
        the edge takes M to infinity."""
        kind, _, b = path = _path(bulk)
        edge = bulk.upper
        if abs(edge.w) < 1e6 and edge.curvature > 0:
            half = np.real(b) if kind == kernel.COSINE else 2.0
            # log z − log z_e = −half θ²/2 = curvature (w − w_e)²/2 with Im w < 0.
            return 0.0, edge.xi.astype(complex), edge.slope * -1j * np.sqrt(half / edge.curvature)
        theta = 1.5
        _, xi = self._follow(complex(kernel.path(*path, theta).real))
        return theta, xi, 0 * xi

    def _follow(self, target: complex) -> tuple[complex, Complex]:
        """M and ξ at log z = target, from infinity at arg z = π/2 down and then around."""
        problem = self.problem
        top = max(target.real, problem.log_mean) + 30.0 + np.log1p(problem.counts.sum())
        start, corner = complex(top, np.pi / 2), complex(target.real, np.pi / 2)
        tops = np.array([group.top for group in problem.groups])
        xi = (
            tops * problem.scales * problem.base * np.exp(problem.log_mean - start)
        )  # x ~ 1/(s w), ξ ~ t/x
        for a, b in ((start, corner - start), (corner, target - corner)):
            ends = np.array([1e-6, 1.0]) if a is start else np.array([1.0])
            ws, xs, residual, status = self._march((kernel.LINE, a, b), ends, (0.0, xi, 0 * xi))
            self._certify(Solution(ws, residual, status), abs(start))
            xi = xs[-1]
        return complex(ws[-1]) / problem.base, xi

    def _rounding(self, M: Complex) -> Array:
        """What the last bits of w change in log z, where a factor of S is nearly 0 or ∞."""
        problem, total = self.problem, np.zeros(M.shape)
        w = np.where(np.isfinite(M), M * problem.base, 0.0)
        for a, c in zip(problem.slopes, problem.powers, strict=True):
            if a != 1.0:
                total += np.abs(c * a * w / (1.0 + a * w))
        for b, v in zip(problem.jumps, problem.variances, strict=True):
            total += np.abs(v * w / (1.0 + b * w) ** 2)
        return 1e-14 * total

    def _certify(self, solved: Solution, heights: Array | float) -> None:
        factors = 1.0 + self.problem.counts.sum()
        bound = ACCURACY * (factors + np.abs(heights)) + self._rounding(solved.M)
        bad = (solved.status == kernel.NO_CONVERGENCE) | ~(solved.residual < bound)
        if bad.any():
            raise ArithmeticError(
                f"{int(bad.sum())} of {bad.size} points of the spectrum are not certified "
                f"(largest residual {np.max(solved.residual):.1e})"
            )


def _to_the_ends(count: int) -> tuple[Array, Array]:
    """A quadrature rule as Lobatto's, whose outer nodes are as good as the ends of (−1, 1): it sees
    a density begin in a corner of a panel that all nodes of Gauss's rules miss."""
    nodes = np.concatenate([[-1 + 1e-6], roots_jacobi(count - 2, 1, 1)[0], [1 - 1e-6]])
    integrals = np.zeros(count)  # of Legendre's polynomials
    integrals[0] = 2.0
    values = np.polynomial.legendre.legvander(nodes, count - 1).T
    return nodes, np.asarray(np.linalg.solve(values, integrals), float)


def _path(bulk: Bulk) -> tuple[int, complex, complex]:
    upper = bulk.upper.height
    if bulk.lower is None:
        return kernel.ROOT, complex(upper), 0j
    lower = bulk.lower.height
    return kernel.COSINE, complex(0.5 * (upper + lower)), complex(0.5 * (upper - lower))


def _place(bulk: Bulk, lam: Array) -> Array:
    """The s of `Spectrum._mass` at λ."""
    kind, a, b = _path(bulk)
    depth = np.real(a) - np.log(lam)
    if kind == kernel.COSINE:
        return np.asarray(np.arccos((-depth / np.real(b)).clip(-1.0, 1.0)))
    theta = np.sqrt(depth.clip(min=0.0))
    beyond = 1.0 + np.arcsinh(2.0 / np.pi * np.log(np.maximum(theta, 1.0)))
    return np.asarray(np.where(theta < 1.0, theta, beyond))


def _positive(name: str, values: ArrayLike) -> Array:
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError):
        raise InputError(name, values, "positive numbers") from None
    if not (np.isfinite(array) & (array > 0)).all():
        raise InputError(name, values, "positive finite numbers")
    return array


def _figure(spectrum: Spectrum, title: str = "", points: int = 600) -> Figure:
    """See `Spectrum.plot`."""
    from ..tables.drawing import Drawing  # noqa: PLC0415  (matplotlib takes a second to import)

    figure = Drawing(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    values, density = spectrum.curve(points)
    panel.plot(values, density, color="black", linewidth=1)
    top = float(density[values > 0.02].max(initial=0.0)) or 1.0
    panel.set(xlabel="singular value of J", ylabel="density", ylim=(0, 1.15 * top), title=title)
    for at, mass in spectrum.atoms.items():
        panel.annotate(
            f"{mass:.3g}",
            (at**0.5, 0),
            (at**0.5, top),
            ha="center",
            arrowprops={"arrowstyle": "<-", "color": "C1"},
            color="C1",
        )
    return figure
