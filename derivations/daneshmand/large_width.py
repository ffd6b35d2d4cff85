"""Batch-norm chains at large width: the laws of odd activations, and the map of the spectrum.

Let Γ be the Gram matrix of activations and u = √n g/|g| (centered or not), g ~ N(0, Γ). At large
width Γ' = E σ(u)σ(u)ᵀ, with fluctuations of order 1/d. For odd σ without centering Γ ∝ 1 is at rest
and two rates are all there is: derived here, by quadrature over the sphere. Those of any σ are the
tensor V of `numeric.flow`, `deviation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sympy
import xarray
from numpy.typing import ArrayLike
from scipy import special

from derive import Exchangeable, Network, layers
from derive.activations.functions import Activation, as_activation
from derive.errors import InputError
from derive.symbols import z
from derive.work.caches import cache
from numeric import flow
from numeric.arrays import Array

NODES = 64
"""Of each quadrature over the sphere: radius and angle of two components."""

DEPTH = 60
"""Layers behind which V is at rest."""


@dataclass(frozen=True)
class OddLaw:
    """A chain with odd activation, without centering, at its fixed point Γ ∝ 1.

    Attributes:
        batch: n.
        off_rate, diagonal_rate: what one layer multiplies off-diagonal entries of Γ/a − 1 by, and
            its traceless diagonal: E σ_1u_1σ_2u_2/a and ½ E σ_1²(u_1² − u_2²)/a, a = E σ².
        off_noise, diagonal_noise: d times their variances from one layer.
    """

    batch: int
    off_rate: float
    diagonal_rate: float
    off_noise: float
    diagonal_noise: float

    @property
    def gap_sq(self) -> float:
        """d E V² at leading order."""
        n = self.batch
        off = n * self.off_noise / (1 - self.off_rate**2)
        diagonal = self.diagonal_noise / (1 - self.diagonal_rate**2)
        return (n - 1) / n + (n - 1) * (off + diagonal) / (n + 2) ** 2


def odd_law(activation: Activation, batch: int) -> OddLaw:
    """The rates and noises of an odd activation, by quadrature over the sphere of radius √n.

    Derived here.

    Raises InputError for an activation that is not odd.

    >>> law = odd_law("linear", 10)  # both are n/(n + 2)
    >>> round(law.off_rate, 9), round(law.diagonal_rate, 9)
    (0.833333333, 0.833333333)
    """
    activation, n = as_activation(activation), batch
    apply = _function(activation)
    probe = np.linspace(0.1, math.sqrt(n), 50)
    if not np.allclose(apply(-probe), -apply(probe), rtol=1e-12, atol=1e-14):
        raise InputError("activation", activation.name, "an odd function, as tanh or sin")
    u1, u2, weights = over_sphere(n, NODES)
    s1, s2 = apply(u1), apply(u2)

    def mean(values: Array) -> float:
        return float((weights * values).sum())

    a = mean(s1**2)
    mixed = mean(s1**2 * s2**2)
    return OddLaw(
        n,
        mean(s1 * u1 * s2 * u2) / a,
        mean(s1**2 * (u1**2 - u2**2)) / (2 * a),
        mixed / a**2,
        (mean(s1**4) - mixed) / a**2,
    )


def over_sphere(n: int, nodes: int) -> tuple[Array, Array, Array]:
    """Two components of a uniform point of the sphere of radius √n in n dimensions, and weights.

    (u_1, u_2) has a uniform angle, and (u_1² + u_2²)/n ~ Beta(1, (n−2)/2).
    """
    angle = (np.arange(nodes) + 0.5) * 2 * np.pi / nodes
    if n == 2:
        radius, weights = np.array([math.sqrt(2.0)]), np.array([1.0])
    else:
        node, weights = special.roots_jacobi(nodes, (n - 4) / 2, 0.0)
        radius = np.sqrt(n * (1 + node) / 2)
    u1, u2 = radius[:, None] * np.cos(angle), radius[:, None] * np.sin(angle)
    return u1, u2, (weights / weights.sum() / nodes)[:, None]


@cache
def deviation(activation: str, batch: int, centered: bool) -> float:
    """d E L² of (27) with C of trace 1, deep in a network, at leading order in 1/d.

    >>> round(deviation("linear", 5, True), 9)  # the stationary law in four dimensions
    1.35
    """
    layer = layers.batchnorm(center=centered)
    net = Network(f"{activation}*; linear", layer=layer)
    return deviation_of(flow(net, Exchangeable(batch, 1, "1/10"), DEPTH, ["V"])["V"][-1], batch)


def deviation_of(V: xarray.DataArray, batch: int) -> float:
    """d E L² of (27) with C of trace 1, from V by orbit of a last layer with σ = z.

    Such a layer has QᵀQ/d for its kernel, whose covariance is V/d.
    """
    same, other = (float(V.sel(orbit=label)) for label in ("(11)(11)", "(12)(12)"))
    return (same + (batch - 1) * other) / batch


def transient(inputs: ArrayLike, width: int, depth: int) -> Array:
    """E V² at layers 1 … depth of the linear chain from inputs (n, n_0), to leading order in 1/d.

    The deterministic map of the spectrum, and fluctuations that each layer adds, (1 − tr P²)/d, and
    contracts by the square of the rate at orthogonality. Derived here.

    >>> transient(np.eye(3), width=100, depth=1).round(9)  # (1 − 1/3)/100
    array([0.00666667])
    """
    X = np.asarray(inputs, float)
    n = len(X)
    spectrum = np.linalg.svd(X, compute_uv=False) ** 2
    spectrum = np.pad(spectrum, (0, n - len(spectrum))) / spectrum.sum()
    rate, noise, found = n / (n + 2), 0.0, []
    for _ in range(depth):
        spectrum = mean_spectrum(spectrum)
        noise = rate**2 * noise + (1 - (spectrum**2).sum()) / width
        found.append(((spectrum - 1 / n) ** 2).sum() + noise)
    return np.array(found)


def mean_spectrum(spectrum: Array) -> Array:
    """p_1 … p_n of `moments.mean_spectrum`, in double precision and for zeros as well.

    p_i = E[λ_i w_i²/Σ_j λ_j w_j²], w ~ N(0, 1): source 003, eq. (16), for every i.

    >>> mean_spectrum(np.array([0.8, 0.2])).round(9)  # of two, √λ_i/Σ√λ
    array([0.66666667, 0.33333333])
    """
    positive = spectrum[spectrum > 0]
    h = 0.5
    x = np.arange(-40.0, 2 * 40.0 / len(positive) + 5.0 - math.log(positive.min()), h)
    theta = np.exp(x)[:, None]
    damped = np.exp(-0.5 * np.log1p(2 * theta * positive).sum(axis=1, keepdims=True))
    return np.asarray((h * theta * damped * spectrum / (1 + 2 * theta * spectrum)).sum(axis=0))


def _function(activation: Activation) -> Callable[[Array], Array]:
    evaluate = sympy.lambdify(z, activation.expr, ["scipy", "numpy"])
    return lambda values: np.asarray(evaluate(values), float)
