# %% [markdown]
# # Several inputs
#
# Without shaping, angles move by order one a layer, and all inputs become parallel long before $L
# \sim n$. With a shape that becomes linear as $n$ grows, $K' - K$ is of order $1/n$, and the Gram
# matrix follows a stochastic differential equation.

# %%
"""The covariance equation of Li, Nica and Roy (2022), and networks beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, equal, scored
from derive import recursion
from derive.gaussian.brackets import Component
from derive.symbols import n, z
from numeric import deep

Array = NDArray[np.float64]
R = sympy.Rational
ONE, CROSS, TWO = (Component("K", pair) for pair in ((1, 1), (1, 2), (2, 2)))
NOISE = Component("K", (1, 3)) * Component("K", (2, 4))
NOISE += Component("K", (1, 4)) * Component("K", (2, 3))
SHAPES: dict[str, Callable[[NDArray[Any], float], NDArray[Any]]] = {
    "z + max(0,z)/sqrt(n) - min(0,z)/sqrt(n)": lambda values, root: values + abs(values) / root,
    "sqrt(n)*tanh(z/sqrt(n))": lambda values, root: root * np.tanh(values / root),
}
"""Activations, and the same as functions of z and of the root of the width."""

WIDTHS = 48, 144
DRAWS, PATHS = 8_000, 25_000
START = np.array([[1.0, 0.8], [0.8, 1.0]])


@claim("deep", "7", "shaped ReLU: the drift turns angles by the arc-cosine kernel")
def shaped_relu() -> Verdict:
    r"""Slopes $1 + c_\pm/\sqrt n$ at $C_W = 1/\langle\sigma^2\rangle_1$: $b = \frac{(c_+ - c_-)^2}
    {2\pi}\sqrt{K_{11}K_{22}}\,(\sqrt{1-\rho^2} - \rho\arccos\rho)$ and $\Sigma = K_{13}K_{24} +
    K_{14}K_{23}$. Lengths have no drift."""
    found, expected = [], []
    length = sympy.sqrt(ONE) * sympy.sqrt(TWO)
    angle = sympy.pi / 2 - sympy.asin(CROSS / length)
    for plus, minus in ((1, -1), (R(1, 2), 0)):
        shape = z + (plus * sympy.Max(0, z) + minus * sympy.Min(0, z)) / sympy.sqrt(n)
        made = recursion(["z", "z"]).diffusion(shape)
        drift = R(plus - minus) ** 2 / (2 * sympy.pi)
        drift *= sympy.sqrt(ONE * TWO - CROSS**2) - CROSS * angle
        found += [made.drift, made.noise]
        expected += [drift, NOISE]
    return equal(found, expected)


@claim("deep", "8", "smooth shapes, with Gaussian and orthogonal weights")
def smooth() -> Verdict:
    r"""$\sigma = z + \frac{s_2}{2\sqrt n}z^2 + \frac{s_3}{6n}z^3$: $b = \frac{s_2^2}4(K_{11}
    K_{22} + K_{12}(2K_{12} - 3)) + \frac{s_3}2K_{12}(K_{11} + K_{22} - 2)$. With orthogonal
    weights the drift is the same and $\Sigma = 0$: at $L \sim n$ all networks are alike."""
    found, expected = [], []
    for two, three in ((0, -2), (1, -1)):
        shape = z + two * z**2 / (2 * sympy.sqrt(n)) + three * z**3 / (6 * n)
        drift = R(two**2, 4) * (ONE * TWO + CROSS * (2 * CROSS - 3))
        drift += R(three, 2) * CROSS * (ONE + TWO - 2)
        for law, noise in (("gaussian", NOISE), ("orthogonal", 0)):
            made = recursion(["z", "z"], law).diffusion(shape)
            found += [made.drift, made.noise]
            expected += [sympy.expand(drift), noise]
    return equal(found, expected)


def statistics(K: Array) -> Array:
    """K_12, the mean of log K over both inputs, ρ and ρ² of each network: (draws, 4)."""
    both = K[:, 0, 0] * K[:, 1, 1]
    rho = K[:, 0, 1] / np.sqrt(both)
    return np.stack([K[:, 0, 1], np.log(both) / 2, rho, rho**2], axis=1)


def moved(K: Array, change: Array) -> Array:
    """The change of the statistics where K changes, to first order."""
    rates = [change[:, a, a] / K[:, a, a] / 2 for a in (0, 1)]
    rho = statistics(K)[:, 2]
    turned = rho * (change[:, 0, 1] / K[:, 0, 1] - sum(rates))
    return np.stack([change[:, 0, 1], sum(rates), turned, 2 * rho * turned], axis=1)


def controlled(values: Array, controls: Array) -> Array:
    """The values less a regression on controls, whose means are 0."""
    slopes = np.linalg.lstsq(controls - controls.mean(axis=0), values, rcond=None)[0]
    return np.asarray(values - controls @ slopes)


def networks(shape: str, variance: float, width: int, rng: np.random.Generator) -> Array:
    """The statistics of K behind as many layers as neurons: (draws, 4).

    Given K = A Aᵀ, z = A w with normal w, and A (w wᵀ/n − 1) Aᵀ has the mean 0: so have the sums
    over layers of what it moves the statistics by, which are the controls; sums with the weight
    ℓ/n as well, because a drift forgets the first layers.
    """
    K = np.repeat(START[None], DRAWS, axis=0)
    sums = np.zeros((2, DRAWS, len(K[0]) ** 2))
    for layer in range(width):
        A = np.linalg.cholesky(K)
        w = rng.standard_normal((DRAWS, 2, width), np.float32)
        change = moved(K, A @ (w @ w.swapaxes(1, 2) / width - np.eye(2)) @ A.swapaxes(1, 2))
        sums += change, change * layer / width
        values = SHAPES[shape](np.asarray(A.astype(np.float32) @ w), width**0.5)
        K = variance / width * np.asarray(values @ values.swapaxes(1, 2), float)
    return controlled(statistics(K), np.concatenate(list(sums), axis=1))


def estimate(values: Array) -> Array:
    """The mean and its standard error."""
    return np.stack([values.mean(axis=0), values.std(axis=0) / len(values) ** 0.5])


@claim("deep", "9", "networks as deep as wide, two inputs: errors of 1 %", sampled=True)
def in_ensembles(sampling: Sampling) -> Verdict:
    r"""$\langle K_{12}\rangle$, $\langle\log K\rangle$, $\langle\rho\rangle$ and
    $\langle\rho^2\rangle$ of shaped ReLU and tanh at $r = 1$ against paths of the equation, from
    $\rho = 0.8$. Networks of 48 and 144 neurons are extrapolated in $1/n$: at $n = 144$ alone
    $\log K$ of ReLU is off by $-6/n$, 4 %. Control variates are what linear networks of the same
    weights do, and for paths of ReLU $K_{11}$ and $K_{22}$, whose means do not move."""
    scores: list[float] = []
    errors: list[float] = []
    for at, shape in enumerate(SHAPES):
        made = recursion(["z", "z"]).diffusion(shape)

        def of(K: Array, keeps: bool = at == 0) -> Array:
            lengths = np.diagonal(K, axis1=1, axis2=2) - 1
            return controlled(statistics(K), lengths) if keeps else statistics(K)

        rng = np.random.default_rng((sampling.seed, at))
        variances = [float(made.network(n).one_law("this claim").C_W) for n in WIDTHS]
        one, two = (
            estimate(networks(shape, variance, n, rng))
            for variance, n in zip(variances, WIDTHS, strict=True)
        )
        paths = deep.paths(made, START, 1, PATHS, steps=16, seed=sampling.seed)
        theory = paths.mean(of)
        error = np.sqrt((one[1] ** 2 + 9 * two[1] ** 2) / 4 + theory.error**2)
        limit = (3 * two[0] - one[0]) / 2
        scores += list((limit - theory.value) / error)
        errors += list(error / np.abs(theory.value))
    detail = f"{DRAWS} networks of each width, {PATHS} paths; errors of {max(errors):.1%} or less"
    return scored(scores, errors, sampling.false_alarms, detail)
