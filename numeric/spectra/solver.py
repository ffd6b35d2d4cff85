"""M on the bulks of a spectrum and above the real axis, each point certified by its equation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from derive.work.caches import cache

from ..arrays import Array
from ..emit.kernels import load_kernels
from . import kernel
from .edges import Bulk
from .problem import Problem

Complex = NDArray[np.complex128]

ACCURACY = 1e-11
"""The largest |log z(w) − log z|, over the number of factors plus |log z|."""

_RESTARTS = 4


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


@dataclass(frozen=True)
class Solver:
    """Follows M(z) of one problem: from infinity, and along a bulk by its angle θ (`path_of`)."""

    problem: Problem

    @cached_property
    def _told(self) -> tuple[kernel.Problem, kernel.Blocks | None]:
        """The problem, as compiled code takes it."""
        return self.problem.arrays, self.problem.block_arrays

    def inside(self, bulk: Bulk, height: float) -> tuple[complex, Complex, int]:
        """M, every ξ and the status at one height inside a bulk."""
        M, xi, _, status = self._solved(bulk, thetas_of(bulk, np.array([height])))
        return complex(M[0]), xi[0], int(status[0])

    def along(self, bulk: Bulk, thetas: Array) -> tuple[Complex, Array, NDArray[np.int64]]:
        """M, its residual and status at ascending θs."""
        M, _, residual, status = self._solved(bulk, thetas)
        return M, residual, status

    def follow(self, target: complex) -> tuple[complex, Complex]:
        """M and ξ at log z = target, from infinity at arg z = π/2 down and then around."""
        problem = self.problem
        top = max(target.real, problem.log_mean) + 30.0 + np.log1p(problem.counts.sum())
        start, corner = complex(top, np.pi / 2), complex(target.real, np.pi / 2)
        tops = np.array([group.top for group in problem.groups])
        # x ~ 1/(s w), ξ ~ t/x
        xi = tops * problem.scales * problem.base * np.exp(problem.log_mean - start)
        for a, b in ((start, corner - start), (corner, target - corner)):
            ends = np.array([1e-6, 1.0]) if a is start else np.array([1.0])
            ws, xs, residual, status = self._march((kernel.LINE, a, b), ends, (0.0, xi, 0 * xi))
            self.certify(Solution(ws, residual, status), abs(start))
            xi = xs[-1]
        return complex(ws[-1]) / problem.base, xi

    def certify(self, solved: Solution, heights: Array | float) -> None:
        """Raises ArithmeticError where a point's residual is above what rounding may leave."""
        factors = 1.0 + self.problem.counts.sum()
        bound = ACCURACY * (factors + np.abs(heights)) + self._rounding(solved.M)
        bad = (solved.status == kernel.NO_CONVERGENCE) | ~(solved.residual < bound)
        if bad.any():
            raise ArithmeticError(
                f"{int(bad.sum())} of {bad.size} points of the spectrum are not certified "
                f"(largest residual {np.max(solved.residual):.1e})"
            )

    def _solved(
        self, bulk: Bulk, thetas: Array
    ) -> tuple[Complex, Complex, Array, NDArray[np.int64]]:
        """M and every ξ at ascending θs: outward from where the bulk's solution is known."""
        theta, xi, tangent = self._start(bulk)
        split = int(np.searchsorted(thetas, theta))
        parts = []
        for piece in (thetas[:split][::-1], thetas[split:]):
            parts.append(self._outward(path_of(bulk), piece, (theta, xi, tangent)))
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
                _, xi = self.follow(complex(kernel.path(*path, theta).real))
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
        count = len(thetas)
        ws, xs = np.empty(count, complex), np.empty((count, len(start[1])), complex)
        residual, status = np.empty(count), np.empty(count, np.int64)
        theta, xi, tangent = start
        kind, a, b = path
        _compiled().march(
            *self._told, kind, complex(a), complex(b), np.ascontiguousarray(thetas, float), theta,
            xi.copy(), tangent.copy(), ws, xs, residual, status,
        )  # fmt: skip
        for group, xi in zip(self.problem.groups, xs.T, strict=True):
            if group.least:
                solved = np.flatnonzero(status != kernel.NO_CONVERGENCE)
                sizes = group.top * np.abs(np.exp(xi[solved]) / np.expm1(xi[solved]))
                status[solved[sizes < group.least]] = kernel.NO_CONVERGENCE
        return ws, xs, residual, status

    def _start(self, bulk: Bulk) -> tuple[float, Complex, Complex]:
        """θ, ξ and dξ/dθ at the upper edge; or inside the bulk, where an atom about to be born at
        the edge takes M to infinity."""
        kind, _, b = path = path_of(bulk)
        edge = bulk.upper
        if abs(edge.w) < 1e6 and edge.curvature > 0:
            half = np.real(b) if kind == kernel.COSINE else 2.0
            # log z − log z_e = −half θ²/2 = curvature (w − w_e)²/2 with Im w < 0.
            return 0.0, edge.xi.astype(complex), edge.slope * -1j * np.sqrt(half / edge.curvature)
        theta = 1.5
        _, xi = self.follow(complex(kernel.path(*path, theta).real))
        return theta, xi, 0 * xi

    def _rounding(self, M: Complex) -> Array:
        """The change of log z by the last bits of w, where a factor of S is nearly 0 or ∞."""
        problem, total = self.problem, np.zeros(M.shape)
        w = np.where(np.isfinite(M), M * problem.base, 0.0)
        for a, c in zip(problem.slopes, problem.powers, strict=True):
            if a != 1.0:
                total += np.abs(c * a * w / (1.0 + a * w))
        for b, v in zip(problem.jumps, problem.variances, strict=True):
            total += np.abs(v * w / (1.0 + b * w) ** 2)
        return 1e-14 * total


@cache
def _compiled() -> ModuleType:
    doc = "Continuation along the spectral curve of a free product."
    return load_kernels("spectra", doc, (kernel.march,))


def path_of(bulk: Bulk) -> tuple[int, complex, complex]:
    """log z = a + b cos θ on a bulk with two edges, a − θ² on one that reaches 0: kind, a, b."""
    upper = bulk.upper.height
    if bulk.lower is None:
        return kernel.ROOT, complex(upper), 0j
    lower = bulk.lower.height
    return kernel.COSINE, complex(0.5 * (upper + lower)), complex(0.5 * (upper - lower))


def thetas_of(bulk: Bulk, heights: Array) -> Array:
    """The θs of heights inside a bulk; of others that of the nearest end."""
    kind, a, b = path_of(bulk)
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
    return np.asarray(np.sqrt(np.maximum(np.real(a) - heights, 0.0)))
