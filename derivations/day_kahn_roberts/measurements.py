# %% [markdown]
# # What the paper measured, with theory
#
# The paper samples the NTK's tower and several inputs at once, and has no theory for orthogonal
# weights beyond the vertex. Here is every one of those figures with derived lines, at the paper's
# width and at one that is wider. Lines are leading order in $1/n$; points at one width differ from
# them by more than their errors, so what is compared is extrapolated in $1/n$ from several. Most
# draws are of the widest networks, on which the limit depends most.

# %%
"""Measurements of source 000 (Figures 2, 3, 10 to 14) beside derived lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import sympy

from derivations.claims import Sampling, Verdict, both, claim, observed, sampled
from derivations.day_kahn_roberts import figures
from derivations.day_kahn_roberts.tower_figures import TOWER, Measured, measure, tower_figure
from derive import Gaussian, Network, Orthogonal, WeightEnsemble, activations
from derive.work.caches import cache
from numeric import Comparison, compare

WIDTH = 50
"""Of Figures 2, 13 and 14."""
Draws = Mapping[int, int]
"""Networks by their width over the paper's."""
NOTICED = 5.0
"""Standard errors by which what is seen at the paper's own width has to be seen."""


def network(weights: WeightEnsemble) -> Network:
    """Critical tanh networks with the learning rates (6.17)."""
    return Network(
        activations.tanh, weights, lambda_b=lambda layer: sympy.Rational(1, layer), lambda_W=1
    )


def extrapolated(
    measured: Measured,
    ks: Sequence[int],
    false_alarms: float,
    names: Sequence[str] = (),
    depth: int | None = None,
) -> Comparison:
    """Theory beside the samples at these multiples of the smallest width; of these tensors alone if
    some are named, and of so many layers if there are more."""
    width = min(measured.sampled)
    left_out = [name for name in measured.tensors() if names and name not in names]
    flowed = measured.flowed.drop_vars(left_out).sel(layer=slice(None, depth))
    return compare(flowed, [measured.sampled[k * width] for k in ks], false_alarms)


def _tower(
    label: str,
    width: int,
    depth: int | Draws,
    draws: Draws,
    sampling: Sampling,
    tensors: Sequence[str] = TOWER,
) -> Measured:
    """Correlators of one input with weights of this name."""
    x = np.random.default_rng(sampling.seed).random(width)
    weights = Gaussian(1) if label == "Gaussian" else Orthogonal(1)
    return measure(label, network(weights), x, depth, tensors, width, draws, sampling)


@cache
def _square(sampling: Sampling) -> Measured:
    """The orthogonal networks of Figures 2 and 14, with V too."""
    draws = {1: 2400, 8: 8000}
    return _tower("orthogonal", WIDTH, 11, draws, sampling, ("V", *TOWER))


def _at(measured: Measured, layer: int) -> dict[str, tuple[float, float, float]]:
    """The sample, its error and the line of each correlator at the paper's width, dimensionless."""
    lines = measured.normalised().sel(layer=layer)
    points = measured.normalised(min(measured.sampled)).sel(layer=layer)
    return {
        name: (
            float(points[f"{name}_tilde"]),
            float(points[f"{name}_tilde_se"]),
            float(lines[f"{name}_tilde"]),
        )
        for name in TOWER
    }


def contrast(measured: Sequence[Measured], layer: int, factor: float, names: str) -> Verdict:
    """|Gaussian| exceeds |orthogonal| by a factor in each of these correlators, at the
    paper's width, by `NOTICED` standard errors of both."""
    gaussian, orthogonal = (_at(each, layer) for each in measured)
    holds = []
    for name in names:
        (large, se, _), (small, other, _) = gaussian[name], orthogonal[name]
        holds.append(abs(large) - NOTICED * se > factor * (abs(small) + NOTICED * other))
    ratios = [abs(gaussian[name][0] / orthogonal[name][0]) for name in names]
    told = ", ".join(f"{name} {ratio:.2g}" for name, ratio in zip(names, ratios, strict=True))
    width = min(measured[0].sampled)
    return observed(holds, f"|Gaussian|/|orthogonal| at n = {width}, layer {layer}: {told}")


