# %% [markdown]
# # Trained networks by depth
#
# Source 000 trains tanh networks on MNIST and CIFAR-10 and finds that orthogonal ones do not
# suffer from depth. The book trains smaller ones on scikit-learn's digits, in seconds, and tests
# what the paper says: each statement over several networks of each kind, each with the difference
# that would have been noticed. Nothing is claimed of another size.

# %%
"""Figures 4 to 7 of source 000: validation losses by epoch and best test losses by depth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray
from matplotlib.axes import Axes

from derivations.claims import Sampling, Verdict
from derivations.pictures.panels import panel_grid
from derivations.training import descents, theory
from derivations.training.descents import HALFWAY, PLAIN, Runs, best, claim, pairs, runs, until
from derivations.training.statements import Statement, alike, reproduced, rising, smaller
from numeric.arrays import Array

SAME = 0.5
"""The margin within which a best loss is called independent of depth."""


# %%
@claim("Figure 4", "validation loss by epoch, Gaussian and orthogonal")
def figure_four(sampling: Sampling) -> Verdict:
    r"""Tanh networks, $C_W = 1$, full-batch tensorial descent with (6.3), (6.17) and $\eta = 10$, a
    loss that is a mean over images and outputs. Said of the figure: deeper Gaussian networks train
    slower and end worse, orthogonal curves lie on top of one another from some depth on, and
    orthogonal networks train faster, by the epoch at which a loss of 0.07, or 0.05, is reached. At
    epoch 0 theory has a say: the expected loss to order $1/n$, from $K$ and $G^{\{1\}}$, is drawn,
    and where $L/n \ll 1$ it is what networks begin with."""
    of = descents.size(sampling)
    found = runs(sampling, of.depths)
    shallow, *deep = of.depths
    images = descents.split(of.data, of.images, 0).validation
    figure, (panels,) = panel_grid(1, 2, (5, 4), sharey=True)
    for panel, (start, tables) in zip(panels, found.items(), strict=True):
        descents.draw(panel, [(f"L = {L}", each) for L, each in tables.items()], "validation")
        nets = [(PLAIN.network(start, L), L) for L in tables]
        theory.mark(panel, nets, images, of.widths[0])
        panel.set(title=start, ylabel="validation loss")
    one, other = found["orthogonal"], found["Gaussian"]
    statements = [
        rising("deeper Gaussian networks train slower", _each(other, HALFWAY)),
        rising("they generalise worse", [best(each) for each in other.values()]),
        alike(
            f"orthogonal ones of L = {deep[-2]} and {deep[-1]} reach {HALFWAY} alike",
            [(until(one[deep[-2]], HALFWAY), until(one[deep[-1]], HALFWAY))],
            1.0,
        ),
        smaller("deep orthogonal ones train faster", pairs(found, deep, "halfway")),
        smaller("also to a lower loss", pairs(found, deep, "learnt")),
        *theory.beginnings(PLAIN, shallow, sampling),
    ]
    return reproduced(
        statements,
        f"{of}, {of.drawn(*of.depths)}, {of.epochs[0]} epochs for 10⁵",
        figures={"training4": figure},
    )


def _each(tables: Mapping[int, xarray.Dataset], threshold: float) -> list[Array]:
    return [until(each, threshold) for each in tables.values()]


@claim("Figure 5", "the same of harder images")
def figure_five(sampling: Sampling) -> Verdict:
    r"""The paper's networks of Figure 4 on CIFAR-10, with the validation images parted from the
    training set. Digits of another partition stand in for it: what is tested is that Gaussian
    networks train slower and generalise worse at large depth, and that the loss does not fall
    steadily at a fixed learning rate (the edge of stability). CIFAR-10 itself was not run."""
    of = descents.size(sampling)
    depths = of.pair
    found = runs(sampling, depths, epochs=of.epochs[1], part=1)
    images = descents.split(of.data, of.images, 1).validation
    figure, (panels,) = panel_grid(1, 2, (5, 4), sharey=True)
    for panel, (start, tables) in zip(panels, found.items(), strict=True):
        descents.draw(panel, [(f"L = {L}", each) for L, each in tables.items()], "validation")
        theory.mark(panel, [(PLAIN.network(start, L), L) for L in depths], images, of.widths[0])
        panel.set(title=start, ylabel="validation loss")
    every = [each for tables in found.values() for each in tables.values()]
    rises = np.concatenate(
        [(np.diff(each["training"].to_numpy(), axis=1) > 0).any(axis=1) for each in every]
    )
    statements = [
        smaller("deep Gaussian networks train slower", pairs(found, depths[1:], "halfway")),
        smaller("they generalise worse", pairs(found, depths[1:])),
        Statement(
            "the training loss does not fall steadily",
            bool(np.mean(rises) >= 0.5),
            f"{int(np.sum(rises))} of {np.size(rises)} networks",
        ),
    ]
    return reproduced(
        statements,
        f"in place of CIFAR-10: {of}, {of.drawn(*depths)} for 5, {of.epochs[1]} epochs",
        figures={"training5": figure},
    )


@claim("Figure 6", "best test loss by depth")
def figure_six(sampling: Sampling) -> Verdict:
    r"""The networks of Figure 4, each stopped at its best validation loss. Said of the figure:
    orthogonal networks have the smaller loss for all architectures; theirs is roughly independent
    of depth for $L \gtrsim 20$, and that of Gaussian ones goes on to degrade. The first is tested
    of deep networks here and of shallow ones apart; the best depth is not."""
    of = descents.size(sampling)
    found = runs(sampling, of.depths)
    deep = of.depths[1:]
    figure, (panels,) = panel_grid(1, 1, (5, 4))
    by_depth(panels[0], found)
    one, last = found["orthogonal"], deep[-1]
    statements = [
        smaller("deep orthogonal networks have the smaller loss", pairs(found, deep)),
        alike(
            f"theirs does not depend on depth beyond {deep[-2]}",
            [(best(one[deep[-2]]), best(one[last]))],
            SAME,
        ),
        rising(
            "that of Gaussian ones goes on to degrade",
            [best(each) for each in found["Gaussian"].values()],
        ),
    ]
    return reproduced(
        statements,
        f"{of}, {of.drawn(*of.depths)}, {of.epochs[0]} epochs; not both data sets",
        figures={"training6": figure},
    )


@claim("Figure 6 (shallow)", "best test loss of shallow networks")
def shallow_losses(sampling: Sampling) -> Verdict:
    r"""Orthogonal weights are said to give the smaller test loss "for *all* architecture
    hyperparameters", and the difference to become "increasingly small" at $L/n \ll 1$. The
    shallowest networks of Figures 6 and 7."""
    of = descents.size(sampling)
    shallow = of.depths[:1]
    strata = [
        pair for width in of.widths for pair in pairs(runs(sampling, shallow, width=width), shallow)
    ]
    return reproduced(
        [smaller("shallow orthogonal networks have the smaller loss", strata)],
        f"{of} and {of.widths[1]}, {of.drawn(of.depths[0])}, {of.epochs[0]} epochs",
    )


def by_depth(panel: Axes, found: Runs, label: str = "") -> None:
    """Best test losses by depth: means, and standard deviations over the networks as error bars."""
    for number, (start, tables) in enumerate(found.items()):
        values = [best(each) for each in tables.values()]
        panel.errorbar(
            list(tables),
            [each.mean() for each in values],
            [each.std(ddof=1) for each in values],
            fmt="o-" if not label else "s--",
            color=f"C{number}",
            markersize=3,
            linewidth=1,
            label=f"{start} {label}".strip(),
        )
    panel.set(xlabel="L", ylabel="best test loss", yscale="log")
    panel.legend(fontsize="x-small")


@claim("Figure 7", "best test loss by depth, two widths")
def figure_seven(sampling: Sampling) -> Verdict:
    r"""Two widths, the paper's 30 and 100. Said of the figure: orthogonal networks have the smaller
    loss at both; the plateau begins at the same depth regardless of width."""
    of = descents.size(sampling)
    found = {width: runs(sampling, of.depths, width=width) for width in sorted(of.widths)}
    deep = of.depths[1:]
    figure, (panels,) = panel_grid(1, 1, (5, 4))
    for number, (width, tables) in enumerate(found.items()):
        by_depth(panels[0], tables, f"n = {width}" if number else f"n = {width} ")
    statements = [
        smaller(
            "orthogonal networks have the smaller loss at both widths",
            [pair for each in found.values() for pair in pairs(each, deep)],
        ),
        alike(
            f"the plateau has begun by L = {deep[-2]} at both",
            [
                (best(each["orthogonal"][deep[-2]]), best(each["orthogonal"][deep[-1]]))
                for each in found.values()
            ],
            SAME,
        ),
    ]
    drawn = of.drawn(*of.depths)
    if of.wide != of.draws:
        drawn += f" of n = {of.widths[0]} and {', '.join(map(str, of.wide))} of {of.widths[1]}"
    return reproduced(
        statements,
        f"{of} and {of.widths[1]} for 100, {drawn}, {of.epochs[0]} epochs",
        figures={"training7": figure},
    )
