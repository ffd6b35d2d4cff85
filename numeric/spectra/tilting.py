"""Importance sampling of Jacobians: networks drawn as often as their m_k counts.

Moments of JJᵀ belong to few networks of an ensemble, those whose layers stretched what was already
long. So layers are drawn from a law in which they are frequent, and count for less. A layer's first
factor A, which meets the columns v_j of the Jacobian so far, is drawn with the density

    h(A) = Σ_j π_j |A v̂_j|^p / E|A v̂|^p ,    π_j ∝ |v_j|^p ,

over its own law: a column j is chosen, and |A v̂_j|² is drawn from the law with p more degrees of
freedom, all else as it was. With p = 2 or 4, chosen for the network as a whole, the weight of what
is seen at a layer is 2/(Π h_2 + Π h_4), and its mean is 1 at every layer: weighted averages are
unbiased at every width. Derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from derive.errors import InputError
from derive.weights import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    WeightEnsemble,
)

from ..arrays import Array
from ..random.matrices import number
from .products import Jacobian

POWERS = (2, 4)
"""p: what makes m_1 and m_2 of one direction a constant."""

ENSEMBLES = (Gaussian, LowRankGaussian, LowRankOrthogonal, Orthogonal)


def check(weights: WeightEnsemble) -> None:
    """InputError for weights whose first factor has no law here that can be tilted."""
    if not isinstance(weights, ENSEMBLES):
        wanted = "Gaussian, orthogonal or low-rank weights"
        raise InputError("importance", str(weights), wanted)


@dataclass(eq=False)
class Tilt:
    """The tilted law of one network.

    Attributes:
        rng: the network's generator, which is advanced.
        power: p.
        densities: Π h by p, of the layers so far.
    """

    rng: np.random.Generator
    power: int = field(init=False)
    densities: Array = field(init=False)

    def __post_init__(self) -> None:
        self.power = int(self.rng.choice(POWERS))
        self.densities = np.ones(len(POWERS))

    @property
    def weight(self) -> float:
        """Of the network, as far as it goes."""
        return float(1 / self.densities.mean())

    def tilted(self, weights: WeightEnsemble, A: Array, J: Jacobian) -> tuple[Array, Array]:
        """The factor A (rows, n) as it is in the tilted ensemble, from one of its own; and A·J."""
        size, n = A.shape
        haar = isinstance(weights, LowRankOrthogonal)
        if isinstance(weights, Orthogonal) or (haar and size == n):
            return A, J.times(A)  # |A v| is a constant
        lengths = J.lengths()
        if not 0.0 < lengths.sum() < np.inf:
            return A, J.times(A)
        shares = {p: _shares(lengths, p) for p in POWERS}
        levels = np.cumsum(shares[self.power])
        v = J.column(min(int(np.searchsorted(levels, self.rng.random(), "right")), n - 1))
        v = v / np.linalg.norm(v)
        scale = 1.0 if haar else float(np.sqrt(number(weights.C_W) / size))
        A = self._rotated(A, v) if haar else self._stretched(A, v, scale)
        seen = np.zeros(n)
        AJ = J.times(A)
        there = lengths > 0
        seen[there] = np.einsum("ij,ij->j", AJ, AJ)[there] / (scale**2 * lengths[there])
        for place, p in enumerate(POWERS):
            self.densities[place] *= shares[p] @ seen ** (p // 2) / _mean(size, n, p, haar)
        return A, AJ

    def _stretched(self, A: Array, v: Array, scale: float) -> Array:
        """Independent Gaussian entries: of |A v|², χ² with p more degrees of freedom."""
        Av = A @ v
        square = Av @ Av / scale**2
        more = self.rng.chisquare(self.power)
        return np.asarray(A + np.outer((np.sqrt(1 + more / square) - 1) * Av, v))

    def _rotated(self, A: Array, v: Array) -> Array:
        """A frame's transpose: |A v|² = cos² of an angle, whose beta law has p more degrees of
        freedom; the frame turns in the plane of v and of v's projection on it."""
        size, n = A.shape
        Av = A @ v
        cosine = np.linalg.norm(Av)
        towards = Av / cosine
        image = towards @ A  # in the frame's span, of length 1
        across = image - cosine * v
        across /= np.linalg.norm(across)
        square = self.rng.beta((size + self.power) / 2, (n - size) / 2)
        turned = np.sqrt(square) * v + np.sqrt(1 - square) * across
        return np.asarray(A + np.outer(towards, turned - image))


def _shares(lengths: Array, power: int) -> Array:
    weights = (lengths / lengths.max()) ** (power // 2)
    return np.asarray(weights / weights.sum())


def _mean(size: int, n: int, power: int, haar: bool) -> float:
    """E|A v̂|^p, of a frame or of standard normal entries."""
    if power == POWERS[0]:
        return size / n if haar else float(size)
    return size * (size + 2) / (n * (n + 2)) if haar else size * (size + 2.0)
