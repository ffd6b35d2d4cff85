"""Spectra of layers with several branches and gates: densities by `systems`, not by S alone.

Of several branches M is no function of one coordinate, and a gate's slope h σ'(g), h Gaussian, has
no largest value; so there is no curve to follow from its upper edge, and M is followed to each λ
from the negative axis instead. What certifies it: the residual of the equations, that ρ is not
negative, that density and atoms have the mass 1, and the law's exact moments.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import sympy
import xarray
from numpy.typing import ArrayLike, NDArray

from derive.citations import note
from derive.errors import InputError
from derive.spectra import Jacobian
from derive.spectra.skips import Around

from ...arrays import Array
from .. import kernel
from ..contour import exact_powers, has_nodes, is_known, real_number
from ..edges import Bulk
from ..masses import LEAST_MISSING
from ..problem import CAUTION, departure
from ..solver import Complex, Solution
from ..spectrum import Spectrum, finite, upper
from .bulks import Interval, Panels, Search, density
from .paths import Paths
from .systems import system

_PLACES, _RESOLVED = 24, 1e-7  # of an interval; how far λρ may be off by the nodes
_MORE = 4  # nodes on each piece, of the solution that tells errors


class Branched(Spectrum):
    """A `Spectrum` whose law has gates, several branches, or skips within a branch.

    An upper edge of ∞ is that of gates. There is no `precision`, and no `problem`: those are of
    curves that are known by the S-transforms of single factors.
    """

    @property
    def has_density(self) -> bool:
        """True: laws that are known by their moments alone are refused by `spectrum_of`."""
        return True

    @cached_property
    def _paths(self) -> Paths:
        note("pennington2018")
        assert isinstance(self.law, Jacobian)
        return Paths(system(self.law))

    @cached_property
    def _search(self) -> Search:
        mean, square = (self._float(self.law.moment(k)) for k in (1, 2))
        deviation = np.sqrt(max(square - mean**2, 1e-12 * mean**2))
        return Search(self._paths, mean, float(deviation), self._poles)

    @cached_property
    def _poles(self) -> tuple[float, ...]:
        """log λ of the product of what the skips alone and multiples of Haar matrices have."""
        total = 0.0
        assert isinstance(self.law, Jacobian)
        for each in self.law.factors:
            of = each.law
            if isinstance(of, Around) and of.skip != 0:
                total += real_number(each.count * sympy.log(of.skip**2))
            elif exact_powers(of) == []:
                total += real_number(each.count * sympy.log(of.mean))
            else:
                return ()
        return (total,)

    @cached_property
    def _spans(self) -> tuple[Interval, ...]:
        return self._search.intervals()

    @cached_property
    def _found(self) -> dict[int, list[Panels]]:
        return {}

    def _panels(self, order: int) -> list[Panels]:
        """Of all intervals, good for this many moments."""
        if order not in self._found:
            scale = np.concatenate([[1.0], [self._float(self.law.moment(k)) for k in _to(order)]])
            self._found[order] = [
                each for span in self._spans for each in self._search.panels(span, order, scale)
            ]
        return self._found[order]

    @cached_property
    def _missing(self) -> float:
        mass = sum(float(each.sums(np.zeros(1))[0]) for each in self._panels(1))
        missing = 1.0 - sum(self.atoms.values()) - mass
        return np.inf if np.isnan(missing) else missing  # panels see all of it

    @cached_property
    def _off(self) -> float:
        """The largest departure of λρ from a solution with more nodes, at places of all intervals:
        its mass and moments would be right with any nodes."""
        finer = Search(self._finer, 1.0, 1.0, ())
        ends = [(each.span[0], each.span[1]) for each in self._panels(1)]
        places = [low + (high - low) * np.arange(1, _PLACES) / _PLACES for low, high in ends]
        every = np.concatenate(places)
        apart = np.abs(finer.at(every) - self._search.at(every))
        return float(np.max(apart[np.isfinite(apart)], initial=0.0))

    @cached_property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """The intervals on which there is a density; from 0 and to ∞ where it does not end."""
        return tuple((float(np.exp(each.low)), float(np.exp(each.high))) for each in self._spans)

    @cached_property
    def edges_error(self) -> tuple[tuple[float, float], ...]:
        """The errors of `edges`, by those of a solution with more nodes; infinite where it has
        other intervals, 0 of 0 and ∞."""
        finer = self._other
        if len(finer.edges) != len(self.edges):
            return tuple((np.inf, np.inf) for _ in self.edges)
        found = []
        for span, edges, others in zip(self._spans, self.edges, finer.edges, strict=True):
            errors = []
            for off, edge, other in zip(span.off, edges, others, strict=True):
                exact = edge == other
                apart = 0.0 if exact else CAUTION * abs(edge - other)
                size = 0.0 if np.isinf(edge) else edge
                errors.append(apart + size * (CAUTION * off + 1e-15))
            found.append((errors[0], errors[1]))
        return tuple(found)

    @property
    def intervals(self) -> tuple[Bulk, ...]:
        """Refused: the edges of these laws are no critical points of one curve."""
        raise InputError("layer", str(self.law), _ONE_CURVE)

    def _certify(self, solved: Solution, heights: Array) -> None:
        lost = int((solved.status == kernel.NO_CONVERGENCE).sum())
        if lost:
            raise ArithmeticError(
                f"{lost} of {self._inside(heights).sum()} points of the spectrum are not certified"
            )
        if abs(self._missing) <= LEAST_MISSING:
            _check_resolved(self._off)

    def solve(self, heights: ArrayLike) -> Solution:
        """M at λ + i0 for log λ = heights; 0 outside the edges, where it is not solved."""
        t = finite(heights)
        M, residual = np.zeros(t.shape, complex), np.zeros(t.shape)
        status = np.zeros(t.shape, np.int64)
        inside = self._inside(t)
        with np.errstate(all="ignore"):
            found = self._paths.above(t[inside], np.zeros(int(inside.sum())))
            rho = density(found)
        M[inside], residual[inside] = found.M, found.residual
        seen = np.where(rho > 0.0, kernel.SOLVED, kernel.UNRESOLVED)
        status[inside] = np.where(np.isfinite(rho), seen, kernel.NO_CONVERGENCE)
        return Solution(M, residual, status)

    def density_error(self, eigenvalues: ArrayLike) -> Array:
        """The errors of `density`, by a solution with more nodes at λ a rounding apart."""
        lam = np.asarray(eigenvalues, float)
        values = self.density(lam)
        heights, finer = np.log(lam), Search(self._finer, 1.0, 1.0, ())
        size = np.finfo(float).eps * (1.0 + np.abs(heights))
        moved = [(heights + sign * size).ravel() for sign in (-1.0, 1.0)]
        copies = [finer.at(each).reshape(lam.shape) / lam for each in moved]
        inside = self._inside(heights)
        return np.where(inside, departure(values, copies), 0.0) + 1e-15 / lam

    def cumulative_error(self, eigenvalues: ArrayLike, points: int = 4096) -> Array:
        """The errors of `cumulative`: by panels of a solution with more nodes, and the mass that is
        missing."""
        error = super().cumulative_error(eigenvalues, points)
        values, finer = (each.cumulative(eigenvalues) for each in (self, self._other))
        return np.asarray(error + departure(values, [finer]))

    def curve(self, points: int = 600) -> tuple[Array, Array]:
        """As of any spectrum; of an interval without end, up to where 10⁻⁴ of the mass is left."""
        found = list(self.edges)
        if found and np.isinf(found[-1][1]):
            found[-1] = (found[-1][0], self._quantile(1.0 - 1e-4))
        copy = Branched(self.law)
        copy.__dict__.update(self.__dict__)
        copy.__dict__["edges"] = tuple(found)
        return Spectrum.curve(copy, points)

    def generating_function(self, points: ArrayLike) -> Complex:
        """M(z) at points of the open upper half plane; ArithmeticError where nodes do not resolve
        it."""
        values, finer = (self._generated(each, points) for each in (self._paths, self._finer))
        apart = np.abs(finer - values) / (1.0 + np.abs(values))
        _check_resolved(float(apart.max(initial=0.0)))
        return values

    def generating_function_error(self, points: ArrayLike) -> Array:
        """By a solution with more nodes."""
        values = self.generating_function(points)
        return departure(values, [self._generated(self._finer, points)])

    def _integrals(self, powers: NDArray[np.int_]) -> Array:
        _check_resolved(self._off)
        parts = (each.sums(powers) for each in self._panels(max(len(powers) - 1, 1)))
        return sum(parts, np.zeros(len(powers)))

    def table(
        self, eigenvalues: ArrayLike = (), order: int = 4, *, precision: int | None = None
    ) -> xarray.Dataset:
        """As of any spectrum, in floats: there are no balls around what a gate's averages are."""
        if precision is not None:
            raise InputError("precision", precision, f"None, for {self.law}: {_ONE_CURVE}")
        return super().table(eigenvalues, order)

    @cached_property
    def _finer(self) -> Paths:
        assert isinstance(self.law, Jacobian)
        return Paths(system(self.law, _MORE))

    @cached_property
    def _other(self) -> Branched:
        """The same law, solved with more nodes."""
        other = Branched(self.law)
        other.__dict__["_paths"] = self._finer
        other.__dict__["_off"] = self._off
        return other

    def _below(self, lam: Array, points: int) -> tuple[Array, float]:
        """By the panels that resolve mass and mean, whatever the number of points."""
        del points
        _check_resolved(self._off)
        panels = self._panels(1)
        masses = (float(each.sums(np.zeros(1))[0]) for each in panels)
        return sum((each.below(np.log(lam)) for each in panels), np.zeros(lam.shape)), sum(masses)

    def _quantile(self, share: float) -> float:
        low, high = (each.span for each in (self._panels(1)[0], self._panels(1)[-1]))
        bottom, top = low[0], high[1]
        for _ in range(40):
            middle = 0.5 * (bottom + top)
            if self._cumulative(np.array([np.exp(middle)]), 0)[0][0] < share:
                bottom = middle
            else:
                top = middle
        return float(np.exp(top))

    def _inside(self, heights: Array) -> NDArray[np.bool_]:
        found = np.zeros(heights.shape, bool)
        for each in self._spans:
            found |= (heights > each.low) & (heights < each.high)
        return found

    def _generated(self, paths: Paths, points: ArrayLike) -> Complex:
        z = upper(points)
        with np.errstate(all="ignore"):
            found = paths.above(np.log(np.abs(z)).ravel(), np.angle(z).ravel())
        if not found.solved.all():
            raise ArithmeticError("the spectrum's equations are not solved at all of the points")
        return np.asarray(found.M.reshape(z.shape))


_ONE_CURVE = (
    "only where M is a function of one coordinate, as it is not of several branches and gates"
)


def spectrum_of(law: Jacobian) -> Spectrum:
    """A law's spectrum: by one curve where its factors have S-transforms of one coordinate each,
    else by a system of equations; by moments and atoms alone where no more is known."""
    parts = [each.law for each in law.factors]
    if all(has_nodes(each) for each in parts) or any(each.scale != 1 for each in law.factors):
        return Spectrum(law)
    return Branched(law) if all(map(is_known, parts)) else Spectrum(law)


def _check_resolved(off: float) -> None:
    if not off <= _RESOLVED:
        raise ArithmeticError(
            f"the nodes of the factors' laws do not resolve the density: {off:.1e}"
        )


def _to(order: int) -> range:
    return range(1, order + 1)
