"""Pre-norm layers at any width, without the engine: the first two moments of q = |z|²/n, exactly.

With one input and ε = 0 the matrix behind a norm sees |y|² = n alone, so that h = W₁y is a vector
of independent Gaussian variables (Gaussian weights), or uniform on the sphere of radius √(C_W n)
(Haar): the branch u does not depend on q. z·W₂u has the variance |z|²|W₂u|²/n, and

    E q'  = γ² E q + C_b + C_W s₁ ,                       s₁ = E|u|²/n, s₂ = E(|u|²/n)² ,
    E q'² = γ⁴ E q² + (2 + 4/n) γ² E q (C_W s₁ + C_b) + E(|W₂u + b|²/n)² .

Averages over the sphere are one-dimensional integrals, of one and of two components.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from numeric.arrays import Array

Function = Callable[[Array], Array]
_NODES = 200


@dataclass(frozen=True)
class PreNorm:
    """z' = γz + b + W₂ u with u = σ(h), or g ∘ σ(h); or, of a norm alone, z' = b + W σ(y).

    Attributes:
        sigma: σ.
        haar: whether the matrices are Haar-distributed.
        kind: "residual", "gated" or "normalized".
        skip, C_W, C_b: γ and the variances.
    """

    sigma: Function
    haar: bool
    kind: str = "residual"
    skip: float = 0.0
    C_W: float = 1.0
    C_b: float = 0.0

    @cached_property
    def inner(self) -> float:
        """|h|²/n, or |y|²/n of a norm alone."""
        return 1.0 if self.kind == "normalized" else self.C_W

    def squares(self, n: int) -> tuple[float, float]:
        """s₁ and s₂ at width n."""
        if self.haar or self.kind == "normalized":
            one, four, two = _sphere(self.sigma, n, self.inner)
        else:
            one, four, two = _gaussian(self.sigma, self.inner)
        if self.kind == "gated":
            apart = n / (n + 2) if self.haar else 1.0
            one, four, two = (
                self.C_W * one,
                3 * self.C_W**2 * apart * four,
                self.C_W**2 * apart * two,
            )
        return one, (four + (n - 1) * two) / n

    def run(self, start: tuple[float, float], n: int, depth: int) -> Array:
        """E z² and n (E z_1² z_2² − (E z²)²) of layers 1 … depth, (2, depth).

        Arguments:
            start: E q and E q² of layer 1.
        """
        mean, square = start
        one, two = self.squares(n)
        up = self.C_W * one
        fresh = self.C_W**2 * two * (1 if self.haar else 1 + 2 / n)
        fresh += (2 + 4 / n) * up * self.C_b + self.C_b**2 * (1 + 2 / n)
        rows = [(mean, square)]
        for _ in range(1, depth):
            cross = (2 + 4 / n) * self.skip**2 * mean * (up + self.C_b)
            square = self.skip**4 * square + cross + fresh
            mean = self.skip**2 * mean + up + self.C_b
            rows.append((mean, square))
        q, squared = np.array(rows).T
        return np.stack([q, n * (n / (n + 2) * squared - q**2)])


def _gaussian(sigma: Function, variance: float) -> tuple[float, float, float]:
    """⟨σ²⟩, ⟨σ⁴⟩ and ⟨σ²⟩²."""
    x, w = np.polynomial.hermite_e.hermegauss(_NODES)
    squares = sigma(np.sqrt(variance) * x) ** 2
    w = w / w.sum()
    one = float(w @ squares)
    return one, float(w @ squares**2), one**2


def _half(n: int) -> tuple[Array, Array]:
    """Nodes and weights of |t|, t a component of a unit vector in n dimensions, each sign half.

    (1 − t²)^{(n−3)/2} on t > 0 by itself, so that a kink at 0 costs nothing; to eleven digits for n
    of 16 or more, where the weight is smooth at t = 1."""
    power = (n - 3) / 2
    reach = min(1.0, 12 / np.sqrt(n))  # beyond, the weight is below 1e-30
    x, w = np.polynomial.legendre.leggauss(_NODES)
    t = reach * (x + 1) / 2
    weight = w * np.exp(power * np.log1p(-(t**2)))
    return t, weight / (2 * weight.sum())


def _sphere(sigma: Function, n: int, variance: float) -> tuple[float, float, float]:
    """E σ(h_1)², E σ(h_1)⁴ and E σ(h_1)² σ(h_2)², |h|² = variance · n."""
    radius = np.sqrt(variance * n)

    def even(h: Array) -> tuple[Array, Array]:
        up, down = sigma(h) ** 2, sigma(-h) ** 2
        return up + down, up**2 + down**2

    t, weight = _half(n)
    squares, fourths = even(radius * t)
    inner, inside = _half(n - 1)
    second, _ = even(radius * np.sqrt(1 - t[:, None] ** 2) * inner)
    pair = float((weight * squares) @ (second @ inside))
    return float(weight @ squares), float(weight @ fourths), pair
