# %% [markdown]
# # Correlations, layer by layer
#
# Two inputs of correlation $c_0$ go through wide tanh networks of rank $N/4$. The flow of
# $K$ is the line, the sampled correlation of preactivations the points. Biases are drawn for each
# kept direction: with the single bias of the source the points would not gather around a line.

# %%
"""Sampled correlations and their depth scale (source 001, Figures 7, 8, 9, 11)."""

from __future__ import annotations

import numpy as np
import xarray
from matplotlib.figure import Figure

from derivations.claims import Sampling, Verdict, both, claim, close, sampled
from derivations.nait_saada_tanner import sampling as networks
from derivations.nait_saada_tanner.depth import rescaled
from derivations.pictures.panels import one_panel
from derive import Network, propagation
from numeric import compare, flow
from numeric.arrays import Array
from numeric.tables import layout
from numeric.tables.drawing import beside
from numeric.tables.normalise import natural_size

WIDTHS = (256, 2048)
"""As the spread of K falls as 1/√n, a neuron drawn tells as much at every width: the limit costs
least from two that are far apart."""
DRAWS, DRAWS_OF_D = 64, 384
SHOWN_WIDTH = 1024
ROOTS = ("1.3", "2.5", "4")
"""σ_w, with γσ_α² = σ_w²."""
BIAS = "0.0225"
"""γσ_b² for the captions' σ_b = 0.3 and γ = 1/4."""


def with_correlations(*correlations: float) -> Array:
    """A first input of length² 2, and others of that length and these correlations with it, in the
    plane of the first two."""
    c = np.array([1.0, *correlations])
    return np.asarray(np.sqrt(2) * np.stack([c, np.sqrt(1 - c**2)], axis=1))


def _figure(starts: float, sampling: Sampling) -> Verdict:
    """K of two inputs in twelve layers, for three σ_w; c with two standard deviations drawn.

    K_12 is judged by √(K_11 K_22): its resolution is that of c, which σ_w = 4 takes close to 0."""
    depth, inputs = 12, with_correlations(starts)
    figure, panel = one_panel(
        (5, 3.6),
        xlabel="layer",
        ylabel="c",
        title=f"c₀ = {starts}, bars: two deviations of a network",
    )
    comparisons = []
    for number, root in enumerate(ROOTS):
        net = rescaled(str(float(root) ** 2), BIAS)
        flowed = flow(net, inputs, depth, ["K"])
        flowed = flowed.assign(K_size=(flowed["K"].dims, natural_size("K", flowed)))
        tables = [
            networks.simulate(
                net,
                inputs,
                n,
                depth,
                sampling.networks(DRAWS),
                biases="direction",
                seed=sampling.seed + n,
            )
            for n in WIDTHS
        ]
        comparisons.append(compare(flowed, tables, sampling.false_alarms / len(ROOTS), degree=1))
        K = networks.sample(
            net, inputs, SHOWN_WIDTH, depth, 64, biases="direction", seed=sampling.seed
        ).K
        c = K[:, :, 0, 1] / np.sqrt(K[:, :, 0, 0] * K[:, :, 1, 1])
        layers = np.arange(1, depth + 1)
        beside(
            panel,
            (layers, _correlation(flowed)),
            (layers, c.mean(axis=0), 2 * c.std(axis=0)),
            color=f"C{number}",
            label=f"σ_w = {root}",
        )
    panel.legend()
    return sampled(
        comparisons,
        "K of two inputs, n = 256, 2048 extrapolated",
        {f"correlation_{round(10 * starts)}": figure},
        [f"σ_w = {root}" for root in ROOTS],
    )


def _correlation(table: xarray.Dataset) -> Array:
    K = table["K"].to_numpy()
    return np.asarray(K[:, 0, 1] / np.sqrt(K[:, 0, 0] * K[:, 1, 1]))


@claim("001", "Figure 7", "correlations by layer from c_0 = 0.2", sampled=True)
def figure_seven(sampling: Sampling) -> Verdict:
    r"""$K$ of two inputs with $\sigma_w = 1.3$, 2.5 and 4 and the caption's $\sigma_b = 0.3$, which
    is $\gamma\sigma_b^2 = 0.0225$, 12 layers, 64 networks each of $n = 256$ and 2048, against the
    flow. The biases are drawn for each direction, not one for a layer as in A.2: with one, (3)
    and (5) are missed (3, 5 (one bias))."""
    return _figure(0.2, sampling)


@claim("001", "Figure 8", "correlations by layer from c_0 = 0.5", sampled=True)
def figure_eight(sampling: Sampling) -> Verdict:
    """As Figure 7, with inputs of correlation 0.5."""
    return _figure(0.5, sampling)


@claim("001", "Figure 9", "correlations by layer from c_0 = 0.8", sampled=True)
def figure_nine(sampling: Sampling) -> Verdict:
    """As Figure 7, with inputs of correlation 0.8."""
    return _figure(0.8, sampling)


