"""The figures of source 002, and 001's Figures 2–5: theory drawn over simulated Jacobians."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from derive import Network, Orthogonal, WeightEnsemble, activations, criticality, spectra
from derive.activations import Activation
from numeric import spectra as compiled


def critical_network(activation: Activation, weights: WeightEnsemble, q: sympy.Expr) -> Network:
    """χ = 1 at variance q, and C_b = q − C_W ⟨φ²⟩, so that q is a fixed point."""
    C_W = sympy.Float(sympy.N(1 / spectra.slope_law(activation, q).mean, 25), 25)
    bias = q - C_W * sympy.Float(criticality(activation).kernel_map(q), 20)
    return Network(activation, type(weights)(**_parameters(weights, C_W)), C_b=sympy.Max(bias, 0))


def _parameters(weights: WeightEnsemble, C_W: sympy.Expr) -> dict[str, sympy.Expr]:
    own = {name: getattr(weights, name) for name in weights.__dataclass_fields__}
    return own | {"C_W": C_W}


def theory(
    activation: Activation, weights: WeightEnsemble, q: sympy.Expr, layers: Sequence[int]
) -> xarray.Dataset:
    """m_1 and m_2 at these depths, as numeric.compare reads them."""
    laws = [spectra.jacobian(activation, weights, depth, q) for depth in layers]
    found = {f"m{k}": ("layer", [float(sympy.N(law.moment(k))) for law in laws]) for k in (1, 2)}
    return xarray.Dataset(found, coords={"layer": list(layers)})


def critical_line() -> Figure:
    """Figure 1: χ = 1 of tanh in the (σ_w², σ_b²) plane, coloured by q*."""
    step = criticality(activations.tanh)
    qs = np.geomspace(1e-3, 12, 40)
    C_W = np.array([float(1 / step.chi_perp(float(q))) for q in qs])
    C_b = np.array([float(q - c * step.kernel_map(float(q))) for q, c in zip(qs, C_W, strict=True)])
    figure = Figure(figsize=(5, 4), layout="constrained")
    panel = figure.subplots()
    drawn = panel.scatter(C_W, C_b, c=np.log10(qs), s=12)
    panel.plot(C_W, C_b, color="black", linewidth=0.5)
    panel.set(xlabel="σ_w²", ylabel="σ_b²", title="tanh: χ = 1")
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


def slopes() -> Figure:
    """Figure 3: φ, and the distribution of φ'(h) for four variances."""
    names = ("relu", "hard_tanh", "shifted_relu", "erf", "silu")
    figure = Figure(figsize=(2.4 * len(names), 4.4), layout="constrained")
    panels = figure.subplots(2, len(names))
    grid = np.linspace(-3, 3, 601)
    for column, name in enumerate(names):
        activation = activations.by_name(name)
        value, slope = (
            sympy.lambdify(activations.z, activation.derivative(k), ["scipy", "numpy"])
            for k in (0, 1)
        )
        panels[0, column].plot(grid, value(grid), color="black")
        panels[0, column].set(title=name)
        for number, q in enumerate((0.1, 0.3, 1.0, 3.0)):
            h = np.sqrt(q) * np.sqrt(2) * _inverse_erf(np.linspace(-1, 1, 4003)[1:-1])
            panels[1, column].hist(
                slope(h) * np.ones_like(h), bins=40, range=(-0.2, 1.2), histtype="step",
                density=True, color=f"C{number}", label=f"q* = {q}",
            )  # fmt: skip
    panels[1, 0].legend(fontsize="x-small")
    return figure


def _inverse_erf(values: np.ndarray) -> np.ndarray:
    from scipy.special import erfinv  # noqa: PLC0415

    return np.asarray(erfinv(values))


def limits(sampled: dict[tuple[str, int], xarray.Dataset]) -> Figure:
    """Figure 4: σ_0 = 1/2, sampled depths over the limit law of each class; and for erf the theory
    at depths no simulation reaches."""
    names = list(dict.fromkeys(name for name, _ in sampled))
    figure = Figure(figsize=(3.2 * len(names), 3.2), layout="constrained")
    for panel, name in zip(figure.subplots(1, len(names)), names, strict=True):
        kind = spectra.classify(activations.by_name(name)).kind
        law = compiled.limit(kind, sympy.Rational(1, 2))
        for number, ((other, depth), each) in enumerate(sampled.items()):
            if other == name:
                histogram(panel, each, f"C{number % 10}", 2.0)
                panel.plot([], [], color=f"C{number % 10}", label=f"L = {depth}")
        if name == "erf":
            q = spectra.double_scaling(activations.erf, sympy.Rational(1, 2), 8192)
            deep = compiled.jacobian(activations.erf, Orthogonal(), 8192, sympy.Float(q, 20))
            draw(panel, deep, "gray", "L = 8192")
        draw(panel, law, "black", "L = ∞")
        panel.set(title=f"{name} ({kind})", xlabel="singular value", ylim=(0, 3))
        panel.legend(fontsize="x-small")
    return figure
