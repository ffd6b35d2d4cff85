# %% [markdown]
# # The layers at finite width
#
# Each shipped layer's $V$ and $G^{\{1\}}$ as networks have them. Behind a norm, with one input, both are
# known exactly at every width without the engine, by the moments of a vector on a sphere, and so to
# many digits. Blocks without a norm are sampled.

# %%
"""V and G^{1} of layers against what is exact at finite width, and against ensembles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import erf

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, both, close, observed, sampled
from derivations.layers.by_moments import Function, PreNorm
from derivations.section import show
from derive import Gaussian, Network, Orthogonal, layers
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


def limits(layer: PreNorm, K: float, haar: bool) -> tuple[Array, Array]:
    """V and G^{1} of layers 1 … 6, by four widths extrapolated in 1/n.

    Layer 1 is Gaussian, or a Haar matrix's, of variance K.
    """
    rows = []
    for n in WIDTHS:
        start = (K, K**2 * (1 if haar else 1 + 2 / n))
        rows.append((n, layer.run(start, n, DEPTH)))
    infinite = rows[-1][1][0]
    for _ in range(2):  # K: n (E z² − K) has a limit for the true K alone
        pass
    x = 1 / np.array(WIDTHS)
    powers = np.vander(x, len(WIDTHS), increasing=True)
    V = np.linalg.solve(powers, np.array([row[1] for _, row in rows]))[0]
    means = np.linalg.solve(powers, np.array([row[0] for _, row in rows]))
    del infinite
    return V, means[1]


@claim("layers", "15", "V and G^{1} behind norms, exact at finite width")
def behind_norms() -> Verdict:
    r"""`normalized`, `residual` at $\gamma = \frac12$ and 1 and `gated` with a norm, tanh, GELU and ReLU,
    Gaussian and orthogonal weights, with biases: layers 2 to 6, both tensors from the exact moments at
    widths 128 to 1024, as far as their series in $1/n$ is a cubic."""
    kinds = {
        "normalized": (layers.normalized("rms"), 0.0),
        "residual": (layers.residual("1/2", norm="rms"), 0.5),
        "residual 1": (layers.residual(1, norm="layer"), 1.0),
        "gated": (layers.gated(norm="rms"), 0.0),
    }
    found: list[float] = []
    expected: list[float] = []
    K = C_W * float(np.mean(np.square(INPUT)))
    for name, sigma in SIGMAS.items():
        for kind, (layer, skip) in kinds.items():
            for haar in (False, True):
                weights = Orthogonal(C_W) if haar else Gaussian(C_W)
                first = layers_first(weights)
                net = Network(name, weights, first, C_b=C_b, layer=layer)
                table = flow(net, INPUT, DEPTH, ["K", "V", "G1"])
                exact = PreNorm(sigma, haar, kind.split()[0], skip, C_W, C_b)
                V, G1 = limits(exact, K + C_b, False)
                scale = float(table["K"][-1])
                found += (V[1:] / scale**2).tolist() + (G1[1:] / scale).tolist()
                expected += (table["V"][1:] / scale**2).to_numpy().tolist()
                expected += (table["G1"][1:] / scale).to_numpy().tolist()
    off = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    return both(
        close(max(found), max(expected), 5),
        observed(off < 2e-5, f"{len(found)} numbers, V/K² and G1/K, within {off:.0e}"),
    )


def layers_first(weights: Gaussian | Orthogonal) -> Gaussian:
    """A Gaussian first layer, whose law is Gaussian."""
    return Gaussian(weights.C_W)


# %%
if __name__ == "__main__":
    show()
