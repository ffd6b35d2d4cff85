# %% [markdown]
# # The layers at finite width
#
# Each shipped layer's $V$ and $G^{\{1\}}$ as networks have them. Behind a norm, with one input,
# both are known exactly at every width without the engine, by the moments of a vector on a sphere,
# and so to many digits. Blocks without a norm are sampled.

# %%
"""V and G^{1} of layers against what is exact at finite width, and against ensembles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from scipy.special import erf

from derivations.claims import Sampling, Verdict, claim, observed, sampled
from derivations.layers.by_moments import Function, PreNorm
from derive import Gaussian, Network, Orthogonal, layers
from derive.activations.functions import as_activation
from numeric import compare, flow, simulate
from numeric.arrays import Array

SIGMAS: Mapping[str, Function] = {
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
    "gelu": lambda z: z * (1 + erf(z / np.sqrt(2))) / 2,
}
C_W, C_b = 1.5, 0.2
INPUT = (1.0, 0.5, -0.7)
WIDTHS = (128, 256, 512, 1024)
DEPTH = 6
HALF, GATE = layers.residual("1/2"), layers.gated("1/2")
SAMPLED = (
    (HALF, "tanh", Gaussian(1.5), 0.1, {16: 55_000, 48: 55_000}),
    (HALF, "relu", Orthogonal(1), 0.1, {16: 66_000, 48: 66_000}),
    (HALF, "gelu", Orthogonal(0.8), 0.3, {24: 77_000, 72: 66_000}),
    (GATE, "tanh", Orthogonal(0.7), 0.3, {32: 66_000, 96: 55_000}),
)


def limits(layer: PreNorm, K: float) -> tuple[Array, Array]:
    """V and G^{1} of layers 1 … 6 after a Gaussian layer 1 of variance K: the values at 1/n = 0 of
    V and of the slope of E z², by a cubic in 1/n."""
    runs = [layer.run((K, K**2 * (1 + 2 / n)), n, DEPTH) for n in WIDTHS]
    powers = np.vander(1 / np.array(WIDTHS), increasing=True)
    means, vertices = (np.linalg.solve(powers, np.array(rows)) for rows in zip(*runs, strict=True))
    return vertices[0], means[1]


@claim("layers", "15", "V and G^{1} behind norms, exact at finite width")
def behind_norms() -> Verdict:
    r"""`normalized`, `residual` at $\gamma = \frac12$ and 1 and `gated` with a norm, tanh, GELU and
    ReLU, Gaussian and orthogonal weights, with biases: layers 2 to 6, both tensors from the exact
    moments at widths 128 to 1024, as far as their series in $1/n$ is a cubic."""
    kinds = {
        "normalized": (layers.normalized("rms"), 0.0),
        "residual": (layers.residual("1/2", norm="rms"), 0.5),
        "residual 1": (layers.residual(1, norm="layer"), 1.0),
        "gated": (layers.gated(norm="rms"), 0.0),
    }
    found: list[float] = []
    expected: list[float] = []
    K = C_W * float(np.mean(np.square(INPUT))) + C_b
    for (name, sigma), (kind, (layer, skip)), haar in product(
        SIGMAS.items(), kinds.items(), (False, True)
    ):
        weights = Orthogonal(C_W) if haar else Gaussian(C_W)
        net = Network(as_activation(name), weights, Gaussian(C_W), C_b=C_b, layer=layer)
        table = flow(net, INPUT, DEPTH, ["K", "V", "G1"])
        V, G1 = limits(PreNorm(sigma, haar, kind.split()[0], skip, C_W, C_b), K)
        scale = float(table["K"][-1])
        found += [*(V[1:] / scale**2), *(G1[1:] / scale)]
        expected += [*(table["V"][1:] / scale**2).values, *(table["G1"][1:] / scale).values]
    off = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    told = f"{len(found)} numbers, V/K² and G1/K, within {off:.0e}"
    return observed(bool(off < 1e-6), told)


def in_ensembles(
    cases: Sequence[tuple[Network, Sequence[str], Mapping[int, int]]],
    depth: int,
    sampling: Sampling,
    detail: str,
) -> Verdict:
    """Tensors of each network at `INPUT` beside its ensembles, (tensors, networks by width) each,
    extrapolated in 1/n."""
    comparisons = []
    for net, tensors, draws in cases:
        ensembles = [
            simulate(net, INPUT, n, depth, count, tensors=tensors, seed=sampling.seed)
            for n, count in draws.items()
        ]
        theory = flow(net, INPUT, depth, tensors)
        comparisons.append(compare(theory, ensembles, sampling.false_alarms / len(cases)))
    return sampled(comparisons, detail, {}, [str(net) for net, *_ in cases])


# %% [markdown]
# ## Blocks without a norm


# %%
@claim("layers", "16", "V of residual blocks and gates without a norm, sampled", sampled=True)
def without_norms(sampling: Sampling) -> Verdict:
    """Blocks and gates with a skip of 1/2, layers 2 to 6 after a Gaussian first one, one input; two
    widths extrapolated in 1/n."""
    cases = [
        (Network(name, weights, Gaussian(weights.C_W), C_b=bias, layer=layer), ["V"], draws)
        for layer, name, weights, bias, draws in SAMPLED
    ]
    told = "two widths each, n = 16 to 96, extrapolated"
    return in_ensembles(cases, DEPTH, sampling, told)
