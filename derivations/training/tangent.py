# %% [markdown]
# # The tangent kernel while networks are trained
#
# Section 7.3 of source 000 follows two components of the NTK in single networks. Here several
# networks of each kind are followed, so that what is said of the curves can be tested.

# %%
"""Figures 8 and 9 of source 000: the NTK within a class and between outputs during training."""

from __future__ import annotations

import numpy as np
import xarray

from derivations.claims import Picture, Sampling, Verdict
from derivations.pictures.panels import panel_grid
from derivations.training import descents
from derivations.training.descents import STARTS, Runs, claim, runs
from derivations.training.statements import Statement, alike, reproduced, smaller
from numeric.arrays import Array

SIZE = 0.25
"""The margin within which kernels are of a size."""


def variation(table: xarray.Dataset, name: str) -> Array:
    """The largest less the smallest value of each network's kernel, over its size within the class
    at the beginning."""
    values = table[name].to_numpy()
    start = abs(table["ntk_class"].to_numpy()[:, 0])
    return np.asarray((values.max(axis=1) - values.min(axis=1)) / start)


def peak(table: xarray.Dataset) -> Array:
    """The epoch at which each network's kernel within the class is largest, and 1."""
    at = table["ntk_class"].argmax("epoch").to_numpy()
    return np.asarray(table["epoch"].to_numpy()[at] + 1.0)


def _chosen(sampling: Sampling) -> tuple[Runs, int, int, str]:
    of = descents.size(sampling)
    shallow, deep = of.pair
    found = runs(sampling, of.pair)
    about = f"{of}, {of.drawn(shallow, deep)} for one, L for 6 and 31, {of.epochs[0]} epochs"
    return found, shallow, deep, about


def _figure(found: Runs, shallow: int, deep: int, name: str) -> Picture:
    figure, panels = panel_grid(2, 2, (4.5, 3.2), sharex=True)
    for (left, right), depth in zip(panels, (shallow, deep), strict=True):
        tables = [(start, found[start][depth]) for start in STARTS]
        descents.draw(left, tables, name, log=False)
        left.set(title=f"L = {depth}", ylabel=name)
        descents.draw(right, tables, "validation")
        right.set(ylabel="validation loss")
    return figure


@claim("Figure 8", "the NTK within a class while networks are trained")
def figure_eight(sampling: Sampling) -> Verdict:
    r"""$\hat H_{ii;\alpha\beta}$, $i$ the output of class 6, $\alpha$ a test image of it, averaged
    over its training images $\beta$. Said of the figure: at $L/n \sim 1$ it varies more for
    Gaussian weights; the orthogonal one's size is that of the shallow network within some 10 %, and
    deep Gaussian ones differ by factors of 2."""
    found, shallow, deep, about = _chosen(sampling)
    moved = {
        depth: (
            variation(found["orthogonal"][depth], "ntk_class"),
            variation(found["Gaussian"][depth], "ntk_class"),
        )
        for depth in (shallow, deep)
    }
    sizes = [
        np.asarray(abs(found["orthogonal"][depth]["ntk_class"].mean("epoch")), float)
        for depth in (deep, shallow)
    ]
    spread = [
        np.ptp(np.log(abs(found[start][deep]["ntk_class"].mean("epoch").to_numpy())))
        for start in ("orthogonal", "Gaussian")
    ]
    statements = [
        smaller("deep orthogonal networks' kernel varies less", [moved[deep]]),
        alike("deep and shallow orthogonal kernels are of a size", [(sizes[0], sizes[1])], SIZE),
        Statement(
            "deep Gaussian kernels differ from network to network by more",
            bool(spread[0] < spread[1]),
            f"by factors up to {np.exp(spread[0]):.2f} and {np.exp(spread[1]):.2f}",
        ),
    ]
    picture = _figure(found, shallow, deep, "ntk_class")
    return reproduced(statements, about, figures={"training8": picture})


@claim("Figure 8 (peaks)", "where the NTK varies more and peaks earlier")
def peaks(sampling: Sampling) -> Verdict:
    r"""Said of Figure 8's single networks: also at $L/n \ll 1$ the variation "is larger for
    Gaussian than for orthogonal", and at $L/n \sim 1$ the orthogonal NTK "peaks earlier"."""
    found, shallow, deep, about = _chosen(sampling)
    moved = [variation(found[start][shallow], "ntk_class") for start in ("orthogonal", "Gaussian")]
    first = [peak(found[start][deep]) for start in ("orthogonal", "Gaussian")]
    statements = [
        smaller("shallow orthogonal networks' kernel varies less", [(moved[0], moved[1])]),
        smaller("the deep orthogonal one peaks earlier", [(first[0], first[1])]),
    ]
    return reproduced(statements, about)


@claim("Figure 9", "the NTK between outputs while networks are trained")
def figure_nine(sampling: Sampling) -> Verdict:
    r"""$\hat H_{ij;\alpha\alpha}$ averaged over $i \ne j$, $\alpha$ a training image of class 6.
    Said of the figure: it is smaller than the diagonal one; Gaussian and orthogonal networks are
    alike at $L/n \ll 1$; at $L/n \sim 1$ the Gaussian one fluctuates, and the orthogonal one is as
    at small depth."""
    found, shallow, deep, about = _chosen(sampling)
    name = "ntk_between"
    within, between = (
        np.concatenate(
            [
                abs(tables[depth][each].to_numpy()).mean(axis=1)
                for tables in found.values()
                for depth in (shallow, deep)
            ]
        )
        for each in ("ntk_class", name)
    )
    moved = {
        start: {depth: variation(tables[depth], name) for depth in (shallow, deep)}
        for start, tables in found.items()
    }
    statements = [
        smaller("the kernel between outputs is smaller than within the class", [(between, within)]),
        smaller(
            "deep orthogonal networks' varies less",
            [(moved["orthogonal"][deep], moved["Gaussian"][deep])],
        ),
        alike(
            "that of orthogonal ones varies as at small depth",
            [(moved["orthogonal"][deep], moved["orthogonal"][shallow])],
            1.0,
        ),
    ]
    return reproduced(statements, about, figures={"training9": _figure(found, shallow, deep, name)})
