"""Ensembles beside theory, as figures: Figure 1 of source 000, and several inputs at once.

At n = 100 the order 1/n does not suffice for ReLU; where the finite width is exactly known
(scale-invariant activations) that is drawn and compared as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from derivations.claims.registry import Sampling
from derivations.day_kahn_roberts.expansions import normalised_vertex
from derivations.moments import deep_linear
from derivations.pictures.panels import panel_grid
from derive import (
    Activation,
    Gaussian,
    Network,
    Orthogonal,
    activations,
    criticality,
    exact,
    linear,
)
from derive.work.caches import cache
from numeric import Comparison, compare, flow, normalise, simulate
from numeric.arrays import Array
from numeric.tables import layout
from numeric.tables.drawing import points

INITIALISATIONS = {
    "Gaussian": (Gaussian, None),
    "orthogonal": (Orthogonal, None),
    "mixed": (Orthogonal, Gaussian),
}
"""Weights, and first-layer weights where they differ."""


def critical_network(activation: Activation, initialisation: str) -> Network:
    """The activation at its critical (C_b, C_W), with one of the paper's three initialisations."""
    weights, first = INITIALISATIONS[initialisation]
    C_b, C_W = criticality(activation).critical
    return Network(activation, weights(C_W), first(C_W) if first else None, C_b=C_b)


def exact_flow(net: Network, inputs: Array, depth: int, width: int) -> xarray.Dataset:
    """K and V of a scale-invariant network with one input at this width, not truncated in 1/n.

    Hidden layers are alike: each multiplies a moment by the same number.
    """
    n_0 = inputs.size
    moments = []
    for m in (1, 2):
        first, second = (
            exact.scale_invariant_moment(m, net, layer, width, n_0) for layer in (1, 2)
        )
        moments.append([first * (second / first) ** layer for layer in range(depth)])
    two, four = (np.array(each) for each in moments)
    K_0 = float(inputs @ inputs) / n_0
    V = width * (four - two**2)
    return layout.table(range(1, depth + 1), K=K_0 * two.astype(float), V=K_0**2 * V.astype(float))


def exact_linear_flow(net: Network, inputs: Array, depth: int, width: int) -> xarray.Dataset:
    """K and V of a linear network without biases, several inputs, not truncated in 1/n.

    V_{αβγδ} = n [(a − g²) K_αβ K_γδ + b (K_αγ K_βδ + K_αδ K_βγ)] in x_α·x_β/n_0, with the matrices
    of `deep_linear.pairing_matrix`: g for one pair, a and b for two.
    """
    n_0 = inputs.shape[1]
    K_0 = inputs @ inputs.T / n_0
    across = np.einsum("ac,bd->abcd", K_0, K_0) + np.einsum("ad,bc->abcd", K_0, K_0)
    along = np.einsum("ab,cd->abcd", K_0, K_0)
    K, V = [], []
    for layer in range(1, depth + 1):
        weights = [net.weights_at(each) for each in range(1, layer + 1)]
        chain = linear.chain([width] * layer, weights, n_0)
        gain = deep_linear.pairing_matrix(1, chain)[1,]
        two = deep_linear.pairing_matrix(2, chain)
        parts = [float(width * part) for part in (two[1, 1] - gain**2, two[2,])]
        K.append(float(gain) * K_0)
        V.append(parts[0] * along + parts[1] * across)
    return layout.table(range(1, depth + 1), K=np.array(K), V=np.array(V))


@dataclass(frozen=True)
class Curve:
    """Ṽ of one network by layer: leading order, exact at the width if known, and sampled."""

    label: str
    theory: Array
    finite: Array | None
    sample: Array
    se: Array
    comparison: Comparison

    def draw(self, panel: Axes, colour: str, marker: str) -> None:
        """Lines through points with error bars."""
        layers = np.arange(1, len(self.theory) + 1)
        panel.plot(layers, self.theory, color=colour, linewidth=1)
        if self.finite is not None:
            panel.plot(layers, self.finite, color=colour, linewidth=1, linestyle="--")
        shown = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 34)).round().astype(int))
        points(
            panel,
            layers[shown],
            self.sample[shown],
            self.se[shown],
            color=colour,
            label=self.label,
            marker=marker,
        )


