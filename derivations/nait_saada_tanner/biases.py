# %% [markdown]
# # Which biases?
#
# The source adds to layer $\ell$ the bias $b^{(\ell)}(C_1 + \dots + C_r)$ with *one* scalar
# $b^{(\ell)} \sim N(0, \sigma_b^2)$, and takes the coefficients
# $z_k = \sum_j \alpha_{kj}\phi_j + b$ to be independent. They share $b$. Their mean square tends to
# $\sigma_\alpha^2\langle\phi^2\rangle + b^2$, not to
# $\sigma_\alpha^2\langle\phi^2\rangle + \sigma_b^2$, at any width. Maps (3) and (5) hold for a bias
# of its own in every direction, or in every neuron; with one bias per layer they hold given $b$,
# with $b^2$ for $\sigma_b^2$, and lengths stay random.

# %%
"""Biases per neuron, per direction and per layer: what (3) and (5) hold for (source 001, A.2)."""

from __future__ import annotations

import numpy as np
import sympy
from matplotlib.figure import Figure

from derivations.claims import Sampling, Verdict, both, claim, equal, misprint, observed, sampled
from derivations.moments.gaussian import variables, wick
from derivations.nait_saada_tanner import drawing
from derivations.nait_saada_tanner import sampling as networks
from derivations.nait_saada_tanner.given_biases import given_biases
from derivations.pictures.panels import one_panel
from derive import Network, activations, propagation
from numeric import compare, flow
from numeric.tables import layout
from numeric.tables.normalise import natural_size

WIDTHS = (256, 512, 1024)
DEPTH, DRAWS = 8, 384
INPUTS = np.array([[1.0, 0.0], [0.6, 0.8]]) * np.sqrt(2)
"""Two inputs of length² n_0 = 2 and correlation 0.6."""


def network() -> Network:
    """tanh with γ = 1/4, C_W = 1 and a large C_b = 1, that is σ_α² = σ_b² = 4."""
    return propagation.network(activations.tanh, 4, 4, "1/4")


# %% [markdown]
# ## What the coefficients share


# %%
@claim("001", "A.2", "coefficients with one bias are not independent")
def shared_bias() -> Verdict:
    r"""$z_k = \zeta_k + b$ with $\langle\zeta_k^2\rangle = s$ have $\mathrm{Cov}(z_1, z_2) =
    \sigma_b^2$, and the variance of $\sum_kz_k^2/r$ tends to $2\sigma_b^4$ for $r \to \infty$: the
    law of large numbers behind (12) does not hold for it. With a $b_k$ for each direction both
    vanish."""
    s, bias, rank = sympy.symbols("s sigma_b^2 r", positive=True)

    def moments(shared: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
        average = wick(sympy.Matrix([[s + bias, shared], [shared, s + bias]]))
        z1, z2 = variables(2)
        mean = average(z1**2)
        own, mixed = average(z1**4) - mean**2, average(z1**2 * z2**2) - mean**2
        spread = sympy.expand(own / rank + mixed * (rank - 1) / rank)
        return average(z1 * z2), sympy.limit(spread, rank, sympy.oo)

    covariance, spread = moments(bias)
    own = moments(sympy.Integer(0))
    found = equal([*own, spread], [0, 0, 2 * bias**2])
    return misprint(
        covariance,
        0,
        f"Var(q/γ) → {spread} for one b per layer, → {own[1]} for one per direction",
        provided=found,
    )


# %% [markdown]
# ## Simulated


# %%
def ensembles(net: Network, biases: str, seed: int) -> dict[int, networks.Sample]:
    """The networks of a kind of bias, by width."""
    return {
        n: networks.sample(net, INPUTS, n, DEPTH, DRAWS, biases=biases, seed=seed + n)
        for n in WIDTHS
    }


@claim("001", "3, 5 (biases)", "the maps with a bias per neuron and per direction", sampled=True)
def independent_biases(sampling: Sampling) -> Verdict:
    """K of two inputs with C_W = C_b = 1, γ = 1/4 in 8 layers; n = 256, 512 and 1024, 384 networks
    each, extrapolated in 1/n against the flow."""
    net = network()
    flowed = flow(net, INPUTS, DEPTH, ["K"])
    comparisons = [
        compare(
            flowed,
            [
                networks.simulate(
                    net, INPUTS, n, DEPTH, DRAWS, biases=biases, seed=sampling.seed + n
                )
                for n in WIDTHS
            ],
            sampling.false_alarms / 2,
        )
        for biases in ("neuron", "direction")
    ]
    return sampled(comparisons, "n = 256, 512, 1024 extrapolated", labels=["neuron", "direction"])


@claim("001", "3, 5 (one bias)", "the maps with one bias per layer, given the bias", sampled=True)
def one_bias(sampling: Sampling) -> Verdict:
    r"""$q_{ab}' = \gamma(\sigma_\alpha^2\langle\phi_a\phi_b\rangle + b^2)$ for every network of its
    own $b$'s: the mean of $K$ minus that, at $n = 256$, 512 and 1024, 384 networks each,
    extrapolated in $1/n$. On average over $b$ the lengths miss (3) from the second layer on, by
    what the detail says."""
    net = network()
    layers = range(1, DEPTH + 1)
    tables = []
    for n, found in ensembles(net, "layer", sampling.seed).items():
        assert found.b is not None
        residual = found.K - given_biases(net, INPUTS, found.b)
        tables.append(
            layout.table(
                layers,
                {"width": n, "network": str(net), "blocks": DRAWS},
                K=layout.averaged(residual),
            )
        )
    flowed = flow(net, INPUTS, DEPTH, ["K"])
    size = natural_size("K", flowed)
    assert size is not None
    zero = layout.table(layers, K=np.zeros((DEPTH, 2, 2)), K_size=size)
    given = compare(zero, tables, sampling.false_alarms)
    printed = flowed["K"].to_numpy()
    b = 2 * np.random.default_rng(sampling.seed).standard_normal((2048, DEPTH))
    averaged = given_biases(net, INPUTS, b) - (b**2 / 4 - 1)[:, :, None, None]
    error = averaged.std(axis=0) / np.sqrt(len(b))
    missed = ((averaged.mean(axis=0) - printed)[1:] / error[1:])[:, 0, 0]
    ratio = (averaged.mean(axis=0) / printed)[-1, 0, 0]
    verdict = sampled(
        given,
        f"given b; on average over b, (3) is missed by {-missed.max():.0f} to {-missed.min():.0f} "
        f"standard errors in layers 2 to {DEPTH}, q by a factor {ratio:.3f} in the last",
        {"biases": spread_figure(net, sampling.seed)},
    )
    return both(verdict, observed((missed < -5).tolist(), "(3) is missed in every layer"))


def spread_figure(net: Network, seed: int) -> Figure:
    """The standard deviation of a length over networks, by width, for the three kinds."""
    figure, panel = one_panel(
        (5, 3.6), xlabel="width n", ylabel=f"standard deviation of q at layer {DEPTH}"
    )
    for number, biases in enumerate(drawing.BIASES):
        spread = [each.K[:, -1, 0, 0].std() for each in ensembles(net, biases, seed).values()]
        panel.loglog(WIDTHS, spread, "o-", color=f"C{number}", label=f"one bias per {biases}")
    guide = np.array(WIDTHS, float)
    panel.loglog(guide, 12 / np.sqrt(guide), ":", color="grey", label="∝ n^(−1/2)")
    panel.legend(loc="center right")
    return figure
