"""The figures of source 002, and 001's Figures 2–5: theory drawn over simulated Jacobians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sympy
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import erfinv

from derivations.pennington import universality
from derivations.pictures.panels import one_panel, panel_grid
from derive import Network, Orthogonal, WeightEnsemble, activations, criticality, spectra
from derive.activations.functions import Activation
from numeric import spectra as compiled


def critical_network(activation: Activation, weights: WeightEnsemble, q: sympy.Expr) -> Network:
    """χ = 1 at variance q, and C_b = q − C_W ⟨φ²⟩, so that q is a fixed point."""
    C_W = sympy.Float(sympy.N(1 / spectra.slope_law(activation, q).mean, 25), 25)
    bias = q - C_W * sympy.Float(criticality(activation).kernel_map(q), 20)
    return Network(activation, replace(weights, C_W=C_W), C_b=sympy.Max(bias, 0))


def critical_points(activation: Activation) -> list[tuple[float, float, float]]:
    """(q*, σ_w², σ_b²) along χ = 1, forty points evenly spaced in log q*."""
    step = criticality(activation)
    line = []
    for q in np.geomspace(1e-3, 12, 40):
        C_W = float(1 / step.chi_perp(float(q)))
        line.append((float(q), C_W, float(q - C_W * step.kernel_map(float(q)))))
    return line


def critical_line(line: Sequence[tuple[float, float, float]]) -> Figure:
    """Figure 1: χ = 1 of tanh in the (σ_w², σ_b²) plane, coloured by q*."""
    q, C_W, C_b = np.array(line).T
    figure, panel = one_panel((5, 4), xlabel="σ_w²", ylabel="σ_b²", title="tanh")
    panel.plot(C_W, C_b, color="black", linewidth=0.5, label="χ = 1")
    drawn = panel.scatter(C_W, C_b, c=np.log10(q), s=12)
    panel.text(0.1, 0.8, "ordered, χ < 1", transform=panel.transAxes)
    panel.text(0.6, 0.1, "chaotic, χ > 1", transform=panel.transAxes)
    panel.legend(loc="upper right")
    figure.colorbar(drawn, label="log10 q*")
    return figure


def draw(panel: Axes, spectrum: compiled.Spectrum, colour: str, label: str) -> None:
    """The density of the singular values, dashed, with triangles at atoms."""
    for number, (low, high) in enumerate(spectrum.edges):
        part = (1 - np.cos(np.pi * (np.arange(400) + 0.5) / 400)) / 2
        s = np.sqrt(low) + (np.sqrt(high) - np.sqrt(low)) * part
        panel.plot(
            s, spectrum.singular_density(s), "--", color=colour, linewidth=1,
            label=label if number == 0 else None,
        )  # fmt: skip
    for at in spectrum.atoms:
        panel.plot([at**0.5], [0.02], "^", color=colour, markersize=4)


def histogram(panel: Axes, sampled: xarray.Dataset, colour: str, top: float) -> None:
    """The sampled singular values."""
    values = sampled["singular_values"].to_numpy().ravel()
    panel.hist(
        values, bins=60, range=(0, top), weights=np.full(values.size, 60 / top / values.size),
        histtype="step", color=colour, linewidth=0.8,
    )  # fmt: skip


NONLINEARITIES = ("relu", "hard_tanh", "shifted_relu", "erf_unit_slope", "silu")
VARIANCES = (0.1, 0.3, 1.0, 3.0)
"""Four of our own for Figure 3, whose own q* are not in the text."""


def slope_quantiles(activation: Activation, variance: float, count: int = 4001) -> np.ndarray:
    """φ'(h) at so many equally likely h ~ N(0, variance)."""
    slope = sympy.lambdify(activations.z, activation.derivative(1), ["scipy", "numpy"])
    h = np.sqrt(2 * variance) * erfinv((2 * np.arange(count) + 1) / count - 1)
    return np.asarray(slope(h) * np.ones_like(h))


def slopes() -> Figure:
    """Figure 3: φ, and the distribution of φ'(h) for four variances."""
    figure, panels = panel_grid(2, len(NONLINEARITIES), (2.4, 2.2))
    grid = np.linspace(-3, 3, 601)
    for column, name in enumerate(NONLINEARITIES):
        activation = activations.by_name(name)
        value = sympy.lambdify(activations.z, activation.expr, ["scipy", "numpy"])
        panels[0, column].plot(grid, value(grid), color="black")
        panels[0, column].set(title=name, xlabel="h")
        for number, q in enumerate(VARIANCES):
            panels[1, column].hist(
                slope_quantiles(activation, q), bins=40, range=(-0.2, 1.2), histtype="step",
                density=True, color=f"C{number}", label=f"q* = {q}",
            )  # fmt: skip
        panels[1, column].set(xlabel="φ'(h)")
    panels[0, 0].set(ylabel="φ(h)")
    panels[1, 0].set(ylabel="density")
    panels[1, 0].legend(fontsize="x-small")
    return figure


def limits(sampled: dict[tuple[str, int], xarray.Dataset]) -> Figure:
    """Figure 4: σ_0 = 1/2, sampled depths over the limit law of each class; and for erf the theory
    at depths no simulation reaches."""
    names = list(dict.fromkeys(name for name, _ in sampled))
    figure, (panels,) = panel_grid(1, len(names), (3.2, 3.2))
    for panel, name in zip(panels, names, strict=True):
        kind = universality.classify(activations.by_name(name)).kind
        law = compiled.limit(kind, sympy.Rational(1, 2))
        for number, ((other, depth), each) in enumerate(sampled.items()):
            if other == name:
                histogram(panel, each, f"C{number % 10}", 2.0)
                panel.plot([], [], color=f"C{number % 10}", label=f"L = {depth}")
        if name == "erf_unit_slope":
            q = universality.double_scaling(activations.erf_unit_slope, sympy.Rational(1, 2), 8192)
            deep = compiled.jacobian(
                activations.erf_unit_slope, Orthogonal(), 8192, sympy.Float(q, 20)
            )
            draw(panel, deep, "gray", "L = 8192")
        draw(panel, law, "black", "L = ∞")
        panel.set(title=f"{name} ({kind})", xlabel="singular value", ylabel="density", ylim=(0, 3))
        panel.legend(fontsize="x-small")
    return figure
