# %% [markdown]
# # Trained networks, orthogonal or not
#
# Section 5 and appendices H and I of source 003 train ReLU networks on CIFAR-10. Here smaller ones
# are trained on scikit-learn's digits, several of each kind, and what is said of the figures is
# tested. Nothing is claimed of another size.

# %%
"""Figures 4, 5 and 8 to 10 of source 003 at the size of the book."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import xarray
from matplotlib.axes import Axes

from derivations.claims import Picture, Sampling, Verdict, registry
from derivations.daneshmand.descent import train
from derivations.pictures.panels import panel_grid
from derivations.training.data import source
from derivations.training.statements import Statement, reproduced, rising, smaller
from derive.work.caches import cache
from numeric.arrays import Array

claim = partial(registry.claim, "003", sampled=True, images=True)
"""Of an experiment of source 003."""


@dataclass(frozen=True)
class Size:
    """The size of a run: images, width, depths, steps, and networks of each kind."""

    images: int
    width: int
    depths: tuple[int, ...]
    eta: float
    batch: int
    epochs: int
    draws: int
    data: str = "digits"

    def __str__(self) -> str:
        return (
            f"{self.images} {source(self.data).words} for CIFAR-10's 5·10⁴, width {self.width}, "
            f"depth {', '.join(map(str, self.depths))}, η = {self.eta}, batches of {self.batch}, "
            f"{self.epochs} epochs, {self.draws} networks each"
        )


DENSE = Size(300, 32, (3, 8, 20), 0.03, 20, 15, 6), Size(1797, 200, (15, 30, 45), 0.01, 50, 30, 6)
"""The book's, and that of --full; the paper's width, depths, step, batch and epochs are 800, 15 to
75, 0.01, 500 and 30."""
CONVOLUTIONAL = Size(150, 6, (3, 10), 0.01, 15, 12, 6), Size(1797, 32, (5, 20), 0.01, 30, 20, 6)
SHORT = 2 / 3
"""Of the epochs, those of Figure 9."""
UNTRAINED = 24
"""Networks of each depth whose gap is measured at initialization alone, and in the book those of
the smaller depths whose gap is measured again when they are trained."""


@cache
def trained(
    size: Size,
    depth: int,
    seed: int,
    start: str = "xavier",
    clip: float | None = None,
    normalised: bool = False,
    kind: str = "dense",
) -> xarray.Dataset:
    """Networks of one kind on images of mean 0 and variance 1."""
    images = source(size.data, "--data").sample(size.images)
    shape = images.shape if len(images.shape) == 3 else (1, *images.shape)
    pixels = images.pixels if kind == "dense" else images.pixels.reshape(-1, *shape)
    return train(
        pixels, images.labels, size.width, depth, kind=kind, start=start, normalised=normalised,
        clip=clip, eta=size.eta, batch=size.batch, epochs=size.epochs, draws=size.draws, seed=seed,
    )  # fmt: skip


def chosen(sizes: tuple[Size, Size], sampling: Sampling) -> Size:
    """The book's, or that of --full, with the images that are given."""
    return replace(sampling.sizes(*sizes), data=sampling.data)


def last(table: xarray.Dataset, share: float = 1.0) -> Array:
    """Each network's loss at the end, or after this share of the epochs."""
    at = round(share * (table.sizes["epoch"] - 1))
    return np.asarray(table["loss"][:, at].to_numpy())


def gap(table: xarray.Dataset, epoch: int) -> Array:
    """Each network's gap; that of one whose last layer is dead on a batch is the largest, 1."""
    return np.asarray(table["gap"][:, epoch].fillna(1.0).to_numpy())


