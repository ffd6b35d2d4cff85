"""The stationary state of batch-norm chains with an activation: the large-width map, linearised.

Let Γ be the Gram matrix of activations and u = √n g/|g| (centered or not), g ~ N(0, Γ). At large
width Γ' = E σ(u)σ(u)ᵀ, with fluctuations of covariance Cov(σ_iσ_j, σ_kσ_l)/d, so that around the
fixed point the covariance of Γ solves Σ = J Σ Jᵀ + N/d, and that of C = QᵀQ/(nd) is

    E L² = (1 − tr P²)/d + tr P'ΣP'ᵀ,        P = E uuᵀ/n,   L = |C − E C| (source 003, eq. 27).

For odd σ without centering P = 1/n, L = V, and two rates are all there is. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, optimize, special

from derive.activations.functions import Activation, as_activation
from derive.errors import InputError, as_integer
from numeric.arrays import Array
from numeric.batchnorm.chains import kernels
from numeric.random.philox import stream_key

NODES = 64
"""Of each quadrature over the sphere: radius and angle of two components."""

STEPS = 60
"""Iterations, each accelerated, within which the map must have come to rest."""


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

    (u_1, u_2) has a uniform angle and (u_1² + u_2²)/n ~ Beta(1, (n−2)/2). Derived here.

    Arguments:
        activation: σ or its name, odd.
        batch: n, 2 or more.

    Raises InputError for an activation that is not odd.

    >>> law = odd_law("linear", 10)  # both are n/(n + 2)
    >>> round(law.off_rate, 9), round(law.diagonal_rate, 9)
    (0.833333333, 0.833333333)
    """
    activation = as_activation(activation)
    n = as_integer("batch", batch, 2)
    apply = _function(activation)
    probe = np.linspace(0.1, math.sqrt(n), 50)
    if not np.allclose(apply(-probe), -apply(probe), rtol=1e-12, atol=1e-14):
        raise InputError("activation", activation.name, "an odd function, as tanh or sin")
    angle = (np.arange(NODES) + 0.5) * 2 * np.pi / NODES
    if n == 2:
        radius, radial = np.array([math.sqrt(2.0)]), np.array([1.0])
    else:
        node, radial = special.roots_jacobi(NODES, (n - 4) / 2, 0.0)
        radius, radial = np.sqrt(n * (1 + node) / 2), radial / radial.sum()
    u1, u2 = radius[:, None] * np.cos(angle), radius[:, None] * np.sin(angle)
    s1, s2 = apply(u1), apply(u2)

    def mean(values: Array) -> float:
        return float(radial @ values.mean(axis=1))

    a = mean(s1**2)
    mixed = mean(s1**2 * s2**2)
    return OddLaw(
        n,
        mean(s1 * u1 * s2 * u2) / a,
        mean(s1**2 * (u1**2 - u2**2)) / (2 * a),
        mixed / a**2,
        (mean(s1**4) - mixed) / a**2,
    )


@dataclass(frozen=True, eq=False)
class Linearised:
    """The map at its fixed point, with averages over a fixed sample of g.

    Attributes:
        fixed: Γ, n × n.
        mean: P = E uuᵀ/n, what C fluctuates around.
        jacobian: J, n² × n².
        response: P', n² × n².
        noise: N, n² × n².
    """

    fixed: Array
    mean: Array
    jacobian: Array
    response: Array
    noise: Array

    @cached_property
    def rates(self) -> Array:
        """The factors of small deviations in one layer: |eigenvalues| of J, largest first."""
        return np.sort(abs(np.linalg.eigvals(self.jacobian)))[::-1]

    @property
    def gap(self) -> float:
        """V of the fixed point: 0 if the chain orthogonalizes."""
        n = len(self.mean)
        return float(np.linalg.norm(self.mean - np.eye(n) / n))

    @cached_property
    def deviation_sq(self) -> float:
        """d E L² at leading order, with C of trace 1."""
        spread = linalg.solve_discrete_lyapunov(self.jacobian, self.noise)
        through = np.trace(self.response @ spread @ self.response.T)
        return float(1 - (self.mean**2).sum() + through)