SIZES = {100: 36_000, 400: 20_000}
"""Widths, and networks of ten layers of each; of scale-invariant ones the first alone."""


def curve(
    activation: Activation,
    initialisation: str,
    inputs: Array,
    depth: int,
    sizes: Mapping[int, int],
    seed: int,
    false_alarms: float,
) -> Curve:
    """One network, derived and sampled with one input.

    Scale-invariant: the sample at the first width, of layers averaged apart, against the exact
    vertex at it. Others: samples at several widths, extrapolated in 1/n, against the leading order.
    """
    net = critical_network(activation, initialisation)
    (width, draws), *others = sizes.items()
    sampler = "products" if activation.is_scale_invariant else "lazy"
    sampled = simulate(
        net, inputs, width, depth, draws, tensors=["K", "V"], seed=seed, sampler=sampler
    )
    if activation.is_scale_invariant:
        finite = exact_flow(net, inputs, depth, width)
        comparison = compare(finite, sampled, false_alarms)
        scale = finite["K"].to_numpy() ** 2
        theory = np.array(normalised_vertex(net, depth), float)
        exact_curve = finite["V"].to_numpy() / scale
    else:
        flowed = flow(net, inputs, depth, ["K", "V"])
        scale = flowed["K"].to_numpy() ** 2
        theory = flowed["V"].to_numpy() / scale
        wider = [
            simulate(net, inputs, n, depth, count, tensors=["V"], seed=seed + n)
            for n, count in others
        ]
        comparison = compare(flowed[["V", "V_error"]], [sampled, *wider], false_alarms)
        exact_curve = None
    return Curve(
        f"{activation}, {initialisation}",
        theory,
        exact_curve,
        sampled["V"].to_numpy() / scale,
        sampled["V_se"].to_numpy() / scale,
        comparison,
    )


PANELS = (
    (10, ("linear", "relu", "tanh"), ("Gaussian", "orthogonal")),
    (100, ("linear", "tanh"), ("orthogonal", "mixed")),
)
"""Figure 1 of source 000: depth, activations and initialisations of its panels."""


def figure_one(
    inputs: Array,
    sampling: Sampling,
    depths: Sequence[int] = (10, 100),
    sizes: Mapping[int, int] = SIZES,
) -> tuple[Figure, list[Curve]]:
    """Source 000, Figure 1: Ṽ by layer; lines derived (dashed: exact at n), points sampled."""
    figure, (panels,) = panel_grid(1, 2, (5, 4.2))
    share = sampling.false_alarms / sum(len(kinds) * len(starts) for _, kinds, starts in PANELS)
    curves = []
    for panel, depth, (_, kinds, starts) in zip(panels, depths, PANELS, strict=True):
        fewer = min(1.0, math.sqrt(10 / depth))  # deep networks take longer
        drawn = {n: round(fewer * sampling.networks(count)) for n, count in sizes.items()}
        for number, (kind, start) in enumerate((k, s) for k in kinds for s in starts):
            own = activations.by_name(kind), start, inputs, depth
            made = curve(*own, drawn, sampling.seed, share)
            made.draw(panel, f"C{number}", "o^*sDv"[number])
            curves.append(made)
        panel.set(xlabel="layer", ylabel="V / K²")
        panel.legend(fontsize="small")
        width, draws = next(iter(drawn.items()))
        panel.set_title(f"n = {width}, {draws} networks")
    return figure, curves


