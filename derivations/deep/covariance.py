# %% [markdown]
# # Several inputs
#
# Without shaping, angles move by order one a layer, and all inputs become parallel long before $L
# \sim n$. With a shape that becomes linear as $n$ grows, $K' - K$ is of order $1/n$, and the Gram
# matrix follows a stochastic differential equation.

# %%
"""The covariance equation of Li, Nica and Roy (2022), and networks beside it."""

from __future__ import annotations

import numpy as np
import sympy
from numpy.typing import NDArray

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, equal, scored
from derivations.section import show
from derive import recursion
from derive.gaussian.brackets import Component
from derive.symbols import n, z
from numeric import deep

R = sympy.Rational
ONE, CROSS, TWO = (Component("K", pair) for pair in ((1, 1), (1, 2), (2, 2)))
NOISE = Component("K", (1, 3)) * Component("K", (2, 4))
NOISE += Component("K", (1, 4)) * Component("K", (2, 3))
SHAPES = ("z + max(0,z)/sqrt(n) - min(0,z)/sqrt(n)", "sqrt(n)*tanh(z/sqrt(n))")

DRAWS = 2000


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


def statistics(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """ρ and ρ² of each network, free of heavy tails: (draws, 2)."""
    rho = K[:, 0, 1] / np.sqrt(K[:, 0, 0] * K[:, 1, 1])
    return np.stack([rho, rho**2], axis=1)


@claim("deep", "9", "networks of 256 layers and neurons, two inputs", sampled=True)
def in_ensembles(sampling: Sampling) -> Verdict:
    r"""$\langle\rho\rangle$ and $\langle\rho^2\rangle$ of shaped ReLU and tanh against paths of the
    equation, whose steps are extrapolated. The inputs have $\rho = 0.8$."""
    inputs = np.sqrt(2) * np.array([[1.0, 0.0], [0.8, 0.6]])
    scores: list[float] = []
    errors: list[float] = []
    for shape in SHAPES:
        made = recursion(["z", "z"]).diffusion(shape)
        samples = deep.simulate(made.network(256), inputs, 1, 256, DRAWS, seed=sampling.seed)
        paths = deep.paths(made, samples.start, 1, 4 * DRAWS, seed=sampling.seed)
        mean, values = paths.mean(statistics), statistics(samples.values)
        error = np.hypot(values.std(axis=0) / len(values) ** 0.5, mean.error) + mean.step_error
        scores += list((values.mean(axis=0) - mean.value) / error)
        errors += list(error / np.abs(mean.value))
    detail = f"{DRAWS} networks and {4 * DRAWS} paths for each shape"
    return scored(scores, errors, sampling.false_alarms, detail)


# %%
if __name__ == "__main__":
    show()