def linearise(
    activation: Activation,
    batch: int,
    centered: bool = False,
    samples: int = 100_000,
    seed: int = 0,
) -> Linearised:
    """Find the fixed point of the large-width map, and differentiate it there.

    Arguments:
        activation: σ or its name.
        batch: n, 2 or more.
        centered: whether rows lose their mean over the batch.
        samples: of g, n² or more, the same at every step. Averages over them are made invariant
            under permutations of the batch, so their error falls faster than one entry's.
        seed: 0 … 2^64 − 1.

    Derivatives by Γ are averages with the score ½(hᵀDh − tr Γ⁺D), h = Γ⁺g. Derived here.

    Raises InputError where the map does not come to rest, and for arguments that can't be used.

    >>> made = linearise("tanh", batch=3, samples=2000)
    >>> made.jacobian.shape, bool(made.rates[0] < 1)
    ((9, 9), True)
    """
    activation = as_activation(activation)
    n = as_integer("batch", batch, 2)
    samples = as_integer("samples", samples, n * n)
    apply = _function(activation)
    key = stream_key(seed, n)
    rng = np.random.Generator(np.random.Philox(key=int(key[0]) + (int(key[1]) << 32)))
    z = rng.standard_normal((samples // 2, n))
    z = np.concatenate([z, -z])
    fixed = _fixed_point(z, apply, centered, activation.name)
    g = z @ _root(fixed)
    u = _rows(g, centered)
    h = g @ np.linalg.pinv(fixed, hermitian=True, rcond=1e-10)
    score = (_outer(h) - _outer(h).mean(axis=0)) / 2
    products, directions = _outer(apply(u)), _outer(u) / n
    scale = np.trace(products.mean(axis=0).reshape(n, n)) / n
    products = products / scale
    return Linearised(
        fixed,
        _pattern_mean(directions.mean(axis=0).reshape(n, n)),
        _pattern_mean(_covariance(products, score, n)).reshape(n * n, n * n),
        _pattern_mean(_covariance(directions, score, n)).reshape(n * n, n * n),
        _pattern_mean(_covariance(products, products, n)).reshape(n * n, n * n),
    )


def transient(inputs: ArrayLike, width: int, depth: int) -> Array:
    """E V² at layers 1 … depth of the linear chain from inputs (n, n_0), to leading order in 1/d.

    The deterministic map of the spectrum, and fluctuations that each layer adds, (1 − tr P²)/d, and
    contracts by the square of the rate at orthogonality. Derived here.

    Arguments:
        inputs: X, any but all 0.
        width: d.
        depth: layers of preactivations, counted from 1.

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
    module = kernels(activation)

    def apply(values: Array) -> Array:
        out = np.array(values, float, order="C", ndmin=2)
        module.activate(out)
        return out.reshape(np.shape(values))

    return apply


def _fixed_point(z: Array, apply: Callable[[Array], Array], centered: bool, name: str) -> Array:
    """Γ = (1 − c) 1 + c 11ᵀ, up to scale the one Gram matrix that permutations leave alone."""
    n = z.shape[1]

    def gram(c: float) -> Array:
        return np.asarray((1 - c) * np.eye(n) + c)

    def correlation(c: float) -> float:
        activated = apply(_rows(z @ _root(gram(float(c))), centered))
        total, trace = (activated.sum(axis=1) ** 2).mean(), (activated**2).sum(axis=1).mean()
        return float((total / trace - 1) / (n - 1))

    try:
        found = optimize.fixed_point(correlation, 0.0, xtol=1e-12, maxiter=STEPS)
    except RuntimeError:
        wanted = f"a map at rest after {STEPS} steps"
        raise InputError("activation", name, wanted) from None
    return gram(float(found))


def _rows(g: Array, centered: bool) -> Array:
    if centered:
        g = g - g.mean(axis=1, keepdims=True)
    return np.asarray(g / np.sqrt((g**2).mean(axis=1, keepdims=True)))


def _root(gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _outer(rows: Array) -> Array:
    return np.asarray(np.einsum("si,sj->sij", rows, rows).reshape(len(rows), -1))


def _covariance(left: Array, right: Array, n: int) -> Array:
    centered = right - right.mean(axis=0)
    return np.asarray(left.T @ centered / len(left)).reshape(n, n, n, n)


def _pattern_mean(tensor: Array) -> Array:
    """The average over permutations of the n values that every index takes at once: entries are
    averaged over the index tuples with the same pattern of equal indices."""
    index = np.indices(tensor.shape).reshape(tensor.ndim, -1)
    equal = index[:, None] == index[None, :]
    first = equal.argmax(axis=1)  # the first index with the same value
    label = np.ravel_multi_index(tuple(first), (tensor.ndim,) * tensor.ndim)
    sums = np.bincount(label, tensor.reshape(-1))
    counts = np.bincount(label)
    return np.asarray((sums / np.maximum(counts, 1))[label].reshape(tensor.shape))
