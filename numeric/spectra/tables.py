"""The numbers of a spectrum as one table, and to as many digits as asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray
from flint import acb, arb, ctx
from numpy.typing import NDArray

from derive.errors import InputError
from derive.spectra import Jacobian, Law, Limit

from ..arrays import Array
from ..layers.precise.run import decimal_of
from .edges import Bulk, Edge
from .precise import Curve, Vector, solve
from .problem import Problem
from .solver import Solver

_GUARD, _MOST = 12, 8
"""Digits beyond those at first; how often they are doubled."""

Pair = tuple[NDArray[Any], Array]
"""Values and their errors."""


def digits(
    law: Jacobian | Limit,
    solver: Solver,
    bulks: Sequence[Bulk],
    eigenvalues: Array,
    order: int,
    precision: int,
) -> xarray.Dataset:
    """Everything as `Decimal`s, with bounds of their errors.

    Arguments:
        solver, bulks: the solution in floats, near which zeros are proved.

    Raises InputError where averages have no enclosure, and where a number does not come to have
    its digits.
    """
    for attempt in range(_MOST):
        working = precision + _GUARD * 2**attempt
        with ctx.workprec(math.ceil(working * math.log2(10.0)) + 32):
            found = _balls(Curve(law), solver, bulks, eigenvalues, order)
            if found is not None and all(
                _is_known(value, precision) for values in found.values() for value in values
            ):
                decimals = {
                    name: [decimal_of(value, precision) for value in values]
                    for name, values in found.items()
                }
                break
    else:
        wanted = "fewer digits, or eigenvalues farther from an edge"
        raise InputError("precision", precision, wanted)
    pairs: dict[str, Pair] = {}
    for name, each in decimals.items():
        values = np.array([value for value, _ in each], object)
        errors = np.array([error for _, error in each], float)
        if name == "edges":
            values, errors = values.reshape(-1, 2), errors.reshape(-1, 2)
        pairs[name] = values, errors
    return dataset(law, eigenvalues, pairs, {"precision": precision})


def _balls(
    curve: Curve, solver: Solver, bulks: Sequence[Bulk], eigenvalues: Array, order: int
) -> dict[str, list[arb]] | None:
    """All numbers; None where a zero is not proved with these digits."""
    ends: list[arb] = []
    for bulk in bulks:
        for edge in (bulk.lower, bulk.upper):
            height = arb("-inf") if edge is None else _edge(curve, solver.problem, edge)
            if height is None:
                return None
            ends.append(arb(0) if edge is None else height.exp())
    density = [_density(curve, solver, bulks, ends, float(at)) for at in eigenvalues]
    if any(value is None for value in density):
        return None
    ball, law = curve.numbers, curve.law
    atoms = sorted(law.atoms.items(), key=lambda pair: float(pair[0]))
    return {
        "density": [value for value in density if value is not None],
        "edges": ends,
        "atoms": [ball(at) for at, _ in atoms],
        "masses": [ball(mass) for _, mass in atoms],
        "moments": [ball(law.moment(k)) for k in range(1, order + 1)],
    }


def _edge(curve: Curve, problem: Problem, edge: Edge) -> arb | None:
    """log λ at an edge."""
    if not math.isfinite(edge.w):
        wanted = "without a precision, a spectrum with an edge where M has a pole"
        raise InputError("precision", f"a precision with {curve.law}", wanted)
    start = _start(curve.law, problem, acb(edge.w / problem.base), edge.xi)
    found = solve(curve.edge, start, real=True)
    return None if found is None else curve.logarithm(found, real=True).real


def _density(
    curve: Curve, solver: Solver, bulks: Sequence[Bulk], ends: Sequence[arb], at: float
) -> arb | None:
    """ρ at an eigenvalue."""
    lam = arb(at)
    for k, bulk in enumerate(bulks):
        low, high = ends[2 * k], ends[2 * k + 1]
        if low < lam < high:
            M, xi, status = solver.inside(bulk, math.log(at))
            if status:
                break
            start = _start(curve.law, solver.problem, acb(M), xi)
            found = solve(curve.point(lam.log()), start)
            if found is None or not found[0].imag < 0:
                return None
            return -found[0].imag / (arb.pi() * lam)
        if not (lam < low or lam > high):
            return None
    else:
        return arb(0)
    wanted = "eigenvalues at which a float has the density, not as close to an edge"
    raise InputError("eigenvalues", at, wanted)


def _start(law: Law, problem: Problem, M: acb, xi: NDArray[np.complex128]) -> Vector:
    """M and the x_k of the factors that have averages, in the law's order and units."""
    order = list(law.factors) if isinstance(law, Jacobian) else []
    points: dict[int, acb] = {}
    for group, factor, value in zip(problem.groups, problem.factors, xi, strict=True):
        if factor is not None:
            whole = np.exp(value)
            x = group.top * group.mean * whole / (whole - 1.0)
            points[order.index(factor)] = acb(complex(x))
    return [M, *(points[k] for k in sorted(points))]


def _is_known(value: arb, precision: int) -> bool:
    """True if it has its digits, or is zero exactly."""
    if value.is_zero():
        return True
    return bool(value.is_finite() and value.rad() < abs(value).lower() * arb(10) ** -precision)


_AXES: dict[str, tuple[str, ...]] = {
    "edges": ("interval", "end"),
    "atoms": ("atom",),
    "masses": ("atom",),
    "moments": ("order",),
}
_MEANINGS = {
    "density": "density of the eigenvalues of J Jᵀ",
    "edges": "ends of the intervals that have a density",
    "atoms": "eigenvalues of positive mass",
    "masses": "masses of the atoms",
    "moments": "mean of (1/n) tr (J Jᵀ)^k",
}


def dataset(
    law: Law, eigenvalues: Array, pairs: dict[str, Pair], about: dict[str, Any]
) -> xarray.Dataset:
    """The table of these numbers and their errors; those that there are none of are left out."""
    arrays: dict[str, xarray.Variable] = {}
    for name, (values, errors) in pairs.items():
        if not values.size:
            continue
        axes = _AXES.get(name, ("eigenvalue",))
        arrays[name] = xarray.Variable(axes, values, {"long_name": _MEANINGS[name]})
        told = {"long_name": f"estimated error of {name}"}
        arrays[f"{name}_error"] = xarray.Variable(axes, errors, told)
    coordinates: dict[str, Any] = {"eigenvalue": eigenvalues}
    if "moments" in arrays:
        coordinates["order"] = np.arange(1, len(pairs["moments"][0]) + 1)
    return xarray.Dataset(arrays, coordinates, {"law": str(law), **about})