# %%
@claim("Figure 4", "training slows as the gap grows with depth")
def figure_four(sampling: Sampling) -> Verdict:
    """Vanilla ReLU networks, Xavier's weights. Said of the figure: the orthogonality gap at
    initialization and the loss after training grow with depth, and descent makes the gap of the
    last layer smaller. Beside them batch-normalized networks, whose gap is small from the start."""
    size = chosen(DENSE, sampling)
    several = replace(size, draws=sampling.sizes(UNTRAINED, size.draws))
    middle = size.depths[1]
    tables = {
        depth: trained(several if depth <= middle else size, depth, sampling.seed)
        for depth in size.depths
    }
    many = replace(size, epochs=0, draws=UNTRAINED)
    untrained = {depth: gap(trained(many, depth, sampling.seed), 0) for depth in size.depths}
    normalised = trained(size, middle, sampling.seed, normalised=True)
    statements = [
        rising("the loss after training grows with depth", [last(t) for t in tables.values()]),
        rising("so does the gap at initialization", list(untrained.values())),
        smaller(
            f"descent makes it smaller, depths {size.depths[0]} and {middle}",
            [(gap(tables[depth], -1), gap(tables[depth], 0)) for depth in size.depths[:2]],
        ),
        smaller(
            f"batch norm's is smaller at initialization, depth {middle}",
            [(gap(normalised, 0), gap(tables[middle], 0))],
        ),
    ]
    figure, (panels,) = panel_grid(1, 2, (4.5, 3.5))
    left, right = panels[0], panels[0].twinx()
    for panel, values, colour in (
        (left, list(untrained.values()), "C3"),
        (right, [last(t) for t in tables.values()], "C0"),
    ):
        spread = [each.std(ddof=1) / np.sqrt(len(each)) for each in values]
        panel.errorbar(list(tables), [each.mean() for each in values], spread, color=colour)
    left.set(xlabel="depth", ylabel="gap at initialization")
    right.set(ylabel="loss after training")
    for label, table, colour in (("vanilla", tables[middle], "C0"), ("BN", normalised, "C2")):
        panels[1].plot(table["epoch"], table["loss"].mean("network"), color=colour, label=label)
        panels[1].plot(
            table["epoch"], table["gap"].mean("network"), color=colour, linestyle="--",
            label=f"{label}, gap",
        )  # fmt: skip
    panels[1].set(xlabel="epoch", yscale="log", title=f"depth {middle}")
    panels[1].legend(fontsize="x-small")
    told = f"{size}, {several.draws} of depth {middle} and less; {UNTRAINED} untrained"
    return reproduced(statements, told, figures={"batchnorm4": figure})


@claim("Figure 5", "iterative orthogonalization by depth")
def figure_five(sampling: Sampling) -> Verdict:
    """The loss after training with Xavier's weights and with those of (6), on the range of the
    representations. Said of the figure: (6) alleviates the slowdown with depth."""
    size = chosen(DENSE, sampling)
    xavier, own = (
        {depth: trained(size, depth, sampling.seed, start) for depth in size.depths}
        for start in ("xavier", "iterative")
    )
    deep = size.depths[1:]
    statements = [
        smaller(
            "deep networks by (6) have the smaller loss",
            [(last(own[depth]), last(xavier[depth])) for depth in deep],
        ),
        Statement(
            f"at depth {deep[-1]} theirs is below half of Xavier's",
            bool(np.median(last(own[deep[-1]])) < np.median(last(xavier[deep[-1]])) / 2),
            f"medians {np.median(last(own[deep[-1]])):.3g} and "
            f"{np.median(last(xavier[deep[-1]])):.3g}",
        ),
    ]
    figure, (panels,) = panel_grid(1, 1, (5, 4))
    for label, tables in (("Xavier", xavier), ("iterative (6)", own)):
        _by_depth(panels[0], label, {depth: last(each) for depth, each in tables.items()})
    return reproduced(statements, str(size), figures={"batchnorm5": figure})


def _by_depth(panel: Axes, label: str, values: dict[int, Array]) -> None:
    shown = {depth: each[np.isfinite(each)] for depth, each in values.items()}
    panel.errorbar(
        list(shown),
        [each.mean() for each in shown.values()],
        [each.std() / np.sqrt(len(each)) for each in shown.values()],
        fmt="o-",
        markersize=3,
        label=label,
    )
    panel.set(xlabel="depth", ylabel="loss after training", yscale="log")
    panel.legend(fontsize="x-small")


CLIPS = 0.1, 1.0
"""λ of (29) in Figures 8a and 8b."""


@claim("Figure 8", "orthogonal weights and iterative orthogonalization")
def figure_eight(sampling: Sampling) -> Verdict:
    """Said of Figure 8: orthogonal weights (appendix H) do not help with the slowdown, and
    iterative orthogonalization achieves a better loss than adaptive gradient clipping (29), λ = 0.1
    and 1, at the largest depth."""
    size = chosen(DENSE, sampling)
    deep = size.depths[-1]
    xavier, orthogonal, own = (
        last(trained(size, deep, sampling.seed, start))
        for start in ("xavier", "orthogonal", "iterative")
    )
    clipped = [last(trained(size, deep, sampling.seed, clip=each)) for each in CLIPS]
    helped = smaller("orthogonal weights help", [(orthogonal, xavier)])
    statements = [
        Statement("orthogonal weights do not help", not helped.holds, helped.told, helped.noticed),
        *(
            smaller(f"(6) ends better than clipping, λ = {clip}", [(own, each)])
            for clip, each in zip(CLIPS, clipped, strict=True)
        ),
    ]
    figure, (panels,) = panel_grid(1, 1, (5, 4))
    kinds = ["xavier", "orthogonal", "iterative", *(f"λ = {clip}" for clip in CLIPS)]
    values = [xavier, orthogonal, own, *clipped]
    for at, each in enumerate(values):
        panels[0].plot(np.full(len(each), at), each, "o", markersize=4)
    panels[0].set(yscale="log", ylabel=f"loss after training, depth {deep}")
    panels[0].set_xticks(range(len(kinds)), kinds, fontsize="x-small")
    return reproduced(statements, f"{size}; depth {deep}", figures={"batchnorm8": figure})


