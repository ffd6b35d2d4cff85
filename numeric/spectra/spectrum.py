"""The eigenvalues of JJᵀ, as wide as can be: density, atoms, edges, moments, and their checks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from derive.citations import note
from derive.errors import InputError, Words, as_integer, check_installed
from derive.spectra import Jacobian, Law, Limit

from ..arrays import Array
from ..layers.precise.tables import LEAST, MOST
from . import kernel
from .contour import has_nodes
from .edges import Bulk, bulks
from .masses import LEAST_MISSING, Masses
from .problem import Problem, departure, disturbed
from .solver import Complex, Solution, Solver, thetas_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

_LEFT = 1e-12  # a mass that rounding may leave
_TINY = 1e-300
MAX_ORDER, MAX_POINTS = 16, 10**6


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
        """The problem for the solver."""
        note("pennington2018", "belinschi2005")
        return Problem(self.law)

    @property
    def has_density(self) -> bool:
        """True if there is more than moments and atoms, as there is not of laws with factors that
        are known by their moments alone."""
        factors = self.law.factors if isinstance(self.law, Jacobian) else ()
        return all(has_nodes(each.law) for each in factors)

    @cached_property
    def _solver(self) -> Solver:
        return Solver(self.problem)

    @cached_property
    def _masses(self) -> Masses:
        shares = {at: float(sympy.N(mass, 20)) for at, mass in self.law.atoms.items()}
        at_zero = sum((mass for at, mass in shares.items() if sympy.N(at, 20) == 0), 0.0)
        return Masses(self._solver, self._bulks, at_zero, sum(shares.values(), 0.0))

    @cached_property
    def _missing(self) -> float:
        """The mass that neither the bulks nor the atoms have."""
        return self._masses.missing()

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
        """The same law with disturbed problems."""
        found = []
        for problem in disturbed(self.law):
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
        error = departure(edges, copies) + size * edges
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

        By the departures of two disturbed solutions (`problem`): large next to an edge, and
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
        return np.asarray(departure(values, copies) / lam)

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
        points = as_integer("points", points, 1, MAX_POINTS)
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
        if abs(self._missing) > LEAST_MISSING:
            raise ArithmeticError(
                f"the densities and atoms that were found have the mass {1.0 - self._missing:.9g}, "
                "not 1"
            )
        resolved = solved.status == kernel.SOLVED
        return np.asarray(np.where(resolved, -solved.M.imag / np.pi, 0.0))

    def _certify(self, solved: Solution, heights: Array) -> None:
        """Raise ArithmeticError where a value is not certified."""
        self._solver.certify(solved, heights)

    def solve(self, heights: ArrayLike) -> Solution:
        """M at λ + i0 for log λ = heights; 0 outside the bulks' interior, where it is not solved.

        Raises InputError for heights that are not finite.
        """
        t = finite(heights)
        flat = t.ravel()
        M = np.zeros(flat.size, complex)
        residual, status = np.zeros(flat.size), np.zeros(flat.size, np.int64)
        for bulk in self._bulks:
            low = -np.inf if bulk.lower is None else bulk.lower.height
            inside = np.flatnonzero((flat > low) & (flat < bulk.upper.height))
            if inside.size:
                order = inside[np.argsort(-flat[inside], kind="stable")]
                thetas = thetas_of(bulk, flat[order])
                M[order], residual[order], status[order] = self._solver.along(bulk, thetas)
        return Solution(M.reshape(t.shape), residual.reshape(t.shape), status.reshape(t.shape))

    def generating_function(self, points: ArrayLike) -> Complex:
        """M(z) at points of the open upper half plane, followed down from infinity one by one.

        Raises InputError for other points, ArithmeticError where the solver loses its way.
        """
        z = upper(points)
        found = np.array(
            [self._solver.follow(complex(np.log(each)))[0] for each in z.ravel()], complex
        )
        return np.asarray(found.reshape(z.shape))

    def moments(self, order: int) -> Array:
        """m_1 … m_order, from the exact ones of the law: an array, of at most 16.

        Raises InputError for another order, and for a law with symbols.
        """
        order = as_integer("order", order, 0, MAX_ORDER)
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
            raise InputError(
                "law", Words(f"{self.law}, with a number {sympy.N(number, 3)}"), wanted
            )
        return found

    def integrated_moments(self, order: int) -> Array:
        """Total mass and m_1 … m_order from the density and the atoms: the self-check."""
        powers = np.arange(len(self.moments(order)) + 1)
        total = self._integrals(powers)
        for at, mass in self.atoms.items():
            total += mass * at**powers if at else mass * (powers == 0)
        return total

    def _integrals(self, powers: NDArray[np.int_]) -> Array:
        """∫ λ^k ρ dλ for k = 0, 1, …"""
        scale = np.concatenate([[1.0], self.moments(len(powers) - 1)])
        parts = (self._masses.moments(bulk, powers, scale) for bulk in self._bulks)
        return sum(parts, np.zeros(len(powers)))

    def integrated_moments_error(self, order: int) -> Array:
        """The errors of `integrated_moments`: how far they are from 1 and the exact moments.

        The first is the mass that is missing. Raises as `moments` does.
        """
        exact = np.concatenate([[1.0], self.moments(order)])
        own = np.concatenate([[0.0], self.moments_error(order)])
        return np.asarray(np.abs(self.integrated_moments(order) - exact) + own)

    def cumulative(self, eigenvalues: ArrayLike, points: int = 4096) -> Array:
        """P(eigenvalue ≤ λ), atoms included, by the density's integral, panel after panel.

        Arguments:
            eigenvalues: λ > 0, of any shape.
            points: at which the density is taken, more or less, for each bulk; 2 … 10⁶.

        `cumulative_error` says how good it is. Raises InputError for other arguments.
        """
        lam, points = (
            _positive("eigenvalues", eigenvalues),
            as_integer("points", points, 2, MAX_POINTS),
        )
        return self._cumulative(lam, points)[0]

    def _cumulative(self, lam: Array, points: int) -> tuple[Array, float]:
        """Up to each λ, and at all."""
        found, everything = self._below(lam, points)
        for at, mass in self.atoms.items():
            found = found + mass * (lam >= at)
        return found, everything + sum(self.atoms.values())

    def _below(self, lam: Array, points: int) -> tuple[Array, float]:
        """The mass of the density up to each λ, and at all."""
        return self._masses.below(lam, points)

    def cumulative_error(self, eigenvalues: ArrayLike, points: int = 4096) -> Array:
        """The errors of `cumulative`: by half as many points, and the mass that is missing.

        Next to an atom, as close as its position is known, the error is its mass. Raises as
        `cumulative` does.
        """
        lam, points = (
            _positive("eigenvalues", eigenvalues),
            as_integer("points", points, 2, MAX_POINTS),
        )
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
        return departure(values, [each.generating_function(points) for each in self._copies])

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
            raise InputError("eigenvalues", Words(f"shape {lam.shape}"), "numbers in a row")
        order = as_integer("order", order, 0, MAX_ORDER)
        if precision is not None:
            precision = as_integer("precision", precision, LEAST, MOST)
            if not isinstance(self.law, Jacobian | Limit):
                raise InputError("law", str(self.law), "a Jacobian or a Limit of derive.spectra")
            return tables.digits(self.law, self._solver, self._bulks, lam, order, precision)
        edges, edges_error = (
            np.array(each, float).reshape(-1, 2) for each in (self.edges, self.edges_error)
        )
        off = np.array([self.atoms_error[at] for at in self.atoms]).reshape(-1, 2)
        pairs = {
            "density": (self.density(lam), self.density_error(lam)),
            "edges": (edges, edges_error),
            "atoms": (np.array(list(self.atoms)), off[:, 0]),
            "masses": (np.array(list(self.atoms.values())), off[:, 1]),
            "moments": (self.moments(order), self.moments_error(order)),
        }
        return tables.dataset(self.law, lam, pairs, {})


def finite(heights: ArrayLike) -> Array:
    """Logarithms of eigenvalues; InputError for others."""
    t = np.asarray(heights, float)
    if not np.isfinite(t).all():
        raise InputError("heights", heights, "finite logarithms of eigenvalues")
    return t


def upper(points: ArrayLike) -> Complex:
    """Points of the upper half plane; InputError for others."""
    z = np.asarray(points, complex)
    if not (z.imag > 0).all():
        raise InputError("points", points, "numbers with positive imaginary part")
    return z


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