def deviations(measured: Measured, layer: int) -> dict[str, tuple[float, float]]:
    """How far each correlator at the paper's width is off its line, over |line|, and the error."""
    return {
        name: ((sample - line) / abs(line), se / abs(line))
        for name, (sample, se, line) in _at(measured, layer).items()
    }


def off_the_lines(measured: Sequence[Measured], layer: int) -> Verdict:
    """At the paper's width the Gaussian correlators are off the leading order by more than
    a quarter, and the orthogonal ones by less than a half, but for D, whose sign is the other one;
    by `NOTICED` standard errors."""
    gaussian, orthogonal = (deviations(each, layer) for each in measured)
    noise = orthogonal.pop("D")
    holds = [
        *(abs(off) - NOTICED * se > 0.25 for off, se in gaussian.values()),
        *(abs(off) + NOTICED * se < 0.5 for off, se in orthogonal.values()),
        noise[0] - NOTICED * noise[1] > 1,
    ]
    told = [
        ", ".join(f"{name} {off:+.2g}" for name, (off, _) in each.items())
        for each in (gaussian, {**orthogonal, "D": noise})
    ]
    where = f"off the lines at n = {min(measured[0].sampled)}, layer {layer}"
    return observed(holds, f"{where}: Gaussian {told[0]}; orthogonal {told[1]}")


@claim("000", "Figure 2", "ten correlators of the NTK's tower, n = 50", sampled=True)
def figure_two(sampling: Sampling) -> Verdict:
    r"""tanh networks of eleven layers, one input uniform on $[0, 1]^{50}$. The Gaussian correlators
    grow, all but $\tilde U$; the orthogonal ones saturate, at the derived values, and at $n = 50$
    are smaller by a factor of two and more."""
    square = _square(sampling)
    measured = [
        _tower("Gaussian", WIDTH, 11, {1: 3000, 2: 7500, 8: 12_000}, sampling),
        replace(square, flowed=square.flowed.drop_vars(["V", "V_error"])),
    ]
    return both(
        sampled(
            [
                extrapolated(measured[0], (1, 2, 8), sampling.false_alarms / 2),
                extrapolated(measured[1], (1, 8), sampling.false_alarms / 2),
            ],
            "extrapolated from Gaussian: n = 50, 100, 400; orthogonal: n = 50, 400",
            {"tower_50": tower_figure(measured, [50, 400])},
            [each.label for each in measured],
        ),
        contrast(measured, 11, 2, "ABDFPQRSTU"),
    )


@claim("000", "Figure 3", "the same for n = 20 and 31 layers", sampled=True)
def figure_three(sampling: Sampling) -> Verdict:
    r"""At $L/n = \frac32$ the Gaussian networks have left the leading order: points are off the
    lines by a quarter and up to 700 times, and at $\ell = 30$ seven of ten correlators exceed the
    orthogonal ones by a factor of 30 to 600, D and P by more than ten, F by seven. The orthogonal
    ones stay within a half of their lines, but for $\tilde D$: its $1/n$ correction wins from
    $L/n = \frac43$ on (§6.2, cutoff), and at $n = 20$ has turned its sign. The leading order is
    compared in all layers, with Gaussian weights in 21, as each step is like the one before; in
    15 for $\tilde U$, whose corrections in $1/n$ grow while it falls. (At full size in 31 layers
    with Gaussian weights, too.)"""
    depths = sampling.sizes({1: 31, 3: 21, 9: 31, 30: 21}, {1: 31, 3: 31, 9: 31, 30: 31})
    draws = {1: 6000, 3: 2000, 9: 6000, 30: 14_000}
    gaussian = replace(_tower("Gaussian", 20, depths, draws, sampling), scale="symlog")
    orthogonal = _tower("orthogonal", 20, 31, {1: 6000, 3: 2000, 9: 3000, 18: 6400}, sampling)
    measured = [gaussian, orthogonal]
    alarms = sampling.false_alarms / 3
    noticed = sampled(
        [
            extrapolated(gaussian, (3, 9, 30), alarms, "ABDFPQRST"),
            extrapolated(gaussian, (3, 9, 30), alarms, "U", 15),
            extrapolated(orthogonal, (1, 3, 9, 18), alarms),
        ],
        "extrapolated from Gaussian: n = 60, 180, 600; orthogonal: n = 20, 60, 180, 360",
        {"tower_20": tower_figure(measured, [20, 180])},
        ["Gaussian", "Gaussian", "orthogonal"],
    )
    return both(
        noticed,
        contrast(measured, 30, 30, "ABQRSTU"),
        contrast(measured, 30, 5, "DFP"),
        off_the_lines(measured, 30),
    )