@claim("Figure 8 (clipping)", "clipping against the slowdown with depth")
def clipping(sampling: Sampling) -> Verdict:
    """ "These plots demonstrate adaptive gradient clipping effectively alleviates the training slow
    down with depth". (29) shortens steps and lengthens none: where gradients vanish, as with
    Xavier's weights and ReLU at depth, a network is trained as without it."""
    size = chosen(DENSE, sampling)
    deep = size.depths[-1]
    xavier = last(trained(size, deep, sampling.seed))
    statements = [
        smaller(
            f"with λ = {clip} the loss at depth {deep} is smaller than without",
            [(last(trained(size, deep, sampling.seed, clip=clip)), xavier)],
        )
        for clip in CLIPS
    ]
    return reproduced(statements, f"{size}; depth {deep}")


# %% [markdown]
# ## Convolutional networks

# %%


def _convolutional(size: Size, depth: int, seed: int) -> tuple[xarray.Dataset, xarray.Dataset]:
    """(iterative, Xavier)."""
    own, other = (
        trained(size, depth, seed, start, kind="convolutional") for start in ("iterative", "xavier")
    )
    return own, other


def _figure(pairs: dict[int, tuple[xarray.Dataset, xarray.Dataset]]) -> Picture:
    figure, (panels,) = panel_grid(1, len(pairs), (4.5, 3.5), sharey=True)
    for panel, (depth, tables) in zip(panels, pairs.items(), strict=True):
        for label, table, colour in zip(("(6)", "Xavier"), tables, ("C3", "C0"), strict=True):
            values = table["loss"].to_numpy()
            shown = np.where(np.isfinite(values), values, np.nan)
            panel.plot(table["epoch"], shown.T, color=colour, linewidth=0.7)
            panel.plot([], [], color=colour, label=label)
        panel.set(xlabel="epoch", ylabel="loss", title=f"{depth} convolutions")
        panel.legend(fontsize="x-small")
    return figure


@claim("Figure 9", "a deep convolutional network by (6)")
def figure_nine(sampling: Sampling) -> Verdict:
    """Convolutions of size 3, ReLU, two poolings, a linear readout; no dropout and none of Table
    3's two hidden linear layers. Said of the figure: weights by (6), of unfolded representations,
    outperform Xavier's where the depth is large (80 in print)."""
    size = chosen(CONVOLUTIONAL, sampling)
    pairs = {depth: _convolutional(size, depth, sampling.seed) for depth in size.depths}
    own, other = pairs[size.depths[-1]]
    pair = last(own, SHORT), last(other, SHORT)
    statements = [smaller("(6) outperforms Xavier's weights at depth", [pair])]
    told = f"{size}, judged after {round(SHORT * size.epochs)}"
    return reproduced(statements, told, figures={"batchnorm9": _figure(pairs)})


@claim("Figure 9 (shallow)", "a shallow convolutional network by (6)")
def shallow(sampling: Sampling) -> Verdict:
    """ "This initialization slows SGD for the shallow network with 20 layers compared to standard
    Xavier's initialization": the shallow network of Figure 9, as it is here."""
    size = chosen(CONVOLUTIONAL, sampling)
    own, other = _convolutional(size, size.depths[0], sampling.seed)
    statements = [
        smaller("(6) ends with the larger loss", [(last(other, SHORT), last(own, SHORT))])
    ]
    return reproduced(statements, f"{size}; {size.depths[0]} convolutions for 20")


@claim("Figure 10", "a deeper convolutional network, for longer")
def figure_ten(sampling: Sampling) -> Verdict:
    """Said of the figure, of 90 layers and 80 epochs: (6) boosts descent "even after many SGD
    epochs". The deep network of Figure 9, trained for half as many epochs again."""
    size = chosen(CONVOLUTIONAL, sampling)
    depth = size.depths[-1]
    own, other = _convolutional(size, depth, sampling.seed)
    statements = [smaller("(6) still has the smaller loss", [(last(own), last(other))])]
    figure = _figure({depth: (own, other)})
    told = f"{size}; {depth} convolutions for 90"
    return reproduced(statements, told, figures={"batchnorm10": figure})