# %% [markdown]
# ## The depth scale
#
# To see how a deviation from $c^*$ falls off, take inputs 2 and 3 with correlations
# $c^* \pm \delta$ to input 1 and follow $D = K_{12} - K_{13}$ in the same networks: what is common
# to both, the noise around $c^*$ above all, cancels.

# %%
BIASES = (("0.01", ("1.1", "1.25", "1.5", "1.9")), ("0.3", ("1.4", "2.6", "3.4", "4.4")))
"""γσ_b² with some γσ_α² on either side of χ = 1."""
NEAR_ONE = 0.97
FROM, TO = 2, 5
SHOWN = range(FROM, TO + 1)
DEEP = 40
"""A layer by which D falls by the same factor in each, where ξ_c is no more than half of that."""


@claim("001", "Figure 11", "correlation depth scale through χ = 1", sampled=True)
def figure_eleven(sampling: Sampling) -> Verdict:
    r"""$D = K_{12} - K_{13}$ of tanh networks with $\gamma = 1/4$, from correlations on either side
    of $c^*$, or of 0.97 below $c^* = 1$; layers 2 to 5, 384 networks each of $n = 256$ and 2048,
    extrapolated, against the flow, whose fall of $D$ per layer is $e^{-1/\xi_c}$ by layer 40
    for the four with $\xi_c < 20$. Biases of a direction, as in Figure 7.
    Lines: $\xi_c$; points: the mean fall of the sampled $D$ per layer, which tends to it."""
    comparisons, labels, points = [], [], []
    derived: list[float] = []
    printed: list[float] = []
    for bias, weights in BIASES:
        for weight in weights:
            net = rescaled(weight, bias)
            point = propagation.depth_scales(net)
            assert point.c is not None
            middle = min(point.c, NEAR_ONE)
            spread = min(0.1, (1 - middle) / 2)
            inputs = with_correlations(
                *(_before(net, point.q, c) for c in (middle + spread, middle - spread))
            )
            inputs *= np.sqrt((point.q - float(net.C_b_at(1))) / float(net.weights_at(1).C_W))
            tables = []
            for n in WIDTHS:
                draws, seed = sampling.networks(DRAWS_OF_D), sampling.seed + n
                K = networks.sample(net, inputs, n, TO, draws, biases="direction", seed=seed).K
                D = K[:, FROM - 1 :, 0, 1] - K[:, FROM - 1 :, 0, 2]
                tables.append(
                    layout.table(
                        SHOWN,
                        {"width": n, "network": str(net), "blocks": len(D)},
                        D=layout.averaged(D),
                    )
                )
            flowed = flow(net, inputs, DEEP, ["K"])["K"].to_numpy()
            if point.xi_c < DEEP / 2:
                fall = _difference(flowed, DEEP - 1) / _difference(flowed, DEEP)
                derived.append(1 / np.log(fall))
                printed.append(point.xi_c)
            flowed = flowed[:TO]
            D = flowed[FROM - 1 :, 0, 1] - flowed[FROM - 1 :, 0, 2]
            share = sampling.false_alarms / sum(len(each) for _, each in BIASES)
            comparisons.append(compare(layout.table(SHOWN, D=D), tables, share, degree=1))
            labels.append(f"γσ_b² = {bias}, γσ_α² = {weight}")
            points.append((bias, float(weight), D, tables[-1]["D"].to_numpy()))
    figure = scale_figure(points)
    return both(
        sampled(comparisons, "D in layers 2 to 5", {"correlation_scale": figure}, labels),
        close(derived, printed, 2, f"ξ_c and the fall of D from layer {DEEP - 1} to {DEEP}"),
    )


def _difference(K: Array, layer: int) -> float:
    """D at a layer, counted from 1."""
    return float(K[layer - 1, 0, 1] - K[layer - 1, 0, 2])


def _before(net: Network, q: float, c: float) -> float:
    """The correlation of inputs that gives layer 1 the correlation c at the length q."""
    bias = float(net.C_b_at(1))
    return (c * q - bias) / (q - bias)


def scale_figure(points: list[tuple[str, float, Array, Array]]) -> Figure:
    """ξ_c by γσ_α² for each γσ_b², with what the sampled D fell by."""
    figure, panel = one_panel((5.2, 3.8), xlabel="γ σ_α²", ylabel="ξ_c, in layers")
    for number, (bias, weights) in enumerate(BIASES):
        grid = np.linspace(0.9 * float(weights[0]), 1.1 * float(weights[-1]), 13)
        scales = [propagation.depth_scales(rescaled(str(round(w, 6)), bias)).xi_c for w in grid]
        panel.semilogy(grid, scales, color=f"C{number}", label=f"γσ_b² = {bias}")
        for own, weight, _, D in points:
            if own == bias and D[-1] > 0:
                panel.plot(weight, (TO - FROM) / np.log(D[0] / D[-1]), "o", color=f"C{number}")
    panel.legend()
    return figure