# %% [markdown]
# ## Several inputs


# %%
@claim("000", "Figures 10–12", "V of four inputs in all its components", sampled=True)
def vertices(sampling: Sampling) -> Verdict:
    """Linear, ReLU and tanh networks of ten layers with Gaussian, orthogonal and mixed weights,
    four inputs uniform on $[0, 1]^{100}$: the components of (A.1)–(A.3) drawn, all 256 compared.
    Linear networks meet what is exact at $n = 100$, the others the leading order."""
    comparisons, labels, drawn = [], [], {}
    for kind in ("linear", "relu", "tanh"):
        for start in figures.INITIALISATIONS:
            each = figures.vertices(kind, start, sampling)
            labels.append(f"{kind}, {start}")
            comparisons.append(each.compared(sampling.false_alarms / 9))
            drawn[f"vertex_{kind}_{start}"] = each.figure(labels[-1])
    return sampled(comparisons, figures.EXTRAPOLATED, drawn, labels)


@claim("000", "Figure 13", "A, B, D and F of four inputs", sampled=True)
def four_inputs(sampling: Sampling) -> Verdict:
    """tanh networks, four inputs uniform on $[0, 1]^{50}$, normalised by (A.4), (A.5): the
    component with four distinct inputs drawn, all 256 of each compared. At $n = 50$ there are ten
    layers; at $n = 400$ and in the comparison five, as each step is like the one before (ten at
    full size)."""
    inputs = np.random.default_rng(sampling.seed).random((4, WIDTH))
    deep = sampling.sizes(5, 10)
    measured = [
        measure(
            label,
            network(weights),
            inputs,
            {1: 10, 8: deep},
            tuple("ABDF"),
            WIDTH,
            {1: 1000, 8: 6000},
            sampling,
        )
        for label, weights in (("Gaussian", Gaussian(1)), ("orthogonal", Orthogonal(1)))
    ]
    return sampled(
        [extrapolated(each, (1, 8), sampling.false_alarms / 2) for each in measured],
        f"256 components each, layers 1 to {deep}, n = 50, 400 extrapolated",
        {"figure13": tower_figure(measured, [WIDTH, 8 * WIDTH], at=(0, 1, 2, 3))},
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
    square, n_0 = _square(sampling), 784
    x = np.random.default_rng(sampling.seed).random(WIDTH + n_0)[WIDTH:]
    wide = measure(
        "", network(Orthogonal(1)), x, 11, ("V", *TOWER), WIDTH, {1: 2400, 8: 7000}, sampling
    )
    measured = [
        replace(each, label=f"n_0/n = {count}/{WIDTH}")
        for each, count in ((square, WIDTH), (wide, n_0))
    ]
    comparisons = [extrapolated(each, (1, 8), sampling.false_alarms / 2) for each in measured]
    figure = tower_figure(measured, [WIDTH, 8 * WIDTH])
    labels = [each.label for each in measured]
    detail = "n = 50, 400 extrapolated, n_0/n kept"
    return sampled(comparisons, detail, {"figure14": figure}, labels)
