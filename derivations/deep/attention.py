# %% [markdown]
# # Shaped attention
#
# A mean over tokens moves $K$ by order one a layer. Shaped attention reads its own token, up to
# order $1/\sqrt n$: $A = 1 + \operatorname{softmax}(c) - \tfrac1T 11^T$ with scores $c$ of that
# order. Then the Gram matrix of the tokens follows a stochastic differential equation.

# %%
"""The covariance equation of shaped attention, as in Noci et al. (2023), and networks beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import sympy
from numpy.typing import NDArray

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, both, equal, observed, scored
from derive import layers, recursion
from derive.deep import Diffusion
from numeric import deep

R = sympy.Rational
DRAWS = 2000
TOKENS = np.sqrt(3) * np.array([[1.0, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.3, 0.4, 1.0]])
KERNEL = ((1, R(1, 2), R(1, 5)), (R(1, 2), 1, -R(1, 3)), (R(1, 5), -R(1, 3), 2))
ENTRIES = ((0, 0, 0, 0), (0, 1, 0, 1), (0, 0, 1, 1), (0, 1, 1, 1))


def shaped(tokens: int, branch: sympy.Expr, gain: object = 1) -> layers.Layer:
    """γ² of the branch, and C_Q C_K; W_O W_V is one Gaussian matrix, because W_V is orthogonal."""
    return layers.attention(
        1,
        tokens,
        score="shaped",
        skip=sympy.sqrt(1 - branch),
        C=(gain, 1, branch, 1),
        weights={"V": "orthogonal"},
    )


def equation(layer: layers.Layer) -> Diffusion:
    """Drift and diffusion of a layer without activations."""
    return recursion(["z", "z"], layer=layer).diffusion()


def by_hand(
    K: sympy.Matrix, branch: sympy.Expr, gain: sympy.Expr
) -> tuple[sympy.Matrix, Callable[[Sequence[int]], sympy.Expr]]:
    """Softmax to second order in scores of covariance ⟨c_ts c_ur⟩ = C_Q C_K K_tu K_sr/n."""
    T = K.shape[0]
    center = sympy.eye(T) - sympy.ones(T, T) / T
    X = center * K * center
    M = K * X * K
    row = sympy.Matrix([[X[s, s] - X.trace() / T for s in range(T)]]) * K / (2 * T)
    size = (X * X).trace() / T**2
    drift = sympy.Matrix(
        T, T, lambda a, b: branch * gain * (size * K[a, b] + K[a, a] * row[b] + K[b, b] * row[a])
    )

    def noise(at: Sequence[int]) -> sympy.Expr:
        a, b, c, d = at
        plain = branch * (2 - branch) * (K[a, c] * K[b, d] + K[a, d] * K[b, c])
        moved = K[a, c] * M[b, d] + K[a, d] * M[b, c] + K[b, c] * M[a, d] + K[b, d] * M[a, c]
        return plain + branch**2 * gain * moved / T**2

    return drift, noise


@claim("deep", "17", "shaped attention: the Gram matrix of T tokens has drift and diffusion")
def shaped_attention() -> Verdict:
    r"""At $z' = \sqrt{1-\gamma^2}\,z + \gamma WAz$ and $X = PKP$, $P$ the projection on vectors of
    sum 0: $b_{ab} = \gamma^2 C_QC_K\,(K_{ab}\operatorname{tr}X^2/T^2 + K_{aa}u_b + K_{bb}u_a)$,
    $u = \frac1{2T}(\operatorname{diag}X - \operatorname{tr}X/T)K$, and $\Sigma = \gamma^2(2 -
    \gamma^2)(K_{13}K_{24} + K_{14}K_{23}) + \frac{\gamma^4C_QC_K}{T^2}(K_{13}M_{24} + K_{14}M_{23}
    + K_{23}M_{14} + K_{24}M_{13})$ with $M = KXK$. The right side is softmax expanded by hand."""
    branch, gain = R(3, 4), R(1, 2)
    symbols = sympy.Matrix(2, 2, lambda a, b: sympy.Symbol(f"k{min(a, b)}{max(a, b)}"))
    found, expected = [], []
    for K in (symbols, sympy.Matrix(3, 3, lambda a, b: KERNEL[a][b])):
        drift, noise = equation(shaped(K.shape[0], branch, gain)).functions()
        b, covariance = by_hand(K, branch, gain)
        values = np.array(K.tolist(), object)
        found += [*drift(values).ravel(), *(noise(values)[at] for at in ENTRIES)]
        expected += [*b, *map(covariance, ENTRIES)]
    return equal([*map(sympy.expand, found)], [*map(sympy.expand, expected)])


@claim("deep", "18", "shaped attention: its limits")
def limits() -> Verdict:
    r"""With $C_QC_K = 0$ it is a linear residual network, $b = 0$. Where all tokens are equal, they
    stay so: $X = 0$."""
    none = equation(shaped(2, R(1, 4), 0))
    drift, noise = equation(shaped(3, R(1, 4))).functions()
    alike = np.full((3, 3), sympy.Symbol("k"))
    found = [none.drift, *map(sympy.expand, drift(alike).ravel()), *set(noise(alike).ravel())]
    return equal(found, [0] * 10 + [sympy.Symbol("k") ** 2 * R(7, 8)])


def statistics(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """K_11/(1 + K_11), two angles and log det K, which have no heavy tails."""
    lengths = np.sqrt(np.diagonal(K, axis1=1, axis2=2))
    rho = K / lengths[:, :, None] / lengths[:, None]
    one, logs = K[:, 0, 0], np.linalg.slogdet(K)[1]
    return np.stack([one / (1 + one), rho[:, 0, 1], rho[:, 0, 2], logs], axis=1)


@claim("deep", "19", "three tokens, 64 layers of 256 neurons with shaped attention", sampled=True)
def in_ensembles(sampling: Sampling) -> Verdict:
    r"""$\gamma^2 = 1/8$ and $C_QC_K = 8$: $\langle K_{11}/(1 + K_{11})\rangle$,
    $\langle\rho_{12}\rangle$, $\langle\rho_{13}\rangle$ and $\langle\log\det K\rangle$ of networks
    and of paths. Without attention $\langle\log\det K\rangle$ is far off."""
    block = layers.attention(1, 3, score="shaped", skip="sqrt(7/8)", C=(4, 2, "1/8", 1))
    made = equation(block)
    samples = deep.simulate(made.network(256), TOKENS, "1/4", 256, DRAWS, seed=sampling.seed)
    paths = deep.paths(made, samples.start, "1/4", 2 * DRAWS, steps=32, seed=sampling.seed)
    mean, values = paths.mean(statistics), statistics(samples.values)
    error = np.hypot(values.std(axis=0) / len(values) ** 0.5, mean.error)
    scores = (values.mean(axis=0) - mean.value) / (error + mean.step_error)
    plain = equation(layers.attention(1, 3, score="shaped", skip="sqrt(7/8)", C=(0, 0, "1/8", 1)))
    alone = deep.paths(plain, samples.start, "1/4", 2 * DRAWS, steps=32, seed=sampling.seed)
    missed = (values.mean(axis=0) - alone.mean(statistics).value)[-1] / error[-1]
    detail = f"{DRAWS} networks, {2 * DRAWS} paths; without attention log det K is off by "
    scale = np.abs(statistics(paths.values)).mean(axis=0)
    agreed = scored(
        scores, error / scale, sampling.false_alarms, f"{detail}{missed:.0f} standard errors"
    )
    return both(agreed, observed(missed > 4, "attention is seen"))
