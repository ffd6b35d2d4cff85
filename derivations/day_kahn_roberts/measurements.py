# %% [markdown]
# # What the paper measured, with theory
#
# The paper samples the NTK's tower and several inputs at once, and has no theory for orthogonal
# weights beyond the vertex. Here is every one of those figures with derived lines, at the paper's
# width and at ten times that. Lines are leading order in $1/n$; points at one width differ from
# them by more than their errors, so what is compared is extrapolated in $1/n$ from wider networks.

# %%
"""Measurements of source 000 (Figures 2, 3, 10 to 14) beside derived lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sympy

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, sampled
from derivations.day_kahn_roberts import figures
from derivations.day_kahn_roberts.tower_figures import TOWER, measure, tower_figure
from derivations.section import show
from derive import Gaussian, Network, Orthogonal, WeightEnsemble, activations
from numeric import compare, flow, simulate

SHOWN = (1, 10)
"""The widths that are drawn, over the paper's."""
FITTED = (10, 20, 40)
"""Those that are extrapolated."""
DRAWS = dict.fromkeys((1, *FITTED), 1000)


def network(weights: WeightEnsemble) -> Network:
    """Critical tanh networks with the learning rates (6.17)."""
    return Network(
        activations.tanh, weights, lambda_b=lambda layer: sympy.Rational(1, layer), lambda_W=1
    )


def _tower(sampling: Sampling, width: int, depth: int, gaussian_scale: str) -> Verdict:
    """Figures 2 and 3: ten correlators of one input, Gaussian and orthogonal."""
    x = np.random.default_rng(sampling.seed).random(width)
    measured = [
        measure(label, network(weights), x, depth, TOWER, width, DRAWS, sampling.seed)
        for label, weights in (("Gaussian", Gaussian(1)), ("orthogonal", Orthogonal(1)))
    ]
    fitted = [k * width for k in FITTED]
    measured[0] = replace(measured[0], scale=gaussian_scale)
    comparisons = [
        compare(each.flowed, [each.sampled[n] for n in fitted], sampling.false_alarms / 2)
        for each in measured
    ]
    return sampled(
        comparisons,
        f"n = {', '.join(map(str, fitted))} extrapolated",
        {f"tower_{width}": tower_figure(measured, [k * width for k in SHOWN])},
        [each.label for each in measured],
    )


@claim("000", "Figure 2", "ten correlators of the NTK's tower, n = 50", sampled=True)
def figure_two(sampling: Sampling) -> Verdict:
    r"""tanh networks of eleven layers, one input uniform on $[0, 1]^{50}$. The Gaussian correlators
    grow, all but $\tilde U$; the orthogonal ones saturate, at the derived values."""
    return _tower(sampling, 50, 11, "linear")


@claim("000", "Figure 3", "the same for n = 20 and 31 layers", sampled=True)
def figure_three(sampling: Sampling) -> Verdict:
    r"""At $\ell > n$ Gaussian networks leave the leading order, and orthogonal ones do not: the
    points at $n = 20$ are off the lines on the left and near them on the right; at $n = 200$ near
    both."""
    return _tower(sampling, 20, 31, "symlog")


# %% [markdown]
# ## Several inputs


# %%
@claim("000", "Figures 10–12", "V of four inputs in all its components", sampled=True)
def vertices(sampling: Sampling) -> Verdict:
    """Linear, ReLU and tanh networks of ten layers with Gaussian, orthogonal and mixed weights,
    four inputs uniform on $[0, 1]^{100}$: the components of (A.1)–(A.3) drawn, all 256 compared."""
    inputs, width, depth = np.random.default_rng(sampling.seed).random((4, 100)), 100, 10
    comparisons, labels, drawn = [], [], {}
    for activation in (activations.linear, activations.relu, activations.tanh):
        for start in figures.INITIALISATIONS:
            net = figures.critical_network(activation, start)
            flowed = flow(net, inputs, depth, ["K", "V"])
            ensembles = [
                simulate(net, inputs, k * width, depth, 1500, tensors=["V"], seed=sampling.seed)
                for k in SHOWN
            ]
            comparisons.append(compare(flowed, ensembles, sampling.false_alarms / 9))
            labels.append(f"{activation}, {start}")
            drawn[f"vertex_{activation}_{start}"] = figures.many_inputs(
                labels[-1], flowed, ensembles
            )
    return sampled(comparisons, "n = 100, 1000 extrapolated", drawn, labels)


@claim("000", "Figure 13", "A, B, D and F of four inputs", sampled=True)
def four_inputs(sampling: Sampling) -> Verdict:
    """tanh networks of ten layers, four inputs uniform on $[0, 1]^{50}$, normalised by (A.4),
    (A.5): the component with four distinct inputs drawn, all 256 of each compared."""
    inputs, width = np.random.default_rng(sampling.seed).random((4, 50)), 50
    draws = dict.fromkeys((1, 10, 40), 500)
    measured = [
        measure(label, network(weights), inputs, 10, tuple("ABDF"), width, draws, sampling.seed)
        for label, weights in (("Gaussian", Gaussian(1)), ("orthogonal", Orthogonal(1)))
    ]
    comparisons = [
        compare(each.flowed, [each.sampled[k * width] for k in (10, 40)], sampling.false_alarms / 2)
        for each in measured
    ]
    figure = tower_figure(measured, [k * width for k in SHOWN], at=(0, 1, 2, 3))
    return sampled(
        comparisons,
        "256 components each, n = 500, 2000 extrapolated",
        {"figure13": figure},
        [each.label for each in measured],
    )


# %% [markdown]
# ## Many more inputs than neurons
#
# An orthogonal first layer with $n_0 > n$ is a block of a larger Haar matrix, and its tensors
# depend on $n_0/n$. With the ratio kept, here 784/50, they have a series in $1/n$ as all others do.


# %%
@claim("000", "Figure 14", "the tower with 50 and with 784 inputs to 50 neurons", sampled=True)
def rectangular(sampling: Sampling) -> Verdict:
    """Orthogonal tanh networks of eleven layers. The first layers differ most, where the ratio
    enters the recursions; at large depth it is forgotten."""
    rng, width = np.random.default_rng(sampling.seed), 50
    measured = [
        measure(
            f"n_0/n = {n_0}/{width}",
            network(Orthogonal(1)),
            rng.random(n_0),
            11,
            ("V", *TOWER),
            width,
            DRAWS,
            sampling.seed,
        )
        for n_0 in (width, 784)
    ]
    comparisons = [
        compare(each.flowed, [each.sampled[k * width] for k in FITTED], sampling.false_alarms / 2)
        for each in measured
    ]
    figure = tower_figure(measured, [k * width for k in SHOWN])
    labels = [each.label for each in measured]
    return sampled(comparisons, "n_0/n kept", {"figure14": figure}, labels)


# %%
if __name__ == "__main__":
    show()