VERTICES: Mapping[tuple[str, str], Mapping[int, int]] = {
    ("linear", "Gaussian"): {100: 2100},
    ("linear", "orthogonal"): {100: 350},
    ("linear", "mixed"): {100: 2100},
    ("relu", "Gaussian"): {100: 2100, 400: 6300},
    ("relu", "orthogonal"): {100: 4200, 400: 9100},
    ("relu", "mixed"): {100: 2100, 400: 4200},
    ("tanh", "Gaussian"): {100: 2800, 400: 8400},
    ("tanh", "orthogonal"): {100: 1000, 400: 1000},
    ("tanh", "mixed"): {100: 2800, 400: 8400},
}
"""Widths, and how many networks of each resolve the largest component of V in every layer, linear
and ReLU networks with control variates: most where the parts of V nearly cancel, as 5 and −4 do in
the second layer of an orthogonal ReLU net."""
EXTRAPOLATED = "linear: exact at n = 100; others: n = 100, 400 extrapolated"


@dataclass(frozen=True)
class Vertices:
    """V of four inputs, derived and sampled: the leading order, what is exact at the first width
    if that is known, and the samples at each width."""

    net: Network
    inputs: Array
    depth: int
    flowed: xarray.Dataset
    finite: xarray.Dataset | None
    sampled: tuple[xarray.Dataset, ...]

    def compared(self, false_alarms: float) -> Comparison:
        """Every component, at one width where that is exactly known, else extrapolated."""
        derived = self.flowed if self.finite is None else self.finite
        return compare(derived, self.sampled, false_alarms)

    def figure(self, title: str) -> Figure:
        """See `many_inputs`."""
        return many_inputs(title, self.flowed, self.sampled, self.finite)


@cache
def vertices(kind: str, start: str, sampling: Sampling) -> Vertices:
    """Ten layers, four inputs uniform on [0, 1]^100."""
    seed = sampling.seed
    inputs, depth = np.random.default_rng(seed).random((4, 100)), 10
    net = critical_network(activations.by_name(kind), start)
    sampler = "lazy" if kind == "tanh" else "innovations"
    sampled = tuple(
        simulate(
            net,
            inputs,
            width,
            depth,
            sampling.networks(draws),
            tensors=["V"],
            seed=seed,
            sampler=sampler,
        )
        for width, draws in VERTICES[kind, start].items()
    )
    finite = exact_linear_flow(net, inputs, depth, 100) if net.activation_at(1).is_linear else None
    flowed = flow(net, inputs, depth, ["K", "V"])
    return Vertices(net, inputs, depth, flowed, finite, sampled)


PATTERNS = {
    "(αα)(αα)": (0, 0, 0, 0),
    "(αα)(ββ)": (0, 0, 1, 1),
    "(αα)(αβ)": (0, 0, 0, 1),
    "(αβ)(γα)": (0, 1, 2, 0),
    "(αβ)(γδ)": (0, 1, 2, 3),
}
"""The components of V that source 000 measures in its appendix A.1."""


def many_inputs(
    title: str,
    flowed: xarray.Dataset,
    sampled: Sequence[xarray.Dataset],
    finite: xarray.Dataset | None = None,
) -> Figure:
    """Ṽ of (A.1)–(A.3) by layer: derived lines (dashed: exact at the first width), and points
    sampled at each width."""
    tilde = normalise(flowed)["V_tilde"]
    scale = flowed["V"] / tilde
    figure, (panels,) = panel_grid(1, len(PATTERNS), (3.0, 3.2))
    layers = flowed["layer"].to_numpy()
    for panel, (name, pattern) in zip(panels, PATTERNS.items(), strict=True):
        at = (slice(None), *pattern)
        panel.plot(layers, tilde.to_numpy()[at], color="black", linewidth=1)
        if finite is not None:
            exactly = finite["V"].to_numpy()[at] / scale.to_numpy()[at]
            panel.plot(layers, exactly, color="C0", linewidth=1, linestyle="--")
        for number, each in enumerate(sampled):
            points(
                panel,
                layers + 0.12 * (number - 1),
                each["V"].to_numpy()[at] / scale.to_numpy()[at],
                each["V_se"].to_numpy()[at] / abs(scale.to_numpy()[at]),
                color=f"C{number}",
                label=f"n = {each.attrs['width']}",
            )
        panel.set(xlabel="layer", title=name)
    panels[0].set_ylabel(title)
    panels[0].legend(fontsize="small")
    return figure
