"""Averages over a gate's slopes, ⟨X_j/(x − a₁X₁ − a₂X₂)⟩, X₁ = σ(g)² and X₂ = h² σ'(g)².

h and g are Gaussian. Over h, of variance 1 once K_h is taken into X₂, each is a function of
T = (x − a₁X₁)/(a₂K_h σ'(g)²) alone, with w Faddeeva's function,

    φ(T) = ⟨1/(1 − h²/T)⟩ = −i √(π/2) √T w(√(T/2)),        Im √T > 0,

which is analytic beyond T > 0 from above. Over g it is a sum by Gauss and Legendre's rule, on a
path that is bent as that of `contour`: off the real line to where σ(g)² has a negative imaginary
part, so that nothing is singular at real x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy
from numpy.typing import NDArray
from scipy.special import factorial2, ndtr, wofz

from derive.activations.functions import z
from derive.errors import InputError
from derive.gaussian.piecewise import logistic_to_tanh
from derive.spectra.gates import Gates, HaarGates

from ..contour import REACH, Path, compiled, normal, real_number

Complex = NDArray[np.complex128]

_NEGLIGIBLE = 1e-12  # σ² over its largest, where its phase is of no concern
NODES = 12
"""The most, of Gauss and Legendre's rule, on a piece of the path of g."""

_FINEST, _ZERO = 2.0**-7, 2.0**-14  # the shortest piece of the path, and at a zero of σ
_LARGEST = 2**15  # of arrays, points times nodes
_FAR = 144.0  # |T| from which on φ is its asymptotic series, which leaves out e^{−T/2}
_SERIES = [(n + 1.0) * float(factorial2(2 * n + 3)) for n in range(12)]


@dataclass(frozen=True)
class Slopes:
    """Nodes of the law of a gate's slopes.

    Attributes:
        value: σ(g)² at each node.
        slope: K_h σ'(g)².
        weights: of the nodes, with the Gaussian's density in them.
    """

    value: Complex
    slope: Complex
    weights: Complex

    def averages(self, x: Complex, a: Complex) -> tuple[Complex, Complex, Complex]:
        """p_j = ⟨X_j/D⟩ with D = x − a₁X₁ − a₂X₂, ∂p_j/∂x and ∂p_j/∂a_i, a row for each x.

        Arguments:
            x: (points,), off the positive numbers, or from above.
            a: (points, 2).

        Returns p (points, 2), −⟨X_j/D²⟩ (points, 2) and ⟨X_i X_j/D²⟩ (points, 2, 2).
        """
        size = max(1, _LARGEST // len(self.weights))
        parts = [self._of(x[k : k + size], a[k : k + size]) for k in range(0, len(x), size)]
        p, by_x, by_a = (np.concatenate(column) for column in zip(*parts, strict=True))
        return p, by_x, by_a

    def _of(self, x: Complex, a: Complex) -> tuple[Complex, Complex, Complex]:
        q = x[:, None] - a[:, :1] * self.value
        r = a[:, 1:] * self.slope
        small = np.abs(r) < 1e-300
        T = np.where(small, 1e300, q) / np.where(small, 1.0, r)
        first, second = _of_square(np.asarray(T, complex))
        once = self.weights / q
        twice = once / q
        p = np.stack([(first[0] * once) @ self.value, (first[1] * once) @ self.slope], axis=1)
        zero, one, two = (twice * each for each in second)
        by_x = np.stack([zero @ self.value, one @ self.slope], axis=1)
        mixed = one @ (self.value * self.slope)
        rows = [[zero @ self.value**2, mixed], [mixed, two @ self.slope**2]]
        return p, -by_x, np.moveaxis(np.array(rows), 2, 0)


def slopes(law: Gates | HaarGates, more: int = 0) -> Slopes:
    """The nodes of a gate's law, with so many more on each piece of the path of g."""
    scale, K_h = real_number(sympy.sqrt(law.K_g)), real_number(law.K_h)
    columns: list[tuple[Complex, Complex, Complex]] = []
    for piece in law.activation.pieces:
        lower, upper = (
            float(np.clip(float(end) / scale, -REACH, REACH)) for end in (piece.lower, piece.upper)
        )
        if lower >= upper:
            continue
        if not piece.expr.has(z):
            share = float(np.diff(ndtr([lower, upper]))[0])
            constants = (float(piece.expr) ** 2, 0.0, share)
            first, second, third = (np.full(1, each, complex) for each in constants)
            columns.append((first, second, third))
            continue
        strip = float(min(piece.strip, 4))
        value = logistic_to_tanh(piece.expr)
        pairs, forms = [], (value**2, value.diff(z) ** 2)
        even = lower == -upper and all(form.subs(z, -z) == form for form in forms)
        if even:
            lower = 0.0
        for form in forms:
            scaled = form.subs(z, scale * z)
            pairs.append((compiled(scaled), compiled(scaled.diff(z))))
        (f, df), beside = pairs
        path = Path(f, df, normal, 0.5 * strip / scale, lower, upper, finest=_FINEST)
        path.beside = beside
        path.smallest, path.nodes_of_piece, path.at_zero = _NEGLIGIBLE, NODES, _ZERO
        g, dg = path.line(more)
        weights = (2.0 if even else 1.0) * normal(g) * dg
        kept = np.abs(weights) > 1e-17
        columns.append((f(g)[kept], K_h * beside[0](g)[kept], weights[kept]))
    value, slope, mass = (np.concatenate(column) for column in zip(*columns, strict=True))
    if not abs(mass.sum() - 1.0) < 1e-9:
        raise InputError("law", str(law), f"one that quadrature reaches (mass {mass.sum():.9g})")
    return Slopes(value, slope, mass)


def _of_square(T: Complex) -> tuple[list[Complex], list[Complex]]:
    """⟨h^{2k}/(1 − h²/T)⟩ for k = 0, 1 and ⟨h^{2k}/(1 − h²/T)²⟩ for k = 0, 1, 2.

    By T φ' = φ/2 − T(φ − 1)/2; where T is large the last is Σ (n + 1)(2n + 3)!! T^{−n}.
    """
    near = (np.abs(T) < _FAR) | ((T.imag < 0.0) & (T.real > 0.0) & (T.real < _FAR))
    found = [np.empty(T.shape, complex) for _ in range(5)]
    inverse = 1.0 / T[~near]
    twice = np.zeros(inverse.shape, complex)  # ⟨h⁴/(1 − h²/T)²⟩, from which the others follow
    for n in reversed(range(len(_SERIES))):
        twice = twice * inverse + _SERIES[n]
    psi = (1.0 + 2.0 * inverse**2 * twice) / (1.0 - 3.0 * inverse)
    phi, once = 1.0 + psi * inverse, psi + twice * inverse
    for array, part in zip(found, (phi, psi, 0.5 * (phi + psi), once, twice), strict=True):
        array[~near] = part
    at = T[near]
    root = np.sqrt(at)
    root = np.where((at.real < 0.0) & (root.imag < 0.0), -root, root)
    phi = -1j * np.sqrt(0.5 * np.pi) * root * wofz(root / np.sqrt(2.0))
    psi = at * (phi - 1.0)
    once = 0.5 * at * (psi - phi)
    twice = at * (once - psi)
    for array, part in zip(found, (phi, psi, 0.5 * (phi + psi), once, twice), strict=True):
        array[near] = part
    return found[:2], found[2:]
