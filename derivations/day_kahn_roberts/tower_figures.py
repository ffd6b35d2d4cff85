"""The NTK's tower as figures: beside ensembles (source 000, Figures 2, 3, 13, 14), and deep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from derivations.claims.registry import Sampling
from derivations.pictures.panels import panel_grid
from derive import Network
from numeric import flow, normalise, simulate
from numeric.arrays import Array
from numeric.tables.drawing import beside
from numeric.tables.layout import tensors as tensors_of

TOWER = tuple("ABDFPQRSTU")
"""The tensors of Figures 2 and 3."""


@dataclass(frozen=True)
class Measured:
    """One network, derived and sampled at several widths.

    Attributes:
        label: of its panels.
        flowed: the theory, with K and Theta in it.
        sampled: by width.
        scale: of the values' axis.
    """

    label: str
    flowed: xarray.Dataset
    sampled: Mapping[int, xarray.Dataset]
    scale: str = "linear"

    def tensors(self) -> list[str]:
        """The tensors that are drawn."""
        return [name for name in tensors_of(self.flowed) if name not in {"K", "Theta"}]

    def normalised(self, width: int | None = None) -> xarray.Dataset:
        """The dimensionless tensors, derived or sampled; both by the derived K and Θ."""
        if width is None:
            return normalise(self.flowed)
        table = self.sampled[width]
        scales = {name: self.flowed[name].sel(layer=table["layer"]) for name in ("K", "Theta")}
        return normalise(table.assign(scales))


def measure(
    label: str,
    net: Network,
    inputs: Array,
    depth: int | Mapping[int, int],
    tensors: Sequence[str],
    width: int,
    draws: Mapping[int, int],
    sampling: Sampling,
) -> Measured:
    """Networks of k·width neurons for each k of `draws`, so many of them, or a share of those.

    The inputs are repeated k times, which keeps xxᵀ/n_0 and n_0/n: one theory, a series in 1/n.
    The depth may differ from k to k.
    """
    depths = depth if isinstance(depth, Mapping) else dict.fromkeys(draws, depth)
    flowed = flow(net, inputs, max(depths.values()), ["K", "Theta", *tensors], width=width)
    sampled = {
        k * width: simulate(
            net,
            np.tile(inputs, k),
            k * width,
            depths[k],
            sampling.networks(count),
            tensors=tensors,
            seed=sampling.seed,
        )
        for k, count in draws.items()
    }
    return Measured(label, flowed, sampled)


def tower_figure(
    measured: Sequence[Measured],
    widths: Sequence[int],
    at: tuple[int, ...] = (),
) -> Figure:
    """A row of panels for each width, a column for each network; lines derived, points sampled.

    Arguments:
        at: the samples, where there are several.
    """
    figure, panels = panel_grid(len(widths), len(measured), (5.2, 3.6), sharey="col")
    for row, width in zip(panels, widths, strict=True):
        for panel, each in zip(row, measured, strict=True):
            _draw(panel, each, width, at)
            panel.set(xlabel="layer", title=f"{each.label}, n = {width}", yscale=each.scale)
    panels[0, 0].legend(fontsize="x-small", ncols=2)
    return figure


def deep_figure(flowed: xarray.Dataset, limits: Sequence[Mapping[str, float]]) -> Figure:
    """Dimensionless tensors of one input times ℓ⁰, ℓ¹, … by layer, in a panel for each power.

    Arguments:
        flowed: the derived tensors, with K and Theta.
        limits: for each power, what its tensors tend to (dotted).
    """
    figure, (panels,) = panel_grid(1, len(limits), (5.2, 3.8))
    tilde = normalise(flowed)
    layers = tilde["layer"].to_numpy()
    for power, (panel, tends) in enumerate(zip(panels, limits, strict=True)):
        for number, (name, limit) in enumerate(tends.items()):
            colour = colormaps["tab10"](number)
            values = tilde[f"{name}_tilde"].to_numpy() * layers**power
            panel.plot(layers, values, color=colour, linewidth=1, label=name)
            panel.axhline(limit, color=colour, linewidth=0.8, linestyle=":")
        panel.set(xlabel="layer", xscale="log", ylabel="tensor" + " · layer" * power)
        panel.legend(fontsize="x-small", ncols=2)
    return figure


def _draw(panel: Axes, measured: Measured, width: int, at: tuple[int, ...]) -> None:
    theory, sample = measured.normalised(), measured.normalised(width)
    layers = theory["layer"].to_numpy()
    place: tuple[slice | int, ...] = (slice(None), *at)
    for number, name in enumerate(measured.tensors()):
        values, errors = (sample[f"{name}_tilde{end}"].to_numpy()[place] for end in ("", "_se"))
        beside(
            panel,
            (layers, theory[f"{name}_tilde"].to_numpy()[place]),
            (sample["layer"].to_numpy(), values, errors),
            color=colormaps["tab20"](number),
            label=name,
            linewidth=1,
        )
